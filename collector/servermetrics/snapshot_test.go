package servermetrics

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestTotalOverRestarts(t *testing.T) {
	type look struct {
		parts parts
		want  *float64
		anew  bool
	}
	tests := map[string][]look{
		"grows":                                  {{parts{"a": 5}, f(5), false}, {parts{"a": 7}, f(7), false}, {parts{"a": 7}, f(7), false}},
		"the engine began anew: its own fall":    {{parts{"a": 500}, f(500), false}, {parts{"a": 3}, f(3), true}, {parts{"a": 4}, f(4), false}},
		"one of two began anew: no fall":         {{parts{"a": 500, "b": 100}, f(600), false}, {parts{"a": 501, "b": 3}, f(604), false}, {parts{"a": 501, "b": 4}, f(605), false}},
		"both began anew":                        {{parts{"a": 500, "b": 100}, f(600), false}, {parts{"a": 1, "b": 3}, f(4), true}},
		"one after the other":                    {{parts{"a": 500, "b": 100}, f(600), false}, {parts{"a": 500, "b": 3}, f(603), false}, {parts{"a": 1, "b": 5}, f(606), false}, {parts{"a": 0, "b": 0}, f(0), true}},
		"a worker goes, another comes":           {{parts{"a": 500, "b": 100}, f(600), false}, {parts{"a": 500, "c": 1}, f(601), false}},
		"not known for a while":                  {{parts{"a": 500}, f(500), false}, {nil, nil, false}, {parts{"a": 501}, f(501), false}},
		"began anew while it was not known":      {{parts{"a": 500}, f(500), false}, {nil, nil, false}, {parts{"a": 2}, f(2), true}},
		"a rank is there from the second on":     {{parts{"a": 5}, f(5), false}, {parts{"a": 6, "b": 1}, f(7), false}},
		"from nothing":                           {{parts{"a": 0}, f(0), false}, {parts{"a": 0}, f(0), false}},
		"never there":                            {{nil, nil, false}},
		"larger than a number can be is unknown": {{parts{"a": 1.7e308, "b": 1.7e308}, nil, false}},
	}
	for name, looks := range tests {
		t.Run(name, func(t *testing.T) {
			var c total
			for i, l := range looks {
				if anew := c.update(l.parts); anew != l.anew {
					t.Errorf("look %d: anew %v, want %v", i, anew, l.anew)
				}
				if diff := cmp.Diff(l.want, c.value); diff != "" {
					t.Errorf("look %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// counted is a reading with counters of SGLang's kind.
func counted(generated, finished, steps float64) reading {
	r := reading{firstFree: true}
	r.counts[generatedTokens] = parts{"": generated}
	r.counts[finishedRequests] = parts{"": finished}
	r.counts[verifySteps] = parts{"": steps}
	return r
}

func TestAcceptance(t *testing.T) {
	drafts := func(drafts, accepted float64, digits int) reading {
		r := reading{digits: digits}
		r.counts[verifySteps], r.counts[acceptedDrafts] = parts{"": drafts}, parts{"": accepted}
		return r
	}
	half := reading{}
	half.counts[verifySteps] = parts{"": 150}
	gauge := reading{accept: f(3.42)}
	stepsAndGauge := drafts(100, 200, 0)
	stepsAndGauge.accept = f(9)
	tests := map[string]struct {
		readings []reading
		want     *float64
	}{
		"one reading":                     {[]reading{drafts(100, 200, 0)}, nil},
		"over the interval":               {[]reading{drafts(100, 200, 0), drafts(110, 235, 0)}, f(4.5)},
		"nothing verified":                {[]reading{drafts(100, 200, 0), drafts(110, 235, 0), drafts(110, 235, 0)}, nil},
		"all rejected":                    {[]reading{drafts(100, 200, 0), drafts(110, 200, 0)}, f(1)},
		"began anew":                      {[]reading{drafts(100, 200, 0), drafts(10, 25, 0)}, nil},
		"after it began anew":             {[]reading{drafts(100, 200, 0), drafts(10, 25, 0), drafts(20, 45, 0)}, f(3)},
		"half known in between":           {[]reading{drafts(100, 200, 0), half, drafts(200, 300, 0)}, f(2)},
		"failed in between":               {[]reading{drafts(100, 200, 0), {}, drafts(200, 300, 0)}, f(2)},
		"few digits, enough growth":       {[]reading{drafts(1e6, 2e6, 6), drafts(1.01e6, 2.03e6, 6)}, f(4)},
		"few digits, too little growth":   {[]reading{drafts(1e6, 2e6, 6), drafts(1000010, 2000040, 6)}, nil},
		"SGLang's counters":               {[]reading{counted(1000, 10, 300), counted(1150, 11, 340)}, f(1 + 109.0/40)},
		"SGLang's counters, read halfway": {[]reading{counted(1000, 10, 300), counted(1150, 11, 340), counted(1150, 12, 340)}, nil},
		"the engine's gauge":              {[]reading{gauge}, f(3.42)},
		"counters before the gauge":       {[]reading{stepsAndGauge, stepsAndGauge}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var tr tracker
			var got Snapshot
			for _, r := range tt.readings {
				got = tr.take(r)
			}
			if diff := cmp.Diff(tt.want, got.AcceptLength, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
				t.Errorf("acceptance length (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDerivedDraftsDoNotFall(t *testing.T) {
	var tr tracker
	for i, tt := range []struct {
		r    reading
		want *float64
	}{
		{counted(1000, 10, 300), f(690)},
		{counted(1000, 11, 300), f(690)}, // a request's tokens were counted after they were read, the request before
		{counted(1100, 11, 330), f(759)},
		{counted(20, 1, 5), f(14)}, // began anew
		{counted(1, 1, 5), nil},    // cannot be
	} {
		if diff := cmp.Diff(tt.want, tr.take(tt.r).AcceptedDrafts); diff != "" && i < 4 {
			t.Errorf("reading %d (-want +got):\n%s", i, diff)
		}
	}
}
