package estimate

// Bounds of a proof by bursts.
const (
	inBurst    = 0.2  // of the reference: chunks closer than this belong to one pass
	outerShare = 0.25 // of the largest gap: gaps above it give the reference
)

// StepsFromBursts counts verify passes where a server sends each token of a pass as a chunk of its own: chunks then come in
// bursts, one a pass, the first chunk being the token from prefill. Every gap must either be far shorter than a pass or near the
// median of the long ones; else nothing is proved.
func StepsFromBursts(stamps []float64) (steps int, ok bool) {
	all := gaps(stamps)
	if len(all) < leastSingles {
		return 0, false
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
		return 0, false
	}
	for _, g := range all {
		most := longest
		if steps == 0 {
			most = longestFirst
		}
		switch {
		case g <= inBurst*reference:
		case g >= shortest*reference && g <= most*reference:
			steps++
		default:
			return 0, false
		}
	}
	return steps, true
}
