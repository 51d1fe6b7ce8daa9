package servermetrics

import (
	"context"

	"longctx_exporter/prober"
)

// vllm reads vLLM's page of metrics.
type vllm struct{ page *endpoint }

// read maps vLLM's counters. Drafts count verify passes that had a draft, so that steps without one (n-gram misses) are not
// among Steps. prompt_tokens_total has meant every prompt token and, in releases around pull request 33290, those that were
// computed; the counter by source, which came with that change, is clear in both, and is preferred where it stands.
func (v *vllm) read(ctx context.Context) (prober.Load, error) {
	p, err := optional(v.page.page(ctx, "vllm", names(
		"num_requests_running", "num_requests_waiting", "prompt_tokens", "prompt_tokens_by_source",
		"generation_tokens", "spec_decode_num_drafts", "spec_decode_num_accepted_tokens", "request_success",
	)))
	if err != nil {
		return prober.Load{}, err
	}
	l := prober.Load{
		Running:          p.gauge("num_requests_running"),
		Queued:           p.gauge("num_requests_waiting"),
		PromptTokens:     p.sum("prompt_tokens_by_source"),
		ComputedTokens:   p.sum("prompt_tokens_by_source", "source", "local_compute"),
		GeneratedTokens:  p.sum("generation_tokens"),
		Steps:            p.sum("spec_decode_num_drafts"),
		CorrectDrafts:    p.sum("spec_decode_num_accepted_tokens"),
		FinishedRequests: p.sum("request_success"),
		AbortedRequests:  p.sum("request_success", "finished_reason", "abort"),
	}
	l.Live = l.GeneratedTokens != nil
	if l.PromptTokens == nil && !p.broken["prompt_tokens_by_source"] {
		l.PromptTokens = p.sum("prompt_tokens")
	}
	return l, nil
}
