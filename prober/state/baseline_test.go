package state

import "testing"

func TestBaselines(t *testing.T) {
	var r Rung
	add := func(deploy string, steps ...float64) {
		for _, s := range steps {
			r.AddStep(deploy, s)
		}
	}
	check := func(deploy string, present, previous float64) {
		t.Helper()
		if a, b := r.Medians(deploy); a != present || b != previous {
			t.Errorf("%s: %v and %v, want %v and %v", deploy, a, b, present, previous)
		}
	}
	add("", 9, 9, 9)
	check("", 0, 0)
	add("a", 1, 3)
	check("a", 0, 0)
	add("a", 2)
	check("a", 2, 0)
	check("b", 0, 2) // deployed, not measured yet
	add("b", 5, 5)
	check("b", 0, 2)
	add("c", 7, 7, 7) // b was too short to be held against
	check("c", 7, 2)
	add("d", 8, 8, 8)
	check("d", 8, 7)
	add("c", 6, 6, 6) // rolled back: measured anew
	check("c", 6, 8)
	if r.Usual("c") != 6 || r.Usual("other") != 0 {
		t.Errorf("usual: %v, %v", r.Usual("c"), r.Usual("other"))
	}
	r.Samples = []Sample{{Step: 1}, {Step: 4}, {}, {Step: 2}, {Step: 3}}
	if got := r.Usual("other"); got != 2.5 {
		t.Errorf("usual of samples: %v", got)
	}
	var long Baseline
	for i := range 10_000 {
		long = long.add(float64(i + 1))
	}
	if m := long.Median(); m < 4500 || m > 5500 || len(long.Steps) > mostSteps {
		t.Errorf("the median of 1 to 10,000 is %v of %d", m, len(long.Steps))
	}
}
