package collector

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// TestBuckets holds that neighbouring buckets are near enough to estimate by, and that what may take minutes has a native
// histogram, whose buckets end nowhere.
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
		if strings.HasSuffix(m.Name, "_seconds") && !m.Native {
			t.Errorf("%s has no native histogram", m.Name)
		}
	}
}
