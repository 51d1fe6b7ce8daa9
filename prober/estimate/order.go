package estimate

import (
	"math"
	"slices"
)

// Median is the middle value, or the mean of the two middle ones.
func Median(xs []float64) (float64, bool) { return Quantile(xs, 0.5) }

// MAD is the median absolute deviation from the median, unscaled: multiply by 1.4826 to compare it with a standard
// deviation of normal noise.
func MAD(xs []float64) (float64, bool) {
	m, ok := Median(xs)
	if !ok {
		return 0, false
	}
	deviations := make([]float64, len(xs))
	for i, x := range xs {
		deviations[i] = math.Abs(x - m)
	}
	return Median(deviations)
}

// Quantile interpolates linearly between the order statistics around position q·(n−1), q from 0 to 1.
func Quantile(xs []float64, q float64) (float64, bool) {
	if len(xs) == 0 || !finite(xs...) || !(q >= 0 && q <= 1) {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(xs))
	at := q * float64(len(xs)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1], true
	}
	// Weighted, not x + f·(y−x): the difference of two finite numbers can overflow.
	f := at - float64(i)
	return (1-f)*sorted[i] + f*sorted[i+1], true
}

// MedianInterval is the narrowest symmetric pair of order statistics that holds the median of the population with at least
// the given confidence, whatever its distribution: [x(k), x(n+1−k)] does so with 1 − 2·P(B ≤ k−1), B binomial(n, ½). It fails
// where even the extremes do not reach the confidence: 95 % needs six values.
func MedianInterval(xs []float64, confidence float64) (lo, hi float64, ok bool) {
	n := len(xs)
	if n == 0 || !finite(xs...) || !(confidence > 0 && confidence < 1) {
		return 0, 0, false
	}
	k, tail := 0, 0.0 // tail = P(B ≤ k−1)
	for k < (n+1)/2 {
		tail += binomialHalf(n, k)
		if 1-2*tail < confidence {
			break
		}
		k++
	}
	if k == 0 {
		return 0, 0, false
	}
	sorted := slices.Sorted(slices.Values(xs))
	return sorted[k-1], sorted[n-k], true
}

// binomialHalf is P(B = k) for B binomial(n, ½), by logarithms so that 2⁻ⁿ does not underflow.
func binomialHalf(n, k int) float64 {
	logGamma := func(x int) float64 { v, _ := math.Lgamma(float64(x)); return v }
	return math.Exp(logGamma(n+1) - logGamma(k+1) - logGamma(n-k+1) - float64(n)*math.Ln2)
}
