package estimate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// server is a model of what a leg costs: prefill P(L) = p1·L + p2·L², a step s(L) = a + b·L, their relative noise, and the
// residual prefill of a warm leg.
type server struct {
	name             string
	p1, p2, a, b     float64
	sdPrefill        float64 // of P
	sdStep           float64 // of s, each step on its own
	warm, sdWarm     float64 // seconds
	longestLeg, most int     // steps of a leg, pairs of a run
}

var servers = []server{
	{"kimi", 5.22e-4, 4.07e-9, 0.0598, 1.4955e-5, 0.01, 0.05, 0.050, 0.005, 4096, 64},
	{"fast", 6.5e-5, 4.2e-10, 0.011, 1e-7, 0.01, 0.05, 0.050, 0.005, 4096, 64},
}

func (s server) prefill(l float64) float64 { return s.p1*l + s.p2*l*l }
func (s server) step(l float64) float64    { return s.a + s.b*l }

// plan is the cheapest way to a relative standard error of the step: passes a leg, pairs, and the server's seconds.
type plan struct {
	steps, pairs int
	seconds      float64
}

// cheapest tries every number of pairs with the fewest passes that reach the error: the variance of one difference is
// 2σ² + S·σ_s², its relative error √(2σ²+Sσ_s²)/(S·s), and n pairs divide it by √n. once is paid a run, each a pair.
func (s server) cheapest(l, target, sd, once, each float64) plan {
	best := plan{seconds: math.Inf(1)}
	step := s.step(l)
	sdStep := s.sdStep * step
	for pairs := 1; pairs <= s.most; pairs++ {
		for steps := 1; steps <= s.longestLeg; steps++ {
			e := math.Sqrt(2*sd*sd+float64(steps)*sdStep*sdStep) / (float64(steps) * step * math.Sqrt(float64(pairs)))
			if e > target {
				continue
			}
			if seconds := once + float64(pairs)*(each+float64(steps)*step); seconds < best.seconds {
				best = plan{steps, pairs, seconds}
			}
			break
		}
	}
	return best
}

// At equal standard error of the step the triple needs at most half of the pair's server seconds from 64k on, even where
// the pair is free to choose the length of its legs.
func TestTripleCostsHalfOfThePair(t *testing.T) {
	t.Logf("%-5s %-7s %-5s %9s %9s | %5s %5s %9s | %5s %5s %9s | %5s", "", "rung", "error", "prefill", "step", "S", "pairs", "pair", "S", "pairs", "triple", "ratio")
	for _, s := range servers {
		for _, target := range []float64{0.01, 0.03} {
			for _, k := range []int{1, 2, 4, 8, 16, 32, 64, 128, 192} {
				l := float64(k << 10)
				p := s.prefill(l)
				pair := s.cheapest(l, target, s.sdPrefill*p, 0, 2*p)
				triple := s.cheapest(l, target, s.sdWarm, p, 2*s.warm)
				ratio := triple.seconds / pair.seconds
				t.Logf("%-5s %-7s %-5.2g %7.2f s %7.4f s | %5d %5d %7.1f s | %5d %5d %7.1f s | %5.2f", s.name, fmt.Sprintf("%dk", k), target, p, s.step(l),
					pair.steps, pair.pairs, pair.seconds, triple.steps, triple.pairs, triple.seconds, ratio)
				if k >= 64 && !(ratio <= 0.5) {
					t.Errorf("%s at %dk for %v: the triple costs %.2f of the pair", s.name, k, target, ratio)
				}
			}
		}
	}
}

// What the table claims of one rung must come out of the estimators over simulated runs.
func TestPlansReachTheirError(t *testing.T) {
	const target, runs = 0.02, 3000
	for _, s := range servers {
		for _, k := range []int{64, 192} {
			l := float64(k << 10)
			p := s.prefill(l)
			for name, sd := range map[string]float64{"pair": s.sdPrefill * p, "triple": s.sdWarm} {
				base, once, each := p, 0.0, 2*p
				if name == "triple" {
					base, once, each = s.warm, p, 2*s.warm
				}
				plan := s.cheapest(l, target, sd, once, each)
				r := rand.New(rand.NewPCG(uint64(k), 11))
				var squares float64
				for range runs {
					var ds []Difference
					for range plan.pairs {
						short := Leg{Seconds: base + sd*r.NormFloat64(), Tokens: 1}
						long := Leg{Seconds: base + sd*r.NormFloat64(), Tokens: 1 + 3*plan.steps, Steps: plan.steps}
						for range plan.steps {
							long.Seconds += s.step(l) * (1 + s.sdStep*r.NormFloat64())
						}
						ds = append(ds, TwoPoint(short, long))
					}
					step, ok := Pool(ds).Step()
					if !ok {
						t.Fatalf("%s %dk %s: no step", s.name, k, name)
					}
					squares += math.Pow(step/s.step(l)-1, 2) / runs
				}
				got := math.Sqrt(squares)
				t.Logf("%s %dk %s: %d steps × %d, wanted %.2f %%, got %.2f %%", s.name, k, name, plan.steps, plan.pairs, 100*target, 100*got)
				if got > 1.06*target {
					t.Errorf("%s %dk %s: error %.2f %%, wanted %.2f %%", s.name, k, name, 100*got, 100*target)
				}
			}
		}
	}
}

func BenchmarkTheilSen24(b *testing.B) {
	x, y := make([]float64, 24), make([]float64, 24)
	for i := range x {
		x[i], y[i] = float64(i), float64(i*i)
	}
	for b.Loop() {
		TheilSen(x, y)
	}
}

func BenchmarkStepsFromChunks(b *testing.B) {
	s := simulate(rand.New(rand.NewPCG(1, 1)), 8, 512, 0.02, whole)
	for b.Loop() {
		StepsFromChunks(s.stamps, s.tokens)
	}
}
