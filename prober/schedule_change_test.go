package prober

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"
)

// changing runs a scheduler in a bubble while act changes it, and gives back what it did.
func changing(t *testing.T, targets []Target, run RunFunc, act func(ctx context.Context, s *Scheduler, d *diary)) *diary {
	d := &diary{}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := NewScheduler(targets, run, d, log.NewNopLogger())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		act(ctx, s, d)
		cancel()
		<-done
	})
	return d
}

func (d *diary) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.runs)
}

// TestChange adds and removes a target beside one that stays, on the same server and on another.
func TestChange(t *testing.T) {
	for _, server := range []string{"gpu", "other"} {
		t.Run(server, func(t *testing.T) {
			stays := testTarget("stays", "gpu", 1, map[Rung]time.Duration{1024: 5 * time.Minute})
			comes := testTarget("comes", server, 1, map[Rung]time.Duration{1024: 2 * time.Minute})
			d := changing(t, []Target{stays}, func(ctx context.Context, t Target, r Rung, _ string) Run {
				return fakeRun(ctx, t, r, 10*time.Second)
			}, func(ctx context.Context, s *Scheduler, d *diary) {
				for range 10 {
					time.Sleep(30 * time.Minute)
					s.Add([]Target{comes}, nil)
					time.Sleep(30 * time.Minute)
					s.Remove(ctx, []string{"comes"})
					before := len(d.of("comes", 1024, Accepted))
					if s.EffectiveInterval("comes", 1024) != 0 {
						t.Error("the removed rung is still scheduled")
					}
					time.Sleep(30 * time.Minute)
					if after := len(d.of("comes", 1024, Accepted)); after != before || before == 0 {
						t.Errorf("%d runs, then %d after the target was removed", before, after)
					}
				}
			})
			runs := d.of("stays", 1024, Accepted)
			if len(runs) != 15*12 {
				t.Errorf("the target that stays ran %d times in 15 hours", len(runs))
			}
			for i, run := range runs {
				if late := run.Started.Sub(runs[0].Started.Add(time.Duration(i) * 5 * time.Minute)); late < -10*time.Second || late > 10*time.Second {
					t.Fatalf("run %d of the target that stays is %v off its grid", i, late)
				}
			}
		})
	}
}

// TestRemoveWhileRunning finds the run of the removed target cancelled and told of, and that of another target going on.
func TestRemoveWhileRunning(t *testing.T) {
	targets := []Target{
		testTarget("gone", "a", 1, map[Rung]time.Duration{1024: time.Hour}),
		testTarget("stays", "b", 1, map[Rung]time.Duration{1024: time.Hour}),
	}
	d := changing(t, targets, func(ctx context.Context, t Target, r Rung, _ string) Run {
		return fakeRun(ctx, t, r, 10*time.Minute)
	}, func(ctx context.Context, s *Scheduler, d *diary) {
		time.Sleep(2 * time.Minute) // both run
		asked := time.Now()
		s.Remove(ctx, []string{"gone"})
		if took := time.Since(asked); took > 0 {
			t.Errorf("removing took %v", took)
		}
		if runs := d.of("gone", 1024, Rejected); len(runs) != 1 || runs[0].Reason != Interrupted {
			t.Errorf("the run of the removed target: %+v", runs)
		}
		time.Sleep(20 * time.Minute)
		if got := len(d.of("stays", 1024, Accepted)); got != 1 {
			t.Errorf("the other run ended %d times", got)
		}
	})
	if len(d.runs) != 2 {
		t.Errorf("%d runs are told of, want 2: %+v", len(d.runs), d.runs)
	}
}

// TestDebtOutlivesTarget sees that a rung that comes again under its old name pays for its last run first, and that no
// goroutine waits for it.
func TestDebtOutlivesTarget(t *testing.T) {
	target := func(name string) []Target {
		return []Target{testTarget(name, "gpu", 0.1, map[Rung]time.Duration{1024: time.Second})}
	}
	d := changing(t, target("a"), func(ctx context.Context, t Target, r Rung, _ string) Run {
		return fakeRun(ctx, t, r, 10*time.Minute)
	}, func(ctx context.Context, s *Scheduler, d *diary) {
		time.Sleep(time.Minute)
		s.Remove(ctx, []string{"a"})
		synctest.Wait()
		s.mu.Lock()
		if s.servers["gpu"].serving {
			t.Error("a goroutine serves a server without targets")
		}
		s.mu.Unlock()
		s.Add(target("a"), nil)
		s.Add(target("b"), nil) // owes nothing
		time.Sleep(time.Hour)
		s.Remove(ctx, []string{"a", "b"})
		time.Sleep(25 * time.Hour)
		s.Add(nil, nil)
		if len(s.servers) != 0 {
			t.Error("a server on which nothing ran for a day is not forgotten")
		}
	})
	first, next, other := d.of("a", 1024, Rejected), d.of("a", 1024, Accepted), d.of("b", 1024, Accepted)
	if len(first) != 1 || len(next) == 0 || len(other) == 0 {
		t.Fatalf("%+v", d.runs)
	}
	end := first[0].Started.Add(first[0].Duration)
	if gap := next[0].Started.Sub(end); gap < 9*first[0].Duration {
		t.Errorf("the rung rested %v after a run of %v at a tenth of the time", gap, first[0].Duration)
	}
	if gap := other[0].Started.Sub(end); gap > time.Second {
		t.Errorf("the other target waited %v for it", gap)
	}
}

// TestChangeAtOnce adds and removes many times while runs start and end.
func TestChangeAtOnce(t *testing.T) {
	d := changing(t, nil, func(ctx context.Context, t Target, r Rung, _ string) Run {
		return fakeRun(ctx, t, r, time.Second)
	}, func(ctx context.Context, s *Scheduler, d *diary) {
		for i := range 500 {
			name := fmt.Sprint(i)
			s.Add([]Target{testTarget(name, fmt.Sprint(i%3), 1, map[Rung]time.Duration{1024: time.Second})}, nil)
			time.Sleep(time.Duration(i%7) * 300 * time.Millisecond)
			s.Remove(ctx, []string{name})
			told := d.count()
			synctest.Wait()
			if d.count() != told {
				t.Fatalf("target %d is told of after it was removed", i)
			}
		}
	})
	if len(d.runs) == 0 {
		t.Error("nothing ran")
	}
}
