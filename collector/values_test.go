package collector

import (
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// value finds a sample by name and label values; NaN where it is absent.
func value(t testing.TB, c *Collector, name string, labelValues ...string) float64 {
	t.Helper()
	families, err := c.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != name || !slices.EqualFunc(labelValues, m.GetLabel(), func(v string, l *dto.LabelPair) bool { return v == "" || v == l.GetValue() }) {
				continue
			}
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				return m.GetCounter().GetValue()
			case dto.MetricType_HISTOGRAM:
				return float64(m.GetHistogram().GetSampleCount())
			default:
				return m.GetGauge().GetValue()
			}
		}
	}
	return math.NaN()
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

func TestCleanValuesLeaveAfterTwoAndAHalfIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mustNew(t, newTargetConfig("t", rung8k))
		at8k := []string{"8192", "", "8k", "t"}
		decode := func() float64 { return value(t, c, decodeRate, at8k...) }
		c.ObserveRun(accepted("t", rung8k))
		success := value(t, c, probeLastSuccess, at8k...)
		for round := 2; round <= 5; round++ {
			time.Sleep(5 * time.Minute)
			c.ObserveRun(ended("t", rung8k, prober.Failed, prober.Reason(inference.Connect)))
			want := 24.5
			if round > 3 {
				want = math.NaN() // 15 and 20 minutes are more than 12.5
			}
			if got := decode(); !same(got, want) {
				t.Errorf("round %d: decode %v, want %v", round, got, want)
			}
		}
		if got := value(t, c, probeFailures, at8k...); got != 4 {
			t.Errorf("failures %v, want 4", got)
		}
		if got := value(t, c, probeLastSuccess, at8k...); got != success {
			t.Errorf("last success moved from %v to %v", success, got)
		}

		c.SetInterval("t", rung8k, time.Hour) // the budget stretches it
		c.ObserveRun(accepted("t", rung8k))
		time.Sleep(150 * time.Minute)
		if got := decode(); got != 24.5 {
			t.Errorf("decode %v while within 2.5 effective intervals", got)
		}
		time.Sleep(time.Nanosecond)
		if got := decode(); !math.IsNaN(got) {
			t.Errorf("decode %v after 2.5 effective intervals", got)
		}
	})
}

func TestUnknownPartsOfASampleAreAbsent(t *testing.T) {
	c := mustNew(t, newTargetConfig("t", rung8k))
	at8k := []string{"8192", "", "8k", "t"}
	c.ObserveRun(accepted("t", rung8k))
	run := accepted("t", rung8k)
	run.Sample.Buffered, run.Sample.Step, run.Sample.AcceptLength, run.Sample.Steps = true, 0, 0, 0
	c.ObserveRun(run)
	for _, name := range []string{ttft, stepTime, acceptLength, methodDisagreement} {
		if got := value(t, c, name, at8k...); !math.IsNaN(got) {
			t.Errorf("%s is %v after a sample without it: two runs are mixed", name, got)
		}
	}
	for name, want := range map[string]float64{
		prefillRate: 1290.5, verifySteps: 16, completionTokens: 64, timeToFirstToken: 1, stepDuration: 5, prefillThroughput: 2,
		acceptLengthTokens: 32,
	} {
		if got := value(t, c, name, at8k...); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	run.Sample.Method, run.Sample.Step = "stream", run.Sample.StepStream
	c.ObserveRun(run)
	if got := value(t, c, methodDisagreement, at8k...); !math.IsNaN(got) {
		t.Errorf("a method agrees with itself: %v", got)
	}
}

func TestPromptTokens(t *testing.T) {
	c := mustNew(t, newTargetConfig("t", rung8k))
	leg := func(kind string, prompt, cached *int) prober.Leg {
		return prober.Leg{Kind: kind, Response: inference.Response{PromptTokens: prompt, CachedTokens: cached}}
	}
	run := ended("t", rung8k, prober.Rejected, prober.Contended)
	run.Legs = []prober.Leg{
		leg("cold", tokens(1000), tokens(0)), leg("warm", tokens(1000), tokens(990)), leg("cold", tokens(100), nil), leg("warm", tokens(100), nil),
		leg("cold", nil, tokens(5)), leg("cold", tokens(10), tokens(11)), leg("cold", tokens(-1), nil),
	}
	c.ObserveRun(run)
	run = ended("t", rung8k, prober.Rejected, prober.CacheHit)
	run.Legs = []prober.Leg{leg("cold", tokens(100), nil)}
	c.ObserveRun(run)
	if got := value(t, c, promptTokens, "computed", "", "t"); got != 1110 {
		t.Errorf("computed %v, want 1110", got)
	}
	if got := value(t, c, promptTokens, "cached", "", "t"); got != 990 {
		t.Errorf("cached %v, want 990", got)
	}
}

func TestUpAndReachable(t *testing.T) {
	none := math.NaN()
	tests := []struct {
		status        prober.Status
		reason        prober.Reason
		up, reachable float64
	}{
		{prober.Accepted, "", 1, 1},
		{prober.Rejected, prober.Contended, 1, 1},
		{prober.Rejected, prober.Interrupted, none, none},
		{prober.Rejected, prober.PromptMismatch, 1, none},
		{prober.Failed, prober.Reason(inference.ContextOverflow), 1, 0},
		{prober.Failed, prober.Reason(inference.Connect), 0, none},
		{prober.Failed, prober.Reason(inference.Timeout), none, none},
		{prober.Skipped, prober.ExceedsContext, none, 0},
		{prober.Skipped, prober.Busy, none, none},
	}
	for _, tt := range tests {
		c := mustNew(t, newTargetConfig("t", rung8k))
		c.ObserveRun(ended("t", rung8k, tt.status, tt.reason))
		if got := value(t, c, targetUp, "", "t"); !same(got, tt.up) {
			t.Errorf("%s %s: up %v, want %v", tt.status, tt.reason, got, tt.up)
		}
		if got := value(t, c, rungReachable, "8192", "", "8k", "t"); !same(got, tt.reachable) {
			t.Errorf("%s %s: reachable %v, want %v", tt.status, tt.reason, got, tt.reachable)
		}
	}
}

func TestReasonsAddUp(t *testing.T) {
	c := mustNew(t, newTargetConfig("t", rung8k))
	counters := map[prober.Status]string{prober.Failed: probeFailures, prober.Rejected: probeRejections, prober.Skipped: probeSkips}
	for status, kind := range kinds() {
		for i, reason := range prober.Reasons(status) {
			if got := value(t, c, probeReasons, kind, "", string(reason), "t"); got != 0 {
				t.Errorf("%s %s is %v before the first run", kind, reason, got)
			}
			c.ObserveRun(ended("t", rung8k, status, reason))
			if got := value(t, c, probeReasons, kind, "", string(reason), "t"); got != 1 {
				t.Errorf("%s %s is %v after one run", kind, reason, got)
			}
			if got := value(t, c, counters[status], "8192", "", "8k", "t"); got != float64(i+1) {
				t.Errorf("%s is %v after %d runs", counters[status], got, i+1)
			}
		}
	}
	sent := len(prober.Reasons(prober.Failed)) + len(prober.Reasons(prober.Rejected))
	if got := value(t, c, probeRuns, "8192", "", "8k", "t"); got != float64(sent) {
		t.Errorf("%v runs, want %d: skips are none", got, sent)
	}
}

func TestServerTextInLabels(t *testing.T) {
	c := mustNew(t, newTargetConfig("t", rung8k))
	c.SetFacts("t", inference.Facts{Model: strings.Repeat("é", 1000), ServerVersion: "0.5\n\x00\x1b[31m\xff"}, prober.Deploy{})
	info := text(t, c.Gatherer())
	if !strings.Contains(info, `served_model="`+strings.Repeat("é", labelRunes)+`"`) {
		t.Error("a long label value is not cut")
	}
	if !strings.Contains(info, "server_version=\"0.5\uFFFD\uFFFD\uFFFD[31m\uFFFD\"") {
		t.Errorf("control characters stand in a label:\n%q", info)
	}
}
