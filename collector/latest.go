package collector

import (
	"time"

	"longctx_exporter/prober"
)

// Latest is the latest clean sample of a rung and when its run ended, while its values are exported.
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
	fresh := r.fresh(time.Now())
	if fresh == nil {
		return prober.Sample{}, time.Time{}, false
	}
	return *fresh, r.cleanAt, true
}
