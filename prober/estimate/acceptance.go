package estimate

// mostSteps is more passes than any server reports in one count; larger counts are corrupt and could overflow sums.
const mostSteps = 1 << 40

// AcceptLength is τ = 1 + C/S, the tokens that a verify pass commits on average, bonus token included. Completion tokens over
// S would be off by the token from prefill and by the last pass, which is cut short.
func AcceptLength(steps, drafts int) (float64, bool) {
	if steps < 1 || drafts < 0 {
		return 0, false
	}
	return 1 + float64(drafts)/float64(steps), true
}

// AcceptLengthOf is τ of a histogram whose entry i counts passes that committed i+1 tokens: Σ(i+1)·h[i] / Σh[i].
func AcceptLengthOf(histogram []int) (float64, bool) {
	steps, drafts, ok := HistogramTotals(histogram)
	if !ok {
		return 0, false
	}
	return AcceptLength(steps, drafts)
}

// HistogramTotals are the verify passes Σh[i] and correct drafts Σi·h[i] of a histogram. It fails where a count is
// negative or beyond belief.
func HistogramTotals(histogram []int) (steps, drafts int, ok bool) {
	for i, n := range histogram {
		if n < 0 || n > mostSteps {
			return 0, 0, false
		}
		steps += n
		drafts += i * n
	}
	return steps, drafts, true
}

// HistogramSum pools histograms count by count; servers cut them after the longest acceptance seen, so lengths may differ.
// Acceptance is pooled by counts: a mean of means would weigh short requests like long ones.
func HistogramSum(histograms ...[]int) []int {
	var sum []int
	for _, h := range histograms {
		for len(sum) < len(h) {
			sum = append(sum, 0)
		}
		for i, n := range h {
			sum[i] += n
		}
	}
	return sum
}

// Degenerate tells that every one of at least four passes committed block tokens: the model repeats itself, and its
// acceptance says nothing about text.
func Degenerate(histogram []int, block int) bool {
	steps, _, ok := HistogramTotals(histogram)
	if !ok || block < 2 || steps < 4 || len(histogram) < block {
		return false
	}
	capped := 0
	for _, n := range histogram[block-1:] {
		capped += n
	}
	return capped == steps
}
