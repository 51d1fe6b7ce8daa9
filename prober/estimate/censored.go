package estimate

// Pass is one verify pass as a stream shows it. The last pass of an answer is cut off at max_tokens: it committed what was
// delivered, or more.
type Pass struct {
	Tokens int
	Cut    bool
}

// AcceptLengthCut is τ of passes of which some are cut off, by the product-limit estimate of the distribution (Kaplan and
// Meier 1958). Leaving the cut ones out, or counting what they delivered, would be low by up to a tenth: the pass that crosses a
// limit is longer than most. It fails where no pass is whole.
func AcceptLengthCut(passes []Pass) (float64, bool) {
	longest, whole := 0, false
	for _, p := range passes {
		if p.Tokens < 1 || p.Tokens > largestBlock {
			return 0, false
		}
		longest, whole = max(longest, p.Tokens), whole || !p.Cut
	}
	if !whole {
		return 0, false
	}
	mean, beyond := 1.0, 1.0 // beyond is the probability of more than n tokens
	for n := 1; n < longest; n++ {
		atRisk, ended := 0, 0
		for _, p := range passes {
			switch {
			case !p.Cut && p.Tokens == n:
				atRisk++
				ended++
			case p.Tokens > n:
				atRisk++
			}
		}
		beyond *= 1 - float64(ended)/float64(atRisk)
		mean += beyond
	}
	return mean, true
}
