package prober

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"
)

// TestResume starts a schedule whose rungs an earlier process has run.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := testTarget("a", "gpu", 1, map[Rung]time.Duration{1024: 4 * time.Hour, 2048: 4 * time.Hour, 4096: 5 * time.Minute, 8192: 4 * time.Hour})
		ages := map[Rung]time.Duration{1024: 10 * time.Minute, 4096: time.Hour, 8192: 4*time.Hour - time.Second}
		d := &diary{}
		s := NewScheduler(nil, func(ctx context.Context, t Target, r Rung, _ string) Run { return fakeRun(ctx, t, r, time.Millisecond) }, d, log.NewNopLogger())
		start := time.Now()
		var past []Past
		for rung, age := range ages {
			past = append(past, Past{"a", rung, start.Add(-age), 0, nil})
		}
		s.Add([]Target{target}, past)
		for rung, want := range map[Rung]time.Duration{1024: 4 * time.Hour, 4096: 5 * time.Minute, 8192: 4 * time.Hour} {
			if got := s.EffectiveInterval("a", rung); got > want+time.Minute {
				t.Errorf("%s: the time away makes the interval %v", rung, got)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
		defer cancel()
		s.Run(ctx)
		for rung, want := range map[Rung][2]time.Duration{ // of the first run
			1024: {3*time.Hour + 50*time.Minute, 3*time.Hour + 51*time.Minute}, // not at once
			2048: {0, time.Minute},                                             // never run
			4096: {0, time.Minute},                                             // overdue
			8192: {0, time.Minute},                                             // nearly due
		} {
			runs := d.of("a", rung, Accepted)
			if len(runs) == 0 {
				t.Errorf("%s is not run", rung)
				continue
			}
			if first := runs[0].Started.Sub(start); first < want[0] || first > want[1] {
				t.Errorf("%s is first run after %v, want %v", rung, first, want)
			}
		}
		if skips := len(d.of("a", 4096, Skipped)); skips > 0 {
			t.Errorf("%d due times while away are told as missed", skips)
		}
	})
}
