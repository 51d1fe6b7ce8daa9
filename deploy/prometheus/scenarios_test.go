package prometheus

import (
	"fmt"
	"time"
)

// prompt is a rung with a usual speed of prefill and runs of other ones, five minutes apart.
func prompt(context int, usual float64, speeds ...float64) rung {
	r := rung{context: context, every: 5 * minute, usualPrefill: usual}
	for i, s := range speeds {
		r.runs = append(r.runs, run{at: time.Duration(i) * 5 * minute, prefill: s})
	}
	return r
}

func prefillScenarios() []scenario {
	story := append(repeat(1000, 3), 300, 1000, 1000, 700, 700, 1000, 1000, 1000, 700, 700, 700, 700)
	story = append(story, repeat(1000, 8)...)
	return []scenario{
		{
			name:      "one outlier and two bad runs are no drop, the third bad run is",
			exporters: one(target{name: "t", rungs: []rung{prompt(131072, 1000, story...)}}),
			checks: []check{
				silent(20 * minute), silent(39 * minute), silent(69 * minute), // the third bad run was at 1h5m
				firing(70*minute, "PrefillThroughputDrop t 128k"),
				reads(70*minute, "PrefillThroughputDrop", "Prefill of t at 128k runs at 70% of its usual speed.",
					"job=longctx", "target=t", "model=m", "context=131072", "rung=128k"),
				firing(104*minute, "PrefillThroughputDrop t 128k"), // well again from 1h15m on
				silent(105 * minute),
			},
		},
		{
			name: "by how much: a fifth and 50 ms",
			exporters: one(target{name: "t", rungs: []rung{
				prompt(8192, 1000, repeat(810, 12)...), prompt(16384, 1000, repeat(790, 12)...),
				prompt(1024, 6966, repeat(6966*0.75, 12)...), prompt(2048, 2*6693, repeat(2*6693*0.75, 12)...),
			}}),
			checks: []check{firing(30*minute, "PrefillThroughputDrop t 16k", "PrefillThroughputDrop t 2k")},
		},
	}
}

// speculating is a target of that algorithm with a usual acceptance length and runs of other ones, five minutes apart.
func speculating(name, algorithm string, usual float64, lengths ...float64) target {
	r := rung{context: 65536, every: 5 * minute, usualAccept: usual}
	for i, l := range lengths {
		r.runs = append(r.runs, run{at: time.Duration(i) * 5 * minute, accept: l})
	}
	return target{name: name, algorithm: algorithm, rungs: []rung{r}}
}

func acceptanceScenarios() []scenario {
	story := append(repeat(3, 3), 1, 3, 3, 2, 2, 3, 3, 3, 2, 2, 2, 2)
	story = append(story, repeat(3, 8)...)
	return []scenario{
		{
			name:      "one outlier and two bad runs are no collapse, the third bad run is",
			exporters: one(speculating("t", "EAGLE", 3, story...)),
			checks: []check{
				silent(20 * minute), silent(39 * minute), silent(69 * minute), // the third bad run was at 1h5m
				firing(70*minute, "AcceptanceCollapse t 64k"),
				reads(70*minute, "AcceptanceCollapse", "A verify pass of t at 64k commits 2.00 tokens.",
					"job=longctx", "target=t", "model=m", "context=65536", "rung=64k"),
				firing(104*minute, "AcceptanceCollapse t 64k"), // well again from 1h15m on
				silent(105 * minute),
			},
		},
		{
			name: "by how much, and only where the server speculates",
			exporters: one(
				speculating("less", "EAGLE", 4, repeat(2.84, 9)...), speculating("more", "EAGLE", 4, repeat(2.76, 9)...),
				speculating("pays", "EAGLE", 0, repeat(1.12, 9)...), speculating("not", "EAGLE", 0, repeat(1.08, 9)...),
				speculating("off", "none", 1, repeat(1, 9)...), speculating("switched-off", "none", 4, repeat(1, 9)...),
				speculating("untold", "", 1, repeat(1, 9)...), speculating("unidentified", "-", 1, repeat(1, 9)...),
				speculating("untold-before", "", 4, repeat(1, 9)...),
			),
			checks: []check{firing(30*minute, "AcceptanceCollapse more 64k", "AcceptanceCollapse not 64k", "AcceptanceCollapse untold-before 64k")},
		},
	}
}

// tried is a rung of five minutes with runs that failed, and then perhaps one that did not.
func tried(context, failed int, unreachable time.Duration, more ...run) rung {
	r := rung{context: context, every: 5 * minute, unreachable: unreachable}
	for i := range failed {
		r.runs = append(r.runs, run{at: time.Duration(i)*5*minute + minute, failed: true})
	}
	r.runs = append(r.runs, more...)
	return r
}

func failingScenarios() []scenario {
	clean := run{at: 16 * minute, step: 1}
	return []scenario{
		{
			name: "the third failure in a row",
			exporters: one(target{name: "t", rungs: []rung{
				tried(1024, 2, 0, clean), tried(2048, 3, 0, clean), tried(4096, 3, always, clean), tried(8192, 3, 12*minute, clean),
			}}),
			checks: []check{
				silent(10 * minute), // the third was at 11m
				firing(11*minute, "Failing t 2k", "Failing t 8k"),
				firing(14*minute, "Failing t 2k", "Failing t 8k"),
			},
		},
		{
			name: "a length that was never within reach fails from the first minute on",
			exporters: one(target{name: "t", rungs: []rung{
				{context: 1024, every: minute, unreachable: always, runs: every(minute, minute, 5*minute, run{failed: true})},
			}}),
			checks: []check{silent(5 * minute)},
		},
		{
			name:      "three failures are told and end with the first answer",
			exporters: one(target{name: "t", rungs: []rung{tried(2048, 3, 0, clean)}}),
			checks: []check{
				silent(10 * minute),
				reads(11*minute, "Failing", "3 runs in a row failed on t at 2k.", "job=longctx", "target=t", "model=m", "context=2048", "rung=2k"),
				silent(16 * minute),
			},
		},
	}
}

func unmeasuredScenarios() []scenario {
	late := rung{context: 8192, every: 20 * minute, runs: []run{{at: 20 * minute, step: 1}}}
	return []scenario{
		{
			name: "never measured, within reach and out of it, and under a budget that brings the first run late",
			exporters: one(target{name: "t", rungs: []rung{
				tried(1024, 12, 0), tried(2048, 12, always), {context: 4096, every: hour}, now(8, 0, 1),
			}}),
			checks: []check{
				silent(5 * minute), // the first interval
				among("NoCleanMeasurement", 50*minute),
				among("NoCleanMeasurement", 51*minute, "t 1k"),
				reads(51*minute, "NoCleanMeasurement", "Nothing usable was measured on t at 1k for 51m 0s.",
					"job=longctx", "target=t", "model=m", "context=1024", "rung=1k"),
			},
		},
		{
			name: "an exporter that crashes again and again does not hide it",
			exporters: []exporter{
				{instance: "a", to: 30 * minute, targets: []target{{name: "t", rungs: []rung{late}}}},
				{instance: "b", from: 30 * minute, to: hour, targets: []target{{name: "t", rungs: []rung{late}}}},
				{instance: "c", from: hour, targets: []target{{name: "t", rungs: []rung{late}}}},
			},
			checks: []check{
				among("NoCleanMeasurement", 2*hour+10*minute),
				among("NoCleanMeasurement", 2*hour+11*minute, "t 8k"),
			},
		},
		{
			name:      "the latest success is known at once, and not only where the subquery looks",
			exporters: one(target{name: "t", rungs: []rung{{context: 1024, every: minute, runs: every(minute, 0, 9*minute, run{step: 1})}}}),
			checks: []check{yields(9*minute, "time() - target_context:longctx_probe_last_success_timestamp_seconds:max1d < bool 180",
				sample{`{job="longctx",target="t",model="m",context="1024",rung="1k"}`, 1})},
		},
	}
}

func scheduleScenarios() []scenario {
	dead := func(context int, interval time.Duration) rung {
		return rung{context: context, every: interval, runs: []run{{at: 0, step: 1}}}
	}
	return []scenario{{
		name:      "the schedule is dead: late by half of each rung's own interval and ten minutes",
		exporters: one(target{name: "t", rungs: []rung{dead(1024, 5*minute), dead(196608, hour)}}),
		checks: []check{
			silent(19 * minute), // due at 5m, late from 17m30s on
			firing(20*minute, "Overdue t 1k"),
			reads(20*minute, "Overdue", "The run of t at 1k is 15m 0s late.", "job=longctx", "target=t", "model=m", "context=1024", "rung=1k"),
			among("Overdue", 102*minute, "t 1k"), // due at 1h, late after 1h40m
			among("Overdue", 103*minute, "t 192k", "t 1k"),
		},
	}}
}

// zeroFrom is 1 and then, from a time on, 0.
func zeroFrom(t, from time.Duration) float64 {
	if t >= from {
		return 0
	}
	return 1
}

// zero is 0 from from until to, else 1.
func zero(from, to time.Duration) func(time.Duration) (float64, bool) {
	return func(t time.Duration) (float64, bool) { return max(zeroFrom(t, from), 1-zeroFrom(t, to)), true }
}

func exporterScenarios() []scenario {
	return []scenario{
		{
			name:      "does not answer: down, and not absent as well",
			exporters: []exporter{{instance: "a", to: 30 * minute, stillKnown: true}, {instance: "b", to: 30 * minute, stillKnown: true}},
			checks: []check{
				silent(34 * minute), firing(35*minute, "ExporterDown a", "ExporterDown b"), firing(hour, "ExporterDown a", "ExporterDown b"),
			},
		},
		{
			name:      "down is critical and says who",
			exporters: []exporter{{instance: "a", to: 30 * minute, stillKnown: true}, {instance: "b"}},
			checks:    []check{reads(35*minute, "ExporterDown", "The exporter a does not answer Prometheus.", "job=longctx", "instance=a")},
		},
		{
			name:      "gone from the configuration: absent",
			exporters: []exporter{{instance: "a", to: 30 * minute}},
			extra:     []series{{`up{job="node",instance="e"}`, zero(0, day)}},
			checks: []check{
				silent(44 * minute), firing(45*minute, "ExporterAbsent"),
				reads(45*minute, "ExporterAbsent", "Prometheus scrapes no longctx_exporter."),
			},
		},
		{
			name:      "four scrapes lost, an exporter moved, and somebody else's job is down",
			exporters: []exporter{{instance: "a", to: 30 * minute}, {instance: "b", from: 35 * minute}},
			extra: []series{
				{`up{job="longctx-2",instance="d"}`, zero(20*minute, 24*minute)},
				{`up{job="node",instance="e"}`, zero(0, day)},
			},
			checks: []check{silent(24 * minute), silent(29 * minute), silent(hour)},
		},
		{
			name:      "a reload that failed, with a gap between scrapes",
			exporters: []exporter{{instance: "b"}},
			extra: []series{{`longctx_config_last_reload_successful{job="longctx",instance="a"}`, func(t time.Duration) (float64, bool) {
				return zeroFrom(t, 20*minute), t < 26*minute || t >= 29*minute
			}}},
			checks: []check{
				silent(33 * minute), firing(35*minute, "ConfigReloadFailed a"),
				reads(35*minute, "ConfigReloadFailed", "The exporter a runs on an old configuration.", "job=longctx", "instance=a"),
			},
		},
	}
}

// histories are what has a median, as already recorded.
func histories(target string, value func(time.Duration) (float64, bool)) []series {
	var all []series
	for _, name := range []string{
		"target_context:longctx_step_seconds:fresh", "target_context:longctx_prefill_confirmed_tokens_per_second:fresh",
		"target_context:longctx_accept_confirmed_length:fresh", "target:longctx_step_slope_seconds_per_token:fresh",
		"target:longctx_step_intercept_seconds:fresh",
	} {
		all = append(all, series{fmt.Sprintf(`%s{job="longctx",target=%q,model="m"}`, name, target), value})
	}
	return all
}

func usualScenarios() []scenario {
	// One more each hour.
	count := func(t time.Duration) (float64, bool) { return 1 + t.Hours(), true }
	return []scenario{
		{
			name:  "what is usual: the median, until a day ago, from 24 points on",
			extra: histories("t", count),
			checks: []check{
				yields(46*hour, `{__name__=~"target.*:median7d"}`),
				yields(47*hour, `count({__name__=~"target.*:median7d"} == 12.5)`, sample{"{}", 5}),
			},
		},
	}
}

func weekScenarios() []scenario {
	count := func(t time.Duration) (float64, bool) { return 1 + t.Hours(), true }
	// The first 31 hours, and then nothing.
	began := func(t time.Duration) (float64, bool) { return 1, t <= 30*hour }
	return []scenario{
		{
			name:  "what is usual ends seven days back",
			extra: histories("t", count),
			checks: []check{
				// Prometheus 3 leaves out the point at the far end of the range, Prometheus 2 does not.
				yields(10*day, `count({__name__=~"target.*:median7d"} >= 133 <= 133.5)`, sample{"{}", 5}),
			},
		},
		{
			name:  "24 points within the seven days",
			extra: histories("t", began),
			checks: []check{
				yields(5*day, `count({__name__=~"target.*:median7d"})`, sample{"{}", 5}),
				yields(9*day, `{__name__=~"target.*:median7d"}`),
			},
		},
	}
}

func dayScenarios() []scenario {
	story := steps(hour, 0, repeat(2, 9*24+12)...)
	story[5*24].step = 60
	for i := 9 * 24; i < len(story); i++ {
		story[i].step = 3
	}
	return []scenario{
		{
			name: "nine days: no alert before there is a week before, nor from one cold start; the third slow run fires",
			exporters: one(target{name: "t", rungs: []rung{
				{context: 131072, every: hour, runs: story},
			}}),
			checks: []check{
				silent(2 * hour), silent(5 * day), silent(5*day + hour),
				yields(6*day+2*hour, "target_context:longctx_step_seconds:median7d",
					sample{`target_context:longctx_step_seconds:median7d{job="longctx",target="t",model="m",context="131072",rung="128k"}`, 2}),
				silent(9*day + hour), firing(9*day+3*hour, "StepTimeGrowth t 128k"), firing(9*day+11*hour, "StepTimeGrowth t 128k"),
			},
		},
	}
}

func memoryScenarios() []scenario {
	return []scenario{
		{
			name: "what was reached and measured is remembered, for a week and for a day",
			exporters: []exporter{
				{instance: "a", to: 20 * hour, targets: []target{{name: "t", rungs: []rung{
					{context: 131072, every: day, unreachable: 10 * hour, runs: steps(day, 0, 1)},
				}}}},
				{instance: "b", from: 20 * hour, targets: []target{{name: "t", rungs: []rung{
					{context: 131072, every: day, unreachable: always},
				}}}},
			},
			checks: []check{
				yields(15*hour, "count(target_context:longctx_rung_reachable:max7d == 1)", sample{"{}", 1}),
				yields(5*day, "count(target_context:longctx_rung_reachable:max7d == 1)", sample{"{}", 1}),
				yields(8*day, "count(target_context:longctx_rung_reachable:max7d == 0)", sample{"{}", 1}),
				yields(42*hour, "count(target_context:longctx_probe_last_success_timestamp_seconds:max1d)", sample{"{}", 1}),
				yields(45*hour, "target_context:longctx_probe_last_success_timestamp_seconds:max1d"),
			},
		},
	}
}
