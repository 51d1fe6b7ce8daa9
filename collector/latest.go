package collector

import (
	"time"

	"longctx_exporter/prober"
)

// Latest is the latest clean sample of a rung and when its run ended, while its values are exported; where that run was a warm one,
// with the prefill of the one before.
func (c *Collector) Latest(name string, length prober.Rung) (s prober.Sample, at time.Time, ok bool) {
	t := c.target(name)
	if t == nil {
		return prober.Sample{}, time.Time{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rung(length)
	if r == nil {
		return prober.Sample{}, time.Time{}, false
	}
	now := time.Now()
	fresh := r.clean.fresh(now, r.longest())
	if fresh == nil {
		return prober.Sample{}, time.Time{}, false
	}
	s = *fresh
	if whole := r.whole.fresh(now, r.longest()); whole != nil {
		v := valuesOf(*whole)
		s.TTFT, s.Prefill = v.ttft, v.prefill
	}
	return s, r.clean.at, true
}
