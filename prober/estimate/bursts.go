package estimate

// Bounds of a proof by bursts.
const (
	inBurst    = 0.2  // of the reference: chunks closer than this belong to one pass
	outerShare = 0.25 // of the largest gap: gaps above it give the reference
)

// Bursts are the stamps of the first chunk of each burst, where a server sends each token of a pass as a chunk of its own:
// chunks then come in bursts, one a pass, the very first being the token from prefill alone. So len−1 passes were made, and Gaps of
// the result are single passes. Every gap between chunks must either be far shorter than a pass or near the median of the
// long ones; else nothing is proved.
func Bursts(stamps []float64) (starts []float64, ok bool) {
	all := gaps(stamps)
	if len(all) < leastSingles {
		return nil, false
	}
	largest, _ := Quantile(all, 1)
	var outer []float64
	for _, g := range all {
		if g > outerShare*largest {
			outer = append(outer, g)
		}
	}
	reference, ok := Median(outer)
	if !ok || reference < leastGap || len(outer) < leastSingles {
		return nil, false
	}
	starts = []float64{stamps[0]}
	for i, g := range all {
		most := longest
		if len(starts) == 1 {
			most = longestFirst
		}
		switch {
		case g <= inBurst*reference && len(starts) > 1:
		case g >= shortest*reference && g <= most*reference:
			starts = append(starts, stamps[i+1])
		default:
			return nil, false
		}
	}
	return starts, true
}
