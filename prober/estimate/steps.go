package estimate

// Gaps are the seconds between consecutive stamps, the first gap left out: the first decode step starts up the drafter,
// graphs and allocations, and on some servers follows a chunk that was sent before prefill ended. Nil where stamps are not
// numbers or run backwards.
func Gaps(stamps []float64) []float64 {
	all := gaps(stamps)
	if len(all) < 2 {
		return nil
	}
	return all[1:]
}

func gaps(stamps []float64) []float64 {
	if len(stamps) < 2 || !finite(stamps...) {
		return nil
	}
	all := make([]float64, len(stamps)-1)
	for i := range all {
		all[i] = stamps[i+1] - stamps[i]
		if all[i] < 0 || !finite(all[i]) {
			return nil
		}
	}
	return all
}

// largestBlock is more than any drafter commits in one pass.
const largestBlock = 128

// CheckSteps tells whether a leg's verify passes S, correct drafts C and decode tokens D (completion tokens less the one
// from prefill) can belong together: 0 ≤ S + C − D < block, since S + C tokens were committed and only the last pass can be cut
// short, by less than block. Block 0 is unknown: then it is 128 at most. S ≤ D + 1, since each pass delivers a token, but for one
// that servers start before they see that the answer is done. Drafts -1 are unknown: then S ≤ D ≤ S·block, each pass yielding 1 to
// block tokens.
func CheckSteps(steps, drafts, decoded, block int) bool {
	if steps < 0 || decoded < 0 || block < 0 {
		return false
	}
	if steps == 0 {
		return decoded == 0 && drafts <= 0
	}
	if drafts < 0 {
		return steps <= decoded && (block == 0 || decoded == 0 || (decoded-1)/block < steps)
	}
	if block == 0 {
		block = largestBlock
	}
	overshoot := drafts - (decoded - steps)
	return steps-1 <= decoded && 0 <= overshoot && overshoot < block
}

// Bounds of a proof by chunks.
const (
	leastSingles  = 3      // gaps of one-token chunks that a reference needs
	leastGap      = 0.0002 // seconds; chunks that follow faster were read out of a buffer, no pass is that quick
	shortest      = 0.6    // of the reference: less is a splinter of a pass
	longest       = 1.6    // of the reference: more may be two passes in one chunk
	longestFirst  = 1.75   // the same for the first decode step, which starts things up
	longestSingle = 2.5    // the same where that step brought one token and so cannot be two passes
)

// StepsFromChunks counts verify passes where the shape of a stream proves that each chunk after the first, which carries
// the token from prefill, is exactly one pass. A chunk of one token cannot hold two passes, so their median gap is the time of
// one pass, unless servers split a pass into chunks that come in a burst; so every gap must be near that reference. It fails where a
// chunk's tokens are unknown, fewer than three one-token chunks follow the first gap, or a gap does not fit.
func StepsFromChunks(stamps []float64, tokens []int) (steps int, ok bool) {
	all := gaps(stamps)
	if len(all) < leastSingles || len(tokens) != len(stamps) || tokens[0] != 1 {
		return 0, false
	}
	reference, ok := singleGap(all, tokens[1:])
	if !ok {
		return 0, false
	}
	for i, gap := range all {
		limit := longest
		switch {
		case i == 0 && tokens[1] == 1:
			limit = longestSingle
		case i == 0:
			limit = longestFirst
		}
		if gap < shortest*reference || gap > limit*reference {
			return 0, false
		}
	}
	return len(all), true
}

// singleGap is the median gap before chunks of one token, the first gap left out.
func singleGap(gaps []float64, tokens []int) (float64, bool) {
	var singles []float64
	for i, gap := range gaps {
		switch n := tokens[i]; {
		case n < 1:
			return 0, false
		case n == 1 && i > 0:
			singles = append(singles, gap)
		}
	}
	reference, ok := Median(singles)
	return reference, ok && len(singles) >= leastSingles && reference >= leastGap
}
