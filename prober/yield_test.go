package prober_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"longctx_exporter/collector/servermetrics"
	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
	"longctx_exporter/prober/simserver"
)

// simulated starts a simulated server in a bubble, and gives it with a target that reaches it.
func simulated(t *testing.T, c simserver.Config) (*simserver.Server, prober.Target) {
	t.Helper()
	sim := prober.Simulated(t, c)
	return sim, prober.Piped(t, sim.Handler())
}

func profile(t *testing.T, name string) simserver.Profile {
	t.Helper()
	p, err := simserver.ProfileByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// crowdedLoad adds requests of others to what a server tells, by the time since the run began.
type crowdedLoad struct {
	prober.LoadReader
	began  time.Time
	others func(since time.Duration) (running, queued int)
}

func (c crowdedLoad) ReadLoad(ctx context.Context) (prober.Load, error) {
	l, err := c.LoadReader.ReadLoad(ctx)
	if err != nil {
		return l, err
	}
	running, queued := c.others(time.Since(c.began))
	running, queued = *l.Running+running, *l.Queued+queued
	l.Running, l.Queued = &running, &queued
	return l, nil
}

// TestYield cancels the request of a run on the server soon after others wait behind it or are served beside it, and not for a
// single reading nor for our own request in the queue.
func TestYield(t *testing.T) {
	shown := false
	for name, test := range map[string]struct {
		others func(since time.Duration) (running, queued int)
		yields time.Duration // 0 for not
	}{
		"nobody":  {func(time.Duration) (int, int) { return 0, 0 }, 0},
		"queued":  {func(d time.Duration) (int, int) { return 0, btoi(d > 30*time.Second) }, 30 * time.Second},
		"running": {func(d time.Duration) (int, int) { return btoi(d > 30*time.Second), 0 }, 30 * time.Second},
		"a single reading": {func(d time.Duration) (int, int) {
			if shown || d < 30*time.Second {
				return 0, 0
			}
			shown = true
			return 0, 1
		}, 0},
		"our own": {func(d time.Duration) (int, int) {
			return -btoi(d > 30*time.Second && d < 40*time.Second), btoi(d > 30*time.Second && d < 40*time.Second)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim, target := simulated(t, simserver.Config{Shape: "sglang", Profile: profile(t, "kimi-k2.6-ddtree"), Seed: 1})
				target.Ladder = []prober.Rung{131072}
				began := time.Now()
				runner := prober.RunnerOf(t, target, func(t prober.Target, f inference.Facts) (prober.LoadReader, error) {
					r, err := servermetrics.New(t, f)
					return crowdedLoad{r, began, test.others}, err
				})
				run := runner.Run(t.Context(), 131072, nil)
				ended := time.Since(began)
				if test.yields == 0 {
					if run.Status != prober.Accepted {
						t.Fatalf("%s %s: %s", run.Status, run.Reason, run.Message)
					}
					return
				}
				if run.Status != prober.Rejected || run.Reason != prober.Yielded || run.Sample.TTFT != 0 || run.Sample.Isolation != prober.IsContended {
					t.Errorf("%s %s: %s; %+v", run.Status, run.Reason, run.Message, run.Sample)
				}
				if late := ended - test.yields; late < 0 || late > 3*time.Second {
					t.Errorf("the run ended %v after others came", late)
				}
				time.Sleep(30 * time.Second)
				requests := sim.Truth()
				if last := requests[len(requests)-1]; !last.Aborted {
					t.Errorf("the request went on: %+v", last)
				}
			})
		})
	}
}

// TestWaitingIsNotRunning: a run begins with its first request, however long others kept it waiting, and takes the time since.
func TestWaitingIsNotRunning(t *testing.T) {
	const others = 40 * time.Second
	synctest.Test(t, func(t *testing.T) {
		_, target := simulated(t, simserver.Config{Shape: "sglang", Profile: profile(t, "kimi-k2.6-ddtree"), Seed: 1})
		target.Ladder = []prober.Rung{8192}
		began := time.Now()
		runner := prober.RunnerOf(t, target, func(t prober.Target, f inference.Facts) (prober.LoadReader, error) {
			r, err := servermetrics.New(t, f)
			return crowdedLoad{r, began, func(d time.Duration) (int, int) { return 0, btoi(d < others) }}, err
		})
		var first time.Time
		run := runner.Run(t.Context(), 8192, func(p prober.Progress) {
			if first.IsZero() {
				first = p.Started
			}
		})
		if run.Status != prober.Accepted || !run.Started.Equal(first) || first.Sub(began) < others {
			t.Errorf("%s: it began %v after others came, its first request %v", run.Status, run.Started.Sub(began), first.Sub(began))
		}
		var legs time.Duration
		for _, l := range run.Legs {
			legs += l.Response.Total
		}
		if whole := time.Since(first); run.Duration < legs || run.Duration > whole {
			t.Errorf("it took %v; its legs took %v, and all of it %v", run.Duration, legs, whole)
		}
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
