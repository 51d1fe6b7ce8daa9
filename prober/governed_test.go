package prober_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"

	"longctx_exporter/collector/servermetrics"
	"longctx_exporter/prober"
	"longctx_exporter/prober/simserver"
)

// TestGovernedRuns lets real runs of two targets share a slow server for two days: every rung is seen early, requests never
// overlap, and the server is occupied no more than the budget says, as it knows itself.
func TestGovernedRuns(t *testing.T) {
	const budget, days = 0.02, 2
	synctest.Test(t, func(t *testing.T) {
		sim, target := simulated(t, simserver.Config{Shape: "sglang", Profile: profile(t, "kimi-k2.6-ddtree"), Seed: 3})
		target.Ladder, target.Budget = []prober.Rung{1024, 16384, 65536, 131072, 196608}, budget
		target.AllowEviction = true // what one target leaves in the pool is another's prefix to the other
		target.Intervals = prober.PerRung[time.Duration]{Default: 30 * time.Minute}
		other := target
		other.Name, other.Ladder = "other", []prober.Rung{8192}
		runners := map[string]*prober.Runner{}
		for _, x := range []prober.Target{target, other} {
			runners[x.Name] = prober.RunnerOf(t, x, servermetrics.New)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), days*24*time.Hour)
		defer cancel()
		runs := &everyRun{}
		s := prober.NewScheduler([]prober.Target{target, other}, func(ctx context.Context, x prober.Target, r prober.Rung, earlier string) prober.Run {
			return runners[x.Name].Confirm(ctx, r, earlier, nil)
		}, runs, log.NewNopLogger())
		s.Run(ctx)

		first := map[prober.Rung]time.Duration{}
		var lastDay float64
		for _, r := range runs.runs {
			if r.Status == prober.Skipped {
				continue
			}
			if _, seen := first[r.Rung]; !seen {
				first[r.Rung] = r.Started.Sub(began)
			}
			lastDay += max(0, min(r.Duration, r.Started.Add(r.Duration).Sub(began.Add((days-1)*24*time.Hour)))).Seconds()
		}
		if len(first) != 6 || first[196608] > 20*time.Minute {
			t.Errorf("the rungs were first run after %v", first)
		}
		served, end := 0.0, 0.0
		for _, q := range sim.Truth() {
			if q.Received < end-1e-3 {
				t.Fatalf("a request came at %.1f s though one was going on until %.1f s", q.Received, end)
			}
			end = q.Received + q.TotalSeconds
			served += q.TotalSeconds
		}
		if share := served / (days * 24 * time.Hour).Seconds(); share > 1.1*budget || share < 0.5*budget {
			t.Errorf("the server was occupied for %.4f of the time, budget %v", share, budget)
		}
		if share := lastDay / (24 * time.Hour).Seconds(); share > 1.1*budget {
			t.Errorf("runs took %.4f of the last day, budget %v", share, budget)
		}
		if used, want := s.BudgetUsed("other"), lastDay/(24*time.Hour).Seconds()/budget; math.Abs(used-want) > 0.02 {
			t.Errorf("%.4f of the budget is said to be used, it is %.4f", used, want)
		}
	})
}

// everyRun keeps all runs.
type everyRun struct{ runs []prober.Run }

func (e *everyRun) ObserveRun(r prober.Run) { e.runs = append(e.runs, r) } // one server, one goroutine

// TestEviction fills a server's pool with what people ask, and sees whether long rungs push that out.
func TestEviction(t *testing.T) {
	for name, allow := range map[string]bool{"default": false, "allowed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim, target := simulated(t, simserver.Config{
					Shape: "sglang", Profile: profile(t, "kimi-k2.6-ddtree"), Seed: 5,
					Background: simserver.Background{Rate: 1.0 / 120, PromptTokens: [2]int{4000, 12000}, OutputTokens: [2]int{10, 50}},
				})
				target.Ladder, target.AllowEviction = []prober.Rung{1024, 131072}, allow
				runner := prober.RunnerOf(t, target, servermetrics.New)
				time.Sleep(3 * time.Hour) // some 90 documents of 8,000 tokens in a pool of 218,484
				var ends []prober.Reason
				for range 4 {
					run := runner.Run(t.Context(), 131072, nil)
					ends = append(ends, run.Reason)
					time.Sleep(3 * time.Minute)
				}
				pushed := 0
				for _, q := range sim.Truth() {
					if !q.Background {
						pushed += q.EvictedBackground
					}
				}
				full := 0
				for _, end := range ends {
					if end == prober.PoolFull {
						full++
					}
				}
				switch {
				case allow && (full > 0 || pushed < 50_000):
					t.Errorf("runs ended %q and pushed out %d tokens", ends, pushed)
				case !allow && (full < 3 || pushed > 11_000): // a run that finds the server busy does not look at the pool
					t.Errorf("runs ended %q and pushed out %d tokens", ends, pushed)
				}
			})
		})
	}
}
