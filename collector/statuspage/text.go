package statuspage

import (
	"fmt"
	"html/template"
	"strconv"
	"time"
)

// unknown stands where a value is not known.
const unknown = "–"

// functions are those of the templates.
func functions() template.FuncMap {
	return template.FuncMap{
		"seconds": secondsText, "number": number, "count": countText, "stamp": stamp, "iso": iso,
	}
}

// secondsText writes a time with three digits, in ms below one second.
func secondsText(v float64) string {
	switch {
	case !(v > 0):
		return unknown
	case v < 1:
		return digits(v*1e3) + " ms"
	}
	return digits(v) + " s"
}

// number writes a value with three digits.
func number(v float64) string {
	if !(v > 0) {
		return unknown
	}
	return digits(v)
}

func digits(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func countText(n *int) string {
	if n == nil {
		return unknown
	}
	return strconv.Itoa(*n)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

func iso(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// ago tells how long ago something ended that began at a time and took so many seconds.
func ago(began time.Time, took float64) string {
	age := max(time.Since(began)-time.Duration(took*float64(time.Second)), 0)
	switch {
	case age < 2*time.Minute:
		return fmt.Sprintf("%d s", int(age.Seconds()))
	case age < 2*time.Hour:
		return fmt.Sprintf("%d min", int(age.Minutes()))
	case age < 48*time.Hour:
		return fmt.Sprintf("%d h", int(age.Hours()))
	}
	return fmt.Sprintf("%d d", int(age.Hours()/24))
}
