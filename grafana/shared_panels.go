package grafana

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// Texts for what has no data.
const (
	noClean   = "No clean measurement within 2.5 intervals"
	noUsual   = "Nothing usual yet: needs 24 hours of measurements, a day old"
	noLine    = "No line: needs three fresh rungs"
	notTold   = "The server does not tell"
	neverYet  = "No run yet"
	noTargets = "No target is exported"
)

const clean = "The value holds until the next clean run; a gap is a time without one."

// besides explains the lines of runs that were rejected for the company they had.
const besides = " Dashed: runs beside other requests, as users feel them; no alert looks at those."

const openSignature = "Open the target's long-context dashboard and compare with its signature table."

const unitSlope = "suffix:ms/1k tok"

const unitRate = "suffix:tok/s"

// Panels of both dashboards; name is what tells the lines apart.

func slopePanel(name string, width uint32) dashboard.Panel {
	return overTime(panel{
		title: "Slope of the step time", unit: unitSlope, empty: noLine, width: width, height: 8,
		about: about{
			what: "Milliseconds by which 1,000 more tokens of context lengthen a decode step: the slope of the line through the target's fresh rungs. Three rungs make a line; alerts judge it from five.",
			bad:  "A step up that stays, 30 % above the median of the week before: the longer the context, the more is lost.",
			do:   "Suspect the attention path of verification, as after a change of backend, flags or version. Compare with the target's last deployment.",
		},
		queries: []query{{expr: slopePerThousand(joined(ofTarget(stepSlope))), legend: name}},
	}, linear())
}

func interceptPanel(name string, width uint32) dashboard.Panel {
	return overTime(panel{
		title: "Intercept of the step time", unit: "s", empty: noLine, width: width, height: 8,
		about: about{
			what: "The part of a decode step that does not depend on context length: the line through the target's fresh rungs at length 0. It may be noisy or below 0 where all rungs are long.",
			bad:  "A step up that stays, 30 % and 5 ms above the median of the week before.",
			do:   "Suspect clocks and power, MoE, communication between GPUs, or the host.",
		},
		queries: []query{{expr: joined(ofTarget(stepIntercept)), legend: name}},
	}, linear())
}

func ttftPanel(name string, width uint32) dashboard.Panel {
	return overTime(panel{
		title: "Time to first token", unit: "s", empty: noClean, width: width, height: 9,
		about: about{
			what: "Time to the first token of an uncached prompt, the smallest of the last three clean runs, by rung. " + clean + besides + " Objectives are drawn as lines named so.",
			bad:  "A line above its objective: users of this length wait longer than promised.",
			do:   "If prefill fell as well, look at prefill; if not, the time was spent before it: gateway, tokenizer, admission.",
		},
		queries: []query{
			{expr: ofRung(ttftFresh), legend: name},
			{expr: joined(ofRung(contendedTTFT)), legend: name + " contended"},
			{expr: joined(ofRung(sloThreshold, `slo="ttft"`)), legend: name + " objective"},
		},
		overrides: dashedWhere(" (objective|contended)$"),
	}, logarithmic())
}

func prefillPanel(name string, width uint32) dashboard.Panel {
	return overTime(panel{
		title: "Prefill speed", unit: unitRate, empty: noClean, width: width, height: 9,
		about: about{
			what: "Computed prompt tokens per second of prefill, the largest of the last three clean runs, by rung. " + clean,
			bad:  "Below 80 % of the median of the week before at one length or more.",
			do:   "Down at long rungs only: size of prefill chunks, prefill kernel, offload of the KV cache. Down everywhere: clocks, power or a neighbour.",
		},
		queries: []query{{expr: ofRung(prefillFresh), legend: name}},
	}, linear())
}

func decodePanel(name string, width uint32) dashboard.Panel {
	return overTime(panel{
		title: "Decode speed", unit: unitRate, empty: noClean, width: width, height: 9,
		about: about{
			what: "Decoded tokens per second of one request in the latest clean run, by rung: acceptance length over step time. " + clean + besides,
			bad:  "A fall that stays. It has two causes, and this panel does not tell them apart.",
			do:   "Look whether the step time rose or the acceptance length fell: the kernel or the drafter.",
		},
		queries: []query{
			{expr: joined(ofRung(decodeRate)), legend: name}, {expr: joined(ofRung(contendedDecode)), legend: name + " contended"},
		},
		overrides: dashedWhere(" contended$"),
	}, linear())
}

func statesPanel(name string, width, height uint32) dashboard.Panel {
	return states(panel{
		title: "State of each rung", unit: "none", empty: neverYet, width: width, height: height,
		about: about{
			what: "The worst that held for each context length: fine; slower (confirmed step time more than 25 % above usual); no fresh value; failing (three runs in a row); out of reach (the server refuses the length).",
			bad:  "Red after green: the context limit shrank. Orange: the server does not answer. Grey: nobody watches this length.",
			do:   "Compare when it began on the rungs: all at once is the server or the exporter, only the longest is the pool or the limit. A rung that was never green is configuration.",
		},
		queries: []query{{expr: rungState(), legend: name}},
		thresholds: steps(green, from(stateSlow, yellow), from(stateUnknown, grey), from(stateFailing, orange),
			from(stateOutOfReach, red)),
		maps: stateNames(),
	})
}

func stateNames() map[string]dashboard.ValueMappingResult {
	return map[string]dashboard.ValueMappingResult{
		"0": {Text: new("fine"), Color: new(green), Index: new(int32(0))},
		"1": {Text: new("slower"), Color: new(yellow), Index: new(int32(1))},
		"2": {Text: new("no fresh value"), Color: new(grey), Index: new(int32(2))},
		"3": {Text: new("failing"), Color: new(orange), Index: new(int32(3))},
		"4": {Text: new("out of reach"), Color: new(red), Index: new(int32(4))},
	}
}

func reasonsPanel(name string, width uint32) dashboard.Panel {
	return overTime(panel{
		title: "Runs that are no measurement", unit: "none", empty: "None within 6 hours", width: width, height: 9,
		about: about{
			what: "Runs of the last 6 hours that failed, were rejected or were skipped, by reason. Such a run changes no measured value.",
			bad:  "More than now and then: measurements become rare, and rungs lose their fresh value.",
			do:   "The reason says what to do: contended and queued mean that others use the server, cache_hit that the prompt was known, exceeds_context that the rung is longer than the limit.",
		},
		queries: []query{{
			expr:   "sum by (target, kind, reason) (increase(" + ofTarget(probeReasons) + "[" + eventWindow + "])) > 0",
			legend: name,
		}},
	}, linear())
}

func unwatched() dashboard.Panel {
	return number(panel{
		title: "Rungs without a fresh value", unit: "none", empty: noTargets, width: 4, height: 4, thresholds: anyIs(orange),
		about: about{
			what: "Scheduled context lengths without a confirmed step time of the last 2.5 intervals.",
			bad:  "More than just after a start, when three clean runs are still to come: nothing watches these lengths.",
			do:   "See below which runs are no measurement, and why.",
		},
		queries: []query{{expr: orZero("count(" + withoutFresh() + ")")}},
	})
}
