package servermetrics

import "context"

// lmDeploy reads LMDeploy's page of metrics.
type lmDeploy struct {
	page *endpoint
	life pulse
}

func lmDeployNames() map[string]bool {
	return names(
		"num_requests_running", "num_requests_waiting", "gpu_cache_usage_perc", "prompt_tokens", "generation_tokens",
		"request_success", "spec_decode_num_drafts", "spec_decode_num_accepted_tokens",
	)
}

func (d *lmDeploy) read(ctx context.Context) (reading, error) {
	p, err := d.page.page(ctx, "lmdeploy", lmDeployNames())
	if err != nil && !notOffered(err) {
		return reading{}, err
	}
	r := fromLMDeploy(p)
	r.missing, r.odd = err, p.odd
	d.life.look(alive(p, lmDeployNames()))
	believe(&r, d.life)
	return r, nil
}

// fromLMDeploy maps the page. Releases without a count of finished requests count each generated token twice
// (PrometheusStatLogger.record in lmdeploy/metrics/loggers.py). Counters are not among what certifies runs: whether they agree
// with what the answers claim, to the token, nobody has seen.
func fromLMDeploy(p page) reading {
	var r reading
	r.load.Running, r.load.Queued = p.gauge("num_requests_running"), p.gauge("num_requests_waiting")
	r.counts[promptTokens] = p.parts("prompt_tokens")
	r.counts[finishedRequests] = p.parts("request_success")
	if p.has("request_success") {
		r.counts[generatedTokens] = p.parts("generation_tokens")
	}
	r.counts[verifySteps] = p.parts("spec_decode_num_drafts")
	r.counts[acceptedDrafts] = p.parts("spec_decode_num_accepted_tokens")
	// Registered with or without speculation; a server that never drafted tells nothing of steps.
	if steps := r.counts[verifySteps].sum(); steps != nil && *steps == 0 {
		r.counts[verifySteps], r.counts[acceptedDrafts] = nil, nil
	}
	r.kvUsed = p.most("gpu_cache_usage_perc")
	return r
}
