package simserver

import (
	"fmt"
	"net/http"
)

// trtllmPrefixed is since when TensorRT-LLM's metrics have their prefix, and those of load and speculation exist.
const trtllmPrefixed period = "2026-01-01/"

// drained is the list of statistics that each reader takes away from the next one; here it has always been read.
func (s trtllm) drained(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, []any{})
}

// metrics is the page that return_perf_metrics turns on.
func (s trtllm) metrics(w http.ResponseWriter, r *http.Request) {
	c, g := s.engine.observe()
	s.servePage(w, r, func(p page) {
		labels := labelled(map[string]string{"engine_type": "undefined", "model_name": "undefined"})
		prefix := ""
		if s.era.has(trtllmPrefixed) {
			prefix = "trtllm_"
			s.loadMetrics(p, labels, c, g)
		}
		const help = "Count of successfully processed requests."
		p.head(prefix+"request_success_total", "counter", help)
		p.sample(prefix+"request_success_total", labels+`,finished_reason="length"`, float64(c.byLength))
		p.sample(prefix+"request_success_total", labels+`,finished_reason="stop"`, float64(c.byStop))
		p.histogram(prefix+"time_to_first_token_seconds", labels, "Histogram of time to first token in seconds.", c.ttft)
		p.histogram(prefix+"time_per_output_token_seconds", labels, "Histogram of time per output token in seconds.", c.perToken)
		p.histogram(prefix+"e2e_request_latency_seconds", labels, "Histogram of end to end request latency in seconds.", c.e2e)
		p.histogram(prefix+"request_queue_time_seconds", labels, "Histogram of time spent waiting.", c.queued)
	})
}

func (s trtllm) loadMetrics(p page, labels string, c counters, g gauges) {
	gauge := func(name, help string, v float64) { p.one("gauge", "trtllm_"+name, labels, help, v) }
	count := func(name, help string, v int) { p.one("counter", "trtllm_"+name+"_total", labels, help, float64(v)) }
	gauge("num_requests_running", "Requests that run.", float64(g.running))
	gauge("num_requests_waiting", "Requests that wait.", float64(g.waiting))
	gauge("kv_cache_utilization", "Share of the KV cache in use.", ratio(g.held, s.config.Profile.PoolTokens))
	gauge("kv_cache_hit_rate", "Share of prompt tokens found in the cache.", ratio(c.prefilledCached, c.prefilledPrompts))
	count("prompt_tokens", "Prompt tokens.", c.prompt)
	count("prompt_cached_tokens", "Prompt tokens found in the cache.", c.cached)
	count("generation_tokens", "Generated tokens.", c.generated)
	if s.config.Profile.Algorithm == "" {
		return
	}
	count("spec_decode_num_draft_tokens", "Draft tokens.", c.drafted)
	count("spec_decode_num_accepted_tokens", "Accepted draft tokens.", c.draftOK)
	gauge("spec_decode_acceptance_length", "Mean acceptance length, bonus token included.", 1+ratio(c.draftOK, c.verifies))
	const drafted, accepted = "trtllm_spec_decode_drafted_tokens_total", "trtllm_spec_decode_accepted_tokens_total"
	p.head(drafted, "counter", "Draft tokens by position.")
	for i := range c.endedPositions {
		p.sample(drafted, fmt.Sprintf(`%s,token_position="%d"`, labels, i), float64(c.verifies))
	}
	p.head(accepted, "counter", "Accepted draft tokens by position.")
	for i, n := range c.endedPositions {
		p.sample(accepted, fmt.Sprintf(`%s,token_position="%d"`, labels, i), float64(n))
	}
}
