package prober

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"
)

// diary keeps what a scheduler did.
type diary struct {
	mu   sync.Mutex
	runs []Run
}

func (d *diary) ObserveRun(r Run) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.runs = append(d.runs, r)
}

// of gives the runs of one rung with one status.
func (d *diary) of(target string, r Rung, status Status) []Run {
	d.mu.Lock()
	defer d.mu.Unlock()
	var runs []Run
	for _, run := range d.runs {
		if run.Target == target && run.Rung == r && run.Status == status {
			runs = append(runs, run)
		}
	}
	return runs
}

// fakeRun takes a time, unless ctx ends before.
func fakeRun(ctx context.Context, t Target, r Rung, takes time.Duration) Run {
	run := Run{Target: t.Name, Rung: r, Started: time.Now(), Status: Accepted}
	if sleep(ctx, takes) != nil {
		run.Status, run.Reason = Rejected, Interrupted
	}
	run.Duration = time.Since(run.Started)
	return run
}

func testTarget(name, server string, budget float64, intervals map[Rung]time.Duration) Target {
	t := Target{Name: name, Server: server, Budget: budget, Intervals: PerRung[time.Duration]{Rungs: intervals}}
	for r := range intervals {
		t.Ladder = append(t.Ladder, r)
	}
	return t
}

// schedule runs a scheduler for a time in a bubble and gives back what it did.
func schedule(t *testing.T, targets []Target, during time.Duration, run RunFunc) *diary {
	d := &diary{}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), during)
		defer cancel()
		NewScheduler(targets, run, d, log.NewNopLogger()).Run(ctx)
	})
	return d
}

func TestScheduleDay(t *testing.T) {
	ladder := func() map[Rung]time.Duration {
		m := map[Rung]time.Duration{}
		for _, r := range DefaultLadder() {
			m[r] = DefaultInterval(r)
		}
		return m
	}
	targets := []Target{
		testTarget("a", "gpu1", 0.9, ladder()), testTarget("b", "gpu1", 0.9, ladder()), testTarget("c", "gpu2", 0.02, ladder()),
	}
	const day = 24 * time.Hour
	d := schedule(t, targets, day, func(ctx context.Context, t Target, r Rung, _ string) Run {
		return fakeRun(ctx, t, r, time.Duration(r)*time.Millisecond) // 1 s to 197 s
	})
	share := map[string]time.Duration{}
	server := map[string]string{"a": "gpu1", "b": "gpu1", "c": "gpu2"}
	for _, run := range d.runs {
		if run.Status != Skipped {
			share[server[run.Target]] += run.Duration
		}
	}
	for s, b := range map[string]float64{"gpu1": 0.9, "gpu2": 0.02} {
		if got := float64(share[s]) / float64(day); got > 1.1*b {
			t.Errorf("%s: probes take %.4f of the time, budget %v", s, got, b)
		}
	}
	if got := float64(share["gpu2"]) / float64(day); got < ladderShare*0.02 {
		t.Errorf("gpu2 uses %.4f of the time: its budget is hardly used though every rung waits", got)
	}
	for _, target := range targets[:2] { // 0.6 of the time is asked for, three quarters of 0.9 are there
		for _, r := range target.Ladder {
			want := int(day / target.Intervals.At(r))
			if got := len(d.of(target.Name, r, Accepted)); got < want*8/10-1 || got > want+1 {
				t.Errorf("%s %s ran %d times, want about %d", target.Name, r, got, want)
			}
		}
	}
	for _, r := range targets[2].Ladder {
		if len(d.of("c", r, Accepted)) == 0 {
			t.Errorf("c %s never ran", r)
		}
	}
}

func TestScheduleGrid(t *testing.T) {
	target := testTarget("a", "s", 1, map[Rung]time.Duration{1024: 5 * time.Minute, 2048: time.Second})
	delete(target.Intervals.Rungs, 2048)
	target.Ladder = []Rung{1024}
	r := rand.New(rand.NewPCG(1, 2))
	d := schedule(t, []Target{target}, 24*time.Hour, func(ctx context.Context, t Target, rung Rung, _ string) Run {
		return fakeRun(ctx, t, rung, time.Duration(r.IntN(290))*time.Second)
	})
	runs := d.of("a", 1024, Accepted)
	if len(runs) != 288 && len(runs) != 287 {
		t.Errorf("%d runs in a day", len(runs))
	}
	for i, run := range runs {
		if want := runs[0].Started.Add(time.Duration(i) * 5 * time.Minute); !run.Started.Equal(want) {
			t.Fatalf("run %d started %v off its grid", i, run.Started.Sub(want))
		}
	}
}

func TestFirstRuns(t *testing.T) {
	for _, every := range []time.Duration{time.Second, 10 * time.Second, 5 * time.Minute, 4 * time.Hour} {
		intervals := map[Rung]time.Duration{}
		for _, r := range DefaultLadder() {
			intervals[r] = every
		}
		var start time.Time
		target := testTarget(fmt.Sprint("target ", every), "s", 1, intervals)
		d := schedule(t, []Target{target}, 2*time.Minute, func(ctx context.Context, t Target, r Rung, _ string) Run {
			return fakeRun(ctx, t, r, 0)
		})
		start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // where every bubble begins
		last := start
		for _, r := range DefaultLadder() {
			first := d.of(target.Name, r, Accepted)[0].Started
			if first.Sub(start) > min(every, time.Minute) {
				t.Errorf("every %v: the first run of %s comes after %v", every, r, first.Sub(start))
			}
			if first.Before(last) {
				t.Errorf("every %v: %s comes before a shorter rung", every, r)
			}
			last = first
		}
	}
}

func TestScheduleMissed(t *testing.T) {
	target := testTarget("a", "s", 0.5, map[Rung]time.Duration{1024: 10 * time.Second})
	var out bytes.Buffer
	d := &diary{}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		NewScheduler([]Target{target}, func(ctx context.Context, t Target, r Rung, _ string) Run {
			return fakeRun(ctx, t, r, 25*time.Second)
		}, d, log.NewLogfmtLogger(&out)).Run(ctx)
	})
	count := map[Reason]int{}
	for _, run := range d.runs {
		if run.Status == Skipped {
			count[run.Reason]++
		}
	}
	ran := len(d.of("a", 1024, Accepted))
	if ran != 54 || count[PreviousRunning]+count[OverBudget]+ran < 355 || count[PreviousRunning] < 54 || count[OverBudget] < 140 {
		t.Errorf("%d runs, %v: every due time of the hour is run or missed", ran, count)
	}
	if got := strings.Count(out.String(), "longer than its interval"); got != 1 {
		t.Errorf("warned %d times of a run longer than its interval:\n%s", got, out.String()[:500])
	}
}

func TestFairness(t *testing.T) {
	target := testTarget("a", "s", 1, map[Rung]time.Duration{1024: time.Second, 131072: time.Minute, 196608: time.Hour})
	d := schedule(t, []Target{target}, 24*time.Hour, func(ctx context.Context, t Target, r Rung, _ string) Run {
		return fakeRun(ctx, t, r, 3*time.Second) // three times more than there is time for
	})
	for r, want := range map[Rung]int{1024: 24000, 131072: 400, 196608: 6} {
		if got := len(d.of("a", r, Accepted)); got < want {
			t.Errorf("%s ran %d times in a day, want %d at least", r, got, want)
		}
	}
}

func TestScheduleCancel(t *testing.T) {
	targets := []Target{
		testTarget("a", "s", 1, map[Rung]time.Duration{1024: time.Minute, 2048: time.Second}),
		testTarget("b", "other", 1, map[Rung]time.Duration{1024: time.Minute}),
	}
	d := &diary{}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := NewScheduler(targets, func(ctx context.Context, t Target, r Rung, _ string) Run { return fakeRun(ctx, t, r, time.Hour) },
			d, log.NewNopLogger())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		time.Sleep(90 * time.Second)
		cancelled := time.Now()
		cancel()
		<-done
		if took := time.Since(cancelled); took > 5*time.Second {
			t.Errorf("the end took %v", took)
		}
	})
	interrupted, shutting := 0, 0
	for _, run := range d.runs {
		switch run.Reason {
		case Interrupted:
			interrupted++
		case ShuttingDown:
			shutting++
		}
	}
	if interrupted != 2 || shutting != 3 {
		t.Errorf("%d interrupted, %d not sent; want 2 and 3", interrupted, shutting)
	}
}

func TestRunPanics(t *testing.T) {
	var out bytes.Buffer
	d := &diary{}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		target := testTarget("a", "s", 1, map[Rung]time.Duration{1024: time.Minute})
		calls := 0
		NewScheduler([]Target{target}, func(ctx context.Context, t Target, r Rung, _ string) Run {
			calls++
			if calls <= 3 {
				panic("no such thing")
			}
			return fakeRun(ctx, t, r, time.Second)
		}, d, log.NewLogfmtLogger(&out)).Run(ctx)
	})
	failed := d.of("a", 1024, Failed)
	if len(failed) != 3 || failed[0].Reason != "protocol" || failed[0].ID == "" || len(d.of("a", 1024, Accepted)) != 7 {
		t.Errorf("%+v", d.runs)
	}
	for line, want := range map[string]int{`level=warn target=a rung=1k msg="probe fails"`: 1, `level=info target=a rung=1k msg="probe works again"`: 1, "level=error": 3} {
		if got := strings.Count(out.String(), line); got != want {
			t.Errorf("%q is logged %d times, want %d:\n%s", line, got, want, out.String())
		}
	}
}

func TestEffectiveInterval(t *testing.T) {
	target := testTarget("a", "s", 0.02, map[Rung]time.Duration{1024: 5 * time.Minute, 196608: 4 * time.Hour})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 48*time.Hour)
		defer cancel()
		d := &diary{}
		s := NewScheduler([]Target{target}, func(ctx context.Context, t Target, r Rung, _ string) Run {
			return fakeRun(ctx, t, r, time.Duration(r)*time.Millisecond)
		}, d, log.NewNopLogger())
		if got := s.EffectiveInterval("a", 1024); got != 5*time.Minute {
			t.Errorf("before the first run: %v", got)
		}
		if got := s.EffectiveInterval("b", 1024); got != 0 {
			t.Errorf("of an unknown target: %v", got)
		}
		s.Run(ctx)
		runs := d.of("a", 196608, Accepted)
		measured := runs[len(runs)-1].Started.Sub(runs[0].Started) / time.Duration(len(runs)-1)
		if got := s.EffectiveInterval("a", 196608); got < measured*8/10 || got > measured*12/10 {
			t.Errorf("forecast %v, measured %v", got, measured)
		}
	})
}

// told calls itself for every run that was sent.
type told func()

func (f told) ObserveRun(r Run) {
	if r.Status != Skipped {
		f()
	}
}

func TestNextDue(t *testing.T) {
	for name, budget := range map[string]float64{"unhindered": 1, "stretched": 0.5, "by the day": 0.004} {
		t.Run(name, func(t *testing.T) {
			target := testTarget("a", "s", budget, map[Rung]time.Duration{1024: 5 * time.Minute})
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*24*time.Hour)
				defer cancel()
				var due time.Time
				var s *Scheduler
				runs := 0
				s = NewScheduler([]Target{target}, func(ctx context.Context, target Target, r Rung, _ string) Run {
					runs++
					if late := time.Since(due).Abs(); late > time.Millisecond {
						t.Errorf("the run starts at %v, %v was forecast", time.Now(), due)
					}
					return fakeRun(ctx, target, r, 4*time.Minute)
				}, told(func() { due = s.NextDue("a", 1024) }), log.NewNopLogger())
				due = s.NextDue("a", 1024)
				if in := time.Until(due); in < 0 || in > time.Minute || !s.NextDue("b", 1024).IsZero() {
					t.Errorf("first run in %v, one of an unknown target at %v", in, s.NextDue("b", 1024))
				}
				s.Run(ctx)
				if runs < 5 {
					t.Errorf("%d runs in five days", runs)
				}
			})
		})
	}
}

func TestPrice(t *testing.T) {
	for _, test := range []struct {
		ran    time.Duration
		budget float64
		want   time.Duration
	}{
		{time.Second, 0.02, 50 * time.Second},
		{time.Second, 1, time.Second},
		{0, 0.02, 0},
		{0, 1e-320, 0}, // 1/budget is infinite
		{time.Nanosecond, 1e-320, longestPrice},
		{-time.Second, 0.02, 0},
	} {
		if got := price(test.ran, test.budget); got != test.want {
			t.Errorf("%v at %v: %v, want %v", test.ran, test.budget, got, test.want)
		}
	}
}
