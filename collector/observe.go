package collector

import (
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// stepsAtMost bounds what one run may add to a histogram: a ladder's longest legs take some thousand steps.
const stepsAtMost = 1 << 20

// observe takes a run into the series.
func (t *target) observe(run prober.Run) {
	r, ok := t.rungs[run.Rung]
	if !ok {
		return
	}
	t.count(r, run)
	if run.Status != prober.Accepted {
		return
	}
	s := run.Sample
	observeAll(r.prefill, []float64{s.Prefill})
	if !s.Buffered {
		observeAll(r.ttft, []float64{s.TTFT})
		observeAll(r.step, s.StepTimes)
	}
	observeCounts(r.accept, s.AcceptHistogram)
}

// count takes a run into the state.
func (t *target) count(r *rung, run prober.Run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch run.Status {
	case prober.Skipped:
		r.skips++
	case prober.Failed:
		r.failures++
	case prober.Rejected:
		r.rejections++
	case prober.Accepted:
		r.take(run)
	default:
		return
	}
	if c, known := t.reasons[reasonKey{kinds()[run.Status], run.Reason}]; known {
		c.n++
	}
	if reachable, known := reached(run); known {
		r.reachable = &reachable
	}
	if up, known := tookPart(run); known {
		t.up = &up
	}
	if run.Status != prober.Skipped {
		r.runs++
		r.attempted, r.duration = run.Started, max(0, run.Duration)
		t.busy += r.duration.Seconds()
		t.countPrompts(run)
	}
}

// take takes the sample of an accepted run.
func (r *rung) take(run prober.Run) {
	s := run.Sample
	s.StepTimes, s.AcceptHistogram = nil, nil // shown by the histograms, not worth keeping
	if run.Plan == prober.Pair && r.cleanPlan == prober.Triple {
		r.plans = planComparison{at: time.Now(), step: ratio(s.Step, r.clean.Step), accept: ratio(s.AcceptLength, r.clean.AcceptLength)}
	}
	r.clean, r.cleanAt, r.cleanPlan = &s, time.Now(), run.Plan
	if !run.Started.IsZero() {
		r.succeeded = run.Started.Add(max(0, run.Duration))
	}
	if tokens := math.Round(s.DecodeTokens * float64(max(1, s.Pairs))); s.Steps > 0 && positive(tokens) {
		r.verifySteps += float64(s.Steps)
		r.completionTokens += tokens
	}
}

// ratio is a over b; 0 where either is not known.
func ratio(a, b float64) float64 {
	if !positive(a) || !positive(b) {
		return 0
	}
	return a / b
}

// countPrompts adds the prompt tokens of every leg. Where the server does not tell how many were cached, those of a cold leg
// were computed, for its nonce is new, unless the run was rejected for the contrary; those of a warm leg are not known.
func (t *target) countPrompts(run prober.Run) {
	for _, leg := range run.Legs {
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
		unfinished := []prober.Reason{prober.Interrupted, prober.Yielded, prober.PromptMismatch}
		return true, !slices.Contains(unfinished, run.Reason)
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
		return true, run.Reason != prober.Interrupted && run.Reason != prober.Yielded
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

// observeAll observes what is known of the values.
func observeAll(h prometheus.Observer, values []float64) {
	for _, v := range values[:min(len(values), stepsAtMost)] {
		if positive(v) {
			h.Observe(v)
		}
	}
}

// observeCounts observes counts[i] times the value i+1, or nothing where the counts cannot be those of one run.
func observeCounts(h prometheus.Observer, counts []int) {
	total := 0
	for _, n := range counts {
		if n < 0 || n > stepsAtMost-total {
			return
		}
		total += n
	}
	for i, n := range counts {
		for range n {
			h.Observe(float64(i + 1))
		}
	}
}

// positive tells whether a measurement may be exported: 0 stands for not known, and no unit in use reaches 1e12, of which
// any number can be summed up.
func positive(v float64) bool { return v > 0 && v < 1e12 }
