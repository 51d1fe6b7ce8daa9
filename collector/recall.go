package collector

import (
	"time"

	"longctx_exporter/prober"
)

// recall counts a rung's answers by what they say, rather than how fast they came.
type recall struct {
	checks, misses      float64 // of the planted fact
	compared, different float64 // first tokens
}

// answer is the latest answer to the question for the planted fact.
type answer struct {
	at      time.Time // monotonic; zero where its age is not known
	found   bool
	missing float64 // misses in a row
}

// next is the latest answer after a run.
func (a *answer) next(run prober.Run) *answer {
	if run.Needle == nil {
		return a
	}
	latest := &answer{at: time.Now(), found: run.Needle.Found}
	if !latest.found {
		latest.missing = 1
		if a != nil {
			latest.missing += a.missing
		}
	}
	return latest
}

// take takes a run in.
func (r *recall) take(run prober.Run) {
	r.compared += float64(max(0, run.FirstTokens.Compared))
	r.different += float64(max(0, run.FirstTokens.Different))
	if run.Needle == nil {
		return
	}
	r.checks++
	if !run.Needle.Found {
		r.misses++
	}
}

// recall adds what is known of a rung's answers.
func (p page) recall(r *rung) {
	p.counter(needleChecks, r.recall.checks, r.labels)
	p.counter(needleMisses, r.recall.misses, r.labels)
	p.counter(firstTokenChecks, r.recall.compared, r.labels)
	p.counter(firstTokenMisses, r.recall.different, r.labels)
	a := r.answer
	if a == nil {
		return
	}
	p.gauge(needleMissesInRow, a.missing, r.labels)
	if time.Since(a.at) <= r.longest() {
		p.gauge(needleFound, truth(a.found), r.labels)
	}
}
