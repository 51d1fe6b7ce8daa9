package collector

import (
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"

	"longctx_exporter/prober"
	"longctx_exporter/prober/estimate"
)

const (
	freshIntervals      = 2.5                 // for how many effective intervals a clean value stands
	comparisonIntervals = 10 * freshIntervals // the same for a comparison of plans: pairs come every tenth run
	confirmedBy         = 3                   // how many clean samples in a row confirm a value
	fewestSteps         = 5                   // of which a spread is worth showing
)

// rung is the state of one rung. Zero times and nil pointers are not known.
type rung struct {
	length     prober.Rung
	labels     []*dto.LabelPair
	configured time.Duration
	effective  time.Duration
	nextDue    time.Time

	step, accept, prefill, ttft histogram
	objectives                  []*objective

	runs, failures, rejections, skips float64
	confirmations                     float64
	verifySteps, completionTokens     float64
	recall                            recall

	record
	baselines map[string][]*dto.LabelPair
	pinned    float64 // seconds per step that an operator pinned
}

// values are the measured values of a clean sample that may be exported; 0 is not known.
type values struct {
	ttft, prefill, step, accept float64
}

func valuesOf(s prober.Sample) values {
	v := values{ttft: known(s.TTFT), prefill: known(s.Prefill), step: known(s.Step), accept: known(s.AcceptLength)}
	if s.Buffered {
		v.ttft = 0
	}
	return v
}

// planComparison holds a cold pair against the triple before it. A ratio of 0 is not known.
type planComparison struct {
	at           time.Time // monotonic
	step, accept float64
}

// interval is the time from run to run that is to be expected.
func (r *rung) interval() time.Duration { return max(r.configured, r.effective) }

// compared is the latest comparison of plans while it may be shown.
func (r *rung) compared(now time.Time) planComparison {
	if now.Sub(r.plans.at) > time.Duration(comparisonIntervals*float64(r.interval())) {
		return planComparison{}
	}
	return r.plans
}

// contended is what the latest contended run felt while it may be shown, else nil.
func (r *rung) contended(now time.Time) *prober.Contention {
	if r.felt == nil || now.Sub(r.feltAt) > r.longest() {
		return nil
	}
	return r.felt
}

// longest is how long a measured value may be shown.
func (r *rung) longest() time.Duration { return time.Duration(freshIntervals * float64(r.interval())) }

// agreed gives what all of the latest samples reached: the least seconds, the most tokens. What one of them does not know is 0.
func agreed(recent []values) values {
	if len(recent) < confirmedBy {
		return values{}
	}
	best, all := recent[0], recent[0]
	for _, v := range recent[1:] {
		all = values{min(all.ttft, v.ttft), min(all.prefill, v.prefill), min(all.step, v.step), min(all.accept, v.accept)}
		best.prefill, best.accept = max(best.prefill, v.prefill), max(best.accept, v.accept)
	}
	best.ttft, best.step = all.ttft, all.step
	if all.prefill == 0 {
		best.prefill = 0
	}
	if all.accept == 0 {
		best.accept = 0
	}
	return best
}

// countSteps adds the steps of an accepted run.
func (r *rung) countSteps(s prober.Sample) {
	if tokens := math.Round(s.DecodeTokens * float64(max(1, s.Pairs))); s.Steps > 0 && positive(tokens) {
		r.verifySteps += float64(s.Steps)
		r.completionTokens += tokens
	}
}

// spread is how far apart the single steps of a sample are, relative to their median; nil where that is not known.
func spread(s prober.Sample) *float64 {
	if s.Buffered || len(s.StepTimes) < fewestSteps {
		return nil
	}
	deviation, ok := estimate.MAD(s.StepTimes)
	median, known := estimate.Median(s.StepTimes)
	if !ok || !known || !positive(median) {
		return nil
	}
	ratio := deviation / median
	return &ratio
}

// shares are those of the verify passes of a sample that committed one token, and all that they can; nil is not known.
type shares struct{ one, most *float64 }

// sharesOf knows nothing where the histogram leaves a pass out: one that was cut off is longer than most.
func sharesOf(s prober.Sample) (of shares) {
	steps, _, ok := estimate.HistogramTotals(s.AcceptHistogram)
	if !ok || steps < 1 || steps != s.Steps {
		return of
	}
	share := func(n int) *float64 {
		ratio := float64(n) / float64(steps)
		return &ratio
	}
	of.one = share(s.AcceptHistogram[0])
	switch {
	case s.BlockSize < 2 || len(s.AcceptHistogram) > s.BlockSize: // not known, or evidently something else
	case len(s.AcceptHistogram) < s.BlockSize:
		of.most = share(0)
	default:
		of.most = share(s.AcceptHistogram[s.BlockSize-1])
	}
	return of
}

// ratio is a over b; 0 where either is not known.
func ratio(a, b float64) float64 {
	if !positive(a) || !positive(b) {
		return 0
	}
	return a / b
}
