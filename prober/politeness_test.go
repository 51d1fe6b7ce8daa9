package prober_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"

	"longctx_exporter/collector/servermetrics"
	"longctx_exporter/prober"
	"longctx_exporter/prober/simserver"
)

var politenessHours = flag.Int("politeness.hours", 1, "simulated hours of each row of the table of politeness")

// traffic is what people ask of a server: short questions behind a few system prompts, some documents, clients that give up.
func traffic(rate float64) []simserver.Background {
	return []simserver.Background{
		{Rate: 0.8 * rate, PromptTokens: [2]int{100, 1500}, OutputTokens: [2]int{40, 400}, Prefixes: 4, PrefixTokens: [2]int{500, 2000}, AbortShare: 0.02},
		{Rate: 0.2 * rate, PromptTokens: [2]int{2000, 12000}, OutputTokens: [2]int{100, 600}},
	}
}

// ledgerOfRuns counts how runs end.
type ledgerOfRuns struct {
	mu   sync.Mutex
	ends map[string]int
	busy time.Duration
}

func (l *ledgerOfRuns) ObserveRun(r prober.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := string(r.Status)
	if r.Reason != "" {
		end = string(r.Reason)
	}
	if r.Reason == prober.OverBudget || r.Reason == prober.PreviousRunning {
		return
	}
	l.ends[end]++
	l.busy += r.Duration
}

func (l *ledgerOfRuns) String() string {
	var words []string
	for _, end := range slices.Sorted(maps.Keys(l.ends)) {
		words = append(words, fmt.Sprintf("%s %d", end, l.ends[end]))
	}
	return strings.Join(words, ", ")
}

// TestPoliteness measures what real requests feel of the prober at a budget of 2 %: three loads, each with the same arrivals with
// and without it. It prints a table; what it demands is that probes let past whom they delay.
func TestPoliteness(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "%-22s %-6s %6s | %8s %8s | %8s %8s | %6s | runs\n", "traffic", "prober", "asked", "ttft p50", "p99", "step p50", "p99", "share")
	for _, load := range []struct {
		name string
		rate float64
	}{{"a request in 5 min", 1.0 / 300}, {"a request in 1 min", 1.0 / 60}, {"a request in 30 s", 1.0 / 30}} {
		off, _ := feel(t, load.rate, false)
		on, runs := feel(t, load.rate, true)
		hours := time.Duration(*politenessHours) * time.Hour
		row := func(prober string, f simserver.Felt, share float64, runs string) {
			fmt.Fprintf(&table, "%-22s %-6s %6d | %8.2f %8.2f | %8.3f %8.3f | %5.2f%% | %s\n", load.name, prober, f.TTFT.N, f.TTFT.P50, f.TTFT.P99,
				f.Gap.P50, f.Gap.P99, 100*share, runs)
		}
		row("off", off, 0, "")
		row("on", on, float64(runs.busy)/float64(hours), runs.String())
		fmt.Fprintf(&table, "%-22s %-6s %6s | %+7.1f%% %+7.1f%% | %+7.1f%% %+7.1f%%\n", "", "added", "", more(off.TTFT.P50, on.TTFT.P50), more(off.TTFT.P99, on.TTFT.P99),
			more(off.Gap.P50, on.Gap.P50), more(off.Gap.P99, on.Gap.P99))
		// A prefill chunk that has begun is finished first; whoever comes then waits for it.
		if late := on.TTFT.Max - off.TTFT.Max; late > 30 {
			t.Errorf("%s: somebody waited %.1f s for the first token beside the prober, %.1f s at most without it", load.name, on.TTFT.Max, off.TTFT.Max)
		}
	}
	t.Logf("what real requests feel, in seconds\n%s", table.String())
}

func more(off, on float64) float64 { return 100 * (on/off - 1) }

// feel lives through some hours of traffic.
func feel(t *testing.T, rate float64, probed bool) (felt simserver.Felt, runs *ledgerOfRuns) {
	runs = &ledgerOfRuns{ends: map[string]int{}}
	synctest.Test(t, func(t *testing.T) {
		sim, target := simulated(t, simserver.Config{
			Shape: "sglang", Profile: profile(t, "kimi-k2.6-ddtree"), Seed: 7, Traffic: traffic(rate), Options: simserver.Options{CacheReport: true, SpecMetrics: true},
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(*politenessHours)*time.Hour)
		defer cancel()
		target.Ladder, target.Budget, target.AllowEviction = prober.DefaultLadder(), 0.02, true // or long rungs would wait
		target.Intervals = prober.PerRung[time.Duration]{Rungs: map[prober.Rung]time.Duration{}}
		for _, r := range target.Ladder {
			target.Intervals.Rungs[r] = prober.DefaultInterval(r)
		}
		runner := prober.RunnerOf(t, target, servermetrics.New)
		if probed {
			prober.NewScheduler([]prober.Target{target}, func(ctx context.Context, _ prober.Target, r prober.Rung, earlier string) prober.Run {
				return runner.Confirm(ctx, r, earlier, nil)
			}, runs, log.NewNopLogger()).Run(ctx)
		}
		<-ctx.Done()
		felt = sim.BackgroundFelt(0, 0)
	})
	return felt, runs
}
