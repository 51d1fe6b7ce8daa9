package estimate

import "math"

// Leg is one request as the arithmetic sees it.
type Leg struct {
	Seconds float64 // from the request to its last token
	Tokens  int     // completion tokens, the one from prefill included
	Steps   int     // verify passes; -1 unknown
}

// Difference is what a long leg did beyond a short one: decode alone, since prefill is common to both.
type Difference struct {
	Seconds float64
	Tokens  int
	Steps   int // verify passes; -1 unknown
}

// TwoPoint subtracts the short leg from the long one: Δt, ΔD and ΔS. Steps stay unknown where either leg does not know
// them, or where the short leg claims more than the long one.
func TwoPoint(short, long Leg) Difference {
	d := Difference{Seconds: long.Seconds - short.Seconds, Tokens: long.Tokens - short.Tokens, Steps: -1}
	if short.Steps >= 0 && long.Steps >= short.Steps {
		d.Steps = long.Steps - short.Steps
	}
	return d
}

// Step is Δt/ΔS, the mean seconds per verify pass. It fails where steps are unknown or either part is not positive: a
// negative difference is noise or a cache hit, never a fast server.
func (d Difference) Step() (float64, bool) {
	return positiveRatio(d.Seconds, float64(d.Steps))
}

// Rate is ΔD/Δt, tokens per second. It fails where either part is not positive.
func (d Difference) Rate() (float64, bool) {
	return positiveRatio(float64(d.Tokens), d.Seconds)
}

func positiveRatio(a, b float64) (float64, bool) {
	r := a / b
	if !(a > 0) || !(b > 0) || !(r > 0) || !finite(a, b, r) {
		return 0, false
	}
	return r, true
}

// Pool sums differences, so that each weighs by its steps. Negative ones count too: dropping them would bias the sum
// upwards. Steps are unknown where one of them is.
func Pool(ds []Difference) Difference {
	var sum Difference
	for _, d := range ds {
		sum.Seconds += d.Seconds
		sum.Tokens += d.Tokens
		if d.Steps < 0 || sum.Steps < 0 {
			sum.Steps = -1
			continue
		}
		sum.Steps += d.Steps
	}
	return sum
}

// RelativeError is the relative standard error of the pooled step Σt/ΣS over n ≥ 2 pairs. It is that of a ratio of sums
// (Cochran, Sampling Techniques, ch. 6), from the residuals of each pair: √(n/(n−1)·Σ(tᵢ − step·Sᵢ)²) / Σt. With few pairs it is itself uncertain: with two, it
// rests on one residual.
func RelativeError(ds []Difference) (float64, bool) {
	pool := Pool(ds)
	step, ok := pool.Step()
	if !ok || len(ds) < 2 {
		return 0, false
	}
	var squares float64
	for _, d := range ds {
		r := d.Seconds - step*float64(d.Steps)
		squares += r * r
	}
	n := float64(len(ds))
	e := math.Sqrt(n/(n-1)*squares) / pool.Seconds
	if !finite(e) {
		return 0, false
	}
	return e, true
}

// DecodeTokens is M, the number of tokens to decode so that one difference has the wanted relative precision. The noise of
// a difference is √2·jitter, jitter being the standard deviation in seconds of one leg's prefill part, and it is spread over S
// steps: S ≥ √2·jitter/(precision·step), M = ⌈tau·S⌉. More steps beat more pairs, whose error shrinks only with their
// square root. The result is within [least, most]; least where an argument is not a number.
func DecodeTokens(tau, step, jitter, precision float64, least, most int) int {
	m := math.Ceil(tau * math.Sqrt2 * jitter / (precision * step))
	switch {
	case m >= float64(most):
		return most
	case m > float64(least):
		return int(m)
	}
	return least
}
