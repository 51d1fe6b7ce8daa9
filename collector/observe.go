package collector

import (
	"slices"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// observe takes a run into the series. What outlives the process is kept before it is shown: a restart must not take back
// what somebody has seen.
func (t *target) observe(run prober.Run, keep Keeper) {
	r := t.rung(run.Rung)
	if r == nil {
		return
	}
	t.mu.Lock()
	next := r.record
	next.take(run, r.longest())
	t.mu.Unlock()
	if keep != nil && run.Status != prober.Skipped {
		keep(run.Target, run.Rung, next.state())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r.record = next
	t.count(r, run)
	r.recall.take(run)
	if run.Status != prober.Accepted {
		return
	}
	s := run.Sample
	r.countSteps(s)
	r.prefill.observe(run.ID, s.Prefill)
	if !s.Buffered {
		r.ttft.observe(run.ID, s.TTFT)
		r.step.observe(run.ID, s.StepTimes...)
	}
	r.accept.observeCounts(run.ID, s.AcceptHistogram)
}

// count counts a run.
func (t *target) count(r *rung, run prober.Run) {
	switch run.Status {
	case prober.Skipped:
		r.skips++
	case prober.Failed:
		r.failures++
	case prober.Rejected:
		r.rejections++
	case prober.Accepted:
	default:
		return
	}
	for _, c := range t.reasons {
		if c.status == run.Status && c.reason == run.Reason {
			c.n++
		}
	}
	if up, known := tookPart(run); known {
		t.up = &up
	}
	for _, o := range r.objectives {
		o.judge(run)
	}
	if run.Evicted != nil && (*run.Evicted == 0 || positive(*run.Evicted)) {
		sum := *run.Evicted
		if t.evicted != nil {
			sum += *t.evicted
		}
		t.evicted = &sum
	}
	if run.Status != prober.Skipped {
		r.runs++
		if run.Confirmation {
			r.confirmations++
		}
		t.self = &run.Self
		t.busy += max(0, run.Duration).Seconds()
		t.countPrompts(run)
	}
}

// finished tells whether a run that was rejected had answers, rather than being broken off by ourselves.
func finished(reason prober.Reason) bool {
	return reason != prober.Interrupted && reason != prober.Yielded
}

// countPrompts adds the prompt tokens of every leg. Where the server does not tell how many were cached, those of a cold leg
// were computed, for its nonce is new, unless the run was rejected for the contrary; those of a warm leg are not known.
func (t *target) countPrompts(run prober.Run) {
	legs := run.Legs
	if run.Needle != nil {
		legs = append(slices.Clip(legs), run.Needle.Leg)
	}
	for _, leg := range legs {
		prompt, cached := leg.Response.PromptTokens, leg.Response.CachedTokens
		switch {
		case prompt == nil || *prompt < 0:
		case cached != nil && *cached >= 0 && *cached <= *prompt:
			t.cached.n += float64(*cached)
			t.computed.n += float64(*prompt - *cached)
		case cached == nil && leg.Kind == "cold" && run.Reason != prober.CacheHit:
			t.computed.n += float64(*prompt)
		}
	}
}

// reached tells whether the server takes prompts of the rung's length, where the run shows it.
func reached(run prober.Run) (reachable, known bool) {
	switch run.Status {
	case prober.Accepted:
		return true, true
	case prober.Rejected:
		return true, finished(run.Reason) && run.Reason != prober.PromptMismatch
	case prober.Failed:
		return false, run.Reason == prober.Reason(inference.ContextOverflow)
	case prober.Skipped:
		return false, run.Reason == prober.ExceedsContext || run.Reason == prober.ExceedsPool
	}
	return false, false
}

// tookPart tells whether the server was there, ready and let us in, where the run shows it. A timeout or a broken stream may
// be the fault of one long rung and shows nothing.
func tookPart(run prober.Run) (up, known bool) {
	switch run.Status {
	case prober.Accepted:
		return true, true
	case prober.Rejected:
		return true, finished(run.Reason)
	case prober.Failed:
		switch inference.Class(run.Reason) {
		case inference.Connect, inference.TLS, inference.Auth, inference.ModelNotFound, inference.Loading,
			inference.GatewayError:
			return false, true
		case inference.ContextOverflow, inference.Truncated, inference.BadRequest, inference.Overloaded,
			inference.RateLimited:
			return true, true
		}
	}
	return false, false
}
