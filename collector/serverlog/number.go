package serverlog

import (
	"bytes"
	"math"
	"strconv"
)

// number reads a number that may have a unit after a space, and may be in percent, which gives a share. What is no finite
// number but a word for none, such as nan, is NaN; ok is false for anything else.
func number(b []byte) (v float64, ok bool) {
	b = trim(b)
	for i, c := range b {
		if isBlank(c) {
			b = b[:i]
			break
		}
	}
	percent := false
	if n := len(b); n > 0 && b[n-1] == '%' {
		b, percent = b[:n-1], true
	}
	if v, ok = decimal(b); !ok {
		switch string(b) {
		case "nan", "NaN", "-nan", "inf", "-inf", "Infinity", "-Infinity", "n/a", "None", "null":
			return math.NaN(), true
		}
		return 0, false
	}
	if percent {
		v /= 100
	}
	return v, true
}

// exactDigits is how many digits a float64 always holds, and tens the powers of ten that it holds exactly.
const exactDigits = 15

func tens(n int) float64 {
	return [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}[n]
}

// decimal reads digits with an optional sign, fraction and exponent. Both sides of a point must have digits: a number that
// ends in one was cut off.
func decimal(b []byte) (v float64, ok bool) {
	rest, negative := b, false
	if len(rest) > 0 && (rest[0] == '-' || rest[0] == '+') {
		rest, negative = rest[1:], rest[0] == '-'
	}
	var mantissa uint64
	digits, point := 0, -1
	for i, c := range rest {
		switch {
		case c >= '0' && c <= '9':
			if digits++; digits <= exactDigits {
				mantissa = mantissa*10 + uint64(c-'0')
			}
		case c == '.' && point < 0 && i > 0 && i+1 < len(rest):
			point = i
		default:
			return exponential(b, i, point, rest)
		}
	}
	if digits == 0 {
		return 0, false
	}
	if digits > exactDigits {
		return parseFloat(b)
	}
	v = float64(mantissa)
	if point >= 0 {
		v /= tens(len(rest) - 1 - point)
	}
	if negative {
		v = -v
	}
	return v, true
}

// exponential reads a number of which the byte at i of rest is no part of a plain one.
func exponential(b []byte, i, point int, rest []byte) (float64, bool) {
	if (rest[i] != 'e' && rest[i] != 'E') || i == 0 || i == point+1 {
		return 0, false
	}
	return parseFloat(b)
}

func parseFloat(b []byte) (float64, bool) {
	const longest = 64
	if len(b) > longest || bytes.ContainsAny(b, "xXpP_") {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(b), 64)
	return v, err == nil
}

// count reads digits alone, up to what a histogram could hold.
func count(b []byte) (int, bool) {
	const longest = 9
	if len(b) == 0 || len(b) > longest {
		return 0, false
	}
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}
