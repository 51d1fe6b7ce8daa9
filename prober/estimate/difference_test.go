package estimate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/quick"
)

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance*max(1, math.Abs(b)) }

func ExampleTwoPoint() {
	short := Leg{Seconds: 46.05, Tokens: 1, Steps: 0}
	long := Leg{Seconds: 57.25, Tokens: 65, Steps: 16}
	d := TwoPoint(short, long)
	step, _ := d.Step()
	rate, _ := d.Rate()
	fmt.Printf("%.3f s a step, %.2f tokens a second\n", step, rate)
	// Output: 0.700 s a step, 5.71 tokens a second
}

func TestTwoPoint(t *testing.T) {
	for name, test := range map[string]struct {
		short, long    Leg
		steps          int
		step, rate     float64
		okStep, okRate bool
	}{
		"plain":             {Leg{10, 1, 0}, Leg{14, 17, 8}, 8, 0.5, 4, true, true},
		"short leg decodes": {Leg{11, 5, 2}, Leg{14, 17, 8}, 6, 0.5, 4, true, true},
		"unknown steps":     {Leg{10, 1, 0}, Leg{14, 17, -1}, -1, 0, 4, false, true},
		"unknown short":     {Leg{10, 1, -1}, Leg{14, 17, 8}, -1, 0, 4, false, true},
		"fewer steps":       {Leg{10, 9, 9}, Leg{14, 17, 8}, -1, 0, 2, false, true},
		"negative":          {Leg{14, 1, 0}, Leg{10, 17, 8}, 8, 0, 0, false, false},
		"no time":           {Leg{14, 1, 0}, Leg{14, 17, 8}, 8, 0, 0, false, false},
		"no tokens":         {Leg{10, 1, 0}, Leg{14, 1, 0}, 0, 0, 0, false, false},
		"not a number":      {Leg{math.NaN(), 1, 0}, Leg{14, 17, 8}, 8, 0, 0, false, false},
		"infinite":          {Leg{1, 1, 0}, Leg{math.Inf(1), 17, 8}, 8, 0, 0, false, false},
	} {
		d := TwoPoint(test.short, test.long)
		step, okStep := d.Step()
		rate, okRate := d.Rate()
		if d.Steps != test.steps || !near(step, test.step, 1e-12) || !near(rate, test.rate, 1e-12) || okStep != test.okStep || okRate != test.okRate {
			t.Errorf("%s: steps %d, step %v %v, rate %v %v", name, d.Steps, step, okStep, rate, okRate)
		}
	}
}

func TestPool(t *testing.T) {
	if got, want := Pool([]Difference{{4, 16, 8}, {-1, 16, 7}, {5, 16, 9}}), (Difference{8, 48, 24}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Pool([]Difference{{4, 16, 8}, {4, 16, -1}, {5, 16, 9}}); got.Steps != -1 {
		t.Errorf("steps %d known though one difference does not know them", got.Steps)
	}
	if _, ok := Pool(nil).Step(); ok {
		t.Error("a step from nothing")
	}
	order := func(a, b, c Difference) bool {
		for _, d := range []*Difference{&a, &b, &c} { // whole eighths of a second add exactly
			d.Seconds, d.Tokens, d.Steps = math.Mod(math.Trunc(d.Seconds), 1024)/8, d.Tokens%1000, d.Steps%1000
		}
		return Pool([]Difference{a, b, c}) == Pool([]Difference{c, a, b})
	}
	if err := quick.Check(order, nil); err != nil {
		t.Error(err)
	}
}

// The relative error must be what repeating the whole measurement shows.
func TestRelativeErrorIsTrue(t *testing.T) {
	for _, n := range []int{3, 6, 20} {
		r := rand.New(rand.NewPCG(1, uint64(n)))
		const runs = 4000
		var claimed, squares float64
		for range runs {
			ds := make([]Difference, n)
			for i := range ds {
				steps := 12 + r.IntN(9)
				noise := 0.05 * math.Sqrt2 * r.NormFloat64()
				for range steps {
					noise += 0.1 * 0.05 * r.NormFloat64()
				}
				ds[i] = Difference{Seconds: 0.1*float64(steps) + noise, Tokens: 3 * steps, Steps: steps}
			}
			e, ok := RelativeError(ds)
			step, _ := Pool(ds).Step()
			if !ok {
				t.Fatal("no error estimate")
			}
			claimed += e * e / runs
			squares += (step/0.1 - 1) * (step/0.1 - 1) / runs
		}
		t.Logf("n=%d: claimed %.3f %%, true %.3f %%", n, 100*math.Sqrt(claimed), 100*math.Sqrt(squares))
		if ratio := math.Sqrt(claimed / squares); ratio < 0.93 || ratio > 1.07 {
			t.Errorf("n=%d: the claimed error is %.2f of the true one", n, ratio)
		}
	}
}

func TestRelativeErrorRefuses(t *testing.T) {
	for name, ds := range map[string][]Difference{
		"one pair":         {{4, 16, 8}},
		"unknown steps":    {{4, 16, 8}, {4, 16, -1}},
		"negative":         {{4, 16, 8}, {-5, 16, 8}},
		"not a number":     {{4, 16, 8}, {math.NaN(), 16, 8}},
		"overflow squares": {{1e200, 16, 1}, {1e199, 16, 8}},
	} {
		if e, ok := RelativeError(ds); ok || e != 0 {
			t.Errorf("%s: %v %v", name, e, ok)
		}
	}
	if e, ok := RelativeError([]Difference{{4, 16, 8}, {2, 9, 4}}); !ok || e != 0 {
		t.Errorf("equal steps have relative error %v %v", e, ok)
	}
}

func TestDecodeTokens(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for name, test := range map[string]struct {
		tau, step, jitter, precision float64
		want                         int
	}{
		// √2·0.46/(0.03·0.957) = 22.7 steps of 3.46 tokens.
		"cold":               {3.46, 0.957, 0.46, 0.03, 79},
		"warm":               {3.46, 0.957, 0.005, 0.03, 16},
		"fast server, cold":  {3.46, 0.025, 0.15, 0.03, 512},
		"no speculation":     {1, 0.1, 0.1, 0.03, 48},
		"no jitter":          {3, 0.1, 0, 0.03, 16},
		"impossible":         {3, 0.1, 0.1, 0, 512},
		"no step":            {3, 0, 0.1, 0.03, 512},
		"not a number":       {nan, 0.1, 0.1, 0.03, 16},
		"infinite jitter":    {3, 0.1, inf, 0.03, 512},
		"infinite over same": {3, inf, inf, 0.03, 16},
		"negative":           {3, -0.1, 0.1, 0.03, 16},
	} {
		if got := DecodeTokens(test.tau, test.step, test.jitter, test.precision, 16, 512); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
