package prober_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"longctx_exporter/collector/servermetrics"
	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
	"longctx_exporter/prober/simserver"
)

// needleRuns runs rungs on a new server, a minute apart, and gives the truth of everything that was sent too.
func needleRuns(t *testing.T, c simserver.Config, change func(*prober.Target), rungs ...prober.Rung) (runs []prober.Run, truth []simserver.TruthRequest) {
	t.Helper()
	c.Seed = 1
	if c.Profile.Name == "" {
		c.Profile = profile(t, "fast-8b")
	}
	synctest.Test(t, func(t *testing.T) {
		sim, target := simulated(t, c)
		target.Ladder, target.Needle, target.AllowEviction = rungs, true, true
		if change != nil {
			change(&target)
		}
		runner := prober.RunnerOf(t, target, servermetrics.New)
		for _, r := range rungs {
			run := runner.Run(t.Context(), r, nil)
			if run.Status != prober.Accepted {
				t.Errorf("%s %s: %s %s %s", c.Shape, r, run.Status, run.Reason, run.Message)
			}
			runs = append(runs, run)
		}
		truth = sim.Truth()
	})
	return runs, truth
}

// Ollama has no part: it tells no cached tokens, so that no cached prompt can be relied on.
func TestNeedleIsFound(t *testing.T) {
	told := simserver.Options{CacheReport: true, SpecMetrics: true}
	for _, s := range []struct {
		shape   string
		apis    []inference.API
		options simserver.Options
	}{
		{"sglang", []inference.API{inference.Native, inference.Completions, inference.Chat}, told},
		{"sglang", []inference.API{inference.Native}, simserver.Options{NoTokenizer: true}},
		{"vllm", []inference.API{inference.Completions, inference.Chat}, told},
		{"llamacpp", []inference.API{inference.AutoAPI}, told},
		{"trtllm", []inference.API{inference.Completions, inference.Chat}, told},
		{"lmdeploy", []inference.API{inference.Native, inference.Chat}, told},
		{"openai", []inference.API{inference.Completions, inference.Chat}, told},
	} {
		for _, api := range s.apis {
			t.Run(s.shape+"/"+string(api), func(t *testing.T) {
				runs, _ := needleRuns(t, simserver.Config{Shape: s.shape, Options: s.options},
					func(x *prober.Target) { x.API, x.Plan = api, prober.Triple }, 4096, 16384, 131072)
				for _, r := range runs {
					if r.Needle == nil || !r.Needle.Found || r.FirstTokens.Compared == 0 || r.FirstTokens.Different > 0 {
						t.Errorf("%s: needle %+v, first tokens %+v", r.Rung, r.Needle, r.FirstTokens)
					}
				}
			})
		}
	}
}

// between is a range of counts that chance allows, both ends included.
type between struct{ least, most int }

func (b between) holds(n int) bool { return n >= b.least && n <= b.most }

func TestNeedleFindsOut(t *testing.T) {
	unable, fading := profile(t, "fast-8b"), profile(t, "fast-8b")
	unable.RecallShort, unable.RecallLong = 0, 0
	fading.RecallLong = 0.2
	times, some := 24, between{1, 23}
	if testing.Short() {
		times, some = 4, between{0, 4}
	}
	all, most, none := between{times, times}, between{times - 4, times}, between{0, 0}
	for name, tt := range map[string]struct {
		profile     simserver.Profile
		faults      simserver.Faults
		short, long between // found
	}{
		"sound":          {profile(t, "fast-8b"), simserver.Faults{}, all, all},
		"middle is cut":  {profile(t, "fast-8b"), simserver.Faults{SeenEnds: 100}, all, none},
		"sliding window": {profile(t, "fast-8b"), simserver.Faults{Window: 4000}, all, none},
		"fading":         {fading, simserver.Faults{}, most, some},
		"base model":     {unable, simserver.Faults{}, none, none},
	} {
		t.Run(name, func(t *testing.T) {
			found := map[prober.Rung]int{}
			var rungs []prober.Rung
			for range times {
				rungs = append(rungs, 1024, 131072)
			}
			runs, _ := needleRuns(t, simserver.Config{Shape: "sglang", Profile: tt.profile, Faults: tt.faults},
				func(x *prober.Target) { x.Plan, x.Ladder = prober.Triple, []prober.Rung{1024, 131072} }, rungs...)
			for _, r := range runs {
				if r.Needle == nil {
					t.Fatalf("%s: not asked", r.Rung)
				}
				if r.Needle.Found {
					found[r.Rung]++
				}
			}
			if !tt.short.holds(found[1024]) || !tt.long.holds(found[131072]) {
				t.Errorf("found %v, want %v and %v", found, tt.short, tt.long)
			}
		})
	}
}

// The question comes after the measurement: with and without it, the same server measures the same, to the last digit.
func TestNeedleChangesNoMeasurement(t *testing.T) {
	for _, shape := range []string{"sglang", "vllm", "llamacpp"} {
		for _, rung := range []prober.Rung{1024, 16384, 131072} {
			c := simserver.Config{Shape: shape, Options: simserver.Options{CacheReport: true, SpecMetrics: true}}
			with, truth := needleRuns(t, c, nil, rung)
			without, _ := needleRuns(t, c, func(x *prober.Target) { x.Needle = false }, rung)
			if difference := cmp.Diff(without[0].Sample, with[0].Sample); difference != "" {
				t.Errorf("%s %s:\n%s", shape, rung, difference)
			}
			if without[0].Needle != nil || with[0].Needle == nil || len(with[0].Legs) != len(without[0].Legs) {
				t.Fatalf("%s %s: needle %v and %v", shape, rung, with[0].Needle, without[0].Needle)
			}
			cost, extra := truth[len(truth)-1], with[0].Duration-without[0].Duration
			if cost.RecomputedTokens > 400 || extra > without[0].Duration/6 || extra.Seconds() < cost.TotalSeconds*0.99 {
				t.Errorf("%s %s: computed %d tokens in %.3g s; the run of %v is %v longer", shape, rung,
					cost.RecomputedTokens, cost.TotalSeconds, without[0].Duration, extra)
			}
		}
	}
}

func TestNeedleIsCountedBeforeTheNextRun(t *testing.T) {
	for _, shape := range []string{"sglang", "vllm"} {
		runs, _ := needleRuns(t, simserver.Config{Shape: shape, Options: simserver.Options{CacheReport: true, SpecMetrics: true}}, nil, 1024, 8192, 1024, 8192)
		for _, r := range runs {
			if r.Sample.Isolation != prober.Proved {
				t.Errorf("%s %s: isolation is %s", shape, r.Rung, r.Sample.Isolation)
			}
		}
	}
}

func TestNeedleIsNotAsked(t *testing.T) {
	fast := simserver.Config{Shape: "sglang"}
	for name, tt := range map[string]struct {
		config simserver.Config
		change func(*prober.Target)
		rung   prober.Rung
	}{
		"cold pairs":          {fast, func(x *prober.Target) { x.Plan = prober.Pair }, 1024},
		"no prefix cache":     {simserver.Config{Shape: "sglang", Faults: simserver.Faults{NoPrefixCache: true}}, nil, 8192},
		"prompt of a few":     {fast, nil, 500},
		"later than the next": {fast, func(x *prober.Target) { x.Intervals.Default = time.Second }, 8192},
		"not wanted":          {fast, func(x *prober.Target) { x.Needle = false }, 1024},
	} {
		t.Run(name, func(t *testing.T) {
			runs, _ := needleRuns(t, tt.config, tt.change, tt.rung)
			if runs[0].Needle != nil {
				t.Errorf("asked: %+v", runs[0].Needle)
			}
		})
	}
}

func TestFirstTokens(t *testing.T) {
	runs, _ := needleRuns(t, simserver.Config{Shape: "vllm", Faults: simserver.Faults{FlipFirstToken: 0.3}}, nil, 1024, 8192, 1024, 8192)
	compared, different := 0, 0
	for _, r := range runs {
		compared += r.FirstTokens.Compared
		different += r.FirstTokens.Different
	}
	if compared < 8 || different == 0 || different == compared {
		t.Errorf("%d of %d first tokens differ", different, compared)
	}
}
