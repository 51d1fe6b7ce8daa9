package prober

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// TestRoundsDoNotOverlap runs what takes fifteen minutes every five: one at a time, the others counted, none made up for later.
func TestRoundsDoNotOverlap(t *testing.T) {
	target := testTarget("a", "s", 1, map[Rung]time.Duration{1024: 5 * time.Minute})
	var going atomic.Int32
	d := schedule(t, []Target{target}, time.Hour+2*time.Minute, func(ctx context.Context, t2 Target, r Rung, _ string) Run {
		if going.Add(1) > 1 {
			t.Error("two runs at once")
		}
		defer going.Add(-1)
		return fakeRun(ctx, t2, r, 15*time.Minute)
	})
	finished := d.of("a", 1024, Accepted)
	missed := d.of("a", 1024, Skipped)
	if n := len(finished); n != 3 && n != 4 {
		t.Errorf("%d runs finished in an hour", n)
	}
	for i := 1; i < len(finished); i++ {
		if gap := finished[i].Started.Sub(finished[i-1].Started); gap < 15*time.Minute {
			t.Errorf("a run starts %v after the one before", gap)
		}
	}
	if len(missed) < 7 || len(missed) > 9 {
		t.Errorf("%d due times are told as missed", len(missed))
	}
}
