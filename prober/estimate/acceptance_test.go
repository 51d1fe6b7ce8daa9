package estimate

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/quick"
)

func ExampleAcceptLengthOf() {
	// Passes that committed 1, 2, … 8 tokens, bonus token included.
	histogram := []int{3, 4, 4, 2, 2, 1, 1, 2}
	tau, _ := AcceptLengthOf(histogram)
	steps, drafts, _ := HistogramTotals(histogram)
	fmt.Printf("%.2f from %d steps and %d drafts\n", tau, steps, drafts)
	// Output: 3.68 from 19 steps and 51 drafts
}

func TestAcceptLength(t *testing.T) {
	for _, test := range []struct {
		steps, drafts int
		tau           float64
		ok            bool
	}{{19, 51, 1 + 51.0/19, true}, {64, 0, 1, true}, {0, 0, 0, false}, {-1, 5, 0, false}, {5, -1, 0, false}} {
		if tau, ok := AcceptLength(test.steps, test.drafts); tau != test.tau || ok != test.ok {
			t.Errorf("%d steps, %d drafts: %v %v", test.steps, test.drafts, tau, ok)
		}
	}
}

func TestHistogramsRefused(t *testing.T) {
	for _, h := range [][]int{nil, {}, {0, 0}, {3, -1}, {math.MaxInt, math.MaxInt}} {
		if tau, ok := AcceptLengthOf(h); ok || tau != 0 {
			t.Errorf("%v: τ %v %v", h, tau, ok)
		}
	}
}

// Pooling counts gives what one long request would have given.
func TestHistogramSum(t *testing.T) {
	if got := HistogramSum([]int{1, 2}, nil, []int{4, 0, 0, 7}); !slices.Equal(got, []int{5, 2, 0, 7}) {
		t.Errorf("%v", got)
	}
	a := []int{1}
	if HistogramSum(a, []int{2}); a[0] != 1 {
		t.Error("an argument was changed")
	}
	check := func(a, b [8]uint8) bool {
		var ha, hb []int
		for i := range a {
			ha, hb = append(ha, int(a[i])), append(hb, int(b[i]))
		}
		sa, da, _ := HistogramTotals(ha)
		sb, db, _ := HistogramTotals(hb[:5])
		s, d, ok := HistogramTotals(HistogramSum(ha, hb[:5]))
		return ok && s == sa+sb && d == da+db
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
}

func TestDegenerate(t *testing.T) {
	for name, test := range map[string]struct {
		histogram []int
		block     int
		want      bool
	}{
		"loop":                 {[]int{0, 0, 0, 9}, 4, true},
		"beyond the cap":       {[]int{0, 0, 0, 8, 1}, 4, true},
		"one below the cap":    {[]int{0, 0, 1, 9}, 4, false},
		"too few":              {[]int{0, 0, 0, 3}, 4, false},
		"no speculation":       {[]int{9}, 1, false},
		"unknown block":        {[]int{0, 0, 0, 9}, 0, false},
		"never near the cap":   {[]int{9, 9}, 8, false},
		"nothing":              {nil, 8, false},
		"corrupt":              {[]int{-9, 0, 0, 9}, 4, false},
		"honest 16 wide block": {[]int{3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}, 16, false},
	} {
		if got := Degenerate(test.histogram, test.block); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
