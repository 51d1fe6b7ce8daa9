package simserver

import (
	"fmt"
	"net/http"
)

// tensorRanks is how many ranks the shape pretends to have: some series exist on each of them.
const tensorRanks = 8

func (s sglang) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	c, g := s.engine.observe()
	p := page{w}
	model := fmt.Sprintf(`engine_type="unified",model_name="%s"`, s.config.Profile.Model)
	s.schedulerMetrics(p, c, g, model)
	s.tokenizerMetrics(p, c, model)
}

func rank(model string, n int) string {
	return fmt.Sprintf(`%s,moe_ep_rank="0",pp_rank="0",tp_rank="%d"`, model, n)
}

// schedulerMetrics move with forward passes.
func (s sglang) schedulerMetrics(p page, c counters, g gauges, model string) {
	lead, prof := rank(model, 0), s.config.Profile
	p.one("gauge", "sglang:num_running_reqs", lead, "The number of running requests.", float64(g.running))
	p.one("gauge", "sglang:num_queue_reqs", lead, "The number of requests in the waiting queue.", float64(g.waiting))
	p.one("gauge", "sglang:num_used_tokens", lead, "The number of used tokens.", float64(g.used))
	p.one("gauge", "sglang:token_usage", lead, "The token usage.", float64(g.used)/float64(prof.PoolTokens))
	p.one("gauge", "sglang:gen_throughput", lead, "The generation throughput (token/s).", 0)
	p.one("gauge", "sglang:cache_hit_rate", lead, "The prefix cache hit rate.", 0)
	accept, rate := 0.0, 0.0
	if prof.Algorithm != "" {
		accept, rate = acceptLength(c), acceptRate(c, prof)
	}
	p.one("gauge", "sglang:spec_accept_length", lead, "Mean acceptance length of speculative decoding.", accept)
	p.one("gauge", "sglang:spec_accept_rate", lead, "Acceptance rate of speculative decoding.", rate)

	const realtime = "sglang:realtime_tokens_total"
	p.head(realtime, "counter", "Tokens processed, updated on each forward.")
	for _, mode := range []struct {
		name string
		n    int
	}{{"prefill_compute", c.prefillCompute}, {"prefill_cache", c.prefillCache}, {"decode", c.decodeTokens}} {
		p.sample(realtime, rank(model+`,mode="`+mode.name+`"`, 0), float64(mode.n))
	}
	const passes = "sglang:cuda_graph_passes_total"
	p.head(passes, "counter", "Forward passes by CUDA graph use.")
	for n := range tensorRanks {
		p.sample(passes, rank(model+`,mode="decode_cuda_graph"`, n), float64(c.decodePasses))
	}
	p.sample(passes, rank(model+`,mode="prefill_none"`, 0), float64(c.prefillPasses))
	for name, v := range map[string]int{"max_total_num_tokens": prof.PoolTokens, "page_size": prof.PageSize, "context_len": prof.ContextLimit} {
		p.head("sglang:"+name, "gauge", "A constant of the server.")
		for n := range tensorRanks {
			p.sample("sglang:"+name, rank(model, n), float64(v))
		}
	}
	p.histogram("sglang:queue_time_seconds", lead, "Time in the waiting queue.", c.queued)
}

// tokenizerMetrics move when a request ends.
func (s sglang) tokenizerMetrics(p page, c counters, model string) {
	count := func(name, help string, v int) { p.one("counter", "sglang:"+name, model, help, float64(v)) }
	count("prompt_tokens_total", "Number of prefill tokens processed.", c.prompt)
	count("generation_tokens_total", "Number of generation tokens processed.", c.generated)
	count("num_requests_total", "Number of requests processed.", c.requests)
	count("num_aborted_requests_total", "Number of requests aborted.", c.aborted)
	p.one("counter", "sglang:cached_tokens_total", model+`,cache_source="device"`, "Number of cached prompt tokens.", float64(c.cached))
	if s.config.Profile.Algorithm != "" {
		count("spec_verify_calls_total", "Number of verify forwards.", c.verifies)
	}
	p.histogram("sglang:time_to_first_token_seconds", model, "Time to first token.", c.ttft)
	p.histogram("sglang:e2e_request_latency_seconds", model, "End-to-end request latency.", c.e2e)
}
