package prometheus

import "time"

// suites are the unit tests of the rules. Values stand close to the thresholds on both sides, so that one that was moved
// breaks a test.
func suites() []suite {
	return []suite{
		{"steps", minute, minute, stepScenarios()},
		{"wide", minute, minute, wideScenarios()},
		{"line", minute, minute, lineScenarios()},
		{"slope", minute, minute, slopeScenarios()},
		{"intercept", minute, minute, interceptScenarios()},
		{"restarts", minute, minute, restartScenarios()},
		{"superlinear", minute, minute, superlinearScenarios()},
		{"deploy", minute, minute, deployScenarios()},
		{"deployed", hour, hour, deployedScenarios()},
		{"saving", minute, minute, savingScenarios()},
		{"answers", minute, minute, answerScenarios()},
		{"recalled", hour, day, recalledScenarios()},
		{"reach", minute, minute, reachScenarios()},
		{"limit", minute, minute, limitScenarios()},
		{"advertised", hour, day, advertisedScenarios()},
		{"pool", minute, minute, poolScenarios()},
		{"info", minute, minute, infoScenarios()},
		{"noise", minute, minute, noiseScenarios()},
		{"stale", minute, minute, staleScenarios()},
		{"hourly", minute, minute, hourlyScenarios()},
		{"prefill", minute, minute, prefillScenarios()},
		{"acceptance", minute, minute, acceptanceScenarios()},
		{"failing", minute, minute, failingScenarios()},
		{"unmeasured", minute, minute, unmeasuredScenarios()},
		{"schedule", minute, minute, scheduleScenarios()},
		{"exporter", minute, minute, exporterScenarios()},
		{"usual", hour, hour, usualScenarios()},
		{"week", hour, day, weekScenarios()},
		{"days", hour, hour, dayScenarios()},
		{"memory", hour, hour, memoryScenarios()},
	}
}

// one is an exporter that is there all the time.
func one(targets ...target) []exporter {
	return []exporter{{instance: "a", targets: targets}}
}

// now is a rung whose steps take so long, measured every five minutes, where they usually take another time.
func now(context int, usual, seconds float64) rung {
	return rung{context: context * 1024, every: 5 * minute, usualStep: usual, runs: every(5*minute, 0, hour, run{step: seconds})}
}

func stepScenarios() []scenario {
	// Three, and only three, in a row are slow; then all is well again.
	story := append(repeat(2, 7), 9, 2, 2, 2, 2, 3, 3, 2, 2, 2, 2, 3, 3, 3, 3)
	story = append(story, repeat(2, 12)...)
	return []scenario{
		{
			name: "one outlier and two bad runs are no growth, the third bad run is",
			exporters: one(target{name: "ct200", rungs: []rung{
				{context: 131072, every: 5 * minute, usualStep: 2, runs: steps(5*minute, 0, story...)},
			}}),
			checks: []check{
				silent(39 * minute), silent(45 * minute), silent(69 * minute), silent(75 * minute),
				silent(104 * minute), // the third bad run was at 1h40m
				firing(105*minute, "StepTimeGrowth ct200 128k"),
				reads(105*minute, "StepTimeGrowth", "A decode step of ct200 at 128k takes 1.50 times as long as usual.",
					"job=longctx", "target=ct200", "model=m", "context=131072", "rung=128k"),
				firing(139*minute, "StepTimeGrowth ct200 128k"), // well again from 1h50m on
				silent(140 * minute),
			},
		},
		{
			name: "by how much: 25 % and 5 ms",
			exporters: one(target{name: "t", rungs: []rung{
				now(1, 0.0160, 0.0209), now(2, 0.0160, 0.0211), now(4, 2, 2.46), now(8, 2, 2.55),
			}}),
			checks: []check{firing(15*minute, "StepTimeGrowth t 2k", "StepTimeGrowth t 8k")},
		},
	}
}

func wideScenarios() []scenario {
	return []scenario{
		{
			name: "wide is three context lengths, 50 % and 5 ms",
			exporters: one(
				target{name: "three", rungs: []rung{now(1, 2, 3.06), now(2, 2, 3.06), now(4, 2, 3.06), now(8, 2, 2)}},
				target{name: "two", rungs: []rung{now(1, 2, 3.06), now(2, 2, 3.06), now(4, 2, 2.94), now(8, 2, 2)}},
				target{name: "floor", rungs: []rung{now(1, 2, 3.06), now(2, 2, 3.06), now(4, 0.008, 0.0129), now(8, 2, 2)}},
				target{name: "over", rungs: []rung{now(1, 2, 3.06), now(2, 2, 3.06), now(4, 0.008, 0.0131), now(8, 2, 2)}},
			),
			unusual: true,
			extra: func() []series {
				var all []series
				for _, name := range []string{"three", "two", "floor", "over"} {
					for _, r := range []rung{now(1, 2, 0), now(2, 2, 0), now(4, 2, 0), now(8, 2, 0)} {
						if r.context == 4096 && (name == "floor" || name == "over") {
							r.usualStep = 0.008
						}
						all = append(all, target{name: name, rungs: []rung{r}}.usual()...)
					}
				}
				return all
			}(),
			checks: []check{
				among("StepTimeGrowthWide", 14*minute), // confirmed at 10m
				among("StepTimeGrowthWide", 15*minute, "over", "three"),
			},
		},
		{
			name: "it is critical, holds for half an hour and says how many",
			exporters: one(target{name: "t", rungs: []rung{
				{context: 1024, every: 5 * minute, usualStep: 2, runs: steps(5*minute, 0, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 2, 2)},
				now(2, 2, 4), now(4, 2, 4),
			}}),
			checks: []check{
				reads(20*minute, "StepTimeGrowthWide", "Decode steps of t take over 1.5 times as long as usual at 3 context lengths.",
					"job=longctx", "target=t", "model=m"),
				among("StepTimeGrowthWide", 54*minute, "t"), // at two from 25m on
				among("StepTimeGrowthWide", 55*minute),
			},
		},
	}
}

// line is a target whose steps took intercept + slope·context, and now take other ones, measured every five minutes.
func line(name string, contexts []int, usualIntercept, usualSlope, intercept, slope float64) target {
	t := target{name: name}
	for _, k := range contexts {
		x := float64(k * 1024)
		t.rungs = append(t.rungs, now(k, usualIntercept+usualSlope*x, intercept+slope*x))
	}
	return t
}

func lineScenarios() []scenario {
	ladder := []int{1, 4, 16, 64, 192}
	return []scenario{
		{
			name:      "slope three times as steep: the slope, the long rungs, and no intercept",
			exporters: one(line("t", ladder, 0.06, 2e-6, 0.06, 6e-6)),
			checks: []check{
				silent(14 * minute),
				firing(15*minute, "StepSlopeGrowth t", "StepTimeGrowth t 16k", "StepTimeGrowth t 192k", "StepTimeGrowth t 64k", "StepTimeGrowthWide t"),
				reads(15*minute, "StepSlopeGrowth", "A token of context lengthens a decode step of t by 4us more than usual.",
					"job=longctx", "target=t", "model=m"),
			},
		},
		{
			name:      "all steps 40 ms longer: the intercept, the short rungs, and no slope",
			exporters: one(line("t", ladder, 0.06, 2e-6, 0.10, 2e-6)),
			checks: []check{
				silent(14 * minute),
				firing(15*minute, "StepInterceptGrowth t", "StepTimeGrowth t 16k", "StepTimeGrowth t 1k", "StepTimeGrowth t 4k"),
				reads(15*minute, "StepInterceptGrowth", "Decode steps of t take 40ms more than usual, whatever the context.",
					"job=longctx", "target=t", "model=m"),
			},
		},
		{
			name: "only the longest rung is slow: no line moved",
			exporters: one(func() target {
				t := line("t", ladder, 0.06, 2e-6, 0.06, 2e-6)
				t.rungs[4] = now(192, 0.06+2e-6*192*1024, 1.5)
				return t
			}()),
			checks: []check{firing(hour, "StepTimeGrowth t 192k")},
		},
		{
			name: "every rung once slow: the line moved, and nothing confirms it",
			exporters: one(func() target {
				t := line("t", ladder, 0.06, 2e-6, 0.06, 2e-6)
				for i := range t.rungs {
					t.rungs[i].runs[4].step *= 2
				}
				return t
			}()),
			checks: []check{
				yields(22*minute, "round(target:longctx_step_slope_seconds_per_token:fresh * 1e6)", sample{`{job="longctx",target="t",model="m"}`, 4}),
				silent(25 * minute), silent(35 * minute),
			},
		},
	}
}

// five are the fewest context lengths that a line is judged by.
func five() []int { return []int{1, 2, 4, 32, 128} }

func slopeScenarios() []scenario {
	confirm := func(name string, b float64) target { return line(name, five(), b, 1e-5, b, 1.35e-5) }
	return []scenario{
		{
			name: "slope: by how much, and on how many rungs",
			exporters: one(
				line("less", five(), 0.06, 1e-5, 0.06, 1.295e-5), line("more", five(), 0.06, 1e-5, 0.06, 1.305e-5),
				line("floor", five(), 0.01, 2e-7, 0.01, 2.98e-7), line("over", five(), 0.01, 2e-7, 0.01, 3.02e-7),
				confirm("unconfirmed", 4.4), confirm("confirmed", 2.6),
				line("four", five()[1:], 0.06, 1e-5, 0.06, 2e-5), line("flat", five(), 1, -1e-9, 1, 3e-6),
				line("falling", five(), 3, -1e-5, 3, -0.8e-5),
			),
			checks: []check{among("StepSlopeGrowth", 15*minute, "confirmed", "flat", "more", "over")},
		},
		{
			name:      "it holds for half an hour",
			exporters: one(),
			extra:     lineStory(),
			checks: []check{
				among("StepSlopeGrowth", 14*minute), among("StepSlopeGrowth", 15*minute, "t"),
				among("StepSlopeGrowth", 49*minute, "t"), among("StepSlopeGrowth", 50*minute),
			},
		},
	}
}

func interceptScenarios() []scenario {
	return []scenario{
		{
			name: "intercept: by how much, and on how many rungs",
			exporters: one(
				line("less", five(), 0.1, 1e-6, 0.1295, 1e-6), line("more", five(), 0.1, 1e-6, 0.1305, 1e-6),
				line("floor", five(), 0.0110, 1e-7, 0.0159, 1e-7), line("over", five(), 0.0110, 1e-7, 0.0161, 1e-7),
				line("unconfirmed", five(), 0.1, 3.2e-4, 0.135, 3.2e-4), line("confirmed", five(), 0.1, 1.9e-4, 0.135, 1.9e-4),
				line("four", five()[1:], 0.1, 1e-6, 0.2, 1e-6), line("below", five(), -0.01, 3e-5, 0.03, 3e-5),
				line("below-still", five(), -0.1, 2e-4, -0.08, 2e-4),
			),
			checks: []check{among("StepInterceptGrowth", 15*minute, "below", "confirmed", "more", "over")},
		},
		{
			name:      "it holds for half an hour",
			exporters: one(),
			extra:     lineStory(),
			checks: []check{
				among("StepInterceptGrowth", 14*minute), among("StepInterceptGrowth", 15*minute, "t"),
				among("StepInterceptGrowth", 49*minute, "t"), among("StepInterceptGrowth", 50*minute),
			},
		},
	}
}

// lineStory is a line that was twice as high and steep from 10m to 20m, as already recorded, with a rung that confirms it.
func lineStory() []series {
	labels := `{job="longctx",target="t",model="m"}`
	during := func(usual float64) func(time.Duration) (float64, bool) {
		return func(t time.Duration) (float64, bool) {
			if t >= 10*minute && t < 20*minute {
				return 2 * usual, true
			}
			return usual, true
		}
	}
	constant := func(v float64) func(time.Duration) (float64, bool) {
		return func(time.Duration) (float64, bool) { return v, true }
	}
	return []series{
		{"target:longctx_step_slope_seconds_per_token:fresh" + labels, during(1e-5)},
		{"target:longctx_step_slope_seconds_per_token:median7d" + labels, constant(1e-5)},
		{"target:longctx_step_intercept_seconds:fresh" + labels, during(0.1)},
		{"target:longctx_step_intercept_seconds:median7d" + labels, constant(0.1)},
		{`target_context:longctx_step_seconds:growth{job="longctx",target="t",model="m",context="1024",rung="1k"}`, during(1)},
	}
}

func restartScenarios() []scenario {
	slow := append(steps(5*minute, 0, repeat(2, 3)...), steps(5*minute, 15*minute, repeat(3, 40)...)...)
	ct200 := target{name: "ct200", algorithm: "EAGLE", rungs: []rung{
		{context: 131072, every: 5 * minute, usualStep: 2, usualPrefill: 1000, usualAccept: 3, runs: slow},
	}}
	for _, k := range []int{1, 2, 4, 8} {
		r := now(k, 1, 1)
		r.runs = every(5*minute, 0, 2*hour, run{step: 1})
		ct200.rungs = append(ct200.rungs, r)
	}
	for i := range ct200.rungs[0].runs {
		ct200.rungs[0].runs[i].prefill, ct200.rungs[0].runs[i].accept = 500, 1.5
	}
	all := []string{"AcceptanceCollapse ct200 128k", "PrefillThroughputDrop ct200 128k", "StepTimeGrowth ct200 128k"}
	joined := `count by (instance, pod) ({__name__=~"target(_context)?:.*", __name__!~".*:median7d"})`
	// Five rungs with prompt, step, confirmed step, growth, reach and success; one with TTFT, prefill and acceptance; a line.
	series := sample{"{}", 5*6 + 3 + 2}
	return []scenario{{
		name: "a restart with a new instance and ten minutes without any continues what fires",
		exporters: []exporter{
			{instance: "a", to: 50 * minute, targets: []target{ct200}},
			{instance: "b", from: hour, targets: []target{ct200}},
		},
		checks: []check{
			firing(30*minute, all...), yields(30*minute, joined, series),
			firing(55*minute, all...), // nobody there
			firing(62*minute, all...), // the new one has measured once
			firing(80*minute, all...), yields(80*minute, joined, series),
		},
	}}
}

func staleScenarios() []scenario {
	fresh := `count({__name__=~"target_context:.*:fresh"})`
	return []scenario{{
		name: "values stand for 2.5 intervals",
		exporters: one(target{name: "t", rungs: []rung{
			{context: 1024, every: 20 * minute, runs: every(10*minute, 0, 20*minute, run{step: 2, prefill: 1000, accept: 3})},
		}}),
		checks: []check{
			yields(19*minute, fresh, sample{"{}", 2}),
			yields(69*minute, fresh, sample{"{}", 6}),
			yields(71*minute, fresh),
		},
	}}
}

func hourlyScenarios() []scenario {
	story := steps(hour, 0, 2, 2, 2, 2, 3, 3, 3, 3, 3)
	for i := range story {
		story[i].prefill, story[i].accept = 1000, 3
	}
	return []scenario{{
		name: "a rung measured each hour is judged by its third slow run, and not any more once that is 2.5 intervals old",
		exporters: one(target{name: "ct200", rungs: []rung{
			{context: 196608, every: hour, usualStep: 2, usualPrefill: 1000, usualAccept: 3, runs: story},
		}}),
		checks: []check{
			silent(4*hour + 30*minute), silent(5*hour + 59*minute), silent(6*hour + 4*minute),
			firing(6*hour+5*minute, "StepTimeGrowth ct200 192k"),
			firing(8*hour+30*minute, "StepTimeGrowth ct200 192k"),
			firing(10*hour+59*minute, "Overdue ct200 192k", "StepTimeGrowth ct200 192k"), // no run after 8h
			firing(11*hour+2*minute, "Overdue ct200 192k"),
			firing(12*hour+30*minute, "Overdue ct200 192k"),
			firing(12*hour+31*minute, "NoCleanMeasurement ct200 192k", "Overdue ct200 192k"),
		},
	}}
}
