package prober_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"

	"longctx_exporter/collector"
	"longctx_exporter/collector/servermetrics"
	"longctx_exporter/prober"
	"longctx_exporter/prober/simserver"
)

var (
	detectionDays  = flag.Int("detection.days", 0, "days before the deployment and after it, on the default ladder; 0 is half a day of two rungs")
	detectionDraws = flag.Int("detection.draws", 5, "how often all of that is lived through")
)

const (
	slower   = 1.30 // how much slower attention is after the deployment
	alarming = 1.25 // what of it the alert waits for
)

// watch sees when the confirmed step time of each rung is first as far up as an alert waits for.
type watch struct {
	t        *testing.T
	series   *collector.Collector
	interval func(prober.Rung) time.Duration
	ladder   []prober.Rung
	patient  bool // confirmations are not looked at, as if there were none: the ladder does not wait for them

	clean    map[prober.Rung][]float64 // before the deployment
	deployed time.Time
	crossed  map[prober.Rung]time.Duration // since then
}

func newWatch(t *testing.T, target prober.Target, patient bool) *watch {
	t.Helper()
	series, err := collector.New([]prober.Target{target})
	if err != nil {
		t.Fatal(err)
	}
	return &watch{
		t: t, series: series, ladder: target.Ladder, patient: patient,
		clean: map[prober.Rung][]float64{}, crossed: map[prober.Rung]time.Duration{},
	}
}

func (w *watch) ObserveRun(run prober.Run) {
	if w.patient && run.Confirmation {
		return
	}
	w.series.ObserveRun(run)
	if run.Status != prober.Accepted {
		return
	}
	if w.deployed.IsZero() {
		w.clean[run.Rung] = append(w.clean[run.Rung], run.Sample.Step)
		return
	}
	for _, r := range w.ladder {
		w.series.SetInterval("sim", r, w.interval(r))
	}
	if _, done := w.crossed[run.Rung]; !done && w.confirmed(run.Rung) >= alarming*w.usual(run.Rung) {
		w.crossed[run.Rung] = time.Since(w.deployed)
	}
}

// usual is the median before the deployment.
func (w *watch) usual(r prober.Rung) float64 {
	steps := slices.Sorted(slices.Values(w.clean[r]))
	if len(steps) == 0 {
		w.t.Fatalf("%s was not measured before the deployment", r)
	}
	return steps[len(steps)/2]
}

// confirmed reads the gauge, 0 where it is absent.
func (w *watch) confirmed(r prober.Rung) float64 {
	families, err := w.series.Gatherer().Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "longctx_step_confirmed_seconds" && l.GetName() == "context" && l.GetValue() == r.Context() {
					return m.GetGauge().GetValue()
				}
			}
		}
	}
	return 0
}

// detect lives through the time before a deployment that makes attention slower, and the time after it.
func detect(t *testing.T, target func(prober.Target) prober.Target, before, after time.Duration, seed uint64) (with, without *watch, confirmations map[string]int, every map[prober.Rung]time.Duration) {
	confirmations, every = map[string]int{}, map[prober.Rung]time.Duration{}
	synctest.Test(t, func(t *testing.T) {
		_, base := simulated(t, simserver.Config{
			Shape: "sglang", Profile: profile(t, "kimi-k2.6-ddtree"), Seed: seed, Options: simserver.Options{CacheReport: true, SpecMetrics: true},
			Deploys: []simserver.Deploy{{
				At: before, Gone: 5 * time.Second, Loading: 2 * time.Minute, WarmupSlow: 3, Change: simserver.Change{StepSlope: slower},
			}},
		})
		target := target(base)
		with, without = newWatch(t, target, false), newWatch(t, target, true)
		runner := prober.RunnerOf(t, target, servermetrics.New)
		began := time.Now()
		s := prober.NewScheduler([]prober.Target{target}, func(ctx context.Context, _ prober.Target, r prober.Rung, earlier string) prober.Run {
			if time.Since(began) >= before {
				with.deployed, without.deployed = began.Add(before), began.Add(before)
			}
			return runner.Confirm(ctx, r, earlier, nil)
		}, everybody{with, without, counting(func(run prober.Run) {
			if run.Confirmation && run.Status != prober.Skipped {
				confirmations["all"]++
				confirmations[string(run.Plan)]++
			}
		})}, log.NewNopLogger())
		with.interval = func(r prober.Rung) time.Duration { return s.EffectiveInterval("sim", r) }
		without.interval = with.interval
		ctx, cancel := context.WithTimeout(t.Context(), before+after)
		defer cancel()
		s.Run(ctx)
		for _, r := range target.Ladder {
			every[r] = with.interval(r)
		}
	})
	return with, without, confirmations, every
}

// everybody are observers of the same runs.
type everybody []prober.RunObserver

func (e everybody) ObserveRun(run prober.Run) {
	for _, o := range e {
		o.ObserveRun(run)
	}
}

type counting func(prober.Run)

func (f counting) ObserveRun(run prober.Run) { f(run) }

// TestDetection measures how long it takes until it is certain that attention became slower: with confirmations and without.
func TestDetection(t *testing.T) {
	if *detectionDays > 0 {
		t.Logf("\n%s", detectionTable(t))
		return
	}
	const every = time.Hour
	with, without, confirmations, _ := detect(t, func(target prober.Target) prober.Target {
		target.Ladder, target.Budget = []prober.Rung{1024, 65536}, 0.2
		target.Intervals = prober.PerRung[time.Duration]{Default: every}
		return target
	}, 12*time.Hour, 6*time.Hour, 11)
	soon, late := with.crossed[65536], without.crossed[65536]
	t.Logf("64k: certain after %v with confirmations %v, after %v without", soon, confirmations, late)
	if n := confirmations["all"]; soon == 0 || soon > late-every || n < 2 || n > 4 || confirmations["warm"] < n-1 {
		t.Errorf("certain after %v with confirmations %v, after %v without", soon, confirmations, late)
	}
	if len(with.crossed)+len(without.crossed) != 2 {
		t.Errorf("certain of %v and %v, though 1k hardly changed", with.crossed, without.crossed)
	}
}

// detectionTable is for the default ladder, intervals and budget: the median of some draws, each of which begins elsewhere in the
// cycles of the rungs.
func detectionTable(t *testing.T) string {
	during := time.Duration(*detectionDays) * 24 * time.Hour
	ladder := prober.DefaultLadder()
	without, with := map[prober.Rung][]time.Duration{}, map[prober.Rung][]time.Duration{}
	every := map[prober.Rung][]time.Duration{}
	for draw := range *detectionDraws {
		soon, late, confirmations, intervals := detect(t, func(target prober.Target) prober.Target {
			target.Ladder, target.Budget = ladder, 0.02
			target.Intervals = prober.PerRung[time.Duration]{Rungs: map[prober.Rung]time.Duration{}}
			for _, r := range ladder {
				target.Intervals.Rungs[r] = prober.DefaultInterval(r)
			}
			return target
		}, during+time.Duration(draw)*5*time.Hour, during, uint64(draw+11))
		for _, r := range ladder {
			without[r], with[r] = append(without[r], late.since(r)), append(with[r], soon.since(r))
			every[r] = append(every[r], intervals[r])
		}
		t.Logf("draw %d: confirmations %v, certain after %v without them, %v with them", draw+1, confirmations, late.crossed, soon.crossed)
	}
	var table strings.Builder
	table.WriteString("| rung | the budget lets it run every | certain after, without confirmations | with them |\n|---:|---:|---:|---:|\n")
	for _, r := range ladder {
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", r, hours(every[r]), hours(without[r]), hours(with[r]))
	}
	return table.String()
}

// never is longer than any wait.
const never = time.Duration(math.MaxInt64)

// since is how long after the deployment a rung was certain.
func (w *watch) since(r prober.Rung) time.Duration {
	if d, ok := w.crossed[r]; ok {
		return d
	}
	return never
}

// hours is the median.
func hours(all []time.Duration) string {
	slices.Sort(all)
	d := all[len(all)/2]
	if d == never {
		return "-"
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}
