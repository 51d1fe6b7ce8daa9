package prober

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"
)

// TestEvidence takes step times in and sees what each of them changes.
func TestEvidence(t *testing.T) {
	usual := []float64{1, 1.01, 0.99, 1, 1}
	for name, test := range map[string]struct {
		steps []float64 // after usual; 0 is not known
		want  []finding
	}{
		"noise":                          {[]float64{1.19, 0.81, 1.1}, []finding{0, 0, 0}},
		"a slower server":                {[]float64{1.3, 1.3, 1.31, 1.3, 1.3}, []finding{surprised, 0, confirmed, 0, 0}},
		"a faster server":                {[]float64{0.5, 0.5, 0.5, 0.5}, []finding{surprised, 0, confirmed, 0}},
		"there and back":                 {[]float64{2, 2, 2, 1, 1, 1, 1}, []finding{surprised, 0, confirmed, surprised, 0, confirmed, 0}},
		"an outlier":                     {[]float64{1.5, 1, 1}, []finding{surprised, refuted, 0}},
		"an outlier, then a lesser one":  {[]float64{1.5, 1.3, 1.1}, []finding{surprised, 0, refuted}},
		"an outlier to either side":      {[]float64{1.5, 0.5, 1}, []finding{surprised, refuted, 0}},
		"outliers that are no news":      {[]float64{1.5, 1, 1.5, 1, 1.5, 1.5, 1}, []finding{surprised, refuted, surprised, refuted, 0, 0, 0}},
		"one that does not know settles": {[]float64{1.5, 0, 1.5, 0, 1.5}, []finding{surprised, 0, 0, 0, confirmed}},
	} {
		t.Run(name, func(t *testing.T) {
			var e evidence
			for _, step := range usual {
				if found, _ := e.take(Sample{Step: step}); found != nothingNew {
					t.Fatalf("%v is a surprise", step)
				}
			}
			var got []finding
			for _, step := range test.steps {
				found, _ := e.take(Sample{Step: step})
				got = append(got, found)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%v is found to be %v, want %v", test.steps, got, test.want)
			}
		})
	}
}

// TestEvidenceOfEachQuantity finds surprises in prefill as in decode, but not in the time to the first token of a burst, nor
// before anything is usual.
func TestEvidenceOfEachQuantity(t *testing.T) {
	normal := Sample{Step: 1, TTFT: 10, Prefill: 1000}
	slow := func(edit func(*Sample)) Sample { s := normal; edit(&s); return s }
	for name, test := range map[string]struct {
		before int
		sample Sample
		want   string
	}{
		"step":      {5, slow(func(s *Sample) { s.Step = 1.3 }), "step"},
		"ttft":      {5, slow(func(s *Sample) { s.TTFT = 13 }), "ttft"},
		"prefill":   {5, slow(func(s *Sample) { s.Prefill = 700 }), "prefill"},
		"all":       {5, Sample{Step: 2, TTFT: 20, Prefill: 500}, "step"},
		"buffered":  {5, slow(func(s *Sample) { s.TTFT, s.Buffered = 50, true }), ""},
		"two known": {2, slow(func(s *Sample) { s.Step = 3 }), ""},
		"the first": {0, normal, ""},
	} {
		var e evidence
		for range test.before {
			e.take(normal)
		}
		if _, d := e.take(test.sample); d.name != test.want {
			t.Errorf("%s: a surprise in %q, want %q", name, d.name, test.want)
		}
		if alone := name == "step"; e.decodeAlone() != alone {
			t.Errorf("%s: decode alone settles it: %v, want %v", name, e.decodeAlone(), alone)
		}
	}
}

// TestEvidenceOfWarmRuns has slower steps confirmed by samples without a prefill, and sees that what is usual of prefill stays known.
func TestEvidenceOfWarmRuns(t *testing.T) {
	var e evidence
	take := func(s Sample, want finding, quantity string) {
		t.Helper()
		if found, d := e.take(s); found != want || d.name != quantity {
			t.Errorf("%+v: %v %q, want %v %q", s, found, d.name, want, quantity)
		}
	}
	for range 5 {
		take(Sample{Step: 1, TTFT: 10, Prefill: 1000}, nothingNew, "")
	}
	take(Sample{Step: 1.3, TTFT: 10, Prefill: 1000}, surprised, "step")
	take(Sample{Step: 1.3}, nothingNew, "")
	take(Sample{Step: 1.3}, confirmed, "step")
	take(Sample{Step: 1.3, TTFT: 13, Prefill: 1000}, surprised, "ttft")
	take(Sample{Step: 1.3, TTFT: 10, Prefill: 1000}, refuted, "ttft")
	take(Sample{Step: 1, TTFT: 10, Prefill: 1000}, surprised, "step")
}

// spoilt is how a run ends that measures nothing; the zero value is a clean one.
type spoilt struct {
	status Status
	reason Reason
}

// TestConfirmations lives through a change of the step time of a rung that is run every four hours.
func TestConfirmations(t *testing.T) {
	const every = 4 * time.Hour
	for name, test := range map[string]struct {
		slow   []int          // numbers of the runs, confirmations included, that are 30 % slower; the last one and all after it
		spoilt map[int]spoilt // how others end
		quiet  bool           // quiet hours begin with the change
		want   []int          // numbers of the runs that are confirmations
		within time.Duration  // from the first slow run to the last confirmation
		said   map[string]int // how often the log says it
	}{
		"a change": {
			slow: []int{6}, want: []int{7, 8}, within: 10 * time.Minute,
			said: map[string]int{"measured again": 1, "is confirmed": 1, "not confirmed": 0},
		},
		"an outlier": {
			slow: []int{6, 100}, want: []int{7}, within: 10 * time.Minute,
			said: map[string]int{"measured again": 1, "is confirmed": 0, "not confirmed": 1},
		},
		"a confirmation that is rejected": { // the ladder's next run is the second value, then one more confirmation
			slow: []int{6}, spoilt: map[int]spoilt{7: {Rejected, Contended}}, want: []int{7, 9}, within: every + 10*time.Minute,
			said: map[string]int{"measured again": 1, "is confirmed": 1},
		},
		"a confirmation that fails": {
			slow: []int{6}, spoilt: map[int]spoilt{7: {Failed, "timeout"}}, want: []int{7, 9}, within: every + 10*time.Minute,
			said: map[string]int{"measured again": 1, "is confirmed": 1},
		},
		"a confirmation that makes way is tried again": {
			slow: []int{6}, spoilt: map[int]spoilt{7: {Rejected, Yielded}}, want: []int{7, 8, 9}, within: 45 * time.Minute,
			said: map[string]int{"measured again": 1, "is confirmed": 1},
		},
		"a confirmation that finds the server busy is tried again": {
			slow: []int{6}, spoilt: map[int]spoilt{7: {Skipped, Busy}}, want: []int{7, 8, 9}, within: 45 * time.Minute,
			said: map[string]int{"measured again": 1, "is confirmed": 1},
		},
		"runs that are no measurement": {
			spoilt: map[int]spoilt{6: {Rejected, Contended}, 7: {Failed, "timeout"}, 8: {Rejected, ColdStart}}, slow: []int{100},
			said: map[string]int{"measured again": 0},
		},
		"after a deployment": {
			spoilt: map[int]spoilt{6: {Rejected, ColdStart}}, slow: []int{7}, want: []int{8, 9}, within: 10 * time.Minute,
			said: map[string]int{"measured again": 1, "is confirmed": 1},
		},
		"in quiet hours": { // after them the ladder's next run is due as well
			slow: []int{5}, quiet: true, want: []int{6}, within: 9 * time.Hour,
			said: map[string]int{"is confirmed": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			target := testTarget("a", "s", 0.02, map[Rung]time.Duration{131072: every})
			d, out := &diary{}, &bytes.Buffer{}
			n := 0
			var first, last time.Time
			var got []int
			synctest.Test(t, func(t *testing.T) {
				if test.quiet {
					target.QuietHours = []QuietHours{{From: 20*60 + 1, To: 4*60 + 1, Zone: "UTC"}} // a bubble begins at midnight
				}
				ctx, cancel := context.WithTimeout(t.Context(), 20*every)
				defer cancel()
				s := NewScheduler([]Target{target}, func(ctx context.Context, target Target, r Rung, _ string) Run {
					n++
					run := fakeRun(ctx, target, r, 10*time.Second)
					run.Sample.Step = 2
					if i, _ := slices.BinarySearch(test.slow, n); len(test.slow) > 0 && (slices.Contains(test.slow, n) || i == len(test.slow)) {
						run.Sample.Step *= 1.3
						if first.IsZero() {
							first = time.Now()
						}
					}
					if end, ok := test.spoilt[n]; ok {
						run.Status, run.Reason, run.Sample = end.status, end.reason, Sample{}
						if end.status == Skipped {
							run.Duration = 0
						}
					}
					return run
				}, observing(func(r Run) {
					d.ObserveRun(r)
					if r.Confirmation {
						got, last = append(got, n), time.Now()
					}
				}), log.NewLogfmtLogger(out))
				s.Run(ctx)
			})
			if !slices.Equal(got, test.want) {
				t.Errorf("confirmations are the runs %v, want %v", got, test.want)
			}
			if len(test.want) > 0 && last.Sub(first) > test.within {
				t.Errorf("the last confirmation ended %v after the change", last.Sub(first))
			}
			for what, times := range test.said {
				if n := strings.Count(out.String(), what); n != times {
					t.Errorf("%q is said %d times, want %d:\n%s", what, n, times, out)
				}
			}
		})
	}
}

// observing is a function that observes runs.
type observing func(Run)

func (f observing) ObserveRun(r Run) { f(r) }

// TestEvidenceOutlivesTheProcess starts a scheduler beside the samples of an earlier one.
func TestEvidenceOutlivesTheProcess(t *testing.T) {
	for name, test := range map[string]struct {
		clean []float64
		step  float64
		want  int
	}{
		"nothing known":         {nil, 1.3, 0},
		"a change while away":   {[]float64{1, 1, 1, 1}, 1.3, 2},
		"a change found before": {[]float64{1, 1, 1, 1, 1.3, 1.3, 1.3}, 1.3, 0},
		"as it was":             {[]float64{1, 1, 1, 1}, 1, 0},
		"a doubt":               {[]float64{1, 1, 1, 1, 1.3}, 1.3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			target := testTarget("a", "s", 0.5, map[Rung]time.Duration{131072: 4 * time.Hour})
			d := &diary{}
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				s := NewScheduler(nil, func(ctx context.Context, target Target, r Rung, _ string) Run {
					run := fakeRun(ctx, target, r, time.Second)
					run.Sample.Step = test.step
					return run
				}, d, log.NewNopLogger())
				past := Past{Target: "a", Rung: 131072, Started: time.Now().Add(-5 * time.Hour), Took: time.Second}
				for _, step := range test.clean {
					past.Clean = append(past.Clean, Sample{Step: step})
				}
				s.Add([]Target{target}, []Past{past})
				s.Run(ctx)
			})
			if got := len(confirmationsIn(d)); got != test.want {
				t.Errorf("%d confirmations, want %d", got, test.want)
			}
		})
	}
}
