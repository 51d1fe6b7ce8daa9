package collector

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
	"longctx_exporter/prober/state"
)

// deploys is a target that runs one thing, then another that is slower, with a pinned baseline.
func deploys(c *Collector) {
	run := func(deploy string, factor float64) {
		r := accepted("ct200", rung8k)
		r.Deploy = deploy
		r.Sample.Step *= factor
		c.ObserveRun(r)
		time.Sleep(5 * time.Minute)
	}
	c.SetFacts("ct200", facts(), deployed("0123456789"))
	for _, factor := range []float64{1, 1.02, 3, 1.01} { // one is far out: the median bears that
		run("0123456789", factor)
	}
	f := facts()
	f.Attention = "flashinfer"
	c.SetFacts("ct200", f, deployed("fedcba9876"))
	for range 3 {
		run("fedcba9876", 1.3)
	}
	c.SetPinned("ct200", map[int]float64{int(rung8k): 0.1375, 1 << 21: 1})
}

// gauges are the lines of a page that a restart must not change: all but counters, histograms and what is learnt at once anew.
func gauges(t *testing.T, c *Collector) []string {
	t.Helper()
	var kept []string
	counter := false
	for line := range strings.Lines(text(t, c.Gatherer())) {
		if strings.HasPrefix(line, "# TYPE ") {
			counter = !strings.HasSuffix(line, " gauge\n")
		}
		transient := strings.HasPrefix(line, targetUp) || strings.HasPrefix(line, targetInfo) || strings.HasPrefix(line, targetMaxContext) ||
			strings.HasPrefix(line, targetKVPool) || strings.HasPrefix(line, targetBlockSize) || strings.HasPrefix(line, probeNextDue) ||
			strings.HasPrefix(line, "longctx_self_")
		if !strings.HasPrefix(line, "#") && !counter && !transient {
			kept = append(kept, line)
		}
	}
	return kept
}

// TestRestore takes what one collector kept into another, as after a restart that took a minute.
func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ladder := []prober.Rung{rung8k, rung64k, rung128k}
		kept := state.Target{Rungs: map[int]state.Rung{}}
		before := mustNew(t, newTargetConfig("ct200", ladder...))
		before.KeepWith(func(_ string, r prober.Rung, s state.Rung) { kept.Rungs[int(r)] = s })
		deploys(before)
		for _, r := range ladder {
			before.ObserveRun(accepted("ct200", r))
			pair := accepted("ct200", r)
			pair.Plan = prober.Pair
			before.ObserveRun(pair)
		}
		for rung, found := range map[prober.Rung][]bool{rung8k: {false, true}, rung64k: {true, false, false}} {
			for _, f := range found {
				run := accepted("ct200", rung)
				run.Needle = &prober.Needle{Found: f}
				before.ObserveRun(run)
			}
		}
		before.ObserveRun(ended("ct200", rung64k, prober.Failed, prober.Reason(inference.Timeout)))
		before.ObserveRun(ended("ct200", rung128k, prober.Rejected, prober.Contended))
		kept.Server.Deploy = state.Deploy{ID: "fedcba9876", Since: before.target("ct200").deploy.Since}
		time.Sleep(time.Minute)

		after := func(age func(time.Time) (time.Duration, bool)) *Collector {
			c := mustNew(t, newTargetConfig("ct200", ladder...))
			c.Restore("ct200", kept, age)
			c.SetPinned("ct200", map[int]float64{int(rung8k): 0.1375})
			return c
		}
		byWall := func(t time.Time) (time.Duration, bool) { return time.Since(t), true }
		same := after(byWall)
		if d := cmp.Diff(gauges(t, before), gauges(t, same)); d != "" {
			t.Errorf("gauges (-before the restart +after):\n%s", d)
		}
		page := text(t, same.Gatherer())
		for _, line := range []string{needleFound + `{context="8192",model="kimi-k2.6",rung="8k",target="ct200"} 1`, needleMissesInRow + `{context="65536",model="kimi-k2.6",rung="64k",target="ct200"} 2`} {
			if !strings.Contains(page, "\n"+line+"\n") {
				t.Errorf("%s is not there", line)
			}
		}
		for line := range strings.Lines(page) {
			if strings.Contains(line, "_total{") && !strings.HasSuffix(line, " 0\n") {
				t.Errorf("counted twice: %s", line)
			}
		}

		unknown := text(t, after(func(time.Time) (time.Duration, bool) { return 0, false }).Gatherer())
		for _, name := range []string{stepTime, stepConfirmed, planStepRatio, stepSlope, needleFound} {
			if strings.Contains(unknown, name+"{") {
				t.Errorf("%s of unknown age is shown", name)
			}
		}
		for _, name := range []string{probeLastSuccess, stepBaseline, failuresInARow, needleMissesInRow} {
			if !strings.Contains(unknown, name+"{") {
				t.Errorf("%s is lost", name)
			}
		}

		// The next clean run confirms what the earlier process measured; a gap of 2.5 intervals still ends that.
		same.ObserveRun(accepted("ct200", rung8k))
		if !strings.Contains(text(t, same.Gatherer()), stepConfirmed+"{") {
			t.Error("what was confirmed is forgotten")
		}
		time.Sleep(13 * time.Minute)
		if strings.Contains(text(t, same.Gatherer()), stepConfirmed+`{context="8192"`) {
			t.Error("a stale value is shown")
		}
	})
}

// TestKeptFirst sees that what outlives the process is kept before anybody can see it.
func TestKeptFirst(t *testing.T) {
	c := mustNew(t, newTargetConfig("ct200", rung8k))
	kept := 0
	c.KeepWith(func(target string, r prober.Rung, s state.Rung) {
		kept++
		if target != "ct200" || r != rung8k || len(s.Samples) != 1 || strings.Contains(text(t, c.Gatherer()), stepTime+"{") {
			t.Errorf("kept %s %s %+v", target, r, s)
		}
	})
	c.ObserveRun(accepted("ct200", rung8k))
	c.ObserveRun(ended("ct200", rung8k, prober.Skipped, prober.Busy))
	if kept != 1 || !strings.Contains(text(t, c.Gatherer()), stepTime+"{") {
		t.Errorf("kept %d times", kept)
	}
}
