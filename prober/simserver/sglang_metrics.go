package simserver

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
)

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
	views := s.views()
	s.servePage(w, r, func(p page) {
		s.schedulerMetrics(p, views)
		s.tokenizerMetrics(p, sum(views))
	})
}

// rank are the labels of a scheduler's series, by its tensor rank; more come sorted in among them, as in prometheus_client.
func (s sglang) rank(tensor int, more ...string) string {
	labels := map[string]string{"model_name": s.config.Profile.Model}
	if s.era.has(metricRanks) {
		labels["engine_type"], labels["tp_rank"], labels["pp_rank"] = "unified", fmt.Sprint(tensor), "0"
		if r := s.config.Ranks; r.DP > 1 {
			labels["dp_rank"] = fmt.Sprint(tensor / (r.TP / r.DP))
		}
	}
	if s.era.has(metricExpertRank) {
		labels["moe_ep_rank"] = "0"
	}
	return labelled(labels, more...)
}

// ranksOf are the tensor ranks whose series show an engine: its leader, or all of its own.
func (s sglang) ranksOf(v view, all bool) []int {
	r := s.config.Ranks
	if !s.era.has(metricRanks) {
		all = false // there is one series, whose last writer wins
	}
	first := r.leader(v.rank)
	ranks := []int{first}
	for n := first + 1; all && n < r.leader(v.rank+1); n++ {
		ranks = append(ranks, n)
	}
	return ranks
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
func (s sglang) schedulerMetrics(p page, views []view) {
	e, prof := s.era, s.config.Profile
	if !e.has(metricRanks) {
		views = views[len(views)-1:] // ranks wrote over each other
	}
	gauge := func(name, help string, of func(v view) float64) {
		p.head("sglang:"+name, "gauge", help)
		for _, v := range views {
			for _, n := range s.ranksOf(v, s.config.Ranks.AllGauges) {
				p.sample("sglang:"+name, s.rank(n), of(v))
			}
		}
	}
	gauge("num_running_reqs", "The number of running requests.", func(v view) float64 { return float64(v.running) })
	gauge("num_queue_reqs", "The number of requests in the waiting queue.", func(v view) float64 { return float64(v.waiting) })
	gauge("num_used_tokens", "The number of used tokens.", func(v view) float64 { return float64(v.held) })
	gauge("token_usage", "The token usage.", func(v view) float64 { return ratio(v.held, prof.PoolTokens) })
	gauge("gen_throughput", "The generation throughput (token/s).", func(v view) float64 { return v.throughput })
	gauge("cache_hit_rate", "The prefix cache hit rate.", func(view) float64 { return 0 }) // overwritten by each decode report
	gauge("spec_accept_length", "Mean acceptance length of speculative decoding (accepted drafts + bonus token per forward).",
		func(v view) float64 { return s.speculated(v.acceptLength) })
	if e.has(metricAcceptRate) {
		gauge("spec_accept_rate", "Acceptance rate of speculative decoding.", func(v view) float64 {
			if v.acceptLength == 0 {
				return 0
			}
			return s.speculated(e.acceptRate(v.acceptLength, prof.BlockSize()))
		})
	}
	if e.has(metricSpecConfig) && prof.Algorithm != "" {
		gauge("spec_num_steps", "Speculative steps.", func(view) float64 { return 1 })
		gauge("spec_num_draft_tokens", "Speculative draft tokens.", func(view) float64 { return float64(prof.BlockSize()) })
	}
	if e.has(metricPool) {
		gauge("kv_available_tokens", "Free tokens of the KV cache.", func(v view) float64 { return float64(v.available) })
		gauge("kv_evictable_tokens", "Cached tokens of the KV cache that can be evicted.", func(v view) float64 { return float64(v.evictable) })
		gauge("kv_used_tokens", "Tokens of the KV cache that are in use.", func(v view) float64 { return float64(v.held) })
	}
	s.passCounters(p, views)
	s.constants(p)
	s.queueTimes(p, views, gauge)
}

func (s sglang) queueTimes(p page, views []view, gauge func(name, help string, of func(v view) float64)) {
	if !s.era.has(metricQueueTime) {
		gauge("avg_request_queue_latency", "The average request queue latency.", func(v view) float64 { return v.queued.sum / float64(max(1, v.queued.n)) })
		return
	}
	p.head("sglang:queue_time_seconds", "histogram", "Time in the waiting queue.")
	for _, v := range views {
		p.buckets("sglang:queue_time_seconds", s.rank(s.config.Ranks.leader(v.rank)), v.queued)
	}
}

// speculated is 0 without speculation.
func (s sglang) speculated(v float64) float64 {
	if s.config.Profile.Algorithm == "" {
		return 0
	}
	return v
}

func (s sglang) passCounters(p page, views []view) {
	if s.era.has(metricRealtime) {
		const realtime = "sglang:realtime_tokens_total"
		p.head(realtime, "counter", "Tokens processed, updated on each forward.")
		for _, v := range views {
			lead := s.config.Ranks.leader(v.rank)
			p.sample(realtime, s.rank(lead, "mode", "prefill_compute"), float64(v.prefillCompute))
			p.sample(realtime, s.rank(lead, "mode", "prefill_cache"), float64(v.prefillCache))
			p.sample(realtime, s.rank(lead, "mode", "decode"), float64(v.decodeTokens))
		}
	}
	if s.era.has(metricPasses) {
		const passes = "sglang:cuda_graph_passes_total"
		p.head(passes, "counter", "Forward passes by CUDA graph use.")
		for _, v := range views {
			for _, n := range s.ranksOf(v, true) {
				p.sample(passes, s.rank(n, "mode", "decode_cuda_graph"), float64(v.decodePasses))
			}
			p.sample(passes, s.rank(s.config.Ranks.leader(v.rank), "mode", "prefill_none"), float64(v.prefillPasses))
		}
	}
}

func (s sglang) constants(p page) {
	prof := s.config.Profile
	constant := func(name string, v int) {
		p.head("sglang:"+name, "gauge", "A constant of the server.")
		for n := range s.config.Ranks.TP {
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
func (s sglang) loadsPage(w http.ResponseWriter, views []view) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	p, prof := page{w: w}, s.config.Profile
	gauge := func(name string, of func(v view) float64) {
		p.head("sglang_"+name, "gauge", "Load of the server.")
		for _, v := range views {
			p.sample("sglang_"+name, fmt.Sprintf(`dp_rank="%d"`, v.rank), of(v))
		}
	}
	gauge("num_running_reqs", func(v view) float64 { return float64(v.running) })
	gauge("num_waiting_reqs", func(v view) float64 { return float64(v.waiting) })
	gauge("num_used_tokens", func(v view) float64 { return float64(v.held) })
	gauge("max_total_num_tokens", func(view) float64 { return float64(prof.PoolTokens) })
	gauge("token_usage", func(v view) float64 { return ratio(v.held, prof.PoolTokens) })
	gauge("gen_throughput", func(v view) float64 { return v.throughput })
	gauge("memory_token_capacity", func(view) float64 { return float64(prof.PoolTokens) })
	if prof.Algorithm != "" {
		gauge("spec_accept_length", func(v view) float64 { return v.acceptLength })
	}
}
