package prober

import (
	"fmt"
	"strconv"
	"strings"
)

// Rung is one context length of a ladder, in prompt tokens.
type Rung int

// ParseRung reads `1k`, `1.5k` (k = 1024) or a plain number of tokens.
func ParseRung(s string) (Rung, error) {
	number, kilo := strings.CutSuffix(strings.ToLower(strings.TrimSpace(s)), "k")
	if !kilo {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 {
			return 0, fmt.Errorf("context length %q is neither a number of tokens nor like 8k", s)
		}
		return Rung(n), nil
	}
	f, err := strconv.ParseFloat(number, 64)
	tokens := f * 1024
	if err != nil || !(tokens >= 1 && tokens <= 1<<30) || tokens != float64(int(tokens)) {
		return 0, fmt.Errorf("context length %q is neither a number of tokens nor like 8k", s)
	}
	return Rung(tokens), nil
}

// Context is the value of the label `context`: tokens as a decimal number.
func (r Rung) Context() string { return strconv.Itoa(int(r)) }

// String is the value of the label `rung`: `128k` where the length is a multiple of 1024, `1.5k` of 512, else the number.
func (r Rung) String() string {
	if r%512 != 0 {
		return r.Context()
	}
	return strconv.FormatFloat(float64(r)/1024, 'f', -1, 64) + "k"
}
