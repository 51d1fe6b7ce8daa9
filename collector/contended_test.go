package collector

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"longctx_exporter/prober"
)

func at8k(t *testing.T, c *Collector, name string) float64 {
	t.Helper()
	return value(t, c, name, "8192", "", "8k", "t")
}

// TestContendedAge: what a contended run felt stands beside the clean values and leaves by the same rule, and neither touches
// the other.
func TestContendedAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mustNew(t, newTargetConfig("t", rung8k))
		c.ObserveRun(accepted("t", rung8k))
		clean := at8k(t, c, stepTime)
		if got := at8k(t, c, contendedStep); !math.IsNaN(got) {
			t.Errorf("felt %v before any contended run", got)
		}
		time.Sleep(5 * time.Minute)
		c.ObserveRun(contendedRun("t", rung8k))
		bare := ended("t", rung8k, prober.Rejected, prober.Contended)
		c.ObserveRun(bare) // one whose requests tell nothing leaves the one before standing
		if got := at8k(t, c, contendedStep); got != 0.41 {
			t.Errorf("felt %v, want 0.41", got)
		}
		if got := at8k(t, c, stepTime); got != clean {
			t.Errorf("a contended run changed the clean step from %v to %v", clean, got)
		}
		time.Sleep(12*time.Minute + 30*time.Second)
		if got := at8k(t, c, contendedTTFT); got != 71.5 {
			t.Errorf("felt %v at 2.5 intervals, want 71.5", got)
		}
		if got := at8k(t, c, stepTime); !math.IsNaN(got) {
			t.Errorf("a clean step of %v stands after 3.5 intervals", got)
		}
		time.Sleep(time.Millisecond)
		for _, name := range []string{contendedTTFT, contendedStep, contendedDecode, contendedRunning} {
			if got := at8k(t, c, name); !math.IsNaN(got) {
				t.Errorf("%s stands at %v beyond 2.5 intervals", name, got)
			}
		}
	})
}

func TestContendedPartlyKnown(t *testing.T) {
	c := mustNew(t, newTargetConfig("t", rung8k))
	run := contendedRun("t", rung8k)
	run.Contended = &prober.Contention{TTFT: 2}
	c.ObserveRun(run)
	if got := at8k(t, c, contendedTTFT); got != 2 {
		t.Errorf("TTFT %v, want 2", got)
	}
	for _, name := range []string{contendedStep, contendedDecode, contendedRunning} {
		if got := at8k(t, c, name); !math.IsNaN(got) {
			t.Errorf("%s is %v where it is not known", name, got)
		}
	}
}

func TestAcceptShares(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		histogram    []int
		steps, block int
		one, most    float64
	}{
		"whole":                             {[]int{3, 2, 3, 3, 2, 1, 1, 1}, 16, 8, 3. / 16, 1. / 16},
		"servers cut after the longest":     {[]int{3, 13}, 16, 8, 3. / 16, 0},
		"no step of one token":              {[]int{0, 16}, 16, 2, 0, 1},
		"block not known":                   {[]int{4, 12}, 16, 0, 0.25, nan},
		"longer than the block":             {[]int{4, 10, 2}, 16, 2, 0.25, nan},
		"a pass is missing":                 {[]int{4, 11}, 16, 8, nan, nan},
		"no histogram":                      {nil, 16, 8, nan, nan},
		"without speculation":               {nil, 16, 1, nan, nan},
		"a histogram of nothing at all":     {[]int{0, 0}, 0, 8, nan, nan},
		"a histogram with a negative count": {[]int{-1, 17}, 16, 8, nan, nan},
	} {
		col := mustNew(t, newTargetConfig("t", rung8k))
		run := accepted("t", rung8k)
		run.Sample.AcceptHistogram, run.Sample.Steps, run.Sample.BlockSize = c.histogram, c.steps, c.block
		col.ObserveRun(run)
		if one, most := at8k(t, col, acceptOne), at8k(t, col, acceptCap); !same(one, c.one) || !same(most, c.most) {
			t.Errorf("%s: %v and %v, want %v and %v", name, one, most, c.one, c.most)
		}
	}
}
