package collector

import (
	"math"
	"slices"

	"longctx_exporter/prober"
	"longctx_exporter/prober/estimate"
)

// How many steps must have been seen for a percentile to be more than the longest of them, and for the longest to be one of many.
const (
	fewestForP99 = 100
	fewestForMax = 20
)

// jitter is what the slowest single steps of a sample took, in seconds; 0 is not known.
type jitter struct {
	steps    int
	p99, max float64
}

func jitterOf(s prober.Sample) jitter {
	if s.Buffered || slices.ContainsFunc(s.StepTimes, func(v float64) bool { return !positive(v) || math.IsInf(v, 1) }) {
		return jitter{}
	}
	j := jitter{steps: len(s.StepTimes)}
	if j.steps >= fewestForMax {
		j.max = slices.Max(s.StepTimes)
	}
	if j.steps >= fewestForP99 {
		j.p99, _ = estimate.Quantile(s.StepTimes, 0.99)
	}
	return j
}

// jitter adds what the slowest single steps took.
func (p page) jitter(r *rung) {
	p.known(stepP99, r.jitter.p99, r.labels)
	p.known(stepMax, r.jitter.max, r.labels)
	p.known(stepTimed, float64(r.jitter.steps), r.labels)
}

// self adds what the exporter itself suffered in the latest run.
func (p page) self(t *target) {
	if t.self == nil {
		return
	}
	p.gauge(selfLag, t.self.Lag, t.labels)
	p.gauge(selfGC, t.self.GC, t.labels)
	if t.self.Steal != nil {
		p.gauge(selfSteal, *t.self.Steal, t.labels)
	}
}
