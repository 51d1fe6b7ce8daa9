package prometheus

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"longctx_exporter/prober/estimate"
)

// In these tests time begins at the Unix epoch, as promtool's does.
const (
	minute = time.Minute
	hour   = time.Hour
	day    = 24 * hour
	always = time.Duration(1) // from the first moment on
)

// run is one run of a rung. Its values are those of a clean measurement; zero ones are not known.
type run struct {
	at                    time.Duration
	step, prefill, accept float64 // seconds, tokens per second, tokens
	failed                bool
}

// rung is a rung as runs made it. The rest is what is usual for it, as the medians would tell after a week.
type rung struct {
	context     int
	every       time.Duration
	runs        []run
	unreachable time.Duration // from when on the server refuses the length; 0 for never

	usualStep, usualPrefill, usualAccept float64
}

// target is a target with its rungs. algorithm is the label spec_algorithm; "-" for no target_info.
type target struct {
	name      string
	algorithm string
	rungs     []rung
}

// exporter is one process of the exporter, in being from from until to, or for good. What it knew ends with it.
type exporter struct {
	instance   string
	from, to   time.Duration
	stillKnown bool //  Prometheus goes on asking it after to, in vain
	targets    []target
}

// series is a series of promtool's input: its value at a time, if it has one.
type series struct {
	labels string
	at     func(t time.Duration) (v float64, ok bool)
}

// name is the label `rung` of a length.
func (r rung) name() string { return fmt.Sprintf("%gk", float64(r.context)/1024) }

// every makes a run with the same values each time, first and last included.
func every(interval, first, last time.Duration, values run) []run {
	var runs []run
	for t := first; t <= last; t += interval {
		values.at = t
		runs = append(runs, values)
	}
	return runs
}

// steps makes a run of each step time, an interval apart.
func steps(interval, first time.Duration, seconds ...float64) []run {
	var runs []run
	for i, s := range seconds {
		runs = append(runs, run{at: first + time.Duration(i)*interval, step: s})
	}
	return runs
}

// repeat is n times v.
func repeat(v float64, n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = v
	}
	return all
}

// known is what an exporter knows of a rung at a time.
type known struct {
	attempted *run
	clean     []run // the last three at most, latest last
	failures  int
}

func (e exporter) knows(r rung, t time.Duration) known {
	var k known
	for i := range r.runs {
		one := &r.runs[i]
		if one.at < e.from || one.at > t {
			continue
		}
		k.attempted = one
		if one.failed {
			k.failures++
			continue
		}
		k.failures = 0
		k.clean = append(k.clean, *one)
		k.clean = k.clean[max(0, len(k.clean)-3):]
	}
	return k
}

// latest is the latest clean value, confirmed the best of the last three, if there are three.
func latest(runs []run, value func(run) float64) (float64, bool) {
	if len(runs) == 0 {
		return 0, false
	}
	v := value(runs[len(runs)-1])
	return v, v > 0
}

func confirmed(runs []run, value func(run) float64, best func(...float64) float64) (float64, bool) {
	if len(runs) < 3 {
		return 0, false
	}
	v := best(value(runs[0]), value(runs[1]), value(runs[2]))
	return v, v > 0
}

func least(v ...float64) float64 { return min(v[0], v[1], v[2]) }
func most(v ...float64) float64  { return max(v[0], v[1], v[2]) }

// series are what Prometheus stores of the exporter.
func (e exporter) series() []series {
	constant := func(v float64) func(time.Duration) (float64, bool) {
		return func(time.Duration) (float64, bool) { return v, true }
	}
	scrape := fmt.Sprintf(`{job="longctx",instance=%q}`, e.instance)
	all := []series{
		{"longctx_exporter_build_info" + scrape, constant(1)},
		{"process_start_time_seconds" + scrape, constant(e.from.Seconds())},
		{"longctx_config_last_reload_successful" + scrape, constant(1)},
	}
	for _, t := range e.targets {
		all = append(all, e.targetSeries(t)...)
	}
	for i, s := range all {
		all[i].at = func(t time.Duration) (float64, bool) {
			if !e.alive(t) {
				return 0, false
			}
			return s.at(t)
		}
	}
	return append(all, series{"up" + scrape, func(t time.Duration) (float64, bool) {
		if e.alive(t) {
			return 1, true
		}
		return 0, t >= e.from && e.stillKnown
	}})
}

func (e exporter) alive(t time.Duration) bool { return t >= e.from && (e.to == 0 || t < e.to) }

func (e exporter) targetSeries(t target) []series {
	labels := fmt.Sprintf(`job="longctx",instance=%q,target=%q,model="m"`, e.instance, t.name)
	line := func(pick func(intercept, slope float64, n int) float64) func(time.Duration) (float64, bool) {
		return func(at time.Duration) (float64, bool) {
			var x, y []float64
			for _, r := range t.rungs {
				if s, ok := latest(e.knows(r, at).clean, func(r run) float64 { return r.step }); ok {
					x, y = append(x, float64(r.context)), append(y, s)
				}
			}
			intercept, slope, ok := estimate.TheilSen(x, y)
			return pick(intercept, slope, len(x)), ok
		}
	}
	var all []series
	if len(t.rungs) > 2 {
		all = append(all,
			series{"longctx_step_slope_seconds_per_token{" + labels + "}", line(func(_, slope float64, _ int) float64 { return slope })},
			series{"longctx_step_intercept_seconds{" + labels + "}", line(func(intercept, _ float64, _ int) float64 { return intercept })},
			series{"longctx_step_fit_rungs{" + labels + "}", line(func(_, _ float64, n int) float64 { return float64(n) })},
		)
	}
	if t.algorithm != "-" {
		all = append(all, series{fmt.Sprintf("longctx_target_info{%s,spec_algorithm=%q}", labels, t.algorithm), func(time.Duration) (float64, bool) { return 1, true }})
	}
	for _, r := range t.rungs {
		all = append(all, e.rungSeries(r, fmt.Sprintf(`{%s,context="%d",rung=%q}`, labels, r.context, r.name()))...)
	}
	return all
}

// rungSeries shows values of any age, so that it is the rules that must tell the old ones.
func (e exporter) rungSeries(r rung, labels string) []series {
	add := func(name string, value func(t time.Duration, k known) (float64, bool)) series {
		return series{name + labels, func(t time.Duration) (float64, bool) { return value(t, e.knows(r, t)) }}
	}
	step := func(r run) float64 { return r.step }
	prefill := func(r run) float64 { return r.prefill }
	accept := func(r run) float64 { return r.accept }
	return []series{
		add("longctx_probe_effective_interval_seconds", func(time.Duration, known) (float64, bool) { return r.every.Seconds(), true }),
		add("longctx_probe_next_due_timestamp_seconds", func(_ time.Duration, k known) (float64, bool) {
			if k.attempted == nil {
				return e.from.Seconds(), true
			}
			return (k.attempted.at + r.every).Seconds(), true
		}),
		add("longctx_probe_consecutive_failures", func(_ time.Duration, k known) (float64, bool) { return float64(k.failures), true }),
		add("longctx_rung_reachable", func(t time.Duration, k known) (float64, bool) {
			if r.unreachable > 0 && t >= r.unreachable {
				return 0, true
			}
			return 1, k.attempted != nil
		}),
		add("longctx_probe_last_success_timestamp_seconds", func(_ time.Duration, k known) (float64, bool) {
			return latest(k.clean, func(r run) float64 { return max(r.at.Seconds(), 1) })
		}),
		add("longctx_probe_prompt_tokens", func(_ time.Duration, k known) (float64, bool) {
			return latest(k.clean, func(run) float64 { return float64(r.context) })
		}),
		add("longctx_step_seconds", func(_ time.Duration, k known) (float64, bool) { return latest(k.clean, step) }),
		add("longctx_step_confirmed_seconds", func(_ time.Duration, k known) (float64, bool) { return confirmed(k.clean, step, least) }),
		add("longctx_ttft_confirmed_seconds", func(_ time.Duration, k known) (float64, bool) {
			v, ok := confirmed(k.clean, prefill, most)
			return float64(r.context) / max(v, 1), ok
		}),
		add("longctx_prefill_confirmed_tokens_per_second", func(_ time.Duration, k known) (float64, bool) { return confirmed(k.clean, prefill, most) }),
		add("longctx_accept_confirmed_length", func(_ time.Duration, k known) (float64, bool) { return confirmed(k.clean, accept, most) }),
	}
}

// usual are the medians that a week of the target's usual values would have recorded.
func (t target) usual() []series {
	var all []series
	var x, y []float64
	add := func(name, labels string, v float64) {
		if v != 0 {
			all = append(all, series{name + "{" + labels + "}", func(time.Duration) (float64, bool) { return v, true }})
		}
	}
	labels := fmt.Sprintf(`job="longctx",target=%q,model="m"`, t.name)
	for _, r := range t.rungs {
		of := fmt.Sprintf(`%s,context="%d",rung=%q`, labels, r.context, r.name())
		add("target_context:longctx_step_seconds:median7d", of, r.usualStep)
		add("target_context:longctx_prefill_confirmed_tokens_per_second:median7d", of, r.usualPrefill)
		add("target_context:longctx_accept_confirmed_length:median7d", of, r.usualAccept)
		if r.usualStep > 0 {
			x, y = append(x, float64(r.context)), append(y, r.usualStep)
		}
	}
	if intercept, slope, ok := estimate.TheilSen(x, y); ok {
		add("target:longctx_step_slope_seconds_per_token:median7d", labels, slope)
		add("target:longctx_step_intercept_seconds:median7d", labels, intercept)
	}
	return all
}

// values writes a series in promtool's notation: value, times further repetitions; _ for a gap. Where a series ends it is
// marked stale, as Prometheus does when a scrape fails or a target is gone. A series without any value is empty.
func (s series) values(interval, end time.Duration) string {
	var words []string
	count, last := 0, ""
	flush := func() {
		switch {
		case count == 1, last == "stale":
			words = append(words, last)
		case last == "_":
			words = append(words, fmt.Sprintf("_x%d", count))
		case count > 1:
			words = append(words, fmt.Sprintf("%sx%d", last, count-1))
		}
	}
	lived := false
	for t := time.Duration(0); t <= end; t += interval {
		word := "_"
		if v, ok := s.at(t); ok {
			word, lived = strconv.FormatFloat(v, 'f', -1, 64), true
		} else if lived {
			word, lived = "stale", false
		}
		if word != last {
			flush()
			count, last = 0, word
		}
		count++
	}
	if count > 0 && last == "_" && len(words) == 0 {
		return ""
	}
	flush()
	return strings.Join(words, " ")
}
