package simserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// Ranks are the parts that a server is split into.
type Ranks struct {
	DP        int  // engines behind one address, each with its own queue, cache and counters; 0 means 1. Of SGLang and vLLM.
	TP        int  // ranks that share each pass; 0 means 8. SGLang spreads them over its engines, as with DP attention.
	AllGauges bool // SGLang's --enable-metrics-for-all-schedulers: gauges stand on every rank

	Speeds []Change // of the engines, one after the other: from the profile; those beyond its end run as the profile says
}

func (c *Config) checkRanks() error {
	r := &c.Ranks
	if r.DP == 0 {
		r.DP = 1
	}
	if r.TP == 0 {
		r.TP = 8
	}
	switch {
	case r.DP < 1 || r.DP > 64 || r.TP < 1 || r.TP > 64:
		return errors.New("there are from 1 to 64 ranks of each kind")
	case r.DP > 1 && c.Shape != shapeSGLang && c.Shape != shapeVLLM:
		return fmt.Errorf("%s is not simulated with several engines", c.Shape)
	case r.DP > 1 && c.Shape == shapeSGLang && r.TP%r.DP != 0:
		return fmt.Errorf("%d tensor ranks do not spread over %d engines", r.TP, r.DP)
	case len(r.Speeds) > r.DP:
		return fmt.Errorf("there are %d speeds for %d engines", len(r.Speeds), r.DP)
	}
	for _, change := range r.Speeds {
		if err := change.validate(); err != nil {
			return err
		}
	}
	return nil
}

// speed is the profile of one engine.
func (r Ranks) speed(engine int, p Profile) Profile {
	if engine < len(r.Speeds) {
		return r.Speeds[engine].of(p)
	}
	return p
}

// leader is the tensor rank that speaks for an engine of SGLang.
func (r Ranks) leader(engine int) int { return engine * (r.TP / r.DP) }

// route picks the engine of a request: the one that it names, else one after the other.
func (i *instance) route(r *http.Request, b *body) *engine {
	if n, ok := i.pinned(r, b); ok && n >= 0 && n < len(i.engines) {
		return i.engines[n]
	}
	return i.engines[int(i.turn.Add(1)-1)%len(i.engines)]
}

func (i *instance) pinned(r *http.Request, b *body) (int, bool) {
	if n, err := strconv.Atoi(r.Header.Get("X-Data-Parallel-Rank")); err == nil {
		return n, true
	}
	if i.config.Shape != shapeSGLang || len(i.engines) == 1 {
		return 0, false
	}
	var in struct {
		Routed *int `json:"routed_dp_rank"`
		Old    *int `json:"data_parallel_rank"`
	}
	if json.Unmarshal(b.raw, &in) != nil {
		return 0, false
	}
	for _, n := range []*int{in.Routed, in.Old} {
		if n != nil {
			return *n, true
		}
	}
	return 0, false
}

// view is what one engine counts and shows.
type view struct {
	rank int
	counters
	gauges
}

func (i *instance) views() []view {
	all := make([]view, len(i.engines))
	for n, e := range i.engines {
		c, g := e.observe()
		all[n] = view{rank: n, counters: c, gauges: g}
	}
	return all
}

// sum adds up what a tokenizer counts over all engines.
func sum(views []view) counters {
	c := views[0].copied()
	for _, v := range views[1:] {
		c.prompt += v.prompt
		c.cached += v.cached
		c.generated += v.generated
		c.requests += v.requests
		c.aborted += v.aborted
		c.verifies += v.verifies
		c.ttft.add(v.ttft)
		c.e2e.add(v.e2e)
		c.perToken.add(v.perToken)
	}
	return c
}

func (h *histogram) add(o histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.sum += o.sum
	h.n += o.n
}
