package grafana

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

const rungName = "{{rung}}"

// longContext answers for one target what changed: the part of a step that grows with context, the part that does not, the
// drafter, or prefill.
func longContext() Dashboard {
	return frame(contextUID, "Long context / Target",
		"What changed on this target? Read the curve, then the signature table from left to right.",
		variables(false), []row{
			{"The curve", append([]dashboard.Panel{curve()}, figures()...)},
			{"What changed", []dashboard.Panel{signature(), words("How to read the signature", reading, 10, 12), rungTable()}},
			{"Steps", []dashboard.Panel{
				stepsByRung(12), growthByRung(), slopePanel("{{target}}", 8), interceptPanel("{{target}}", 8), fitPanel(),
				acceptByRung(12), decodePanel(rungName, 12),
			}},
			{"Single steps", []dashboard.Panel{stepHeatmap()}},
			{"Prefill", []dashboard.Panel{ttftCurve(), prefillCurve(), ttftPanel(rungName, 12), prefillPanel(rungName, 12)}},
			{"Reach and answers", []dashboard.Panel{statesPanel(rungName, 12, 9), reachOverTime(), answers(), firstTokens()}},
			{"Measurement", []dashboard.Panel{agePanel(), reasonsPanel("{{kind}}: {{reason}}", 8), spreadPanel()}},
		})
}

// reading is what the first minute of a page needs.
const reading = `| slope | intercept | acceptance | prefill | reading | first action |
|---|---|---|---|---|---|
| up | same | same | same | attention of the verify pass | compare backend, flags and version with before; roll back |
| same | up | same | any | cost that no context changes | clocks, power, MoE, communication, host |
| up | up | same | down | the whole machine, or shared | load, neighbours, node |
| same | same | down | same | drafter | weights, chat template, version |
| same | same | same | down at long rungs | prefill of long prompts | chunk size, prefill kernel, KV offload |
| same | same | same | same, first token up | waiting before prefill | gateway, tokenizer, admission |

Only the longest rung slower: the KV pool is nearly full.`

func curve() dashboard.Panel {
	queries := []query{
		{ref: "now", expr: "max by (context) (" + ofRung(stepFresh) + ")"},
		{ref: "usual", expr: "max by (context) (" + ofRung(stepMedian) + ")"},
		{ref: "line", expr: "max by (context) (" + line() + ")"},
		{ref: "predicted", expr: "max by (context) (" + joined(ofRung(stepExpected)) + ")"},
		{ref: "before", expr: "max by (context) (" + previousStep() + ")"},
	}
	return overContext(panel{
		title: "Step time by context", unit: "s", empty: noClean, width: 16, height: 12,
		about: about{
			what: "Seconds per decode step against context length: the latest fresh value (now), the median of the week before (usual), the line that slope and intercept give (line), what the shorter rungs predict (predicted), and the median of what was deployed before (before).",
			bad:  "Now steeper than usual: cost that grows with context. Now lifted in parallel: cost that does not. Now above predicted at the long end: growth faster than a line.",
			do:   "Read which of the two it is from the signature below, and act on its row.",
		},
		queries: queries, transforms: curves(queries),
		overrides: []dashboard.DashboardFieldConfigSourceOverrides{dashed("usual"), dashed("line"), dashed("predicted"), dashed("before")},
	})
}

// figures are the numbers beside the curve.
func figures() []dashboard.Panel {
	return []dashboard.Panel{
		number(panel{
			title: "Slope", unit: unitSlope, empty: noLine, width: 4, height: 4,
			about: about{
				what: "Milliseconds by which 1,000 more tokens of context lengthen a step, over the target's fresh rungs.",
				bad:  "30 % above its median of the week before, as the signature shows.",
				do:   "Suspect the attention path of verification.",
			},
			queries: []query{{expr: "max(" + slopePerThousand(joined(ofTarget(stepSlope))) + ")"}},
		}),
		number(panel{
			title: "Intercept", unit: "s", empty: noLine, width: 4, height: 4,
			about: about{
				what: "Step time that the line gives for an empty context.",
				bad:  "30 % and 5 ms above its median of the week before, as the signature shows.",
				do:   "Suspect clocks and power, MoE, communication between GPUs, or the host.",
			},
			queries: []query{{expr: "max(" + joined(ofTarget(stepIntercept)) + ")"}},
		}),
		number(panel{
			title: "Longest prompt answered", unit: "locale", empty: neverYet, width: 4, height: 4,
			about: about{
				what: "Longest selected rung in tokens that the server took at its latest run.",
				bad:  "Less than the longest configured rung, or than what the server says it takes.",
				do:   "See under Reach and answers when it shrank.",
			},
			queries: []query{{expr: longestAnswered("target")}},
		}),
		number(panel{
			title: "Context limit", unit: "locale", empty: notTold, width: 4, height: 4,
			about: about{
				what: "Longest prompt plus output in tokens that the server says it takes.",
				bad:  "Less than yesterday, or less than you sell.",
				do:   "Compare the server's flags with those before.",
			},
			queries: []query{{expr: "max(" + joined(ofTarget(targetMaxContext)) + ")"}},
		}),
		number(panel{
			title: "KV pool", unit: "locale", empty: notTold, width: 4, height: 4,
			about: about{
				what: "Tokens that the KV cache of one replica holds.",
				bad:  "Less than the context limit: a request of full length can never be admitted.",
				do:   "Give the cache more memory, or advertise less context.",
			},
			queries: []query{{expr: "max(" + joined(ofTarget(targetKVPool)) + ")"}},
		}),
		number(panel{
			title: "Rungs in the line", unit: "none", empty: noLine, width: 4, height: 4,
			thresholds: steps(yellow, from(judgedRungs, green)),
			about: about{
				what: "Fresh rungs that slope and intercept rest on.",
				bad:  "Below five: alerts do not judge the line, for one slow rung would bend it.",
				do:   "Configure more rungs, or see under Measurement why some are not fresh.",
			},
			queries: []query{{expr: "min(" + joined(ofTarget(stepFitRungs)) + ")"}},
		}),
	}
}

func signature() dashboard.Panel {
	return rows(panel{
		title: "Signature", unit: "percentunit", empty: noUsual, width: 14, height: 12,
		about: about{
			what: "Change of each quantity against its median of the week before; for those of rungs, the worst selected rung.",
			bad:  "A coloured cell: 25 % (50 %) for steps, 30 % for slope and intercept, 30 % lost acceptance, 20 % lost prefill, where the alerts are. First token has no alert and no colour.",
			do:   "Find the row of the table beside it with the same cells.",
		},
	}, []column{
		{query: query{ref: "slope", expr: "max by (target, model) (" + slopeChangeQuery() + ")"}, name: "Slope", unit: "percentunit", thresholds: lineChange()},
		{query: query{ref: "intercept", expr: "max by (target, model) (" + interceptChangeQuery() + ")"}, name: "Intercept", unit: "percentunit", thresholds: lineChange()},
		{query: query{ref: "accept", expr: "min by (target, model) (" + acceptChangeQuery() + ")"}, name: "Acceptance", unit: "percentunit", thresholds: acceptChange()},
		{query: query{ref: "prefill", expr: "min by (target, model) (" + prefillChangeQuery() + ")"}, name: "Prefill", unit: "percentunit", thresholds: prefillChange()},
		{query: query{ref: "ttft", expr: "max by (target, model) (" + ttftChangeQuery() + ")"}, name: "First token", unit: "percentunit"},
		{query: query{ref: "step", expr: "max by (target, model) (" + stepChangeQuery() + ")"}, name: "Step", unit: "percentunit", thresholds: stepChange()},
	}, "model")
}

func rungTable() dashboard.Panel {
	return rows(panel{
		title: "By rung", unit: "none", empty: noClean, width: 24, height: 9,
		about: about{
			what: "Latest fresh values of each context length and their change against the median of the week before, of steps also against the deploy before and the line through the shorter rungs; the numbers behind the curves.",
			bad:  "Changes that grow from line to line point at context; a change only in the last line at the KV pool.",
			do:   "Compare with the signature's rows. Values without isolation proved may have been measured beside other requests.",
		},
	}, []column{
		{query: query{ref: "step", expr: byRung("max", ofRung(stepFresh))}, name: "Step", unit: "s"},
		{query: query{ref: "usual", expr: byRung("max", ofRung(stepMedian))}, name: "Step, usual", unit: "s"},
		{query: query{ref: "growth", expr: byRung("max", stepChangeQuery())}, name: "Step, change", unit: "percentunit", thresholds: stepChange()},
		{query: query{ref: "deploy", expr: byRung("max", deployChangeQuery())}, name: "Step, since the deploy", unit: "percentunit", thresholds: deployChange()},
		{query: query{ref: "bend", expr: byRung("max", bendQuery())}, name: "Step, over the line", unit: "percentunit", thresholds: bend()},
		{query: query{ref: "accept", expr: byRung("min", acceptChangeQuery())}, name: "Acceptance, change", unit: "percentunit", thresholds: acceptChange()},
		{query: query{ref: "ttft", expr: byRung("max", ofRung(ttftFresh))}, name: "First token", unit: "s"},
		{query: query{ref: "ttftChange", expr: byRung("max", ttftChangeQuery())}, name: "First token, change", unit: "percentunit"},
		{query: query{ref: "prefill", expr: byRung("min", ofRung(prefillFresh))}, name: "Prefill", unit: unitRate},
		{query: query{ref: "prefillChange", expr: byRung("min", prefillChangeQuery())}, name: "Prefill, change", unit: "percentunit", thresholds: prefillChange()},
		{query: query{ref: "isolated", expr: byRung("min", joined(ofRung(isolationProved)))}, name: "Isolation proved", unit: "none", maps: map[string]dashboard.ValueMappingResult{
			"0": {Text: new("no"), Index: new(int32(0))}, "1": {Text: new("yes"), Index: new(int32(1))},
		}},
	}, "target", "model")
}

func stepsByRung(width uint32) dashboard.Panel {
	return overTime(panel{
		title: "Step time by rung", unit: "s", empty: noClean, width: width, height: 9,
		about: about{
			what: "Seconds per decode step (one verify pass; one token without speculation) in the latest clean run. " + clean + besides,
			bad:  "A level that changed and stays. A single high point is noise, and no alert counts it.",
			do:   "Note when it changed, and what was deployed or started then.",
		},
		queries: []query{
			{expr: ofRung(stepFresh), legend: rungName}, {expr: joined(ofRung(contendedStep)), legend: rungName + " contended"},
		},
		overrides: dashedWhere(" contended$"),
	}, logarithmic())
}

func growthByRung() dashboard.Panel {
	return overTime(panel{
		title: "Step time against usual", unit: "percentunit", empty: noUsual, width: 12, height: 9, thresholds: stepChange(),
		about: about{
			what: "Change of the confirmed step time (smallest of the last three clean runs) against the median of the week before.",
			bad:  "Above 25 %, where the alert is; above 50 % at three rungs, where the page is.",
			do:   "All rungs alike: not the context. The longer the worse: attention. See the signature.",
		},
		queries: []query{{expr: stepChangeQuery(), legend: rungName}},
	}, linear())
}

func fitPanel() dashboard.Panel {
	return overTime(panel{
		title: "Error of the line", unit: "percentunit", empty: noLine, width: 8, height: 8,
		about: about{
			what: "Largest distance of a fresh rung from the line, in parts of its step time.",
			bad:  "A rise: the step time is not a line any more, so slope and intercept say less.",
			do:   "Read the curve itself: one rung off, or a bend?",
		},
		queries: []query{{expr: joined(ofTarget(stepFitError)), legend: "{{target}}"}},
	}, linear())
}

func acceptByRung(width uint32) dashboard.Panel {
	return overTime(panel{
		title: "Acceptance length by rung", unit: unitAccept, empty: noClean, width: width, height: 9, thresholds: acceptance(),
		about: about{
			what: "Mean tokens that a verify pass commits, bonus token included, in the latest clean run. 1 without speculation, where the dashed line means nothing. " + clean,
			bad:  "Below 1.1 with speculation on, or 30 % below the median of the week before: the drafter no longer fits.",
			do:   "Check the drafter's weights, chat template and version. Falls only at long rungs: the drafter's own context limit.",
		},
		queries: []query{{expr: joined(ofRung(acceptLength)), legend: rungName}},
	}, linear())
}

func stepHeatmap() dashboard.Panel {
	p := buckets(panel{
		title: "Steps of $rung", unit: "s", empty: "No step was seen in this range", width: 8, height: 9,
		about: about{
			what: "How long single decode steps took, steps per hour in each bucket. The repetition makes a graph for each selected rung.",
			bad:  "Two bands: steps that miss a captured graph, or that another request shares. A band that moved up: all steps are slower.",
			do:   "Two bands and isolation not proved: look for other load. Two bands and proved: look at graph capture and batch sizes.",
		},
		queries: []query{{
			expr:   fmt.Sprintf("sum by (le) (increase(%s[%s]))", ofRung(stepBuckets), stepWindow),
			legend: "{{le}}",
		}},
	})
	p.Repeat, p.RepeatDirection, p.MaxPerRow = new("rung"), new(dashboard.PanelRepeatDirectionH), new(3.0)
	return p
}

func ttftCurve() dashboard.Panel {
	queries := []query{
		{ref: "now", expr: "max by (context) (" + ofRung(ttftFresh) + ")"},
		{ref: "usual", expr: "max by (context) (" + usual(ofRung(ttftFresh)) + ")"},
		{ref: "objective", expr: "max by (context) (" + joined(ofRung(sloThreshold, `slo="ttft"`)) + ")"},
	}
	return overContext(panel{
		title: "Time to first token by context", unit: "s", empty: noClean, width: 12, height: 10,
		about: about{
			what: "Confirmed time to first token of uncached prompts against context length, with the median of the week before and the objective.",
			bad:  "Now above the objective, or lifted in parallel over usual: waiting; steeper than usual: prefill.",
			do:   "Compare with the prefill curve beside it.",
		},
		queries: queries, transforms: curves(queries),
		overrides: []dashboard.DashboardFieldConfigSourceOverrides{dashed("usual"), dashed("objective")},
	})
}

func prefillCurve() dashboard.Panel {
	queries := []query{
		{ref: "now", expr: "min by (context) (" + ofRung(prefillFresh) + ")"},
		{ref: "usual", expr: "min by (context) (" + ofRung(prefillMedian) + ")"},
	}
	return overContext(panel{
		title: "Prefill speed by context", unit: unitRate, empty: noClean, width: 12, height: 10,
		about: about{
			what: "Confirmed prefill speed against context length, with the median of the week before.",
			bad:  "Now below 80 % of usual at one length or more.",
			do:   "Down at the long end: chunk size, prefill kernel, KV offload. Down everywhere: clocks, power or a neighbour.",
		},
		queries: queries, transforms: curves(queries),
		overrides: []dashboard.DashboardFieldConfigSourceOverrides{dashed("usual")},
	})
}

func reachOverTime() dashboard.Panel {
	return overTime(panel{
		title: "Reach", unit: "locale", empty: neverYet, width: 12, height: 9,
		about: about{
			what: "Tokens: the longest rung that the server takes, the limit that it advertises, and its KV pool.",
			bad:  "A step down; a pool below the limit; an answered length far below the limit with longer rungs configured.",
			do:   "Look at what was deployed at the step. A pool that shrank means that weights, graphs or another process took memory.",
		},
		queries: []query{
			{expr: longestAnswered("target"), legend: "longest answered"},
			{expr: "max by (target) (" + joined(ofTarget(targetMaxContext)) + ")", legend: "context limit"},
			{expr: "max by (target) (" + joined(ofTarget(targetKVPool)) + ")", legend: "KV pool"},
		},
	}, linear())
}

func answers() dashboard.Panel {
	return states(panel{
		title: "Planted fact found", unit: "none", empty: "Nothing was asked yet, or no prompt is cached", width: 12, height: 9,
		about: about{
			what: "Whether the model named the fact that stands in its prompt, when it was last asked, by rung. Small and base models may never do.",
			bad:  "Missed where it was found before: fast, and wrong. Twice in a row an alert fires.",
			do:   "From one length on: something cuts the prompt. All lengths: model, template or sampling. Compare with the first tokens beside it.",
		},
		queries:    []query{{expr: joined(ofRung(needleFound)), legend: rungName}},
		thresholds: steps(orange, from(1, green)),
		maps: map[string]dashboard.ValueMappingResult{
			"0": {Text: new("missed"), Color: new(orange), Index: new(int32(0))}, "1": {Text: new("found"), Color: new(green), Index: new(int32(1))},
		},
	})
}

func firstTokens() dashboard.Panel {
	sum := func(counter string) string {
		return "sum by (rung) (increase(" + ofRung(counter) + "[" + eventWindow + "]))"
	}
	return overTime(panel{
		title: "Other first tokens from the cache", unit: "percentunit", empty: "Nothing was compared within 6 hours", width: 12, height: 9,
		about: about{
			what: "Share of answers to a cached prompt, within 6 hours, whose first token was another than when the prompt was computed, at temperature 0.",
			bad:  "A rise that stays: the cache gives back something else than was computed. Single ones come from numerics that depend on the batch.",
			do:   "Switch offload or quantisation of the KV cache off, and compare.",
		},
		queries: []query{{expr: sum(firstTokenMisses) + " / (" + sum(firstTokenChecks) + " > 0)", legend: rungName}},
	}, linear())
}

func agePanel() dashboard.Panel {
	return overTime(panel{
		title: "Age of the values in intervals", unit: "none", empty: neverYet, width: 8, height: 9, thresholds: age(),
		about: about{
			what: "Time since the latest accepted run of each rung, in the intervals that the schedule can hold.",
			bad:  "Over 2.5 the value is not shown any more; over 4, for half an hour, an alert fires.",
			do:   "See beside it which runs are no measurement, and why.",
		},
		queries: []query{{expr: intervalsSince(), legend: rungName}},
	}, linear())
}

func spreadPanel() dashboard.Panel {
	return overTime(panel{
		title: "Spread of the steps within a run", unit: "percentunit", empty: "Fewer than five steps were seen", width: 8, height: 9,
		about: about{
			what: "Median absolute deviation of single steps over their median, in the latest clean run.",
			bad:  "A rise that stays: other load, or steps of two kinds. Values and what is usual then deserve less trust.",
			do:   "Look at the single steps of the rung above.",
		},
		queries: []query{{expr: joined(ofRung(stepSpread)), legend: rungName}},
	}, linear())
}
