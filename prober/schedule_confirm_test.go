package prober

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"

	"longctx_exporter/prober/inference"
)

// Of a run, and of the warm legs in it, which are all of a warm one.
const (
	wholeTakes = 100 * time.Second
	pairsTake  = 10 * time.Second
)

// turning plays the runner of a server whose rungs turn slower at their sixth runs.
type turning struct {
	plan Plan
	slow func(*Sample)
	busy func() bool // nil for never

	n    map[Rung]int
	sent map[string]string // for each run, by its ID, whose prompt it was to send again
}

func (s *turning) run(ctx context.Context, t Target, r Rung, earlier string) Run {
	s.n[r]++
	id := fmt.Sprintf("%s #%d", r, s.n[r])
	s.sent[id] = earlier
	if s.n[r] > 6 && s.busy != nil && s.busy() {
		s.n[r]--
		return Run{ID: id, Target: t.Name, Rung: r, Started: time.Now(), Status: Skipped, Reason: Busy}
	}
	took, plan, sample := wholeTakes, s.plan, Sample{Step: 2, TTFT: 50, Prefill: 1000}
	if earlier != "" {
		took, plan, sample = pairsTake, Warm, Sample{Step: 2}
	}
	run := fakeRun(ctx, t, r, took)
	run.ID, run.Plan, run.Sample = id, plan, sample
	if s.n[r] >= 6 {
		s.slow(&run.Sample)
	}
	if plan != Pair {
		run.Legs = []Leg{{Kind: warm, Response: inference.Response{Total: pairsTake}}}
	}
	return run
}

// live runs rungs every four hours; confirmed are the confirmations that were sent, and every the forecast of the time from run to
// run.
func (s *turning) live(t *testing.T, budget float64, rungs ...Rung) (confirmed []Run, all *diary, every time.Duration) {
	s.n, s.sent = map[Rung]int{}, map[string]string{}
	intervals := map[Rung]time.Duration{}
	for _, r := range rungs {
		intervals[r] = 4 * time.Hour
	}
	target := testTarget("a", "s", budget, intervals)
	all = &diary{}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*24*time.Hour)
		defer cancel()
		scheduler := NewScheduler([]Target{target}, s.run, all, log.NewNopLogger())
		scheduler.Run(ctx)
		every = scheduler.EffectiveInterval("a", rungs[0])
	})
	return confirmationsIn(all), all, every
}

func slowSteps(s *Sample) { s.Step *= 1.3 }

// TestWarmConfirmations sees whose prompt the confirmations of a change send again.
func TestWarmConfirmations(t *testing.T) {
	const r = Rung(131072)
	for name, test := range map[string]struct {
		plan Plan
		slow func(*Sample)
		busy time.Duration // from the change on
		want []string      // "" is a whole run
	}{
		"slower steps":           {Triple, slowSteps, 0, []string{"128k #6", "128k #7"}},
		"slower steps of a pair": {Pair, slowSteps, 0, []string{"", ""}},
		"a slower first token":   {Triple, func(s *Sample) { s.TTFT *= 1.3 }, 0, []string{"", ""}},
		"slower prefill":         {Triple, func(s *Sample) { s.Prefill /= 1.3 }, 0, []string{"", ""}},
		"all slower":             {Triple, func(s *Sample) { s.Step, s.TTFT, s.Prefill = 1.3*s.Step, 1.3*s.TTFT, s.Prefill/1.3 }, 0, []string{"", ""}},
		"busy for a few minutes": {Triple, slowSteps, 5 * time.Minute, []string{"128k #6", "128k #7"}},
		"busy for half an hour":  {Triple, slowSteps, 30 * time.Minute, []string{"", "128k #7"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &turning{plan: test.plan, slow: test.slow}
			var turned time.Time
			s.busy = func() bool {
				if turned.IsZero() {
					turned = time.Now()
				}
				return time.Since(turned) < test.busy
			}
			confirmed, _, _ := s.live(t, 0.5, r)
			var got []string
			for _, run := range confirmed {
				got = append(got, s.sent[run.ID])
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("confirmations send the prompts of %q again, want %q", got, test.want)
			}
		})
	}
}

// TestWarmConfirmationsAreAffordable finds more of them in the budget than of whole runs, the ladder's forecasts free of what they
// cost, and the budget kept.
func TestWarmConfirmationsAreAffordable(t *testing.T) {
	const budget = 0.02
	rungs := []Rung{32768, 65536, 131072}
	for plan, want := range map[Plan]int{Triple: 2 * len(rungs), Pair: 2} {
		s := &turning{plan: plan, slow: slowSteps}
		confirmed, all, every := s.live(t, budget, rungs...)
		atOnce := 0
		for _, c := range confirmed {
			surprise := all.of("a", c.Rung, Accepted)[5]
			if c.Started.Sub(surprise.Started) < 10*time.Minute {
				atOnce++
			}
		}
		if atOnce != want {
			t.Errorf("%s: %d confirmations at once, want %d", plan, atOnce, want)
		}
		// Three rungs share three quarters of the budget.
		if want := 4 * price(wholeTakes, budget); every < want*9/10 || every > want*11/10 {
			t.Errorf("%s: runs are forecast every %v, want %v", plan, every, want)
		}
		if used := fullest(all.runs, budgetWindow); used > (1+tolerance)*budget {
			t.Errorf("%s: runs took %.4f of a day", plan, used)
		}
	}
}
