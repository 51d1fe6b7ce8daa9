package prober

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseQuietHours(t *testing.T) {
	for text, want := range map[string]string{
		"08:00-18:00":                        "08:00-18:00 UTC",
		"Mon-Fri 8:00-18:00 Europe/Berlin":   "Mon,Tue,Wed,Thu,Fri 08:00-18:00 Europe/Berlin",
		"fri-mon,wed 22:30-06:00 Asia/Tokyo": "Sun,Mon,Wed,Fri,Sat 22:30-06:00 Asia/Tokyo",
		"Sun 00:00-24:00 UTC":                "Sun 00:00-24:00 UTC",
		"":                                   "error",
		"Mon":                                "error",
		"08:00":                              "error",
		"08:00-08:00":                        "error",
		"24:00-08:00":                        "error",
		"08:00-25:00":                        "error",
		"Day 08:00-18:00":                    "error",
		"Mon- 08:00-18:00":                   "error",
		"08:00-18:00 Local":                  "error",
		"08:00-18:00 ../../etc/passwd":       "error",
		"Mon 08:00-18:00 UTC please":         "error",
	} {
		got := "error"
		if q, err := ParseQuietHours(text); err == nil {
			got = q.String()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func FuzzParseQuietHours(f *testing.F) {
	for _, s := range []string{"08:00-18:00", "Mon-Fri 08:00-18:00 Europe/Berlin", "sat,sun 22:00-06:00 UTC", "Mon 00:00-24:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q, err := ParseQuietHours(s)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is no single line", err)
			}
			return
		}
		again, err := ParseQuietHours(q.String())
		if err != nil || !cmp.Equal(again, q) {
			t.Errorf("%q is written as %q, which reads as %+v, %v", s, q, again, err)
		}
		at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
		after := afterQuiet(findZones([]QuietHours{q}), at)
		if _, in := findZones([]QuietHours{q})[0].end(after); in && after.Sub(at) < longestQuiet || after.Before(at) {
			t.Errorf("%q: %v is said to be after %v", s, after, at)
		}
	})
}

func TestAfterQuiet(t *testing.T) {
	for _, test := range []struct{ hours, at, want string }{
		{"08:00-18:00", "2026-11-30T07:59:59Z", "2026-11-30T07:59:59Z"},
		{"08:00-18:00", "2026-11-30T08:00:00Z", "2026-11-30T18:00:00Z"},
		{"08:00-18:00", "2026-11-30T18:00:00Z", "2026-11-30T18:00:00Z"},
		{"Mon-Fri 08:00-18:00 Europe/Berlin", "2026-11-30T07:30:00Z", "2026-11-30T17:00:00Z"},
		{"Mon-Fri 08:00-18:00 Europe/Berlin", "2026-11-29T07:30:00Z", "2026-11-29T07:30:00Z"},
		{"Fri 22:00-06:00", "2026-11-28T05:00:00Z", "2026-11-28T06:00:00Z"}, // Saturday morning
		{"Fri 22:00-06:00", "2026-11-27T05:00:00Z", "2026-11-27T05:00:00Z"},
		{"00:00-24:00", "2026-11-30T12:00:00Z", "2026-12-09T00:00:00Z"},                         // for ever, as far as is looked
		{"01:00-03:30 Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T02:30:00Z"},           // the hour that comes twice
		{"08:00-12:00;12:00-14:00;13:00-15:00", "2026-11-30T09:00:00Z", "2026-11-30T15:00:00Z"}, // one after the other
	} {
		var hours []QuietHours
		for text := range strings.SplitSeq(test.hours, ";") {
			q, err := ParseQuietHours(text)
			if err != nil {
				t.Fatal(err)
			}
			hours = append(hours, q)
		}
		at, err := time.Parse(time.RFC3339, test.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := afterQuiet(findZones(hours), at).UTC().Format(time.RFC3339); got != test.want {
			t.Errorf("%s at %s: %s, want %s", test.hours, test.at, got, test.want)
		}
	}
}

// TestQuietHours finds no start in quiet hours, each due time in them told of, and rules told to be patient.
func TestQuietHours(t *testing.T) {
	target := testTarget("a", "s", 1, map[Rung]time.Duration{1024: 5 * time.Minute})
	target.QuietHours = []QuietHours{{From: 8 * 60, To: 18 * 60, Zone: "UTC"}}
	d := &diary{}
	synctest.Test(t, func(t *testing.T) {
		s, stop := scheduling(t, []Target{target}, d)
		defer stop()
		time.Sleep(9 * time.Hour) // bubbles begin at midnight
		if due := s.NextDue("a", 1024); due.Hour() != 18 {
			t.Errorf("the next run is said to come at %v", due)
		}
		if e := s.EffectiveInterval("a", 1024); e < 10*time.Hour || e > 10*time.Hour+5*time.Minute {
			t.Errorf("the effective interval in quiet hours is %v", e)
		}
		time.Sleep(15 * time.Hour)
		if e := s.EffectiveInterval("a", 1024); e != 5*time.Minute {
			t.Errorf("the effective interval after quiet hours is %v", e)
		}
	})
	for _, run := range d.of("a", 1024, Accepted) {
		if h := run.Started.Hour(); h >= 8 && h < 18 {
			t.Fatalf("a run started at %v", run.Started)
		}
	}
	if ran, skipped := len(d.of("a", 1024, Accepted)), d.of("a", 1024, Skipped); ran < 167 || ran > 169 || len(skipped) < 119 || skipped[0].Reason != OverBudget {
		t.Errorf("%d runs, %d skips", ran, len(skipped))
	}
}
