package sweep

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes text of a server fit for a terminal and a file: bounded, on one line, without control or invisible
// direction characters.
func clean(s string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range strings.TrimSpace(s) {
		if n == limit {
			b.WriteRune('…')
			break
		}
		n++
		switch {
		case unicode.IsSpace(r):
			b.WriteRune(' ')
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteRune(utf8.RuneError)
		}
	}
	return b.String()
}

// seconds writes a duration with four digits, in ms below one second.
func seconds(v float64) string {
	if math.Abs(v) < 1 {
		return digits(v*1000, v*1000) + " ms"
	}
	return digits(v, v) + " s"
}

// secondsWithin writes a duration and the half width of its interval in one unit.
func secondsWithin(v float64, interval []float64) string {
	if len(interval) != 2 {
		return seconds(v)
	}
	half, unit := (interval[1]-interval[0])/2, " s"
	if v < 1 {
		v, half, unit = v*1000, half*1000, " ms"
	}
	return digits(v, v) + " ± " + digits(half, v) + unit
}

// digits writes v with as many decimals as give a number of the size of scale four digits.
func digits(v, scale float64) string {
	decimals := 3
	for bound := 10.0; math.Abs(scale) >= bound && decimals > 0; bound *= 10 {
		decimals--
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// pad fills s up to width columns, on the left where right is set.
func pad(s string, width int, right bool) string {
	fill := strings.Repeat(" ", max(width-utf8.RuneCountInString(s), 0))
	if right {
		return fill + s
	}
	return s + fill
}
