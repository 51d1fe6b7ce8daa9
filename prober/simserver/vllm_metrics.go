package simserver

import (
	"fmt"
	"net/http"
)

func (s vllm) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	c, g := s.engine.observe()
	prof, p := s.config.Profile, page{w}
	labels := fmt.Sprintf(`engine="0",model_name="%s"`, prof.Model)
	created := unix(s.started)
	gauge := func(name, help string, v float64) { p.one("gauge", "vllm:"+name, labels, help, v) }
	count := func(name, extra, help string, v int) {
		p.one("counter", "vllm:"+name+"_total", labels+extra, help, float64(v))
		p.one("gauge", "vllm:"+name+"_created", labels+extra, help, created)
	}
	gauge("num_requests_running", "Number of requests in model execution batches.", float64(g.running))
	gauge("num_requests_waiting", "Number of requests waiting to be processed.", float64(g.waiting))
	gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", float64(g.used)/float64(prof.PoolTokens))
	count("prefix_cache_queries", "", "Prefix cache queries, in tokens.", c.prefilledPrompts)
	count("prefix_cache_hits", "", "Prefix cache hits, in tokens.", c.prefilledCached)
	count("prompt_tokens", "", "Number of prefill tokens processed.", c.prefilledPrompts)
	count("prompt_tokens_cached", "", "Number of cached prompt tokens.", c.prefilledCached)
	count("generation_tokens", "", "Number of generation tokens processed.", c.emitted)
	count("num_preemptions", "", "Cumulative number of preemptions.", 0)
	const bySource = "vllm:prompt_tokens_by_source_total"
	p.head(bySource, "counter", "Number of prompt tokens by source.")
	p.sample(bySource, labels+`,source="local_compute"`, float64(c.prefilledPrompts-c.prefilledCached))
	p.sample(bySource, labels+`,source="local_cache_hit"`, float64(c.prefilledCached))
	p.sample(bySource, labels+`,source="external_kv_transfer"`, 0)
	const success = "vllm:request_success_total"
	p.head(success, "counter", "Count of successfully processed requests.")
	for _, reason := range []struct {
		name string
		n    int
	}{{"stop", c.byStop}, {"length", c.byLength}, {"abort", c.aborted}, {"error", 0}} {
		p.sample(success, labels+`,finished_reason="`+reason.name+`"`, float64(reason.n))
	}
	if prof.Algorithm != "" {
		s.specMetrics(p, c, labels, count)
	}
	p.histogram("vllm:time_to_first_token_seconds", labels, "Histogram of time to first token in seconds.", c.ttft)
	p.histogram("vllm:inter_token_latency_seconds", labels, "Histogram of inter-token latency in seconds.", c.gaps)
	p.histogram("vllm:e2e_request_latency_seconds", labels, "Histogram of end to end request latency in seconds.", c.e2e)
	p.histogram("vllm:request_queue_time_seconds", labels, "Histogram of time spent in WAITING phase.", c.queued)
	p.one("gauge", "vllm:cache_config_info", fmt.Sprintf(`block_size="%d",enable_prefix_caching="%t",engine="0",num_gpu_blocks="%d"`,
		prof.PageSize, !s.config.Faults.NoPrefixCache, prof.PoolTokens/prof.PageSize), "Information of the LLMEngine CacheConfig", 1)
}

func (s vllm) specMetrics(p page, c counters, labels string, count func(name, extra, help string, v int)) {
	count("spec_decode_num_drafts", "", "Number of spec decoding drafts.", c.steps)
	count("spec_decode_num_draft_tokens", "", "Number of draft tokens.", c.steps*len(c.perPosition))
	count("spec_decode_num_accepted_tokens", "", "Number of accepted tokens.", c.correct)
	const perPos = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
	p.head(perPos, "counter", "Accepted tokens per draft position.")
	for i, n := range c.perPosition {
		p.sample(perPos, fmt.Sprintf(`%s,position="%d"`, labels, i), float64(n))
	}
}
