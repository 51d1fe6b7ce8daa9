package simserver

import (
	"fmt"
	"net/http"
)

// metrics of LMDeploy move with forward passes, but for those that histograms of requests count.
func (s lmdeploy) metrics(w http.ResponseWriter, r *http.Request) {
	c, g := s.engine.observe()
	s.servePage(w, r, func(p page) {
		labels := labelled(map[string]string{"engine": "0", "model_name": s.config.Profile.Model})
		gauge := func(name, help string, v float64) { p.one("gauge", "lmdeploy:"+name, labels, help, v) }
		count := func(name, help string, v int) {
			p.one("counter", "lmdeploy:"+name+"_total", labels, help, float64(v))
		}
		gauge("num_requests_running", "Number of requests currently running.", float64(g.running))
		gauge("num_requests_waiting", "Number of requests waiting.", float64(g.waiting))
		gauge("num_api_requests_routed", "Number of requests routed to the engine.", float64(g.running+g.waiting))
		gauge("num_api_requests_waiting", "Number of requests waiting for the engine.", 0)
		gauge("gpu_cache_usage_perc", "GPU KV-cache usage. 1 means 100 percent usage.", ratio(g.held, s.config.Profile.PoolTokens))
		gauge("prefix_cache_hit_rate", "Prefix cache hit rate.", ratio(c.prefilledCached, c.prefilledPrompts))
		count("prompt_tokens", "Number of prefill tokens processed.", c.prefilledPrompts)
		count("generation_tokens", "Number of generation tokens processed.", c.emitted)
		if s.config.Profile.Algorithm != "" {
			count("spec_decode_num_drafts", "Number of drafts.", c.steps)
			count("spec_decode_num_draft_tokens", "Number of draft tokens.", c.steps*len(c.perPosition))
			count("spec_decode_num_accepted_tokens", "Number of accepted tokens.", c.correct)
			const name = "lmdeploy:spec_decode_num_accepted_tokens_per_pos_total"
			p.head(name, "counter", "Accepted tokens per draft position.")
			for i, n := range c.perPosition {
				p.sample(name, fmt.Sprintf(`%s,position="%d"`, labels, i), float64(n))
			}
			gauge("spec_decode_mean_accept_length", "Mean acceptance length since the start.", 1+ratio(c.correct, c.steps))
		}
		p.histogram("lmdeploy:time_to_first_token_seconds", labels, "Time to first token.", c.ttft)
		p.histogram("lmdeploy:time_per_output_token_seconds", labels, "Time per output token.", c.perToken)
		p.histogram("lmdeploy:e2e_request_latency_seconds", labels, "End to end latency.", c.e2e)
	})
}
