package grafana

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// rungOfTarget names a line where several targets are shown.
const rungOfTarget = "{{target}} {{rung}}"

// fleet answers in a minute whether anything is wrong, where, since when, and whether the measurement can be trusted.
func fleet() Dashboard {
	return frame(fleetUID, "Long context / Fleet",
		"Is anything wrong, where, since when, and can the measurement be trusted? Read the top line, then open the coloured row of the ladder.",
		variables(true), []row{
			{"Now", append(fleetCounts(), fleetWorst()...)},
			{"Ladder", []dashboard.Panel{ladder(), statesPanel(rungOfTarget, 24, 10)}},
			{"Step time against context", []dashboard.Panel{fleetCurve(), slopePanel("{{target}}", 12), interceptPanel("{{target}}", 12)}},
			{"What a user feels", []dashboard.Panel{ttftPanel(rungOfTarget, 8), prefillPanel(rungOfTarget, 8), decodePanel(rungOfTarget, 8)}},
			{"Measurement", []dashboard.Panel{reasonsPanel("{{target}} {{kind}}: {{reason}}", 8), objectives(), cost(), identity()}},
		})
}

// fleetCounts count what should not be.
func fleetCounts() []dashboard.Panel {
	return []dashboard.Panel{
		number(panel{
			title: "Alerts firing", unit: "none", empty: "0", width: 3, height: 4, thresholds: anyIs(orange),
			about: about{
				what: "Alerts of long-context probing that fire for what is selected, those of severity info left out.",
				bad:  "Any. Alerts of the exporter itself come first, for they make the rest of this page silent.",
				do:   "Open the alert's runbook; the lines in the graphs below show when it began.",
			},
			queries: []query{{expr: orZero("count(" + firing(`severity!="info"`) + ")")}},
		}),
		number(panel{
			title: "Targets down", unit: "none", empty: noTargets, width: 3, height: 4, thresholds: anyIs(red),
			about: about{
				what: "Targets that were not there, not ready or refused access at the latest contact.",
				bad:  "Any: nothing is measured there.",
				do:   "Look at the server first, then at the address and the key in the exporter's configuration.",
			},
			queries: []query{{expr: orZero("count(" + joined(ofTarget(targetUp)) + " == 0)")}},
		}),
		number(panel{
			title: "Rungs lost from reach", unit: "none", empty: "0", width: 3, height: 4, thresholds: anyIs(red),
			about: about{
				what: "Context lengths that the server took within seven days and refuses now.",
				bad:  "Any: requests of that length fail for users as well.",
				do:   "Compare the server's limit and KV pool with the version and flags before.",
			},
			queries: []query{{expr: orZero("count(" + outOfReach() + ")")}},
		}),
	}
}

// fleetWorst are the worst values of the fleet.
func fleetWorst() []dashboard.Panel {
	return []dashboard.Panel{
		number(panel{
			title: "Worst step growth", unit: "percentunit", empty: noUsual, width: 4, height: 4, thresholds: stepChange(),
			about: about{
				what: "Largest change of a rung's confirmed step time against its median of the week before.",
				bad:  "Over 25 %; over 50 % at three lengths pages. The alerts want 5 ms besides.",
				do:   openSignature,
			},
			queries: []query{{expr: "max(" + stepChangeQuery() + ")"}},
		}),
		number(panel{
			title: "Worst slope growth", unit: "percentunit", empty: noUsual, width: 4, height: 4, thresholds: lineChange(),
			about: about{
				what: "Largest change of a target's slope of step time over context against its median of the week before, from five fresh rungs on.",
				bad:  "Over 30 %: the longer the context, the more is lost.",
				do:   openSignature,
			},
			queries: []query{{expr: "max(" + slopeChangeQuery() + ")"}},
		}),
		number(panel{
			title: "Lowest acceptance", unit: unitAccept, empty: noClean, width: 3, height: 4,
			about: about{
				what: "Smallest confirmed number of tokens that a verify pass commits, bonus token included; 1 for targets without speculation.",
				bad:  "Below 1.1 on a target that speculates: speculation costs more than it gives.",
				do:   "Check the drafter: weights, chat template, version. The ladder says which target.",
			},
			queries: []query{{expr: "min(" + ofRung(acceptFresh) + ")"}},
		}),
		unwatched(),
	}
}

func ladder() dashboard.Panel {
	p := panel{
		title: "Ladder", unit: "none", empty: neverYet, width: 24, height: 11,
		about: about{
			what: "A line for each target and context length, with the latest clean values and their change against the median of the week before. Click a target to open its dashboard.",
			bad:  "A coloured cell: the alert for it fires at the same number. An age over 2.5 intervals: the values beside it are gone or about to go.",
			do:   "Compare the lines of one target: all slower, or only the long ones? Then open it.",
		},
		overrides: []dashboard.DashboardFieldConfigSourceOverrides{override("target", toDashboards())},
	}
	return rows(p, []column{
		{
			query: query{ref: "state", expr: byRung("max", rungState())}, name: "State", unit: "none", maps: stateNames(),
			thresholds: steps(green, from(stateSlow, yellow), from(stateUnknown, grey), from(stateFailing, orange), from(stateOutOfReach, red)),
		},
		{query: query{ref: "step", expr: byRung("max", ofRung(stepFresh))}, name: "Step", unit: "s"},
		{query: query{ref: "growth", expr: byRung("max", stepChangeQuery())}, name: "Step, change", unit: "percentunit", thresholds: stepChange()},
		{query: query{ref: "ttft", expr: byRung("max", ofRung(ttftFresh))}, name: "First token", unit: "s"},
		{query: query{ref: "prefill", expr: byRung("min", ofRung(prefillFresh))}, name: "Prefill", unit: unitRate},
		{query: query{ref: "prefillChange", expr: byRung("min", prefillChangeQuery())}, name: "Prefill, change", unit: "percentunit", thresholds: prefillChange()},
		{query: query{ref: "accept", expr: byRung("min", ofRung(acceptFresh))}, name: "Tokens a step", unit: "none"},
		{query: query{ref: "decode", expr: byRung("min", joined(ofRung(decodeRate)))}, name: "Decode", unit: unitRate},
		{
			query: query{ref: "missed", expr: byRung("max", joined(ofRung(needleInARow)))}, name: "Facts missed in a row", unit: "none",
			thresholds: steps(green, from(missesWarn, orange)),
		},
		{query: query{ref: "age", expr: byRung("max", intervalsSince())}, name: "Age in intervals", unit: "none", thresholds: age()},
	})
}

func fleetCurve() dashboard.Panel {
	return overContext(panel{
		title: "Step time by context, all targets", unit: "s", empty: noClean, width: 24, height: 10,
		about: about{
			what: "Latest fresh step time of each context length, a curve for each target.",
			bad:  "A curve that bends upwards or lies above its sister's: targets of one model should lie on each other.",
			do:   openSignature,
		},
		queries:    []query{{ref: "now", expr: "max by (target, context) (" + ofRung(stepFresh) + ")"}},
		transforms: curvePer("target", "context"),
	})
}

func objectives() dashboard.Panel {
	return overTime(panel{
		title: "Runs that missed their objective", unit: "percentunit", empty: "No objective is configured, or no run yet", width: 8, height: 9,
		about: about{
			what: "Share of the judged runs of the last 6 hours that took longer than the objective, by target and objective.",
			bad:  "More than the share that you promised.",
			do:   "See by rung which length it is: first tokens above, steps in the target's dashboard.",
		},
		queries: []query{{
			expr: "sum by (target, slo) (increase(" + ofRung(sloEvents, `result="bad"`) + "[" + eventWindow + "])) / (sum by (target, slo) (increase(" +
				ofRung(sloEvents) + "[" + eventWindow + "])) > 0)",
			legend: "{{target}} {{slo}}",
		}},
	}, linear())
}

func cost() dashboard.Panel {
	return overTime(panel{
		title: "What watching costs", unit: "percentunit", empty: neverYet, width: 8, height: 9,
		about: about{
			what: "Share of the last hour during which runs occupied each target.",
			bad:  "More than the budget that you meant to spend: users of the server feel it.",
			do:   "Lower the budget, lengthen the intervals of the long rungs, or probe a replica.",
		},
		queries: []query{{
			expr:   "sum by (target) (rate(" + ofTarget(engineBusy) + "[" + costWindow + "]))",
			legend: "{{target}}",
		}},
	}, linear())
}

func identity() dashboard.Panel {
	return rows(panel{
		title: "What the targets say that they are", unit: "none", empty: "No target was identified yet", width: 24, height: 8,
		about: about{
			what: "Model, kind of server, version, speculation and attention backend as each target tells, with its limits, the prompt tokens per second that probing made it compute in the last hour, and for how long it has run so.",
			bad:  "Targets of one fleet that differ; a KV pool below the context limit, which no single request of that length fits.",
			do:   "Bring the odd one in line, or split the fleet by model.",
		},
		overrides: []dashboard.DashboardFieldConfigSourceOverrides{override("target", toDashboards())},
	}, []column{
		{query: query{ref: "info", expr: "max by (target, model, served_model, dialect, server_version, spec_algorithm, attention_backend, prefix_cache) (" + ofTarget(targetInfo) + ")"}, name: "Identified", unit: "none"},
		{query: query{ref: "limit", expr: "max by (target, model) (" + ofTarget(targetMaxContext) + ")"}, name: "Context limit", unit: "locale"},
		{query: query{ref: "pool", expr: "max by (target, model) (" + ofTarget(targetKVPool) + ")"}, name: "KV pool", unit: "locale"},
		{query: query{ref: "spent", expr: "sum by (target, model) (rate(" + ofTarget(promptTokens, `kind="computed"`) + "[" + costWindow + "]))"}, name: "Probing computes", unit: unitRate},
		{query: query{ref: "since", expr: "time() - max by (target, model) (" + ofTarget(targetDeployTime) + ")"}, name: "Deployed for", unit: "s"},
	}, "Value #info")
}
