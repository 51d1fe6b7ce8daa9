package collector

import (
	"time"

	"longctx_exporter/prober"
)

// recall is what is known of a rung's answers, rather than of their speed.
type recall struct {
	checks, misses, missing float64 // missing: misses in a row
	at                      time.Time
	found                   bool // by the answer of that time

	compared, different float64 // first tokens
}

// take takes a run in.
func (r *recall) take(run prober.Run) {
	r.compared += float64(max(0, run.FirstTokens.Compared))
	r.different += float64(max(0, run.FirstTokens.Different))
	if run.Needle == nil {
		return
	}
	r.checks++
	r.at, r.found = time.Now(), run.Needle.Found
	if r.found {
		r.missing = 0
		return
	}
	r.misses++
	r.missing++
}

// recall adds what is known of a rung's answers.
func (p page) recall(r *rung) {
	a := r.recall
	p.counter(needleChecks, a.checks, r.labels)
	p.counter(needleMisses, a.misses, r.labels)
	p.counter(firstTokenChecks, a.compared, r.labels)
	p.counter(firstTokenMisses, a.different, r.labels)
	if a.checks == 0 {
		return
	}
	p.gauge(needleMissesInRow, a.missing, r.labels)
	if time.Since(a.at) <= time.Duration(freshIntervals*float64(r.interval())) {
		p.gauge(needleFound, truth(a.found), r.labels)
	}
}
