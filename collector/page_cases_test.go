package collector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"longctx_exporter/collector/servermetrics"
	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// TestTextIsNoLabel gives five hundred failures with five hundred texts, none of which makes a series.
func TestTextIsNoLabel(t *testing.T) {
	c := mustNew(t, newTargetConfig("ct200", rung8k))
	c.ObserveRun(ended("ct200", rung8k, prober.Failed, prober.Reason(inference.ServerError)))
	before := strings.Count(text(t, c.Gatherer()), "\n")
	for i := range 499 {
		run := ended("ct200", rung8k, prober.Failed, prober.Reason(inference.ServerError))
		run.Message = fmt.Sprintf("req %04d failed at 10.0.0.7:4%04d after %d tokens", i, i, i)
		c.ObserveRun(run)
	}
	page := text(t, c.Gatherer())
	if after := strings.Count(page, "\n"); after != before || strings.Contains(page, "req 0") || strings.Contains(page, "10.0.0.7") {
		t.Errorf("%d lines after one failure, %d after five hundred, or a text among them", before, after)
	}
	if !strings.Contains(page, `longctx_probe_reasons_total{kind="failure",model="kimi-k2.6",reason="server_error",target="ct200"} 500`) {
		t.Error("not all failures are counted by their reason")
	}
}

// TestFailuresKeepNoGoodValue refuses every run after a good one: the page says so at once, and the value leaves in time.
func TestFailuresKeepNoGoodValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mustNew(t, newTargetConfig("ct200", rung8k))
		c.ObserveRun(accepted("ct200", rung8k))
		at8k := []string{"8192", "", "8k", "ct200"}
		succeeded := value(t, c, probeLastSuccess, "8192", "", "8k", "ct200")
		for round := 2; round <= 5; round++ {
			time.Sleep(5 * time.Minute)
			c.ObserveRun(ended("ct200", rung8k, prober.Failed, prober.Reason(inference.Connect)))
			if failing := value(t, c, failuresInARow, at8k...); failing != float64(round-1) {
				t.Errorf("round %d: %v failures in a row", round, failing)
			}
			if value(t, c, probeLastSuccess, at8k...) != succeeded || value(t, c, targetUp, "", "ct200") != 0 {
				t.Errorf("round %d is told as a success", round)
			}
		}
		if page := text(t, c.Gatherer()); strings.Contains(page, decodeRate+"{") || strings.Contains(page, stepTime+"{") {
			t.Error("the values of the first round are shown after five")
		}
	})
}

// TestBuckets holds that neighbouring buckets are near enough to estimate by, and that what may take minutes, as at the longest
// contexts of slow servers, falls in a bucket that has an end: a classic one, or one of a native histogram.
func TestBuckets(t *testing.T) {
	for _, m := range Catalogue() {
		if m.Type != Histogram {
			continue
		}
		for i := 1; i < len(m.Buckets); i++ {
			if ratio := m.Buckets[i] / m.Buckets[i-1]; ratio > 2.5 || ratio <= 1 {
				t.Errorf("%s: bucket %v follows on %v", m.Name, m.Buckets[i], m.Buckets[i-1])
			}
		}
		if !strings.HasSuffix(m.Name, "_seconds") {
			continue
		}
		if !m.Native {
			t.Errorf("%s has no native histogram", m.Name)
		}
		if len(m.Buckets) > 0 && m.Buckets[len(m.Buckets)-1] < 600 {
			t.Errorf("%s: ten minutes are in no bucket", m.Name)
		}
		h := newHistogram(m, nil)
		h.observe("", 0.05, 46, 310)
		apart := 0
		for _, span := range h.show().GetHistogram().GetPositiveSpan() {
			apart += int(span.GetLength())
		}
		if apart < 3 {
			t.Errorf("%s: 0.05, 46 and 310 seconds are in %d native buckets", m.Name, apart)
		}
	}
}

// TestNothingMeasured reads the page of two targets before their first runs: what counts is there at 0, for each reason, and what
// measures is not there at all.
func TestNothingMeasured(t *testing.T) {
	c := mustNew(t, newTargetConfig("a", rung8k), newTargetConfig("b", rung8k, rung128k))
	for _, target := range []string{"a", "b"} {
		c.SetNextDue(target, rung8k, time.Now().Add(10*time.Minute))
	}
	configured := []string{
		rungContext, probeInterval, probeEffective, probeNextDue, probesInFlight, failuresInARow, rejectionsInARow,
	}
	families, err := c.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch {
			case f.GetType() == dto.MetricType_GAUGE && !slices.Contains(configured, f.GetName()),
				m.GetCounter().GetValue() != 0, m.GetHistogram().GetSampleCount() != 0:
				t.Errorf("%s %v is known of what was never measured", f.GetName(), m)
			}
		}
	}
	for _, target := range []string{"a", "b"} {
		if got := value(t, c, probeRuns, "8192", "", "8k", target); got != 0 {
			t.Errorf("%s: %v runs", target, got)
		}
		for status, kind := range kinds() {
			for _, reason := range prober.Reasons(status) {
				if got := value(t, c, probeReasons, kind, "", string(reason), target); got != 0 {
					t.Errorf("%s: %s %s is %v", target, kind, reason, got)
				}
			}
		}
	}
}

// TestNoNumberIsNoSample gives the collector what is no number wherever it takes one besides samples.
func TestNoNumberIsNoSample(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	some := func() *float64 { v := odd(r); return &v }
	c := mustNew(t, newTargetConfig("t", rung8k, rung64k))
	for range 300 {
		rung := []prober.Rung{rung8k, rung64k}[r.IntN(2)]
		run := contendedRun("t", rung)
		run.Contended = &prober.Contention{TTFT: odd(r), Step: odd(r), DecodeRate: odd(r), Running: r.IntN(3) - 1}
		run.Evicted, run.Self = some(), prober.Self{Lag: odd(r), GC: odd(r), Steal: some()}
		c.ObserveRun(run)
		run = accepted("t", rung)
		run.Evicted, run.Self = some(), prober.Self{Lag: odd(r), GC: odd(r), Steal: some()}
		run.Sample.StepTimes = nil
		for range 100 * r.IntN(3) {
			run.Sample.StepTimes = append(run.Sample.StepTimes, odd(r))
		}
		c.ObserveRun(run)
		c.SetBudgetUsed("t", odd(r))
		c.SetPinned("t", map[int]float64{int(rung): odd(r)})
		c.SetInterval("t", rung, time.Duration(r.Int64()-math.MaxInt64/2))
		c.SetEngine("t", servermetrics.Snapshot{
			Up: true, Running: tokens(r.IntN(3)), Queued: tokens(r.IntN(3)), KVUsed: some(), KVFree: some(), AcceptLength: some(),
			DecodeRate: some(), PromptTokens: some(), CachedTokens: some(), GeneratedTokens: some(), VerifySteps: some(),
			AcceptedDrafts: some(), FinishedRequests: some(), AbortedRequests: some(),
		})
		for line := range strings.Lines(text(t, c.Gatherer())) {
			if value := line[strings.LastIndex(line, " ")+1:]; !strings.HasPrefix(line, "#") && strings.ContainsAny(value, "NnIi") {
				t.Fatal(line)
			}
		}
	}
}
