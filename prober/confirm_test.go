package prober_test

import (
	"context"
	"math"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"longctx_exporter/collector/servermetrics"
	"longctx_exporter/prober"
	"longctx_exporter/prober/simserver"
)

const confirmedRung = prober.Rung(32768)

// confirming is a run of a rung on a server of some shape, what happens then, and the confirmation of that run.
type confirming struct {
	name     string
	shapes   []string // nil is all three
	short    bool     // also where tests must be short
	faults   simserver.Faults
	seeds    int // 0 is 1
	needle   bool
	text     bool                                // prompts are not made of ids
	earlier  string                              // confirmed instead of the run
	then     func(t *testing.T, c *confirmation) // nil for nothing
	want     []prober.Plan                       // of the confirmation, one of these
	rejected []prober.Reason                     // how it may end instead
	check    func(*testing.T, *confirmation)     // nil for nothing
}

// confirmation is such a scene while it is played.
type confirmation struct {
	sim    *simserver.Server
	runner *prober.Runner
	others func(promptTokens int)   // somebody else's request
	run    prober.Run               // what is confirmed
	again  prober.Run               // by this
	truth  []simserver.TruthRequest // of its legs, where it is accepted
}

// evict makes somebody ask for so many tokens, which push others out of a pool of 50,000.
func evict(tokens int) func(*testing.T, *confirmation) {
	return func(_ *testing.T, c *confirmation) { c.others(tokens) }
}

func confirmingScenes() []confirming {
	warm, whole := []prober.Plan{prober.Warm}, []prober.Plan{prober.Triple}
	hidden := simserver.Faults{HideCached: true}
	several := []string{"sglang", "vllm"} // prompts may stay in part
	isCheap := func(t *testing.T, c *confirmation) {
		if c.again.Duration > c.run.Duration/2 || slices.ContainsFunc(c.truth, func(r simserver.TruthRequest) bool { return r.RecomputedTokens > 64 }) {
			t.Errorf("it took %v of the server, the run %v: %+v", c.again.Duration, c.run.Duration, c.truth)
		}
		if next := c.runner.Confirm(t.Context(), confirmedRung, c.again.ID, nil); next.Plan != prober.Warm || next.Status != prober.Accepted {
			t.Errorf("the second confirmation: %s %s %s (%s)", next.Plan, next.Status, next.Reason, next.Message)
		}
	}
	firstIsCold := func(t *testing.T, c *confirmation) {
		if l := c.again.Legs[0]; l.Kind != "cold" || c.again.Sample.TTFT == 0 || c.again.Sample.Prefill == 0 {
			t.Errorf("the leg that found nothing in the cache is %+v", l)
		}
	}
	isDiscarded := func(t *testing.T, c *confirmation) {
		if !c.again.Legs[0].Discarded {
			t.Error("the leg that brought the prompt back is in the sample")
		}
	}
	return []confirming{
		{name: "still there", want: warm, check: isCheap, short: true},
		{name: "still there, hidden", faults: hidden, want: warm, check: isCheap},
		{name: "still there, told as 0", faults: simserver.Faults{ZeroCached: true}, want: warm, check: isCheap},
		{name: "still there, text", text: true, want: warm, check: isCheap},
		{name: "a planted fact, text", text: true, needle: true, want: warm, check: isCheap},
		{name: "evicted", then: evict(49_500), want: whole, check: firstIsCold, short: true},
		{name: "evicted, hidden", faults: hidden, then: evict(49_500), want: whole, check: firstIsCold},
		{name: "half evicted", shapes: several, then: evict(35_000), want: warm, check: isDiscarded},
		{name: "half evicted, hidden", shapes: several, faults: hidden, then: evict(35_000), want: warm, check: isDiscarded},
		{name: "almost evicted", shapes: several, then: evict(48_700), want: warm, check: isDiscarded},
		{name: "almost evicted, hidden", faults: hidden, then: evict(48_700), want: whole, check: firstIsCold},
		{name: "evicted by chance", faults: simserver.Faults{PartialEvict: 0.1}, seeds: 8, want: []prober.Plan{prober.Warm, prober.Triple, prober.Pair}, rejected: []prober.Reason{prober.CacheMiss}},
		{name: "no prefix cache", faults: simserver.Faults{NoPrefixCache: true}, want: []prober.Plan{prober.Pair, prober.Triple}, rejected: []prober.Reason{prober.CacheMiss}},
		{name: "another run's", earlier: "another", want: whole},
		{name: "a planted fact", needle: true, want: warm, check: func(t *testing.T, c *confirmation) {
			if c.again.Needle != nil {
				t.Error("the same prompt was asked again for its fact")
			}
		}},
		{name: "a planted fact, evicted", needle: true, then: evict(49_500), want: whole, check: func(t *testing.T, c *confirmation) {
			if c.again.Needle == nil || !c.again.Needle.Found {
				t.Errorf("the fact in the prompt of before was not found: %+v", c.again.Needle)
			}
		}},
		{name: "others come", rejected: []prober.Reason{prober.Contended, prober.Yielded, prober.Inconsistent}, short: true, then: func(_ *testing.T, c *confirmation) {
			go func() {
				time.Sleep(300 * time.Millisecond)
				c.others(16_384)
			}()
		}},
		{name: "deployed", rejected: []prober.Reason{prober.ColdStart}, short: true, then: func(t *testing.T, c *confirmation) {
			if err := c.sim.Deploy(simserver.Deploy{Loading: time.Second, Change: simserver.Change{StepSlope: 1.3}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}, check: func(t *testing.T, c *confirmation) {
			for range 4 {
				time.Sleep(time.Minute)
				run := c.runner.Confirm(t.Context(), confirmedRung, c.run.ID, nil)
				if run.Plan == prober.Warm {
					t.Error("the prompt of before the deployment was sent again")
				}
				if run.Status == prober.Accepted {
					return
				}
			}
			t.Error("no clean run after the deployment")
		}},
	}
}

// TestConfirmOnACachedPrompt confirms runs on the prompt that they left in the server's cache, or did not.
func TestConfirmOnACachedPrompt(t *testing.T) {
	for _, s := range confirmingScenes() {
		if s.shapes == nil {
			s.shapes = []string{"sglang", "vllm", "llamacpp"}
		}
		if testing.Short() {
			s.shapes = s.shapes[:btoi(s.short)]
		}
		for _, shape := range s.shapes {
			t.Run(s.name+"/"+shape, func(t *testing.T) {
				for seed := range max(1, s.seeds) {
					synctest.Test(t, func(t *testing.T) { s.play(t, shape, uint64(seed)+7) })
				}
			})
		}
	}
}

func (s confirming) play(t *testing.T, shape string, seed uint64) {
	p := profile(t, "fast-8b")
	p.PoolTokens = 50_000
	sim, target := simulated(t, simserver.Config{
		Shape: shape, Profile: p, Seed: seed, Faults: s.faults, Options: simserver.Options{CacheReport: true, SpecMetrics: true, NoTokenizer: s.text},
	})
	target.Ladder, target.AllowEviction, target.Needle = []prober.Rung{confirmedRung}, true, s.needle
	runner := prober.RunnerOf(t, target, servermetrics.New)
	v := &visitor{shape: shape, client: &http.Client{Transport: &http.Transport{DialContext: target.Dial, DisableKeepAlives: true}}}
	c := &confirmation{sim: sim, runner: runner, others: func(tokens int) { v.come(context.Background(), tokens, 2, time.Hour) }}
	if c.run = runner.Run(t.Context(), confirmedRung, nil); c.run.Status != prober.Accepted {
		t.Fatalf("the run to confirm: %s %s (%s)", c.run.Status, c.run.Reason, c.run.Message)
	}
	time.Sleep(time.Minute)
	if s.then != nil {
		s.then(t, c)
	}
	from := len(sim.Truth())
	earlier := c.run.ID
	if s.earlier != "" {
		earlier = s.earlier
	}
	var sent []string
	c.again = runner.Confirm(t.Context(), confirmedRung, earlier, func(p prober.Progress) {
		if p.Ended {
			sent = append(sent, p.Kind)
		}
	})
	s.judge(t, c, sim.Truth()[from:], sent)
	if s.check != nil {
		s.check(t, c)
	}
	time.Sleep(5 * time.Minute) // until the others are done
}

// judge sees that the confirmation ended as it should, and that it says nothing but what is true.
func (s confirming) judge(t *testing.T, c *confirmation, truth []simserver.TruthRequest, sent []string) {
	run, sample := c.again, c.again.Sample
	t.Logf("%s %s %s (%s), %d pairs, %v of the server, %v before", run.Plan, run.Status, run.Reason, run.Message, sample.Pairs, run.Duration, c.run.Duration)
	if run.Status != prober.Accepted {
		if !slices.Contains(s.rejected, run.Reason) {
			t.Errorf("%s %s (%s)", run.Status, run.Reason, run.Message)
		}
		if sample.TTFT != 0 || sample.Prefill != 0 || sample.Step != 0 {
			t.Errorf("a run that was not accepted measured %+v", sample)
		}
		return
	}
	if !slices.Contains(s.want, run.Plan) {
		t.Errorf("the plan is %q, want one of %q", run.Plan, s.want)
	}
	c.truth = legTruth(truth, sent)[:len(run.Legs)]
	o := compareWithTruth(run, c.truth)
	if !o.steps || math.Abs(o.step) > 0.02 || !o.histogram {
		t.Errorf("the step is %.2f %% off, or the histogram is: %+v", 100*o.step, sample)
	}
	if run.Plan == prober.Warm {
		if sample.TTFT != 0 || sample.Prefill != 0 {
			t.Errorf("warm pairs alone give a TTFT of %v and %v tokens per second of prefill", sample.TTFT, sample.Prefill)
		}
		return
	}
	if math.Abs(o.prefill) > 0.02 {
		t.Errorf("prefill is %.2f %% off", 100*o.prefill)
	}
}
