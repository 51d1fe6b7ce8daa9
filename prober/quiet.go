package prober

import (
	"slices"
	"time"
)

// quiet is quiet hours whose time zone has been found.
type quiet struct {
	QuietHours
	zone *time.Location
}

// findZones finds the time zones of hours that have been parsed.
func findZones(hours []QuietHours) []quiet {
	found := make([]quiet, len(hours))
	for i, h := range hours {
		zone, err := time.LoadLocation(h.Zone)
		if err != nil {
			zone = time.UTC
		}
		found[i] = quiet{h, zone}
	}
	return found
}

// end is when the quiet hours end that t lies in.
func (q quiet) end(t time.Time) (time.Time, bool) {
	local := t.In(q.zone)
	for _, ago := range []int{0, 1} {
		year, month, day := local.Date()
		from := time.Date(year, month, day-ago, q.From/60, q.From%60, 0, 0, q.zone)
		to := time.Date(year, month, day-ago, q.To/60, q.To%60, 0, 0, q.zone)
		if q.To < q.From {
			to = time.Date(year, month, day-ago+1, q.To/60, q.To%60, 0, 0, q.zone)
		}
		if (q.Days == nil || slices.Contains(q.Days, from.Weekday())) && !t.Before(from) && t.Before(to) {
			return to, true
		}
	}
	return t, false
}

// longestQuiet bounds the search for the end of quiet hours that follow one another: a week of them never ends.
const longestQuiet = 8 * 24 * time.Hour

// afterQuiet is the first time from t on that lies in none of the hours.
func afterQuiet(hours []quiet, t time.Time) time.Time {
	at := t
	for again := true; again && at.Sub(t) < longestQuiet; {
		again = false
		for _, q := range hours {
			if end, in := q.end(at); in {
				at = at.Add(end.Sub(at)) // keeps the monotonic reading
				again = true
			}
		}
	}
	return at
}
