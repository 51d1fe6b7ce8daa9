package simserver

import (
	"fmt"
	"net/http"
)

// When vLLM's metrics had what.
const (
	vllmOldUsage      period = "/2025-11-25" // gpu_cache_usage_perc, gpu_prefix_cache_queries_total
	vllmUsage         period = "2025-07-20/" // kv_cache_usage_perc, prefix_cache_queries_total
	vllmSwapped       period = "/2025-05-29" // num_requests_swapped
	vllmEngineLabel   period = "2025-04-20/" //
	vllmPerOutput     period = "/2026-01-20" // time_per_output_token_seconds
	vllmInterToken    period = "2025-08-15/" // inter_token_latency_seconds
	vllmBySource      period = "2026-02-04/" // prompt_tokens_by_source_total, prompt_tokens_cached_total
	vllmWaitingReason period = "2026-04-13/" //
	vllmDraftCounters period = "2025-04-20/" // drafts and positions; draft and accepted tokens were there
)

// vllmFamilies writes the families of a page.
type vllmFamilies struct {
	page
	era     era
	labels  map[string]string
	created float64
}

func (f vllmFamilies) with(more ...string) string {
	own := map[string]string{}
	for k, v := range f.labels {
		own[k] = v
	}
	return labelled(own, more...)
}

func (f vllmFamilies) gauge(name, help string, v float64) {
	f.one("gauge", "vllm:"+name, f.with(), help, v)
}

func (f vllmFamilies) count(name, help string, v int) {
	f.one("counter", "vllm:"+name+"_total", f.with(), help, float64(v))
	f.page.created("vllm:"+name+"_created", f.with(), help, f.created)
}

func (s vllm) metrics(w http.ResponseWriter, r *http.Request) {
	c, g := s.engine.observe()
	s.servePage(w, r, func(p page) {
		f := vllmFamilies{page: p, era: s.era, labels: map[string]string{"model_name": s.config.Profile.Model}, created: unix(s.started)}
		if s.era.has(vllmEngineLabel) {
			f.labels["engine"] = "0"
		}
		s.loadMetrics(f, c, g)
		s.tokenMetrics(f, c)
		if s.config.Profile.Algorithm != "" {
			s.specMetrics(f, c)
		}
		s.timeMetrics(f, c)
	})
}

func (s vllm) loadMetrics(f vllmFamilies, c counters, g gauges) {
	v, prof := s.era, s.config.Profile
	usage := ratio(g.held, prof.PoolTokens)
	f.gauge("num_requests_running", "Number of requests in model execution batches.", float64(g.running))
	f.gauge("num_requests_waiting", "Number of requests waiting to be processed.", float64(g.waiting))
	if v.has(vllmWaitingReason) {
		const name = "vllm:num_requests_waiting_by_reason"
		f.head(name, "gauge", "Number of requests waiting, by reason.")
		f.sample(name, f.with("reason", "capacity"), float64(g.waiting))
		f.sample(name, f.with("reason", "deferred"), 0)
	}
	if v.has(vllmSwapped) {
		f.gauge("num_requests_swapped", "Number of requests swapped to CPU.", 0)
	}
	if v.has(vllmOldUsage) {
		f.gauge("gpu_cache_usage_perc", "GPU KV-cache usage. 1 means 100 percent usage.", usage)
		f.count("gpu_prefix_cache_queries", "GPU prefix cache queries, in tokens.", c.prefilledPrompts)
		f.count("gpu_prefix_cache_hits", "GPU prefix cache hits, in tokens.", c.prefilledCached)
	}
	if v.has(vllmUsage) {
		f.gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", usage)
		f.count("prefix_cache_queries", "Prefix cache queries, in tokens.", c.prefilledPrompts)
		f.count("prefix_cache_hits", "Prefix cache hits, in tokens.", c.prefilledCached)
	}
	f.count("num_preemptions", "Cumulative number of preemptions.", 0)
	f.one("gauge", "vllm:cache_config_info", f.with("block_size", fmt.Sprint(prof.PageSize), "enable_prefix_caching",
		fmt.Sprint(!s.config.Faults.NoPrefixCache), "num_gpu_blocks", fmt.Sprint(prof.PoolTokens/prof.PageSize)),
		"Information of the LLMEngine CacheConfig", 1)
}

func (s vllm) tokenMetrics(f vllmFamilies, c counters) {
	f.count("prompt_tokens", "Number of prefill tokens processed.", c.prefilledPrompts)
	f.count("generation_tokens", "Number of generation tokens processed.", c.emitted)
	if s.era.has(vllmBySource) {
		f.count("prompt_tokens_cached", "Number of cached prompt tokens.", c.prefilledCached)
		const bySource = "vllm:prompt_tokens_by_source_total"
		f.head(bySource, "counter", "Number of prompt tokens by source.")
		f.sample(bySource, f.with("source", "local_compute"), float64(c.prefilledPrompts-c.prefilledCached))
		f.sample(bySource, f.with("source", "local_cache_hit"), float64(c.prefilledCached))
		f.sample(bySource, f.with("source", "external_kv_transfer"), 0)
	}
	const success = "vllm:request_success_total"
	f.head(success, "counter", "Count of successfully processed requests.")
	for _, reason := range []struct {
		name string
		n    int
	}{{"stop", c.byStop}, {"length", c.byLength}, {"abort", c.aborted}, {"error", 0}} {
		f.sample(success, f.with("finished_reason", reason.name), float64(reason.n))
	}
}

func (s vllm) specMetrics(f vllmFamilies, c counters) {
	if s.era.has(vllmV0) {
		f.gauge("spec_decode_draft_acceptance_rate", "Speculative token acceptance rate.", ratio(c.correct, c.steps*len(c.perPosition)))
		f.gauge("spec_decode_efficiency", "Speculative decoding system efficiency.", ratio(c.decodeTokens, c.steps*(len(c.perPosition)+1)))
		f.count("spec_decode_num_emitted_tokens", "Number of emitted tokens.", c.decodeTokens)
	}
	f.count("spec_decode_num_draft_tokens", "Number of draft tokens.", c.steps*len(c.perPosition))
	f.count("spec_decode_num_accepted_tokens", "Number of accepted tokens.", c.correct)
	if !s.era.has(vllmDraftCounters) {
		return
	}
	f.count("spec_decode_num_drafts", "Number of spec decoding drafts.", c.steps)
	const perPos = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
	f.head(perPos, "counter", "Accepted tokens per draft position.")
	for i, n := range c.perPosition {
		f.sample(perPos, f.with("position", fmt.Sprint(i)), float64(n))
	}
}

func (s vllm) timeMetrics(f vllmFamilies, c counters) {
	f.histogram("vllm:time_to_first_token_seconds", f.with(), "Histogram of time to first token in seconds.", c.ttft)
	if s.era.has(vllmPerOutput) {
		f.histogram("vllm:time_per_output_token_seconds", f.with(), "Histogram of time per output token in seconds.", c.gaps)
	}
	if s.era.has(vllmInterToken) {
		f.histogram("vllm:inter_token_latency_seconds", f.with(), "Histogram of inter-token latency in seconds.", c.gaps)
	}
	f.histogram("vllm:e2e_request_latency_seconds", f.with(), "Histogram of end to end request latency in seconds.", c.e2e)
	f.histogram("vllm:request_queue_time_seconds", f.with(), "Histogram of time spent in WAITING phase.", c.queued)
}
