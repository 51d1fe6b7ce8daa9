package collector

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"longctx_exporter/prober"
	"longctx_exporter/prober/state"
)

// confirming is a clean warm run, whose steps are slower by a factor.
func confirming(target string, rung prober.Rung, slower float64) prober.Run {
	run := accepted(target, rung)
	run.Plan, run.Confirmation, run.Legs = prober.Warm, true, run.Legs[1:]
	run.Sample.TTFT, run.Sample.Prefill = 0, 0
	run.Sample.Step *= slower
	run.Sample.AcceptLength++ // of a text that was counted before
	return run
}

// TestWarmRunsLeavePrefillAlone confirms a slower step by warm runs: what is known of prefill stays as it was, as old as it was, in
// this process and the next.
func TestWarmRunsLeavePrefillAlone(t *testing.T) {
	at8k := []string{"8192", "", "8k", "t"}
	synctest.Test(t, func(t *testing.T) {
		config := newTargetConfig("t", rung8k)
		config.SLO = prober.SLO{
			TTFT: map[prober.Rung]time.Duration{rung8k: time.Minute}, Step: map[prober.Rung]time.Duration{rung8k: time.Second},
		}
		c := mustNew(t, config)
		var kept state.Rung
		c.KeepWith(func(_ string, _ prober.Rung, s state.Rung) { kept = s })
		check := func(when string, want map[string]float64) {
			t.Helper()
			for name, v := range want {
				if got := value(t, c, name, at8k...); !same(got, v) {
					t.Errorf("%s: %s is %v, want %v", when, name, got, v)
				}
			}
		}
		usual := accepted("t", rung8k).Sample
		for range 3 {
			c.ObserveRun(accepted("t", rung8k))
			time.Sleep(5 * time.Minute)
		}
		slow := accepted("t", rung8k)
		slow.Sample.Step, slow.Sample.TTFT = 1.3*usual.Step, 47
		c.ObserveRun(slow)
		for range 2 {
			time.Sleep(6 * time.Minute)
			c.ObserveRun(confirming("t", rung8k, 1.3))
		}
		confirmedNow := map[string]float64{
			ttft: 47, prefillRate: usual.Prefill, ttftConfirmed: usual.TTFT, prefillConfirmed: usual.Prefill,
			stepTime: 1.3 * usual.Step, stepConfirmed: 1.3 * usual.Step, acceptConfirmed: usual.AcceptLength,
			timeToFirstToken: 4, prefillThroughput: 4, probeConfirms: 2, probeRuns: 6,
		}
		check("confirmed", confirmedNow)
		for slo, n := range map[string]float64{sloTTFT: 4, sloStep: 6} {
			if got := value(t, c, sloEvents, "8192", "", "good", "8k", slo, "t"); got != n {
				t.Errorf("%v runs were good by %s, want %v", got, slo, n)
			}
		}
		if s, _, ok := c.Latest("t", rung8k); !ok || s.TTFT != 47 || s.Step != 1.3*usual.Step {
			t.Errorf("the latest values are %+v", s)
		}
		if last := kept.Samples[len(kept.Samples)-1]; last.TTFT != 0 || last.Prefill != 0 || last.Plan != "warm" {
			t.Errorf("kept is %+v", last)
		}

		before := gauges(t, c)
		again := mustNew(t, config)
		again.Restore("t", state.Target{Rungs: map[int]state.Rung{int(rung8k): kept}}, func(at time.Time) (time.Duration, bool) { return time.Since(at), true })
		if d := cmp.Diff(before, gauges(t, again)); d != "" {
			t.Errorf("gauges (-before the restart +after):\n%s", d)
		}

		time.Sleep(3 * time.Minute) // the cold leg was 15 minutes ago, the last warm one just now
		stale := map[string]float64{ttft: math.NaN(), prefillRate: math.NaN(), ttftConfirmed: math.NaN(), acceptConfirmed: math.NaN(), stepTime: 1.3 * usual.Step, stepConfirmed: 1.3 * usual.Step}
		check("once prefill is stale", stale)
		c = again
		check("the same in the next process", stale)
	})
}

// TestPlansAreComparedWithTriples sees a cold pair held against the triple before it, whatever warm runs came in between.
func TestPlansAreComparedWithTriples(t *testing.T) {
	c := mustNew(t, newTargetConfig("t", rung8k))
	c.ObserveRun(accepted("t", rung8k))
	c.ObserveRun(confirming("t", rung8k, 2))
	pair := accepted("t", rung8k)
	pair.Plan = prober.Pair
	c.ObserveRun(pair)
	if got := value(t, c, planStepRatio, "8192", "", "8k", "t"); got != 1 {
		t.Errorf("the ratio of the plans is %v", got)
	}
}
