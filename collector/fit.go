package collector

import (
	"math"

	dto "github.com/prometheus/client_model/go"

	"longctx_exporter/prober"
	"longctx_exporter/prober/estimate"
)

// farthest is how many times as long as the longest rung of a line a rung may be, for the line to predict its step time: the
// errors of the short ones grow with the distance.
const farthest = 4

// fit is the step times of the fresh rungs of a target, shortest first, and the lines through them.
type fit struct {
	contexts, steps []float64 // tokens and seconds
}

// add takes one more rung, and tells the step time that the ones before it let expect; 0 where they do not.
func (f *fit) add(length prober.Rung, s *prober.Sample) (expected float64) {
	if !positive(s.Step) {
		return 0
	}
	tokens := float64(length)
	if s.PromptTokens > 0 {
		tokens = float64(s.PromptTokens)
	}
	tokens += max(0, s.DecodeTokens) / 2 // the context grows while it is decoded
	if n := len(f.contexts); n > 0 && tokens <= farthest*f.contexts[n-1] {
		if intercept, slope, ok := estimate.TheilSen(f.contexts, f.steps); ok {
			expected = intercept + slope*tokens
		}
	}
	f.contexts, f.steps = append(f.contexts, tokens), append(f.steps, s.Step)
	return expected
}

// fit adds the line through all rungs.
func (p page) fit(f fit, labels []*dto.LabelPair) {
	intercept, slope, ok := estimate.TheilSen(f.contexts, f.steps)
	if !ok {
		return
	}
	worst := 0.0
	for i, step := range f.steps {
		worst = max(worst, math.Abs(intercept+slope*f.contexts[i]-step)/step)
	}
	p.gauge(stepSlope, slope, labels)
	p.gauge(stepIntercept, intercept, labels)
	p.gauge(stepFitError, worst, labels)
	p.gauge(stepFitRungs, float64(len(f.steps)), labels)
}
