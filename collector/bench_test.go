package collector

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"longctx_exporter/prober"
)

// large is a fleet of 100 targets with 9 rungs, all measured.
func large(b *testing.B) *Collector {
	var targets []prober.Target
	var ladder []prober.Rung
	for _, k := range []int{1, 2, 4, 8, 16, 32, 64, 128, 192} {
		ladder = append(ladder, prober.Rung(k*1024))
	}
	for i := range 100 {
		targets = append(targets, newTargetConfig(fmt.Sprintf("target-%d", i), ladder...))
	}
	c := mustNew(b, targets...)
	for _, t := range targets {
		c.SetFacts(t.Name, facts())
		for _, r := range ladder {
			c.ObserveRun(accepted(t.Name, r))
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

func BenchmarkHandler(b *testing.B) {
	h := promhttp.HandlerFor(large(b).Gatherer(NewProcessRegistry()), promhttp.HandlerOpts{EnableOpenMetrics: true})
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		b.ReportMetric(float64(w.Body.Len()), "bytes/page")
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
