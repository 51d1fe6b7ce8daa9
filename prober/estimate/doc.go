// Package estimate is the arithmetic of a measurement: facts about requests in, estimates out. It does no I/O. Times are
// seconds. No function returns NaN or an infinity: what cannot be estimated comes with ok = false.
package estimate

import "math"

// finite tells whether every x is a number that may be exported: neither NaN nor infinite.
func finite(xs ...float64) bool {
	for _, x := range xs {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}
