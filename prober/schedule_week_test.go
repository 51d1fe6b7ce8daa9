package prober

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"
)

// week is a simulated week of many targets on a few servers.
type week struct {
	targets map[string]Target
	speeds  map[string]float64 // of each server, relative to a slow one
	diary   *diary
	epochs  map[string]time.Time // when the schedule of a target last began anew
	faults  []string             // seen while it went on
	busy    map[string]int
	outage  [2]time.Time // of server 2
}

const weekServers = 8

func newWeek() *week {
	w := &week{targets: map[string]Target{}, speeds: map[string]float64{}, diary: &diary{}, epochs: map[string]time.Time{}, busy: map[string]int{}}
	for i := range weekServers {
		w.speeds[fmt.Sprint(i)] = []float64{1, 2, 5, 10, 20, 50, 100, 1}[i]
	}
	for i := range 20 {
		intervals := map[Rung]time.Duration{}
		for _, r := range DefaultLadder() {
			intervals[r] = DefaultInterval(r)
		}
		name, server := fmt.Sprintf("t%02d", i), 0
		if i > 0 {
			server = 1 + i%(weekServers-1) // the first server has a single target
		}
		w.targets[name] = testTarget(name, fmt.Sprint(server), []float64{0.02, 0.05, 0.02, 0.01}[server%4], intervals)
	}
	return w
}

// takes is what a run of a rung costs on a slow server: prefill once or twice, then pairs on the cached prompt.
func takes(r Rung, speed float64) time.Duration {
	n := float64(r)
	prefill := (5.2e-4*n + 4.1e-9*n*n) / speed
	colds := 2.0
	if prefill > 30 {
		colds = 1
	}
	return time.Duration((colds*prefill + max(5/speed, prefill/2)) * float64(time.Second))
}

// run is the fake runner. It watches that no two runs of a server overlap.
func (w *week) run(ctx context.Context, t Target, r Rung, _ string) Run {
	w.diary.mu.Lock()
	if w.busy[t.Server]++; w.busy[t.Server] > 1 {
		w.faults = append(w.faults, fmt.Sprintf("two runs at once on server %s at %v", t.Server, time.Now()))
	}
	w.diary.mu.Unlock()
	defer func() {
		w.diary.mu.Lock()
		w.busy[t.Server]--
		w.diary.mu.Unlock()
	}()
	if now := time.Now(); t.Server == "2" && now.After(w.outage[0]) && now.Before(w.outage[1]) {
		run := fakeRun(ctx, t, r, time.Second)
		run.Status, run.Reason = Failed, "connect"
		return run
	}
	return fakeRun(ctx, t, r, takes(r, w.speeds[t.Server]))
}

// all lists the targets by name.
func (w *week) all() []Target {
	var all []Target
	for _, t := range w.targets {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b Target) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// live runs a scheduler for a time, which an earlier one's runs are told to.
func (w *week) live(t *testing.T, during time.Duration, act func(*Scheduler)) {
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	s := NewScheduler(nil, w.run, w.diary, log.NewNopLogger())
	var past []Past
	for _, r := range w.diary.runs {
		if r.Status != Skipped {
			past = append(past, Past{r.Target, r.Rung, r.Started, r.Duration, nil})
		}
	}
	s.Add(w.all(), past)
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	if act != nil {
		act(s)
	}
	<-done
}

// TestWeek lives through a week with two restarts, reloads and an outage.
func TestWeek(t *testing.T) {
	const day = 24 * time.Hour
	w := newWeek()
	var began time.Time
	synctest.Test(t, func(t *testing.T) {
		began = time.Now()
		w.outage = [2]time.Time{began.Add(4*day + time.Hour), began.Add(4*day + 7*time.Hour)}
		w.live(t, 2*day, nil)
		time.Sleep(10 * time.Minute)
		w.live(t, 3*day, func(s *Scheduler) {
			for range 5 { // a target that is changed again and again must not run its whole ladder each time
				time.Sleep(5 * time.Hour)
				s.Remove(t.Context(), []string{"t04", "t05"})
				s.Add([]Target{w.targets["t04"], w.targets["t05"]}, nil)
			}
		})
		w.live(t, 2*day-10*time.Minute, nil)
	})
	for _, f := range w.faults {
		t.Error(f)
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%-6s %5s %6s %5s %7s %7s %7s %9s %s\n", "server", "speed", "budget", "runs", "week", "day", "hour", "first 192k", "192k every")
	for i := range weekServers {
		table.WriteString(w.judge(t, fmt.Sprint(i), began))
	}
	t.Logf("shares of the budget: over the week, in the fullest day and in the fullest hour\n%s", table.String())
}

// judge holds one server's runs against its budgets, and gives them as a row.
func (w *week) judge(t *testing.T, server string, began time.Time) string {
	var runs []Run
	longest := time.Duration(0)
	for _, r := range w.diary.runs {
		if r.Status != Skipped && w.targets[r.Target].Server == server {
			runs = append(runs, r)
			longest = max(longest, r.Duration)
		}
	}
	var target Target
	for _, t := range w.all() {
		if t.Server == server {
			target = t
		}
	}
	budget := target.Budget
	whole, day, hour := fullest(runs, 7*24*time.Hour), fullest(runs, 24*time.Hour), fullest(runs, time.Hour)
	if whole > 1.02*budget {
		t.Errorf("server %s: probes took %.4f of the week, budget %v", server, whole, budget)
	}
	if most := max(1.1*budget, budget+longest.Hours()/24); day > most {
		t.Errorf("server %s: probes took %.4f of a day, budget %v", server, day, budget)
	}
	asked := 0.0
	for _, t := range w.targets {
		for _, r := range t.Ladder {
			if t.Server == server {
				asked += float64(takes(r, w.speeds[server])) / float64(t.Intervals.At(r))
			}
		}
	}
	if whole < 0.9*min(asked, ladderShare*budget) {
		t.Errorf("server %s: probes took %.4f of the week, of %.4f asked for and a budget of %v", server, whole, asked, budget)
	}
	w.judgeDueTimes(t, server)
	long := w.diary.of(target.Name, 192<<10, Accepted)
	every := long[len(long)-1].Started.Sub(long[0].Started) / time.Duration(max(1, len(long)-1))
	return fmt.Sprintf("%-6s %5g %6g %5d %7.2f %7.2f %7.2f %9s %s\n", server, w.speeds[server], budget, len(runs), whole/budget, day/budget,
		hour/budget, long[0].Started.Sub(began).Round(time.Second), every.Round(time.Minute))
}

// judgeDueTimes sees that every due time was run or told of, and that what the budget does not stretch keeps to its grid.
func (w *week) judgeDueTimes(t *testing.T, server string) {
	count := map[string]int{}
	for _, r := range w.diary.runs {
		count[r.Target+" "+r.Rung.String()]++
	}
	for _, target := range w.all() {
		if target.Server != server || target.Name == "t04" || target.Name == "t05" {
			continue // reloading begins their grids anew
		}
		for _, r := range target.Ladder {
			told := count[target.Name+" "+r.String()]
			want := int(7 * 24 * time.Hour / target.Intervals.At(r))
			if told < want-4 || told > want+4 { // each life may end with one that is overdue or not yet
				t.Errorf("%s %s: %d due times were run or told of, want about %d", target.Name, r, told, want)
			}
		}
	}
}

// fullest is the largest share of any window that runs took.
func fullest(runs []Run, window time.Duration) float64 {
	var most, sum time.Duration
	first := 0
	for _, r := range runs {
		sum += r.Duration
		end := r.Started.Add(r.Duration)
		for !runs[first].Started.Add(runs[first].Duration).After(end.Add(-window)) {
			sum -= runs[first].Duration
			first++
		}
		cut := max(0, end.Add(-window).Sub(runs[first].Started)) // only a part of that run lies in the window
		most = max(most, sum-cut)
	}
	return float64(most) / float64(window)
}
