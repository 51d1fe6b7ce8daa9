package collector

import "testing"

// TestPassesInOneStep holds the sample against that of the library, which takes one pass after the other.
func TestPassesInOneStep(t *testing.T) {
	m := Metric{Name: "x", Help: "x", Buckets: []float64{1, 2, 3, 4, 8, 16, 32}}
	one, each := newPassHistogram(m, nil), newHistogram(m, nil)
	long := make([]int, 4096)
	for i := range long {
		long[i] = i % 5
	}
	for _, counts := range [][]int{nil, {3, 0, 2}, {0, 0, 0, 0, 0, 0, 0, 9}, {1}, long} {
		one.observe(counts)
		each.observeCounts("", counts)
		got, want := one.show(), each.show()
		got.Histogram.CreatedTimestamp, want.Histogram.CreatedTimestamp = nil, nil
		if got.String() != want.String() {
			t.Fatalf("%d counts:\n%v\nthe library makes\n%v", len(counts), got, want)
		}
	}
}
