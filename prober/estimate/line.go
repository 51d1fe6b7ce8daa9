package estimate

// TheilSen fits y = intercept + slope·x (Theil 1950, Sen 1968) through points of at least three distinct x: slope is the median of the slopes of all
// pairs, intercept the median of y − slope·x. A quarter of the points may be wild without moving it far.
func TheilSen(x, y []float64) (intercept, slope float64, ok bool) {
	if len(x) != len(y) || !finite(x...) || !finite(y...) || distinct(x) < 3 {
		return 0, 0, false
	}
	var slopes []float64
	for i := range x {
		for j := range i {
			if x[i] != x[j] {
				slopes = append(slopes, (y[i]-y[j])/(x[i]-x[j]))
			}
		}
	}
	slope, ok = Median(slopes)
	if !ok {
		return 0, 0, false
	}
	rest := make([]float64, len(x))
	for i := range x {
		rest[i] = y[i] - slope*x[i]
	}
	intercept, ok = Median(rest)
	if !ok {
		return 0, 0, false
	}
	return intercept, slope, true
}

func distinct(xs []float64) int {
	seen := map[float64]bool{}
	for _, x := range xs {
		seen[x] = true
	}
	return len(seen)
}
