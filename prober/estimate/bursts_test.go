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

func TestBursts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		sizes := make([]int, 5+rng.IntN(40))
		for i := range sizes {
			sizes[i] = 1 + rng.IntN(8)
		}
		for _, inner := range []float64{0, 0.00002} {
			starts, ok := Bursts(tokenBursts(rng, sizes, 0.1, inner))
			if !ok || len(starts)-1 != len(sizes) {
				t.Fatalf("%d passes of %v counted as %d, %v", len(sizes), sizes, len(starts)-1, ok)
			}
			if mean, _ := Mean(Gaps(starts)); mean < 0.095 || mean > 0.105 {
				t.Fatalf("passes of 0.1 s each take %v s", mean)
			}
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
		if starts, ok := Bursts(stamps); ok {
			t.Errorf("%s: %d passes claimed to be proved", name, len(starts)-1)
		}
	}
}
