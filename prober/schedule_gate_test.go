package prober

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"
)

// scheduling runs a scheduler whose runs take a minute per 64k, until stop.
func scheduling(t *testing.T, targets []Target, d *diary) (s *Scheduler, stop func()) {
	return schedulingWith(t, targets, d, func(ctx context.Context, t Target, r Rung, _ string) Run {
		return fakeRun(ctx, t, r, time.Duration(r)*time.Minute/65536)
	})
}

func schedulingWith(t *testing.T, targets []Target, d *diary, run RunFunc) (s *Scheduler, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	s = NewScheduler(targets, run, d, log.NewNopLogger())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	return s, func() { cancel(); <-done }
}

// TestWeights finds time shared equally between rungs of different cost, or by weight.
func TestWeights(t *testing.T) {
	ladder := map[Rung]time.Duration{8192: time.Minute, 65536: time.Minute, 131072: time.Minute}
	for name, weights := range map[string]map[Rung]float64{
		"equal": {}, "doubled": {131072: 2}, "fractions": {8192: 0.1, 65536: 0.3, 131072: 0.6},
	} {
		t.Run(name, func(t *testing.T) {
			target := testTarget("a", "s", 0.1, ladder)
			target.Weights = PerRung[float64]{Rungs: weights}
			d := &diary{}
			var forecast map[Rung]time.Duration
			synctest.Test(t, func(t *testing.T) {
				s, stop := scheduling(t, []Target{target}, d)
				defer stop()
				time.Sleep(8 * 24 * time.Hour)
				forecast = map[Rung]time.Duration{}
				for r := range ladder {
					forecast[r] = s.EffectiveInterval("a", r)
				}
			})
			var sum, all float64
			for r := range ladder {
				sum += target.weight(r)
				all += ranFor(d.of("a", r, Accepted)).Seconds()
			}
			for r := range ladder {
				runs := d.of("a", r, Accepted)
				got, want := ranFor(runs).Seconds()/all, target.weight(r)/sum
				if math.Abs(got-want) > 0.02 {
					t.Errorf("%s got %.3f of the time, want %.3f", r, got, want)
				}
				every := runs[len(runs)-1].Started.Sub(runs[0].Started) / time.Duration(len(runs)-1)
				if ratio := forecast[r].Seconds() / every.Seconds(); ratio < 0.85 || ratio > 1.15 {
					t.Errorf("%s ran every %v, forecast %v", r, every, forecast[r])
				}
			}
		})
	}
}

func ranFor(runs []Run) (sum time.Duration) {
	for _, r := range runs {
		sum += r.Duration
	}
	return sum
}

// TestConfirm finds confirmations served from their own part of the budget, at once while that lasts, and the ladder's
// cadence untouched.
func TestConfirm(t *testing.T) {
	target := testTarget("a", "s", 0.02, map[Rung]time.Duration{8192: 5 * time.Minute, 131072: 4 * time.Hour})
	const days = 10
	ladder := func(confirm bool) (at []time.Time, share float64) {
		d := &diary{}
		synctest.Test(t, func(t *testing.T) {
			s, stop := scheduling(t, []Target{target}, d)
			defer stop()
			if confirm {
				time.Sleep(24 * time.Hour)
				asked := time.Now()
				wantConfirmation(s, "a", 131072)
				wantConfirmation(s, "a", 131072)
				time.Sleep(10 * time.Minute)
				if runs := confirmationsIn(d); len(runs) != 1 || runs[0].Started.Sub(asked) > 2*time.Minute {
					t.Errorf("asked twice for a confirmation: %+v", runs)
				}
				for range (days - 1) * 24 {
					wantConfirmation(s, "a", 131072)
					time.Sleep(time.Hour)
				}
			} else {
				time.Sleep(days * 24 * time.Hour)
			}
		})
		for _, r := range d.of("a", 8192, Accepted) {
			at = append(at, r.Started)
		}
		return at, ranFor(confirmationsIn(d)).Seconds() / (days * 24 * time.Hour).Seconds()
	}
	without, _ := ladder(false)
	with, share := ladder(true)
	if len(with) < len(without)*98/100 {
		t.Errorf("8k ran %d times beside confirmations, %d times without", len(with), len(without))
	}
	if want := 0.02 * (1 - ladderShare); share > 1.1*want || share < 0.7*want {
		t.Errorf("confirmations took %.5f of the time, want %.5f", share, want)
	}
}

// wantConfirmation asks for one beside the schedule.
func wantConfirmation(s *Scheduler, target string, rung Rung) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sv, sl := s.find(target, rung)
	if sl.confirm.IsZero() {
		sl.confirm = time.Now()
		s.wake(sv)
	}
}

func confirmationsIn(d *diary) (runs []Run) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.runs {
		if r.Confirmation && r.Status != Skipped {
			runs = append(runs, r)
		}
	}
	return runs
}

// TestYieldedRunsComeAgain finds a server that had no room tried again after pauses that double, none of its rungs in between,
// and the due times of the pauses told of.
func TestYieldedRunsComeAgain(t *testing.T) {
	target := testTarget("a", "s", 1, map[Rung]time.Duration{1024: time.Minute, 131072: 4 * time.Hour})
	d := &diary{}
	synctest.Test(t, func(t *testing.T) {
		roomFrom := time.Now().Add(3 * time.Hour)
		_, stop := schedulingWith(t, []Target{target}, d, func(ctx context.Context, t Target, r Rung, _ string) Run {
			run := fakeRun(ctx, t, r, time.Second)
			if time.Now().Before(roomFrom) {
				run.Status, run.Reason = Rejected, Yielded
			}
			return run
		})
		defer stop()
		time.Sleep(5 * time.Hour)
	})
	var last time.Time
	for i, r := range d.of("a", 1024, Rejected) {
		if gap := r.Started.Sub(last); i > 0 && gap < time.Minute {
			t.Errorf("it was tried again after %v", gap)
		}
		last = r.Started
	}
	yielded := append(d.of("a", 1024, Rejected), d.of("a", 131072, Rejected)...)
	if n := len(yielded); n < 8 || n > 11 { // 1, 2, 4, 8, 16, 30, 30, 30, 30 minutes
		t.Errorf("%d runs yielded in three hours", n)
	}
	long := d.of("a", 131072, Accepted)
	if len(long) == 0 || long[0].Started.Sub(last) > 31*time.Minute {
		t.Errorf("the rung with the long interval was not tried again: %+v", long)
	}
	cool := 0
	for _, r := range d.of("a", 1024, Skipped) {
		if r.Reason == Cooldown {
			cool++
		}
	}
	if cool < 160 || cool > 180 {
		t.Errorf("%d due times fell into pauses", cool)
	}
	if n := len(d.of("a", 1024, Accepted)); n < 88 {
		t.Errorf("%d runs after the server had room again", n)
	}
}

// TestBusyServer finds a rung that found the server busy tried again before its next due time, and others not held up.
func TestBusyServer(t *testing.T) {
	target := testTarget("a", "s", 1, map[Rung]time.Duration{1024: 5 * time.Minute, 131072: 4 * time.Hour})
	d := &diary{}
	synctest.Test(t, func(t *testing.T) {
		_, stop := schedulingWith(t, []Target{target}, d, func(ctx context.Context, t Target, r Rung, _ string) Run {
			run := fakeRun(ctx, t, r, time.Second)
			if r == 131072 && len(d.of("a", r, Skipped)) < 4 {
				run.Status, run.Reason, run.Duration = Skipped, Busy, 0
			}
			return run
		})
		defer stop()
		time.Sleep(time.Hour)
	})
	if n := len(d.of("a", 131072, Accepted)); n != 1 {
		t.Errorf("%d runs of the rung that found the server busy", n)
	}
	if n := len(d.of("a", 1024, Accepted)); n != 12 {
		t.Errorf("%d runs of the other rung", n)
	}
}

// TestRecall finds the cadence and the debts of an earlier process kept.
func TestRecall(t *testing.T) {
	target := testTarget("a", "s", 0.02, map[Rung]time.Duration{1024: 5 * time.Minute, 131072: 4 * time.Hour})
	d := &diary{}
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
		defer cancel()
		s := NewScheduler(nil, func(ctx context.Context, t Target, r Rung, _ string) Run { return fakeRun(ctx, t, r, time.Second) },
			d, log.NewNopLogger())
		s.Add([]Target{target}, []Past{
			{"a", 131072, now.Add(-time.Hour), 2 * time.Minute, nil},    // 6000 s at 2 %
			{"a", 1024, now.Add(-time.Minute), time.Second, nil},        // paid for before it is due
			{"gone", 1024, now.Add(-time.Minute), 2 * time.Minute, nil}, // not scheduled
		})
		if got := s.BudgetUsed("a"); math.Abs(got-6050.0/86400) > 1e-6 {
			t.Errorf("%v of the day's budget is used", got)
		}
		if due := s.NextDue("a", 131072); !due.Equal(now.Add(3 * time.Hour)) {
			t.Errorf("128k is due in %v", due.Sub(now))
		}
		s.Run(ctx)
		if first := d.of("a", 131072, Accepted); len(first) != 1 || !first[0].Started.Equal(now.Add(3*time.Hour)) {
			t.Errorf("128k ran: %+v", first)
		}
		if first := d.of("a", 1024, Accepted)[0].Started.Sub(now); first != 4*time.Minute {
			t.Errorf("1k ran after %v", first)
		}
		s = NewScheduler(nil, nil, d, log.NewNopLogger())
		s.Add([]Target{target}, []Past{{"a", 1024, time.Now().Add(time.Hour), time.Second, nil}}) // the clock was set back
		if due := time.Until(s.NextDue("a", 1024)); due != 5*time.Minute {
			t.Errorf("1k is due in %v", due)
		}
	})
}
