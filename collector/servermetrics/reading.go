package servermetrics

import (
	"strconv"
	"time"

	"longctx_exporter/prober"
)

// counter names one of the counters that are exported.
type counter int

const (
	promptTokens counter = iota
	cachedTokens
	generatedTokens
	verifySteps
	acceptedDrafts
	finishedRequests
	abortedRequests
	decodeSeconds // time that requests spent in decoding, in which generatedTokens were made
	counters      // how many there are
)

// reading is one look at an engine: what certifies runs, and what is exported.
type reading struct {
	load   prober.Load
	counts [counters]parts
	digits int // significant digits of the counters, 0 for all
	// firstFree says that verifySteps, generatedTokens and finishedRequests are of the same requests, whose first tokens come
	// from prefill: what is left are correct drafts.
	firstFree bool

	ranks  int      // data-parallel ones that load.Running is of, 0 where that is not told
	kvUsed *float64 // share of the KV pool in use, of the fullest replica
	accept *float64 // acceptance length as the engine itself tells it, of what it decodes now

	missing error  // why the engine's own page is not part of it
	odd     string // what is wrong about the page that does not keep it from being read
}

// add takes another engine of the same target in.
func (r *reading) add(other reading) {
	addLoad(&r.load, other.load)
	for c, more := range other.counts {
		for key, v := range more {
			if r.counts[c] == nil {
				r.counts[c] = parts{}
			}
			r.counts[c][key] = v
		}
	}
	r.digits = max(r.digits, other.digits)
	r.ranks += other.ranks
	r.firstFree = r.firstFree || other.firstFree
	if other.kvUsed != nil && (r.kvUsed == nil || *other.kvUsed > *r.kvUsed) {
		r.kvUsed = other.kvUsed
	}
	if other.accept != nil {
		r.accept = other.accept
	}
	if r.missing == nil {
		r.missing = other.missing
	}
	if r.odd == "" {
		r.odd = other.odd
	}
}

// apart keeps the parts of one server apart from those of the next.
func (r *reading) apart(server int) {
	for c, of := range r.counts {
		named := make(parts, len(of))
		for key, v := range of {
			named[strconv.Itoa(server)+key] = v
		}
		if of != nil {
			r.counts[c] = named
		}
	}
}

// addLoad adds l to total, field by field, where l knows the field. Of pools the smallest counts.
func addLoad(total *prober.Load, l prober.Load) {
	if l.Since != nil && (total.Since == nil || *l.Since > *total.Since) {
		total.Since = l.Since
	}
	total.Digits = max(total.Digits, l.Digits)
	addTo(&total.Running, l.Running)
	addTo(&total.Queued, l.Queued)
	addTo(&total.ScheduledTokens, l.ScheduledTokens)
	addTo(&total.PromptTokens, l.PromptTokens)
	addTo(&total.ComputedTokens, l.ComputedTokens)
	addTo(&total.GeneratedTokens, l.GeneratedTokens)
	addTo(&total.ForwardTokens, l.ForwardTokens)
	addTo(&total.Steps, l.Steps)
	addTo(&total.CorrectDrafts, l.CorrectDrafts)
	addTo(&total.FinishedRequests, l.FinishedRequests)
	addTo(&total.AbortedRequests, l.AbortedRequests)
	least(&total.PoolTokens, l.PoolTokens)
	least(&total.PoolFree, l.PoolFree)
	least(&total.PoolUnused, l.PoolUnused)
}

func addTo[T int | float64](total **T, v *T) {
	switch {
	case v == nil:
	case *total == nil:
		sum := *v
		*total = &sum
	default:
		**total += *v
	}
}

// least keeps the smaller one.
func least(total **float64, v *float64) {
	if v != nil && (*total == nil || *v < **total) {
		copied := *v
		*total = &copied
	}
}

// pool is what is known of the KV pools of an engine's replicas.
type pool struct{ capacity, free *float64 }

// replica takes one replica in, of which nothing but its capacity may be known.
func (p *pool) replica(capacity, free *float64) {
	if capacity != nil && !(*capacity > 0) {
		capacity = nil
	}
	if free != nil && capacity != nil && *free > *capacity {
		free = capacity
	}
	least(&p.capacity, capacity)
	least(&p.free, free)
}

// at is the part of a key, nil where it is not known.
func (p parts) at(key string) *float64 {
	if v, ok := p[key]; ok {
		return &v
	}
	return nil
}

// pulse knows when each of several values last moved.
type pulse map[string]beat

type beat struct {
	value float64
	since time.Time // of the last move, or of the first look
	moved bool
}

// look takes a new look at values.
func (p *pulse) look(now parts) {
	next := pulse{}
	for key, v := range now {
		b, seen := (*p)[key]
		if !seen || b.value != v {
			b = beat{value: v, since: time.Now(), moved: seen}
		}
		next[key] = b
	}
	*p = next
}
