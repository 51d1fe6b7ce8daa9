package estimate

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/quick"
)

func TestOrderStatistics(t *testing.T) {
	for _, test := range []struct {
		xs                    []float64
		q, quantile, med, mad float64
	}{
		{[]float64{3}, 0.9, 3, 3, 0},
		{[]float64{1, 2}, 0.25, 1.25, 1.5, 0.5},
		{[]float64{9, 1, 5}, 1, 9, 5, 4},
		{[]float64{4, 1, 3, 2}, 0.5, 2.5, 2.5, 1},
		{[]float64{1, 1, 1, 1, 1000}, 0, 1, 1, 0},
		{[]float64{-math.MaxFloat64, math.MaxFloat64}, 0.5, 0, 0, math.MaxFloat64},
	} {
		before := test.xs[0]
		q, _ := Quantile(test.xs, test.q)
		med, _ := Median(test.xs)
		mad, _ := MAD(test.xs)
		if q != test.quantile || med != test.med || mad != test.mad {
			t.Errorf("%v: quantile %v, median %v, MAD %v", test.xs, q, med, mad)
		}
		if test.xs[0] != before {
			t.Errorf("%v was reordered", test.xs)
		}
	}
}

func TestMedianInterval(t *testing.T) {
	ascending := func(n int) (xs []float64) {
		for i := range n {
			xs = append(xs, float64(i+1))
		}
		return xs
	}
	for _, test := range []struct {
		n          int
		confidence float64
		lo, hi     float64
	}{
		{5, 0.95, 0, 0}, // 93.75 % at most
		{5, 0.9, 1, 5},
		{6, 0.95, 1, 6}, // the smallest n for 95 %
		{9, 0.95, 2, 8},
		{20, 0.95, 6, 15},
		{100, 0.95, 40, 61},
		{1, 0.5, 0, 0},
		{7, 0.99, 0, 0},
		{8, 0.99, 1, 8},
		{10, 0, 0, 0},
		{10, 1, 0, 0},
		{10, math.NaN(), 0, 0},
	} {
		lo, hi, ok := MedianInterval(ascending(test.n), test.confidence)
		if lo != test.lo || hi != test.hi || ok != (test.hi > 0) {
			t.Errorf("n=%d at %v: [%v, %v] %v, want [%v, %v]", test.n, test.confidence, lo, hi, ok, test.lo, test.hi)
		}
	}
	if lo, hi, ok := MedianInterval(ascending(5000), 0.95); !ok || lo < 2420 || hi > 2581 {
		t.Errorf("n=5000: [%v, %v] %v", lo, hi, ok)
	}
}

// Intervals must hold the truth as often as they say, the one of the median whatever the distribution.
func TestIntervalsHoldTheTruth(t *testing.T) {
	const runs = 20_000
	r := rand.New(rand.NewPCG(2, 3))
	for _, n := range []int{6, 11, 30} {
		median, mean := 0, 0
		skewed, normal := make([]float64, n), make([]float64, n)
		for range runs {
			for i := range n {
				skewed[i], normal[i] = math.Exp(2*r.NormFloat64()), 5+r.NormFloat64()
			}
			if lo, hi, ok := MedianInterval(skewed, 0.95); ok && lo <= 1 && 1 <= hi {
				median++
			}
			if lo, hi, ok := MeanInterval(normal, 0.95); ok && lo <= 5 && 5 <= hi {
				mean++
			}
		}
		if share := float64(median) / runs; share < 0.945 {
			t.Errorf("n=%d: the median's interval holds it in %.2f %%", n, 100*share)
		}
		if share := float64(mean) / runs; share < 0.945 || share > 0.955 {
			t.Errorf("n=%d: the mean's interval holds it in %.2f %%", n, 100*share)
		}
	}
}

func TestStudent(t *testing.T) {
	for _, test := range []struct {
		degrees       int
		confidence, t float64
	}{
		{1, 0.95, 12.706},
		{2, 0.95, 4.303},
		{3, 0.95, 3.182},
		{5, 0.99, 4.032},
		{10, 0.95, 2.228},
		{30, 0.9, 1.697},
		{120, 0.95, 1.980},
		{1 << 40, 0.95, 1.962},
	} {
		lo, hi, ok := Interval(0, 1, test.degrees, test.confidence)
		if !ok || math.Abs(hi-test.t) > 0.001 || lo != -hi {
			t.Errorf("%d degrees at %v: ±%v, want %v", test.degrees, test.confidence, hi, test.t)
		}
	}
}

func TestStandardError(t *testing.T) {
	xs := []float64{2, 4, 4, 4, 5, 5, 7, 9}
	if se, ok := StandardError(xs); !ok || !near(se, math.Sqrt(32.0/7/8), 1e-12) {
		t.Errorf("%v %v", se, ok)
	}
	if m, ok := Mean(xs); !ok || m != 5 {
		t.Errorf("mean %v %v", m, ok)
	}
	if _, ok := StandardError(xs[:1]); ok {
		t.Error("a standard error from one value")
	}
}

func TestTheilSen(t *testing.T) {
	x := []float64{1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 196608}
	y := make([]float64, len(x))
	for i := range x {
		y[i] = 0.0598 + 1.4955e-5*x[i]
	}
	y[4] *= 3 // one wild rung
	y[8] *= 0.2
	intercept, slope, ok := TheilSen(x, y)
	if !ok || !near(slope*1e5, 1.4955, 0.02) || math.Abs(intercept-0.0598) > 0.01 {
		t.Errorf("%v + %v·x %v", intercept, slope, ok)
	}
	for name, bad := range map[string][2][]float64{
		"two points":     {{1, 2}, {1, 2}},
		"two distinct":   {{1, 2, 2, 1}, {1, 2, 3, 4}},
		"lengths differ": {{1, 2, 3}, {1, 2}},
		"not a number":   {{1, 2, 3}, {1, 2, math.NaN()}},
		"overflow":       {{0, 1e-300, 2e-300}, {0, 1e300, -1e300}},
	} {
		if a, b, ok := TheilSen(bad[0], bad[1]); ok || a != 0 || b != 0 {
			t.Errorf("%s: %v %v %v", name, a, b, ok)
		}
	}
}

// awkward maps quick's numbers so that some are NaN, infinite, huge or equal.
func awkward(xs []float64) []float64 {
	for i, x := range xs {
		switch math.Float64bits(x) % 7 {
		case 0:
			xs[i] = math.NaN()
		case 1:
			xs[i] = math.Inf(1)
		case 2, 3:
			xs[i] = float64(int(math.Mod(x, 4)))
		}
	}
	return xs
}

// Nothing may return NaN or an infinity, nor a value beside ok = false.
func TestNothingReturnsNaN(t *testing.T) {
	sound := func(ok bool, vs ...float64) bool {
		for _, v := range vs {
			if !finite(v) || !ok && v != 0 {
				return false
			}
		}
		return true
	}
	check := func(xs, ys []float64, q float64, legs [4]Leg) bool {
		for _, xs := range [][]float64{awkward(xs), ys} {
			m, okM := Median(xs)
			d, okD := MAD(xs)
			p, okP := Quantile(xs, math.Mod(math.Abs(q), 1.5))
			mean, okMean := Mean(xs)
			se, okSE := StandardError(xs)
			lo, hi, okI := MedianInterval(xs, 0.9)
			mlo, mhi, okMI := MeanInterval(xs, 0.9)
			a, b, okL := TheilSen(xs, ys[:min(len(xs), len(ys))])
			if !sound(okM, m) || !sound(okD, d) || !sound(okP, p) || !sound(okMean, mean) || !sound(okSE, se) || !sound(okI, lo, hi) ||
				!sound(okMI, mlo, mhi) || !sound(okL, a, b) || !finite(Gaps(xs)...) {
				return false
			}
		}
		ds := []Difference{TwoPoint(legs[0], legs[1]), TwoPoint(legs[2], legs[3])}
		step, okS := Pool(ds).Step()
		rate, okR := Pool(ds).Rate()
		e, okE := RelativeError(ds)
		return sound(okS, step) && sound(okR, rate) && sound(okE, e)
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 3000}); err != nil {
		t.Error(err)
	}
}
