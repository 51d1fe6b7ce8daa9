package servermetrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// sglang reads SGLang's load endpoint and its page of metrics.
type sglang struct {
	page    *endpoint
	loads   *endpoint // nil where its address is not known
	decoded pulse     // decoded tokens by rank
}

// gaugeAge is how long ago a rank must have decoded for its gauge of the acceptance length to be of now: it is set every 40th step.
const gaugeAge = 30 * time.Second

func sglangNames() map[string]bool {
	return names(
		"num_running_reqs", "num_queue_reqs", "num_grammar_queue_reqs", "prompt_tokens", "cached_tokens", "generation_tokens",
		"realtime_tokens", "spec_verify_calls", "spec_accept_length", "num_requests", "num_aborted_requests",
		"token_usage", "num_used_tokens", "max_total_num_tokens", "kv_available_tokens", "kv_evictable_tokens",
	)
}

// read takes what moves fast from /v1/loads, which is fresh, else from the gauges of the page, which are set only now and then.
func (s *sglang) read(ctx context.Context) (reading, error) {
	p, err := s.page.page(ctx, "sglang", sglangNames())
	if err != nil && !notOffered(err) {
		return reading{}, err
	}
	missing := err
	r := s.fromPage(p)
	r.missing, r.odd = missing, p.odd
	loads, err := s.readLoads(ctx)
	switch {
	case err == nil:
		loads.replace(&r)
	case ctx.Err() != nil, missing != nil && !notOffered(err):
		return reading{}, err
	}
	return r, nil
}

// fromPage maps the page. Counters of the tokenizer move when a request finishes, those of the scheduler with every forward
// pass: decode counts one token per step and sequence plus the correct drafts. Of cached tokens the scheduler's count is
// taken where there is one: releases of early 2026 left that of the tokenizer at 0 with some drafters.
func (s *sglang) fromPage(p page) reading {
	var r reading
	l := &r.load
	l.PromptTokens = p.sum("prompt_tokens")
	l.ComputedTokens = p.sum("realtime_tokens", "mode", "prefill_compute")
	l.GeneratedTokens = p.sum("generation_tokens")
	l.ForwardTokens = p.sum("realtime_tokens", "mode", "decode")
	l.Steps = p.sum("spec_verify_calls")
	l.FinishedRequests = p.sum("num_requests")
	l.AbortedRequests = p.sum("num_aborted_requests")
	l.Running, l.Queued = p.gauge("num_running_reqs"), p.gauge("num_queue_reqs")
	if l.Queued != nil {
		addTo(&l.Queued, p.gauge("num_grammar_queue_reqs"))
	}
	r.ranks = p.values("num_running_reqs", "dp_rank")
	// A counter is not on the page before it first counts; builds that count forward passes count aborts as well.
	l.SeesBroken = l.AbortedRequests != nil || l.ForwardTokens != nil || l.ComputedTokens != nil
	r.counts[promptTokens] = p.parts("prompt_tokens")
	r.counts[generatedTokens] = p.parts("generation_tokens")
	r.counts[verifySteps] = p.parts("spec_verify_calls")
	r.counts[finishedRequests] = p.parts("num_requests")
	r.firstFree = true
	r.counts[abortedRequests] = p.parts("num_aborted_requests")
	r.counts[cachedTokens] = p.parts("realtime_tokens", "mode", "prefill_cache")
	if r.counts[cachedTokens] == nil {
		r.counts[cachedTokens] = p.parts("cached_tokens")
	}
	r.kvUsed = p.most("token_usage")
	kv := sglangPool(p)
	l.PoolTokens, l.PoolFree = kv.capacity, kv.free
	for _, unused := range p.parts("kv_available_tokens") {
		least(&l.PoolUnused, &unused)
	}
	r.accept = s.acceptNow(p)
	return r
}

// sglangPool tells each rank's pool. Since April 2026 the page shows free and evictable tokens; before that the used ones, of
// which evictable ones are no part (get_token_info of SGLang's scheduler: used = capacity - free - evictable).
func sglangPool(p page) pool {
	capacity, used, usage := p.parts("max_total_num_tokens"), p.parts("num_used_tokens"), p.parts("token_usage")
	available, evictable := p.parts("kv_available_tokens"), p.parts("kv_evictable_tokens")
	var kv pool
	for key := range capacity {
		free := poolFree(capacity.at(key), used.at(key), usage.at(key))
		if a, e := available.at(key), evictable.at(key); a != nil && e != nil {
			free = finite(*a + *e)
		}
		kv.replica(capacity.at(key), free)
	}
	return kv
}

// poolFree is what is left of a pool by its used tokens and by its used share: the smaller, for a model with several pools
// counts the tokens of one and the share of the fullest.
func poolFree(capacity, used, usage *float64) (free *float64) {
	if capacity == nil {
		return nil
	}
	if used != nil {
		left := max(0, *capacity-*used)
		least(&free, &left)
	}
	if u := share(usage); u != nil {
		left := (1 - *u) * *capacity
		least(&free, &left)
	}
	return free
}

// acceptNow is the mean of the gauges of the ranks that decode now, weighted by their requests. An idle rank keeps its last
// value, or shows 0 before its first; one that prefills keeps that of what it decoded before.
func (s *sglang) acceptNow(p page) *float64 {
	if p.ambiguous("spec_accept_length") {
		return nil
	}
	running, decoded := p.parts("num_running_reqs"), p.parts("realtime_tokens", "mode", "decode")
	s.decoded.look(decoded)
	sum, weight := 0.0, 0.0
	for key, tau := range p.parts("spec_accept_length") {
		if b, counted := s.decoded[key]; counted && (!b.moved || time.Since(b.since) > gaugeAge) {
			continue
		}
		if n := running[key]; n > 0 && tau >= 1 {
			sum, weight = sum+n*tau, weight+n
		}
	}
	if weight == 0 {
		return nil
	}
	return finite(sum / weight)
}

// sglangLoads is what /v1/loads tells: one entry per data-parallel rank.
type sglangLoads struct {
	Loads []sglangLoad `json:"loads"`
}

type sglangLoad struct {
	Running  *float64 `json:"num_running_reqs"`
	Waiting  *float64 `json:"num_waiting_reqs"`
	Used     *float64 `json:"num_used_tokens"`
	Capacity *float64 `json:"max_total_num_tokens"`
	Usage    *float64 `json:"token_usage"`
	Queues   *struct {
		Grammar   float64 `json:"grammar"`
		Paused    float64 `json:"paused"`
		Retracted float64 `json:"retracted"`
	} `json:"queues"`
}

// readLoads reads /v1/loads, all of it or nothing.
func (s *sglang) readLoads(ctx context.Context) (sglangLoads, error) {
	if s.loads == nil {
		return sglangLoads{}, errNoAddress
	}
	body, err := s.loads.get(ctx)
	if err != nil {
		return sglangLoads{}, err
	}
	answer, err := parseLoads(body)
	if err != nil {
		return sglangLoads{}, fmt.Errorf("reading the load of %s: %w", s.loads.url, err)
	}
	return answer, nil
}

func parseLoads(body []byte) (sglangLoads, error) {
	var answer sglangLoads
	if err := json.Unmarshal(body, &answer); err != nil {
		return sglangLoads{}, err
	}
	if len(answer.Loads) == 0 {
		return sglangLoads{}, errors.New("no rank is listed")
	}
	for _, l := range answer.Loads {
		if l.Running == nil || l.Waiting == nil || *l.Running < 0 || *l.Waiting < 0 {
			return sglangLoads{}, errors.New("a rank lacks its number of requests")
		}
	}
	return answer, nil
}

// replace puts the fresh values in the place of those of the page.
func (a sglangLoads) replace(r *reading) {
	running, queued := 0.0, 0.0
	var kv pool
	var used *float64
	for _, l := range a.Loads {
		running, queued = running+*l.Running, queued+*l.Waiting
		if l.Queues != nil {
			queued += max(0, l.Queues.Grammar) + max(0, l.Queues.Paused) + max(0, l.Queues.Retracted)
		}
		kv.replica(l.Capacity, poolFree(l.Capacity, l.Used, l.Usage))
		if u := share(l.Usage); u != nil && (used == nil || *u > *used) {
			used = u
		}
	}
	r.load.Running, r.load.Queued, r.ranks = count(&running), count(&queued), len(a.Loads)
	if kv.free != nil {
		r.load.PoolTokens, r.load.PoolFree = kv.capacity, kv.free
	}
	if used != nil {
		r.kvUsed = used
	}
}
