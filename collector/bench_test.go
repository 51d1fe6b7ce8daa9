package collector

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"longctx_exporter/prober"
)

// large is a fleet of 100 targets with 9 rungs, of which everything is known.
func large(b *testing.B) *Collector {
	var targets []prober.Target
	var ladder []prober.Rung
	for _, k := range []int{1, 2, 4, 8, 16, 32, 64, 128, 192} {
		ladder = append(ladder, prober.Rung(k*1024))
	}
	for i := range 100 {
		t := newTargetConfig(fmt.Sprintf("target-%d", i), ladder...)
		t.SLO = prober.SLO{TTFT: map[prober.Rung]time.Duration{}, Step: map[prober.Rung]time.Duration{}}
		for _, r := range ladder {
			t.SLO.TTFT[r], t.SLO.Step[r] = time.Minute, time.Second
		}
		targets = append(targets, t)
	}
	c := mustNew(b, targets...)
	for _, t := range targets {
		c.SetFacts(t.Name, facts(), prober.Deploy{})
		c.SetBudgetUsed(t.Name, 0.73)
		for _, r := range ladder {
			for range 3 {
				run := accepted(t.Name, r)
				run.Evicted = new(float64)
				c.ObserveRun(run)
			}
			c.SetNextDue(t.Name, r, time.Now())
		}
	}
	return c
}

func BenchmarkGather(b *testing.B) {
	g := large(b).Gatherer()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}

// counting is a reader of pages who keeps nothing, as a socket does.
type counting struct {
	header http.Header
	bytes  int
}

func (c *counting) Header() http.Header { return c.header }
func (c *counting) WriteHeader(int)     {}

func (c *counting) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return len(p), nil
}

func BenchmarkHandler(b *testing.B) {
	h := promhttp.HandlerFor(large(b).Gatherer(NewProcessRegistry()), promhttp.HandlerOpts{EnableOpenMetrics: true})
	b.ReportAllocs()
	for b.Loop() {
		w := &counting{header: http.Header{}}
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		b.ReportMetric(float64(w.bytes), "bytes/page")
	}
}

func BenchmarkObserveRun(b *testing.B) {
	c := mustNew(b, newTargetConfig("t", rung8k))
	run := accepted("t", rung8k)
	run.Sample.AcceptHistogram = make([]int, 16)
	for i := range run.Sample.AcceptHistogram {
		run.Sample.AcceptHistogram[i] = 256
	}
	run.Sample.StepTimes = make([]float64, 4096)
	for i := range run.Sample.StepTimes {
		run.Sample.StepTimes[i] = 0.1 + float64(i)/1000
	}
	b.ReportAllocs()
	for b.Loop() {
		c.ObserveRun(run)
	}
}
