package estimate

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestAcceptLengthCut(t *testing.T) {
	for name, c := range map[string]struct {
		passes []Pass
		want   float64
		ok     bool
	}{
		"none":                      {nil, 0, false},
		"only cut":                  {[]Pass{{3, true}}, 0, false},
		"not told":                  {[]Pass{{0, false}, {2, false}}, 0, false},
		"beyond belief":             {[]Pass{{1000, false}}, 0, false},
		"whole":                     {[]Pass{{1, false}, {2, false}, {6, false}}, 3, true},
		"cut at the first token":    {[]Pass{{1, false}, {3, false}, {1, true}}, 2, true},
		"cut beyond all whole":      {[]Pass{{1, false}, {1, false}, {1, false}, {5, true}}, 2, true},
		"cut in the middle":         {[]Pass{{1, false}, {2, false}, {4, false}, {2, true}}, 1 + 0.75 + 0.375 + 0.375, true},
		"one token, whatever comes": {[]Pass{{1, false}, {1, false}, {1, true}}, 1, true},
	} {
		got, ok := AcceptLengthCut(c.passes)
		if ok != c.ok || math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, %v, want %v, %v", name, got, ok, c.want, c.ok)
		}
	}
}

// TestAcceptLengthCutIsUnbiased draws answers that end at max_tokens: the estimate over many of them is that of the law, where
// tokens over steps, and the mean of the whole passes, are not.
func TestAcceptLengthCutIsUnbiased(t *testing.T) {
	const legs, decode, block, stay = 4000, 64, 16, 0.75
	rng := rand.New(rand.NewPCG(1, 2))
	law := 0.0
	for n, p := 1, 1.0; n <= block; n, p = n+1, p*stay {
		law += p
	}
	var passes []Pass
	whole, sum := 0, 0
	for range legs {
		for left := decode; left > 0; {
			n := 1
			for n < block && rng.Float64() < stay {
				n++
			}
			passes = append(passes, Pass{min(n, left), n >= left})
			if n < left {
				whole++
				sum += n
			}
			left -= n
		}
	}
	got, ok := AcceptLengthCut(passes)
	if !ok || math.Abs(got/law-1) > 0.01 {
		t.Errorf("estimated %.4f, the law has %.4f", got, law)
	}
	delivered, kept := float64(legs*decode)/float64(len(passes)), float64(sum)/float64(whole)
	if delivered > 0.96*law || kept > 0.96*law {
		t.Errorf("tokens over steps %.4f, whole passes %.4f: not the bias that the estimate is for", delivered, kept)
	}
}
