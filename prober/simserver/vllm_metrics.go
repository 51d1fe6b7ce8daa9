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

// vllmFamilies writes the families of a page, a series for each engine.
type vllmFamilies struct {
	page
	model   string
	numbers bool // engines have a label
	views   []view
	created float64
}

func (f vllmFamilies) with(v view, more ...string) string {
	labels := map[string]string{"model_name": f.model}
	if f.numbers {
		labels["engine"] = fmt.Sprint(v.rank)
	}
	return labelled(labels, more...)
}

func (f vllmFamilies) each(kind, name, help string, of func(v view) float64, more ...string) {
	f.head("vllm:"+name, kind, help)
	f.also(name, of, more...)
}

// also adds series to the family that was begun last.
func (f vllmFamilies) also(name string, of func(v view) float64, more ...string) {
	for _, v := range f.views {
		f.sample("vllm:"+name, f.with(v, more...), of(v))
	}
}

func (f vllmFamilies) gauge(name, help string, of func(v view) float64) {
	f.each("gauge", name, help, of)
}

func (f vllmFamilies) count(name, help string, of func(v view) int) {
	f.each("counter", name+"_total", help, func(v view) float64 { return float64(of(v)) })
	if !f.open {
		f.head("vllm:"+name+"_created", "gauge", help)
	}
	f.also(name+"_created", func(view) float64 { return f.created })
}

func (f vllmFamilies) times(name, help string, of func(v view) histogram) {
	f.head("vllm:"+name, "histogram", help)
	for _, v := range f.views {
		f.buckets("vllm:"+name, f.with(v), of(v))
	}
}

func (s vllm) metrics(w http.ResponseWriter, r *http.Request) {
	views := s.views()
	s.servePage(w, r, func(p page) {
		f := vllmFamilies{
			page: p, model: s.config.Profile.Model, numbers: s.era.has(vllmEngineLabel), views: views, created: unix(s.started),
		}
		s.loadMetrics(f)
		s.tokenMetrics(f)
		if s.config.Profile.Algorithm != "" {
			s.specMetrics(f)
		}
		s.timeMetrics(f)
	})
}

func prompts(v view) int { return v.prefilledPrompts }

func hits(v view) int { return v.prefilledCached }

// scheduled and found move when a request is scheduled, before any of it is computed.
func scheduled(v view) int { return v.scheduledPrompts }

func found(v view) int { return v.prefillCache }

func nothing(view) float64 { return 0 }

func waiting(v view) float64 { return float64(v.waiting) }

func (s vllm) loadMetrics(f vllmFamilies) {
	e, prof := s.era, s.config.Profile
	usage := func(v view) float64 { return ratio(v.held, prof.PoolTokens) }
	f.gauge("num_requests_running", "Number of requests in model execution batches.", func(v view) float64 { return float64(v.running) })
	f.gauge("num_requests_waiting", "Number of requests waiting to be processed.", waiting)
	if e.has(vllmWaitingReason) {
		f.each("gauge", "num_requests_waiting_by_reason", "Number of requests waiting, by reason.", waiting, "reason", "capacity")
		f.also("num_requests_waiting_by_reason", nothing, "reason", "deferred")
	}
	if e.has(vllmSwapped) {
		f.gauge("num_requests_swapped", "Number of requests swapped to CPU.", nothing)
	}
	if e.has(vllmOldUsage) {
		f.gauge("gpu_cache_usage_perc", "GPU KV-cache usage. 1 means 100 percent usage.", usage)
		f.count("gpu_prefix_cache_queries", "GPU prefix cache queries, in tokens.", scheduled)
		f.count("gpu_prefix_cache_hits", "GPU prefix cache hits, in tokens.", found)
	}
	if e.has(vllmUsage) {
		f.gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", usage)
		f.count("prefix_cache_queries", "Prefix cache queries, in tokens.", scheduled)
		f.count("prefix_cache_hits", "Prefix cache hits, in tokens.", found)
	}
	f.count("num_preemptions", "Cumulative number of preemptions.", func(view) int { return 0 })
	f.each("gauge", "cache_config_info", "Information of the LLMEngine CacheConfig", func(view) float64 { return 1 },
		"block_size", fmt.Sprint(prof.PageSize), "enable_prefix_caching", fmt.Sprint(!s.config.Faults.NoPrefixCache),
		"num_gpu_blocks", fmt.Sprint(prof.PoolTokens/prof.PageSize))
}

func (s vllm) tokenMetrics(f vllmFamilies) {
	f.count("prompt_tokens", "Number of prefill tokens processed.", prompts)
	f.count("generation_tokens", "Number of generation tokens processed.", func(v view) int { return v.emitted })
	if s.era.has(vllmBySource) {
		f.count("prompt_tokens_cached", "Number of cached prompt tokens.", hits)
		const name = "prompt_tokens_by_source_total"
		f.each("counter", name, "Number of prompt tokens by source.", func(v view) float64 { return float64(prompts(v) - hits(v)) }, "source", "local_compute")
		f.also(name, func(v view) float64 { return float64(hits(v)) }, "source", "local_cache_hit")
		f.also(name, nothing, "source", "external_kv_transfer")
	}
	const success = "request_success_total"
	f.each("counter", success, "Count of successfully processed requests.", func(v view) float64 { return float64(v.byStop) }, "finished_reason", "stop")
	f.also(success, func(v view) float64 { return float64(v.byLength) }, "finished_reason", "length")
	f.also(success, func(v view) float64 { return float64(v.aborted) }, "finished_reason", "abort")
	f.also(success, nothing, "finished_reason", "error")
}

func (s vllm) specMetrics(f vllmFamilies) {
	width := s.config.Profile.BlockSize() - 1
	if s.era.has(vllmV0) {
		f.gauge("spec_decode_draft_acceptance_rate", "Speculative token acceptance rate.", func(v view) float64 { return ratio(v.correct, v.steps*width) })
		f.gauge("spec_decode_efficiency", "Speculative decoding system efficiency.", func(v view) float64 { return ratio(v.decodeTokens, v.steps*(width+1)) })
		f.count("spec_decode_num_emitted_tokens", "Number of emitted tokens.", func(v view) int { return v.decodeTokens })
	}
	f.count("spec_decode_num_draft_tokens", "Number of draft tokens.", func(v view) int { return v.steps * width })
	f.count("spec_decode_num_accepted_tokens", "Number of accepted tokens.", func(v view) int { return v.correct })
	if !s.era.has(vllmDraftCounters) {
		return
	}
	f.count("spec_decode_num_drafts", "Number of spec decoding drafts.", func(v view) int { return v.steps })
	const perPos = "spec_decode_num_accepted_tokens_per_pos_total"
	f.head("vllm:"+perPos, "counter", "Accepted tokens per draft position.")
	for i := range width {
		f.also(perPos, func(v view) float64 { return float64(v.perPosition[i]) }, "position", fmt.Sprint(i))
	}
}

func (s vllm) timeMetrics(f vllmFamilies) {
	gaps := func(v view) histogram { return v.gaps }
	f.times("time_to_first_token_seconds", "Histogram of time to first token in seconds.", func(v view) histogram { return v.ttft })
	if s.era.has(vllmPerOutput) {
		f.times("time_per_output_token_seconds", "Histogram of time per output token in seconds.", gaps)
	}
	if s.era.has(vllmInterToken) {
		f.times("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", gaps)
	}
	f.times("e2e_request_latency_seconds", "Histogram of end to end request latency in seconds.", func(v view) histogram { return v.e2e })
	f.times("request_queue_time_seconds", "Histogram of time spent in WAITING phase.", func(v view) histogram { return v.queued })
}
