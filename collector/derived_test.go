package collector

import (
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

func TestConfirmed(t *testing.T) {
	at8k := []string{"8192", "", "8k", "t"}
	names := []string{ttftConfirmed, prefillConfirmed, stepConfirmed, acceptConfirmed}
	none := [4]float64{math.NaN(), math.NaN(), math.NaN(), math.NaN()}
	synctest.Test(t, func(t *testing.T) {
		c := mustNew(t, newTargetConfig("t", rung8k))
		check := func(when string, want [4]float64) {
			t.Helper()
			for i, name := range names {
				if got := value(t, c, name, at8k...); !same(got, want[i]) {
					t.Errorf("%s: %s is %v, want %v", when, name, got, want[i])
				}
			}
		}
		// measure gives a clean sample that is worse than the usual one by a factor.
		measure := func(worse float64) {
			run := accepted("t", rung8k)
			run.Sample.TTFT, run.Sample.Step = 10*worse, 0.1*worse
			run.Sample.Prefill, run.Sample.AcceptLength = 1000/worse, 4/worse
			c.ObserveRun(run)
		}
		measure(1)
		measure(2)
		check("after two", none)
		measure(4)
		check("after three", [4]float64{10, 1000, 0.1, 4})
		c.ObserveRun(ended("t", rung8k, prober.Rejected, prober.Contended))
		c.ObserveRun(ended("t", rung8k, prober.Failed, prober.Reason(inference.Timeout)))
		check("after a rejection and a failure", [4]float64{10, 1000, 0.1, 4})
		measure(4)
		check("once the best has left", [4]float64{20, 500, 0.2, 2})

		run := accepted("t", rung8k)
		run.Sample.TTFT, run.Sample.Buffered, run.Sample.Prefill, run.Sample.Step = 5, true, math.Inf(1), 0
		c.ObserveRun(run)
		check("where one of three does not know", [4]float64{math.NaN(), math.NaN(), math.NaN(), 3.5})
		measure(1)
		measure(1)
		measure(1)
		check("three more", [4]float64{10, 1000, 0.1, 4})
		time.Sleep(12*time.Minute + 31*time.Second)
		check("stale", none)
		measure(1)
		measure(1)
		check("two after the gap", none)
		measure(1)
		check("three after the gap", [4]float64{10, 1000, 0.1, 4})
	})
}

func TestExpected(t *testing.T) {
	rung256k, rung2M := prober.Rung(256<<10), prober.Rung(2<<20)
	c := mustNew(t, newTargetConfig("t", rung2M, rung256k, rung128k, rung64k, rung32k, rung8k))
	for _, r := range []prober.Rung{rung8k, rung64k, rung32k, rung128k, rung256k, rung2M} {
		run := accepted("t", r)
		if r == rung256k {
			run.Sample.Step *= 2
		}
		c.ObserveRun(run)
	}
	line := func(r prober.Rung) float64 { return 0.06 + 1e-5*(float64(r)+16) }
	for r, want := range map[prober.Rung]float64{
		rung8k: math.NaN(), rung32k: math.NaN(), rung64k: math.NaN(), // fewer than three are shorter
		rung128k: line(rung128k),
		rung256k: line(rung256k), // what it should be, not what it is
		rung2M:   math.NaN(),     // too far away
	} {
		got := value(t, c, stepExpected, r.Context(), "", r.String(), "t")
		if !same(got, want) && !(math.Abs(got/want-1) < 1e-9) {
			t.Errorf("%s: expected %v, want %v", r, got, want)
		}
	}
	if got := value(t, c, stepFitError, "", "t"); !(got > 0.4 && got < 0.6) {
		t.Errorf("fit error %v, want a half: one step is twice as long as the line says", got)
	}
}

func TestSpread(t *testing.T) {
	tests := map[string]struct {
		steps    []float64
		buffered bool
		want     float64
	}{
		"steady":   {[]float64{0.1, 0.1, 0.1, 0.1, 0.1}, false, 0},
		"spread":   {[]float64{1, 2, 4, 6, 90}, false, 0.5},
		"few":      {[]float64{1, 2, 4, 6}, false, math.NaN()},
		"buffered": {[]float64{1, 2, 4, 6, 90}, true, math.NaN()},
		"broken":   {[]float64{1, 2, math.NaN(), 6, 90}, false, math.NaN()},
		"none":     {nil, false, math.NaN()},
	}
	for name, tt := range tests {
		c := mustNew(t, newTargetConfig("t", rung8k))
		run := accepted("t", rung8k)
		run.Sample.StepTimes, run.Sample.Buffered = tt.steps, tt.buffered
		c.ObserveRun(run)
		if got := value(t, c, stepSpread, "8192", "", "8k", "t"); !same(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestIsolationProved(t *testing.T) {
	for grade, want := range map[prober.Isolation]float64{prober.Proved: 1, prober.Quiet: 0, prober.NotKnown: 0, "": 0} {
		c := mustNew(t, newTargetConfig("t", rung8k))
		run := accepted("t", rung8k)
		run.Sample.Isolation = grade
		c.ObserveRun(run)
		if got := value(t, c, isolationProved, "8192", "", "8k", "t"); got != want {
			t.Errorf("%q: %v, want %v", grade, got, want)
		}
	}
}

func TestObjectives(t *testing.T) {
	config := newTargetConfig("t", rung8k, rung64k)
	config.SLO = prober.SLO{
		TTFT: map[prober.Rung]time.Duration{rung8k: 10 * time.Second}, Step: map[prober.Rung]time.Duration{rung8k: 100 * time.Millisecond},
	}
	sample := func(ttft, step float64, buffered bool) prober.Run {
		run := accepted("t", rung8k)
		run.Sample.TTFT, run.Sample.Step, run.Sample.Buffered = ttft, step, buffered
		return run
	}
	rejected := sample(99, 99, false)
	rejected.Status, rejected.Reason = prober.Rejected, prober.Contended
	tests := map[string]struct {
		run                                  prober.Run
		goodTTFT, badTTFT, goodStep, badStep float64
	}{
		"both met":      {sample(10, 0.1, false), 1, 0, 1, 0},
		"both missed":   {sample(10.1, 0.101, false), 0, 1, 0, 1},
		"no step known": {sample(1, 0, false), 1, 0, 0, 0},
		"buffered":      {sample(1, 0.1, true), 0, 0, 1, 0},
		"no number":     {sample(math.NaN(), math.Inf(1), false), 0, 0, 0, 0},
		"failed":        {ended("t", rung8k, prober.Failed, prober.Reason(inference.Connect)), 0, 1, 0, 0},
		"rejected":      {rejected, 0, 0, 0, 0},
		"skipped":       {ended("t", rung8k, prober.Skipped, prober.Busy), 0, 0, 0, 0},
		"other rung":    {accepted("t", rung64k), 0, 0, 0, 0},
	}
	for name, tt := range tests {
		c := mustNew(t, config)
		c.ObserveRun(tt.run)
		for key, want := range map[[2]string]float64{
			{"good", "ttft"}: tt.goodTTFT, {"bad", "ttft"}: tt.badTTFT, {"good", "step"}: tt.goodStep, {"bad", "step"}: tt.badStep,
		} {
			if got := value(t, c, sloEvents, "8192", "", key[0], "8k", key[1], "t"); got != want {
				t.Errorf("%s: %v events are %v, want %v", name, key, got, want)
			}
		}
		if got := value(t, c, sloThreshold, "65536", "", "64k", "", "t"); !math.IsNaN(got) {
			t.Errorf("%s: a rung without objectives has the threshold %v", name, got)
		}
	}
}

func TestInARow(t *testing.T) {
	c := mustNew(t, newTargetConfig("t", rung8k))
	for i, step := range []struct {
		run                prober.Run
		failing, rejecting float64
	}{
		{ended("t", rung8k, prober.Failed, prober.Reason(inference.Timeout)), 1, 0},
		{ended("t", rung8k, prober.Skipped, prober.Busy), 1, 0},
		{ended("t", rung8k, prober.Failed, prober.Reason(inference.Connect)), 2, 0},
		{ended("t", rung8k, prober.Rejected, prober.Interrupted), 2, 1},
		{ended("t", rung8k, prober.Rejected, prober.Queued), 0, 2},
		{ended("t", rung8k, prober.Failed, prober.Reason(inference.Timeout)), 1, 2},
		{accepted("t", rung8k), 0, 0},
	} {
		c.ObserveRun(step.run)
		failing, rejecting := value(t, c, failuresInARow, "8192", "", "8k", "t"), value(t, c, rejectionsInARow, "8192", "", "8k", "t")
		if failing != step.failing || rejecting != step.rejecting {
			t.Errorf("step %d: %v failures and %v rejections in a row, want %v and %v", i, failing, rejecting, step.failing, step.rejecting)
		}
	}
}

func TestSchedule(t *testing.T) {
	c := mustNew(t, newTargetConfig("t", rung8k))
	at8k := []string{"8192", "", "8k", "t"}
	if got := value(t, c, probeNextDue, at8k...); !math.IsNaN(got) {
		t.Errorf("due at %v though nothing is scheduled", got)
	}
	c.SetNextDue("t", rung8k, time.Unix(1700000000, 250e6))
	c.SetNextDue("t", rung64k, time.Unix(1, 0)) // neither rung nor target
	c.SetNextDue("u", rung8k, time.Unix(1, 0))
	if got := value(t, c, probeNextDue, at8k...); got != 1700000000.25 {
		t.Errorf("due at %v", got)
	}
	for effective, want := range map[time.Duration]float64{0: 300, time.Minute: 300, time.Hour: 3600} {
		c.SetInterval("t", rung8k, effective)
		if got := value(t, c, probeEffective, at8k...); got != want {
			t.Errorf("effective interval %v, want %v", got, want)
		}
	}
	first, second := c.BeginRun("t"), c.BeginRun("t")
	c.BeginRun("u")()
	first()
	if got := value(t, c, probesInFlight, "", "t"); got != 1 {
		t.Errorf("%v runs are going on, want 1", got)
	}
	second()
	if got := value(t, c, probesInFlight, "", "t"); got != 0 {
		t.Errorf("%v runs are going on, want 0", got)
	}
}

func TestExemplars(t *testing.T) {
	page := func(id, accept string) string {
		c := mustNew(t, newTargetConfig("t", rung8k))
		run := accepted("t", rung8k)
		run.ID = id
		c.ObserveRun(run)
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		promhttp.HandlerFor(c.Gatherer(), promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, r)
		return w.Body.String()
	}
	const openMetrics, plain = "application/openmetrics-text;version=1.0.0", "text/plain"
	text := page("1a2b3c", openMetrics)
	for _, want := range []string{
		`longctx_step_duration_seconds_bucket{context="8192",model="kimi-k2.6",rung="8k",target="t",le="0.16"} 4 # {run_id="1a2b3c"} 0.14`,
		`le="2.5"} 5 # {run_id="1a2b3c"} 2.25`, `le="8.0"} 16 # {run_id="1a2b3c"} 8`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	for _, nameless := range []string{"", "a\xff", strings.Repeat("x", exemplarRunes+1)} {
		if text := page(nameless, openMetrics); strings.Contains(text, "run_id") || !strings.Contains(text, `step_duration_seconds_count{context="8192",model="kimi-k2.6",rung="8k",target="t"} 5`) {
			t.Errorf("run %q has exemplars, or no steps", nameless)
		}
	}
	if text := page("1a2b3c", plain); strings.Contains(text, "run_id") {
		t.Error("exemplars stand in the text format, which has none")
	}
}

func TestReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := NewProcessRegistry()
		reloads := NewReloads(registry)
		check := func(when string, successful float64, at time.Time) {
			t.Helper()
			if got := testutil.ToFloat64(reloads.successful); got != successful {
				t.Errorf("%s: successful is %v, want %v", when, got, successful)
			}
			if got := testutil.ToFloat64(reloads.succeeded); got != float64(at.UnixNano())/1e9 {
				t.Errorf("%s: succeeded at %v, want %v", when, got, at)
			}
		}
		start := time.Now()
		check("at the start", 1, start)
		time.Sleep(time.Minute)
		reloads.Failure()
		check("after a failure", 0, start)
		time.Sleep(time.Minute)
		reloads.Success()
		check("after a success", 1, time.Now())
		if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
			t.Errorf("%v %v", problems, err)
		}
	})
}
