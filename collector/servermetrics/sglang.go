package servermetrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"longctx_exporter/prober"
)

// sglang reads SGLang's load endpoint and its page of metrics.
type sglang struct {
	page  *endpoint
	loads *endpoint // nil where its address is not known
}

// loadsAnswer is what /v1/loads tells: one entry per data-parallel rank.
type loadsAnswer struct {
	Loads []struct {
		Running *int `json:"num_running_reqs"`
		Waiting *int `json:"num_waiting_reqs"`
		Queues  *struct {
			Grammar   int `json:"grammar"`
			Paused    int `json:"paused"`
			Retracted int `json:"retracted"`
		} `json:"queues"`
	} `json:"loads"`
}

// read takes the requests from /v1/loads, which is fresh, else from the gauges of the page, which are set only now and then.
// Counters come from the page: those of the tokenizer move when a request finishes, those of the scheduler with every
// forward pass. decode counts one token per step and sequence plus the correct drafts.
func (s *sglang) read(ctx context.Context) (prober.Load, error) {
	p, err := optional(s.page.page(ctx, "sglang", names(
		"num_running_reqs", "num_queue_reqs", "num_grammar_queue_reqs", "prompt_tokens", "generation_tokens",
		"realtime_tokens", "spec_verify_calls", "num_requests", "num_aborted_requests",
	)))
	if err != nil {
		return prober.Load{}, err
	}
	l := prober.Load{
		PromptTokens:     p.sum("prompt_tokens"),
		ComputedTokens:   p.sum("realtime_tokens", "mode", "prefill_compute"),
		GeneratedTokens:  p.sum("generation_tokens"),
		ForwardTokens:    p.sum("realtime_tokens", "mode", "decode"),
		Steps:            p.sum("spec_verify_calls"),
		FinishedRequests: p.sum("num_requests"),
		AbortedRequests:  p.sum("num_aborted_requests"),
	}
	running, queued, err := s.requests(ctx)
	if errors.Is(err, errNotOffered) {
		l.Running, l.Queued = p.gauge("num_running_reqs"), p.gauge("num_queue_reqs")
		if l.Queued != nil {
			addTo(&l.Queued, p.gauge("num_grammar_queue_reqs"))
		}
		return l, nil
	}
	l.Running, l.Queued = running, queued
	return l, err
}

// requests are the running and queued requests of all ranks as /v1/loads tells them.
func (s *sglang) requests(ctx context.Context) (running, queued *int, err error) {
	if s.loads == nil {
		return nil, nil, errNotOffered
	}
	body, err := s.loads.get(ctx)
	if err != nil {
		return nil, nil, err
	}
	var answer loadsAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, nil, fmt.Errorf("reading the load of %s: %w", s.loads.url, err)
	}
	if len(answer.Loads) == 0 {
		return nil, nil, fmt.Errorf("reading the load of %s: no rank is listed", s.loads.url)
	}
	r, q := 0, 0
	for _, l := range answer.Loads {
		if l.Running == nil || l.Waiting == nil || *l.Running < 0 || *l.Waiting < 0 {
			return nil, nil, fmt.Errorf("reading the load of %s: a rank lacks its number of requests", s.loads.url)
		}
		r, q = r+*l.Running, q+*l.Waiting
		if l.Queues != nil {
			q += max(0, l.Queues.Grammar) + max(0, l.Queues.Paused) + max(0, l.Queues.Retracted)
		}
	}
	return &r, &q, nil
}
