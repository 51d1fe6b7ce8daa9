package estimate

import (
	"math/rand/v2"
	"testing"
)

// tokenBursts makes the stamps of passes of the given sizes, one chunk a token.
func tokenBursts(rng *rand.Rand, sizes []int, step, inner float64) []float64 {
	now := 1.0
	stamps := []float64{now}
	for i, n := range sizes {
		took := step * (1 + 0.05*rng.NormFloat64())
		if i == 0 {
			took *= 1.5
		}
		now += took
		for j := range n {
			stamps = append(stamps, now+float64(j)*inner)
		}
	}
	return stamps
}

func TestStepsFromBursts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		sizes := make([]int, 5+rng.IntN(40))
		for i := range sizes {
			sizes[i] = 1 + rng.IntN(8)
		}
		if n, ok := StepsFromBursts(tokenBursts(rng, sizes, 0.1, 0.00002)); !ok || n != len(sizes) {
			t.Fatalf("%d passes of %v counted as %d, %v", len(sizes), sizes, n, ok)
		}
		if n, ok := StepsFromBursts(tokenBursts(rng, sizes, 0.1, 0)); !ok || n != len(sizes) {
			t.Fatalf("%d passes of %v in one read each counted as %d, %v", len(sizes), sizes, n, ok)
		}
	}
	for name, stamps := range map[string][]float64{
		"none":              nil,
		"two passes merged": {0, 0.1, 0.2, 0.4, 0.5, 0.6},
		"smeared":           {0, 0.1, 0.14, 0.2, 0.3, 0.34, 0.4},
		"all at once":       {1, 1, 1, 1, 1, 1},
		"backwards":         {1, 0.9, 1.1, 1.2, 1.3},
		"too few":           {0, 0.1, 0.2},
	} {
		if n, ok := StepsFromBursts(stamps); ok {
			t.Errorf("%s: %d passes claimed to be proved", name, n)
		}
	}
}
