package prober

import (
	"math"
	"runtime/metrics"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"longctx_exporter/prober/inference"
)

func TestSelfWatchIsQuietOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchSelf()
		time.Sleep(time.Hour)
		w.stop()
		if s := w.suffered(); s.Lag != 0 || w.at(time.Now()) != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestSelfWatchAt(t *testing.T) {
	began := time.Now()
	w := &selfWatch{}
	for _, s := range [][2]time.Duration{{time.Second, 1100 * time.Millisecond}, {1050 * time.Millisecond, 1300 * time.Millisecond}, {2 * time.Second, 2*time.Second + time.Millisecond}} {
		w.note(stall{began.Add(s[0]), began.Add(s[1])})
	}
	for at, want := range map[time.Duration]float64{
		990 * time.Millisecond: 0, 999 * time.Millisecond: 0.1, 1020 * time.Millisecond: 0.1, 1070 * time.Millisecond: 0.25,
		1300 * time.Millisecond: 0.25, 1310 * time.Millisecond: 0, 2 * time.Second: 0,
	} {
		if got := w.at(began.Add(at)); math.Abs(got-want) > 1e-9 {
			t.Errorf("at %v: %v, want %v", at, got, want)
		}
	}
	if w.lag != 0.25 {
		t.Errorf("lag %v", w.lag)
	}
	for range 2 * keptStalls {
		w.note(stall{began, began.Add(time.Minute)})
	}
	if len(w.stalls) != keptStalls || w.lag != 60 {
		t.Errorf("%d stalls kept, lag %v", len(w.stalls), w.lag)
	}
}

// A pair of 0.2 and 2.2 s: stalls at its stamps matter from 3 % of the two seconds between on, or from its standard error on
// where that is larger; stalls between stamps never do.
func TestCheckSelf(t *testing.T) {
	began := time.Now()
	leg := func(after, took time.Duration) Leg {
		return Leg{began: began.Add(after), Response: inference.Response{LastToken: took}}
	}
	pairs := []pairLegs{{leg(0, 200*time.Millisecond), leg(time.Second, 2200*time.Millisecond)}}
	ms := time.Millisecond
	for name, tt := range map[string]struct {
		due, late     time.Duration
		standardError float64
		rejected      bool
	}{
		"none":                     {0, 0, 0.01, false},
		"short at the end":         {3190 * ms, 50 * ms, 0.01, false},
		"long at the end":          {3190 * ms, 70 * ms, 0.01, true},
		"within the error":         {3190 * ms, 70 * ms, 0.05, false},
		"beyond the error":         {3190 * ms, 110 * ms, 0.05, true},
		"at the beginning":         {990 * ms, 70 * ms, 0.01, true},
		"at the end of the short":  {150 * ms, 70 * ms, 0.01, true},
		"long, between the stamps": {1500 * ms, time.Second, 0.01, false},
		"before all":               {-5 * time.Second, time.Second, 0.01, false},
	} {
		e := &execution{Runner: &Runner{target: Target{Precision: 0.03}}, self: &selfWatch{}}
		e.run.Sample.StepError = tt.standardError
		e.self.note(stall{began.Add(tt.due), began.Add(tt.due + tt.late)})
		err := e.checkSelf(pairs, 2)
		if (reasonOf(err) == Implausible) != tt.rejected || !tt.rejected && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLongestPause(t *testing.T) {
	now := &metrics.Float64Histogram{Counts: []uint64{5, 7, 2}, Buckets: []float64{0, 1e-4, 1e-3, math.Inf(1)}}
	for _, tt := range []struct {
		before []uint64
		want   float64
	}{{[]uint64{5, 7, 2}, 0}, {[]uint64{4, 7, 2}, 1e-4}, {[]uint64{4, 6, 2}, 1e-3}, {[]uint64{0, 0, 1}, 1e-3}, {nil, 0}} {
		if got := longestPause(tt.before, now); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.before, got, tt.want)
		}
	}
	if got := longestPause(gcPauses().Counts, gcPauses()); got < 0 || got > 60 {
		t.Errorf("the longest pause since just now is %v s", got)
	}
}

func TestSteal(t *testing.T) {
	before := parseCPU([]byte("cpu  100 0 50 800 10 0 5 35 0 0\ncpu0 1 1\n"))
	after := parseCPU([]byte("cpu  150 0 50 840 10 0 5 45 0 0\n"))
	if share := after.stealSince(before); share == nil || math.Abs(*share-0.1) > 1e-9 {
		t.Errorf("share %v of %+v and %+v", share, before, after)
	}
	for _, c := range []cpuTimes{{}, after} {
		if share := before.stealSince(c); share != nil {
			t.Errorf("share %v of a clock that went back", *share)
		}
	}
}

func FuzzParseCPU(f *testing.F) {
	for _, s := range []string{"", "cpu", "cpu 1 2 3 4 5 6 7", "cpu  1 2 3 4 5 6 7 8 9 10\n", "cpu 1 2 3 4 5 6 7 -8", "cpu0 1 2 3 4 5 6 7 8"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if c := parseCPU([]byte(s)); c.stolen > c.all || c.all > 0 && !strings.HasPrefix(strings.TrimSpace(s), "cpu") {
			t.Errorf("%q: %+v", s, c)
		}
	})
}
