package prober

import (
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// QuietHours is like `08:00-18:00`, `Sat,Sun 22:00-06:00` or `Mon-Fri 08:00-18:00 Europe/Berlin`: weekdays (every day where none
// are named), from and until, and a time zone (UTC where none is named). Hours across midnight belong to the day they begin on.
type QuietHours struct {
	Days     []time.Weekday // in order; nil is every day
	From, To int            // minutes of the day; To is below From across midnight, and at most 24 h
	Zone     string
}

// ParseQuietHours reads `08:00-18:00`, `Mon-Fri 08:00-18:00 Europe/Berlin` or `Sat,Sun 22:00-06:00`.
func ParseQuietHours(s string) (QuietHours, error) {
	q := QuietHours{Zone: "UTC"}
	fields := strings.Fields(s)
	if len(fields) > 0 && !strings.Contains(fields[0], ":") {
		var err error
		if q.Days, err = parseWeekdays(fields[0]); err != nil {
			return QuietHours{}, fmt.Errorf("quiet hours %q: %w", s, err)
		}
		fields = fields[1:]
	}
	if len(fields) == 2 {
		q.Zone = fields[1]
	} else if len(fields) != 1 {
		return QuietHours{}, fmt.Errorf("%q are no quiet hours like Mon-Fri 08:00-18:00 Europe/Berlin", s)
	}
	from, to, dash := strings.Cut(fields[0], "-")
	var okFrom, okTo bool
	q.From, okFrom = parseClock(from)
	q.To, okTo = parseClock(to)
	if !dash || !okFrom || !okTo || q.From == q.To || q.From == minutesOfDay {
		return QuietHours{}, fmt.Errorf("quiet hours %q: %q is not a time from 00:00 and one until 24:00, like 08:00-18:00", s, fields[0])
	}
	if _, err := time.LoadLocation(q.Zone); err != nil || q.Zone == "Local" {
		return QuietHours{}, fmt.Errorf("quiet hours %q: no time zone is called %q; write one like Europe/Berlin or UTC", s, q.Zone)
	}
	return q, nil
}

const minutesOfDay = 24 * 60

func parseClock(s string) (minutes int, ok bool) {
	if s == "24:00" {
		return minutesOfDay, true
	}
	t, err := time.Parse("15:04", s)
	return t.Hour()*60 + t.Minute(), err == nil
}

func parseWeekdays(s string) ([]time.Weekday, error) {
	named := [7]bool{}
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := parseWeekday(from)
		if err != nil {
			return nil, err
		}
		last := first
		if isRange {
			if last, err = parseWeekday(to); err != nil {
				return nil, err
			}
		}
		for day := first; ; day = (day + 1) % 7 {
			named[day] = true
			if day == last {
				break
			}
		}
	}
	var days []time.Weekday
	for day, is := range named {
		if is {
			days = append(days, time.Weekday(day))
		}
	}
	return days, nil
}

func parseWeekday(s string) (time.Weekday, error) {
	for day := range time.Weekday(7) {
		if strings.EqualFold(s, day.String()[:3]) {
			return day, nil
		}
	}
	return 0, fmt.Errorf("%q is not a weekday like Mon", s)
}

// String writes the hours as they are read.
func (q QuietHours) String() string {
	var b strings.Builder
	for i, day := range q.Days {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(day.String()[:3])
	}
	if len(q.Days) > 0 {
		b.WriteByte(' ')
	}
	fmt.Fprintf(&b, "%02d:%02d-%02d:%02d %s", q.From/60, q.From%60, q.To/60, q.To%60, q.Zone)
	return b.String()
}

// quietWarnings tells of quiet hours that leave no time.
func (c ProbeConfig) quietWarnings() []string {
	some := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC) // every week has the same hours
	if afterQuiet(findZones(c.QuietHours), some).Sub(some) < longestQuiet {
		return nil
	}
	return []string{"quiet_hours cover the whole week: no run will start; leave some hours free"}
}

// UnmarshalYAML reads quiet hours.
func (q *QuietHours) UnmarshalYAML(node *yaml.Node) error {
	return parseScalar(node, q, ParseQuietHours)
}

// MarshalYAML writes them as they are read.
func (q QuietHours) MarshalYAML() (any, error) { return q.String(), nil }
