package estimate

import "math"

// Mean is the arithmetic mean.
func Mean(xs []float64) (float64, bool) {
	var sum float64
	for _, x := range xs {
		sum += x
	}
	m := sum / float64(len(xs))
	if !finite(m) {
		return 0, false
	}
	return m, true
}

// StandardDeviation is that of a sample of n ≥ 2 values, with n−1 in the denominator.
func StandardDeviation(xs []float64) (float64, bool) {
	m, ok := Mean(xs)
	if !ok || len(xs) < 2 {
		return 0, false
	}
	var squares float64
	for _, x := range xs {
		squares += (x - m) * (x - m)
	}
	sd := math.Sqrt(squares / float64(len(xs)-1))
	if !finite(sd) {
		return 0, false
	}
	return sd, true
}

// StandardError is that of the mean of n ≥ 2 independent values, sd/√n: of the step time over single gaps, say.
func StandardError(xs []float64) (float64, bool) {
	sd, ok := StandardDeviation(xs)
	if !ok {
		return 0, false
	}
	return sd / math.Sqrt(float64(len(xs))), true
}

// MeanInterval holds the mean of the population of n ≥ 2 values with the given confidence, by Student's t.
func MeanInterval(xs []float64, confidence float64) (lo, hi float64, ok bool) {
	m, okMean := Mean(xs)
	se, okError := StandardError(xs)
	if !okMean || !okError {
		return 0, 0, false
	}
	return Interval(m, se, len(xs)-1, confidence)
}

// Interval is value ± t·se, t being Student's for the degrees of freedom that se rests on: n−1 for the mean of n values as
// for a step pooled over n pairs.
func Interval(value, se float64, degrees int, confidence float64) (lo, hi float64, ok bool) {
	if degrees < 1 || !(se >= 0) || !(confidence > 0 && confidence < 1) {
		return 0, 0, false
	}
	half := se * studentT(confidence, degrees)
	lo, hi = value-half, value+half
	if !finite(lo, hi) {
		return 0, 0, false
	}
	return lo, hi, true
}

// studentT is the t with P(|T| < t) = confidence. Bisection runs over θ = atan(t/√degrees), where the distribution function
// is bounded and monotone.
func studentT(confidence float64, degrees int) float64 {
	degrees = min(degrees, 1000) // t differs from its limit by less than 0.3 % there
	lo, hi := 0.0, math.Pi/2
	for range 60 {
		mid := (lo + hi) / 2
		if studentWithin(mid, degrees) < confidence {
			lo = mid
		} else {
			hi = mid
		}
	}
	return math.Tan(lo) * math.Sqrt(float64(degrees))
}

// studentWithin is P(|T| < √ν·tan θ) for whole degrees of freedom ν, by the finite series in sin θ and cos θ (Abramowitz and
// Stegun, 26.7.3 and 26.7.4).
func studentWithin(theta float64, degrees int) float64 {
	sin, cos := math.Sincos(theta)
	if degrees%2 == 0 {
		term, sum := 1.0, 1.0
		for k := 2; k < degrees; k += 2 {
			term *= cos * cos * float64(k-1) / float64(k)
			sum += term
		}
		return sin * sum
	}
	term, sum := cos, 0.0
	for k := 1; k < degrees; k += 2 {
		sum += term
		term *= cos * cos * float64(k+1) / float64(k+2)
	}
	return 2 / math.Pi * (theta + sin*sum)
}
