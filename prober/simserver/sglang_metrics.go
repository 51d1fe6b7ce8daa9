package simserver

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// tensorRanks is how many ranks the shape pretends to have: some series exist on each of them.
const tensorRanks = 8

// When SGLang's metrics had what.
const (
	metricRanks       period = "2025-07-16/" // engine_type, tp_rank and pp_rank on scheduler metrics
	metricExpertRank  period = "2025-12-18/" // moe_ep_rank as well
	metricEngineType  period = "2026-04-28/" // engine_type on tokenizer metrics
	metricPerToken    period = "2025-03-20/" // inter_token_latency_seconds; time_per_output_token_seconds before
	metricAborted     period = "2025-07-25/" //
	metricQueueTime   period = "2025-10-01/" // a gauge of the mean before
	metricAcceptRate  period = "2025-10-13/" //
	metricPoolSize    period = "2025-12-01/" // max_total_num_tokens
	metricPasses      period = "2025-12-17/" //
	metricRealtime    period = "2025-12-24/" //
	metricCacheSource period = "2026-01-01/" // a label of cached_tokens_total
	metricPool        period = "2026-04-13/" // kv_available_tokens and its like
	metricConstants   period = "2026-05-01/" // page_size, context_len
	metricVerifyCalls period = "2026-05-18/" //
	metricSpecConfig  period = "2026-06-01/" // spec_num_steps, spec_num_draft_tokens
)

func (s sglang) metrics(w http.ResponseWriter, r *http.Request) {
	c, g := s.engine.observe()
	s.servePage(w, r, func(p page) {
		s.schedulerMetrics(p, c, g)
		s.tokenizerMetrics(p, c)
	})
}

// rank are the labels of a scheduler's series; more come sorted in among them, as prometheus_client does.
func (s sglang) rank(n int, more ...string) string {
	labels := map[string]string{"model_name": s.config.Profile.Model}
	if s.era.has(metricRanks) {
		labels["engine_type"], labels["tp_rank"], labels["pp_rank"] = "unified", fmt.Sprint(n), "0"
	}
	if s.era.has(metricExpertRank) {
		labels["moe_ep_rank"] = "0"
	}
	return labelled(labels, more...)
}

// labelled writes labels sorted by name, with more names and values.
func labelled(labels map[string]string, more ...string) string {
	for i := 0; i+1 < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	text := ""
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if text != "" {
			text += ","
		}
		text += fmt.Sprintf("%s=%q", name, labels[name])
	}
	return text
}

// schedulerMetrics move with forward passes.
func (s sglang) schedulerMetrics(p page, c counters, g gauges) {
	v, lead, prof := s.era, s.rank(0), s.config.Profile
	gauge := func(name, help string, v float64) { p.one("gauge", "sglang:"+name, lead, help, v) }
	gauge("num_running_reqs", "The number of running requests.", float64(g.running))
	gauge("num_queue_reqs", "The number of requests in the waiting queue.", float64(g.waiting))
	gauge("num_used_tokens", "The number of used tokens.", float64(g.held))
	gauge("token_usage", "The token usage.", ratio(g.held, prof.PoolTokens))
	gauge("gen_throughput", "The generation throughput (token/s).", g.throughput)
	gauge("cache_hit_rate", "The prefix cache hit rate.", 0) // overwritten by each decode report
	gauge("spec_accept_length", "Mean acceptance length of speculative decoding (accepted drafts + bonus token per forward).", s.speculated(g.acceptLength))
	if v.has(metricAcceptRate) {
		rate := 0.0
		if g.acceptLength > 0 {
			rate = v.acceptRate(g.acceptLength, prof.BlockSize())
		}
		gauge("spec_accept_rate", "Acceptance rate of speculative decoding.", s.speculated(rate))
	}
	if v.has(metricSpecConfig) && prof.Algorithm != "" {
		gauge("spec_num_steps", "Speculative steps.", 1)
		gauge("spec_num_draft_tokens", "Speculative draft tokens.", float64(prof.BlockSize()))
	}
	if v.has(metricPool) {
		gauge("kv_available_tokens", "Free tokens of the KV cache.", float64(g.available))
		gauge("kv_evictable_tokens", "Cached tokens of the KV cache that can be evicted.", float64(g.evictable))
		gauge("kv_used_tokens", "Tokens of the KV cache that are in use.", float64(g.held))
	}
	s.passCounters(p, c)
	s.constants(p)
	if v.has(metricQueueTime) {
		p.histogram("sglang:queue_time_seconds", lead, "Time in the waiting queue.", c.queued)
	} else {
		gauge("avg_request_queue_latency", "The average request queue latency.", c.queued.sum/float64(max(1, c.queued.n)))
	}
}

// speculated is 0 without speculation.
func (s sglang) speculated(v float64) float64 {
	if s.config.Profile.Algorithm == "" {
		return 0
	}
	return v
}

func (s sglang) passCounters(p page, c counters) {
	if s.era.has(metricRealtime) {
		const realtime = "sglang:realtime_tokens_total"
		p.head(realtime, "counter", "Tokens processed, updated on each forward.")
		p.sample(realtime, s.rank(0, "mode", "prefill_compute"), float64(c.prefillCompute))
		p.sample(realtime, s.rank(0, "mode", "prefill_cache"), float64(c.prefillCache))
		p.sample(realtime, s.rank(0, "mode", "decode"), float64(c.decodeTokens))
	}
	if s.era.has(metricPasses) {
		const passes = "sglang:cuda_graph_passes_total"
		p.head(passes, "counter", "Forward passes by CUDA graph use.")
		for n := range tensorRanks {
			p.sample(passes, s.rank(n, "mode", "decode_cuda_graph"), float64(c.decodePasses))
		}
		p.sample(passes, s.rank(0, "mode", "prefill_none"), float64(c.prefillPasses))
	}
}

func (s sglang) constants(p page) {
	prof := s.config.Profile
	constant := func(name string, v int) {
		p.head("sglang:"+name, "gauge", "A constant of the server.")
		for n := range tensorRanks {
			p.sample("sglang:"+name, s.rank(n), float64(v))
		}
	}
	if s.era.has(metricPoolSize) {
		constant("max_total_num_tokens", prof.PoolTokens)
	}
	if s.era.has(metricConstants) {
		constant("page_size", prof.PageSize)
		constant("context_len", prof.ContextLimit)
	}
}

// tokenizerMetrics move when a request ends.
func (s sglang) tokenizerMetrics(p page, c counters) {
	labels := func(more ...string) string {
		own := map[string]string{"model_name": s.config.Profile.Model}
		if s.era.has(metricEngineType) {
			own["engine_type"] = "unified"
		}
		return labelled(own, more...)
	}
	count := func(name, help string, v int) { p.one("counter", "sglang:"+name, labels(), help, float64(v)) }
	count("prompt_tokens_total", "Number of prefill tokens processed.", c.prompt)
	count("generation_tokens_total", "Number of generation tokens processed.", c.generated)
	count("num_requests_total", "Number of requests processed.", c.requests)
	if s.era.has(metricAborted) {
		count("num_aborted_requests_total", "Number of requests aborted.", c.aborted)
	}
	source := []string{"cache_source", "device"}
	if !s.era.has(metricCacheSource) {
		source = nil
	}
	p.one("counter", "sglang:cached_tokens_total", labels(source...), "Number of cached prompt tokens.", float64(c.cached))
	if s.config.Profile.Algorithm != "" && s.era.has(metricVerifyCalls) {
		count("spec_verify_calls_total", "Number of verify forwards.", c.verifies)
	}
	p.histogram("sglang:time_to_first_token_seconds", labels(), "Time to first token.", c.ttft)
	perToken := "sglang:inter_token_latency_seconds"
	if !s.era.has(metricPerToken) {
		perToken = "sglang:time_per_output_token_seconds"
	}
	p.histogram(perToken, labels(), "Time between tokens.", c.perToken)
	p.histogram("sglang:e2e_request_latency_seconds", labels(), "End-to-end request latency.", c.e2e)
}

// loadsPage is /v1/loads?format=prometheus, whose names have an underscore for the colon.
func (s sglang) loadsPage(w http.ResponseWriter, g gauges) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	p, prof := page{w: w}, s.config.Profile
	gauge := func(name string, v float64) { p.one("gauge", "sglang_"+name, `dp_rank="0"`, "Load of the server.", v) }
	gauge("num_running_reqs", float64(g.running))
	gauge("num_waiting_reqs", float64(g.waiting))
	gauge("num_used_tokens", float64(g.held))
	gauge("max_total_num_tokens", float64(prof.PoolTokens))
	gauge("token_usage", ratio(g.held, prof.PoolTokens))
	gauge("gen_throughput", g.throughput)
	gauge("memory_token_capacity", float64(prof.PoolTokens))
	if g.acceptLength > 0 && prof.Algorithm != "" {
		gauge("spec_accept_length", g.acceptLength)
	}
}
