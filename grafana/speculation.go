package grafana

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

const (
	unitAccept = "suffix:tok/step"
	noTraffic  = "No traffic, or the server does not tell"
	noPasses   = "No clean run in this range, or the server tells no acceptance of single passes"
)

// speculation answers for one target whether speculation pays, at which context lengths, and whether production agrees with the
// probes. Break-even is not shown: what a step would take without speculation is not measured, so any line would be a guess.
func speculation() Dashboard {
	return frame(speculationUID, "Long context / Speculation",
		"Does speculation pay, at every length, and for real traffic too? Probes and production both down: the drafter. Production alone: its traffic.",
		variables(false), []row{
			{"Does it pay?", speculationFigures()},
			{"Acceptance of the probes", []dashboard.Panel{
				acceptConfirmed(), acceptCurve(), acceptHeatmap(), acceptPositions(), acceptOne(), acceptCapPanel(),
			}},
			{"Probes and production", []dashboard.Panel{acceptSources(), trafficByLength(), trafficHeatmap(), trafficRequests()}},
			{"Decode speed is acceptance over step time", []dashboard.Panel{
				decodePanel(rungName, 8), acceptByRung(8), stepsByRung(8), decodeShares(),
			}},
			{"Configuration", []dashboard.Panel{drafting()}},
		})
}

// speculationFigures are what to read first.
func speculationFigures() []dashboard.Panel {
	return []dashboard.Panel{
		number(panel{
			title: "Lowest acceptance", unit: unitAccept, empty: "No clean measurement, or no speculation", width: 5, height: 4, thresholds: acceptance(),
			about: about{
				what: "Smallest confirmed number of tokens that a verify pass commits at any selected length, bonus token included.",
				bad:  "Below 1.1: drafting costs more than it gives, at that length at least.",
				do:   "See below at which length, and whether it is so for real traffic.",
			},
			queries: []query{{expr: "min(" + ofRung(acceptFresh) + " and on (target, model) " + ofTarget(targetInfo, `spec_algorithm!~"none|"`) + ")"}},
		}),
		number(panel{
			title: "Largest loss", unit: "percentunit", empty: noUsual, width: 5, height: 4, thresholds: acceptChange(),
			about: about{
				what: "Change of the confirmed acceptance against its median of the week before, at the length that lost most.",
				bad:  "30 % lost, where the alert is.",
				do:   "Drafter and target of one release? Chat template, sampling, the drafter's own context limit?",
			},
			queries: []query{{expr: "min(" + acceptChangeQuery() + ")"}},
		}),
		number(panel{
			title: "Probes, 6 hours", unit: unitAccept, empty: noPasses, width: 5, height: 4,
			about: about{
				what: "Tokens per verify pass over all clean runs of the last 6 hours at the selected lengths.",
				bad:  "A fall beside the same traffic of others: the prompts of the probes do not change.",
				do:   "Compare with the number beside it.",
			},
			queries: []query{{expr: probed(eventWindow)}},
		}),
		number(panel{
			title: "All traffic, 6 hours", unit: unitAccept, empty: noTraffic, width: 5, height: 4,
			about: about{
				what: "Tokens per verify pass by the engine's own counters over the last 6 hours, probes included.",
				bad:  "Down while the probes hold: what users ask for changed, not the drafter.",
				do:   "See below at which length of prompt, and whether the lengths themselves changed.",
			},
			queries: []query{{expr: served(eventWindow)}},
		}),
		number(panel{
			title: "Block size", unit: "none", empty: notTold, width: 4, height: 4,
			about: about{
				what: "Most tokens that one verify pass can commit, 1 without speculation.",
				bad:  "Other than configured: drafts of another length were meant.",
				do:   "Compare the server's flags with the table below.",
			},
			queries: []query{{expr: "max(" + joined(ofTarget(targetBlockSize)) + ")"}},
		}),
	}
}

// probed is the acceptance of clean runs, a ratio of sums.
func probed(window string) string {
	return sumOf(ofRung(completionTokens), window) + " / (" + sumOf(ofRung(verifySteps), window) + " > 0)"
}

// served is the acceptance by the engine's counters.
func served(window string) string {
	return "1 + " + sumOf(ofTarget(engineDrafts), window) + " / (" + sumOf(ofTarget(engineSteps), window) + " > 0)"
}

// ofTraffic is the mean acceptance of finished requests in the log, in sum or by a label.
func ofTraffic(window, by string, matchers ...string) string {
	sum := func(suffix string) string {
		return "sum" + by + " (increase(" + ofTarget(logStepAccept+suffix, matchers...) + "[" + window + "]))"
	}
	return sum("_sum") + " / (" + sum("_count") + " > 0)"
}

// contextBuckets are the bounds in tokens of the label context_bucket, +Inf left out.
func contextBuckets() []int { return []int{1, 2, 4, 8, 16, 32, 64, 128, 192} }

// trafficByContext turns the label context_bucket into a length in tokens, which is where a curve wants it.
func trafficByContext() string {
	q := ofTraffic(eventWindow, " by (context_bucket)", `context_bucket!="+Inf"`)
	for _, k := range contextBuckets() {
		q = fmt.Sprintf(`label_replace(%s, "context", "%d", "context_bucket", "%dk")`, q, k*1024, k)
	}
	return fmt.Sprintf(`label_replace(%s, "context_bucket", "", "context_bucket", ".*")`, q)
}

func acceptConfirmed() dashboard.Panel {
	return overTime(panel{
		title: "Confirmed acceptance by rung", unit: unitAccept, empty: noClean, width: 12, height: 9, thresholds: acceptance(),
		about: about{
			what: "Mean tokens that a verify pass commits, bonus token included, the largest of the last three clean runs. " + clean,
			bad:  "Below the dashed line with speculation on, or 30 % below the median of the week before: alerts fire there.",
			do:   "All lengths at once: weights, template, version. Long lengths alone: the drafter's own context or window.",
		},
		queries: []query{{expr: ofRung(acceptFresh), legend: rungName}},
	}, linear())
}

func acceptCurve() dashboard.Panel {
	queries := []query{
		{ref: "now", expr: "max by (context) (" + ofRung(acceptFresh) + ")"},
		{ref: "usual", expr: "max by (context) (" + ofRung(acceptMedian) + ")"},
		{ref: "traffic", expr: trafficByContext()},
	}
	return overContext(panel{
		title: "Acceptance by context, probes and traffic", unit: unitAccept, empty: noClean, width: 12, height: 9,
		about: about{
			what: "Tokens per verify pass against context length: confirmed by the probes (now), the median of the week before (usual), and finished requests of the log within 6 hours (traffic), each at the upper bound of its prompts' lengths.",
			bad:  "Now falls away from usual at the long end: only long contexts lost it. Traffic below both: its text is harder to draft, or sampled.",
			do:   "Now and traffic down: the drafter. Traffic alone: look at what users send.",
		},
		queries: queries, transforms: curves(queries),
		overrides: []dashboard.DashboardFieldConfigSourceOverrides{dashed("usual")},
	})
}

func acceptHeatmap() dashboard.Panel {
	return buckets(panel{
		title: "Tokens per verify pass, probes", unit: "none", empty: noPasses, width: 12, height: 9,
		about: about{
			what: "How many tokens single verify passes of clean runs committed, passes per hour in each bucket, over the selected lengths.",
			bad:  "Two bands, at one and at the block size: passes accept all or nothing, as with a loop in the text. A band that sinks to one: the drafter guesses.",
			do:   "Choose one rung above and compare its bands with those of traffic below.",
		},
		queries: []query{{expr: "sum by (le) (increase(" + ofRung(acceptBuckets) + "[" + stepWindow + "]))", legend: "{{le}}"}},
	})
}

// acceptPositions is 1 less the distribution: integers make it exact.
func acceptPositions() dashboard.Panel {
	passes := func(by, matcher string) string {
		return "sum by (" + by + ") (increase(" + ofRung(acceptBuckets, matcher) + "[" + eventWindow + "]))"
	}
	return overCount(panel{
		title: "Acceptance by position", unit: "percentunit", empty: noPasses, width: 12, height: 9,
		about: about{
			what: "Share of verify passes of the last 6 hours that committed more tokens than the axis says, a curve for each length of context: at 1 the first draft token was accepted, at 2 the second too.",
			bad:  "A curve that starts low: the first draft token is wrong already. One that breaks at a position: the tree or block is deeper than the drafter is good for.",
			do:   "Starts low everywhere: weights or template. Long contexts alone: the drafter's window. Breaks late: shorten the drafts.",
		},
		queries: []query{{ref: "now", expr: "1 - " + passes("rung, le", `le!="+Inf"`) +
			" / ignoring (le) group_left () (" + passes("rung", `le="+Inf"`) + " > 0)"}},
		transforms: curvePer("rung", "le"),
	}, `le\rung`)
}

func acceptOne() dashboard.Panel {
	return overTime(panel{
		title: "Passes that committed one token", unit: "percentunit", empty: noPasses, width: 12, height: 9,
		about: about{
			what: "Share of verify passes of the last 6 hours in which no draft token was accepted, by rung.",
			bad:  "A rise that stays: those passes paid for drafting and got what a plain step gives.",
			do:   "Compare with acceptance by position: only the first token, or all of them?",
		},
		queries: []query{{
			// Prometheus 3 stores the bucket of 1 as 1.0.
			expr: "sum by (target, rung) (increase(" + ofRung(acceptBuckets, `le=~"1(\\.0)?"`) + "[" + eventWindow + "])) / (sum by (target, rung) (increase(" +
				ofRung(acceptBuckets, `le="+Inf"`) + "[" + eventWindow + "])) > 0)",
			legend: rungName,
		}},
	}, linear())
}

func acceptCapPanel() dashboard.Panel {
	return overTime(panel{
		title: "Passes that committed the whole block", unit: "percentunit", empty: noPasses, width: 12, height: 9,
		about: about{
			what: "Share of verify passes of the latest clean run that committed as many tokens as one can, by rung. " + clean,
			bad:  "Near 1: the text fell into a loop, or blocks are too short for how good the drafter is.",
			do:   "A loop: look at the model. Else try longer drafts.",
		},
		queries: []query{{expr: joined(ofRung(acceptCap)), legend: rungName}},
	}, linear())
}

func acceptSources() dashboard.Panel {
	return overTime(panel{
		title: "Probes and all traffic", unit: unitAccept, empty: noTraffic, width: 12, height: 9,
		about: about{
			what: "Tokens per verify pass over 6 hours: clean runs of the probes; the engine's counters, which count probes as well; finished requests of the server's log. All are ratios of sums.",
			bad:  "Both fall: the drafter. Only production falls: its traffic. Only the probes fall: a new version of the exporter may have new prompts.",
			do:   "Read the annotations: what was deployed when they parted?",
		},
		queries: []query{
			{expr: probed(eventWindow), legend: "probes"},
			{expr: served(eventWindow), legend: "engine, all traffic"},
			{expr: ofTraffic(eventWindow, ""), legend: "log, finished requests"},
		},
	}, linear())
}

func trafficByLength() dashboard.Panel {
	return overTime(panel{
		title: "Acceptance of traffic by length of prompt", unit: unitAccept, empty: noTraffic, width: 12, height: 9,
		about: about{
			what: "Tokens per verify pass of finished requests of the server's log within 6 hours, by the smallest bound that holds their prompt.",
			bad:  "Long prompts fall away from short ones further than the probes do.",
			do:   "Compare with the curve above. The same fall there: the drafter's context. Not there: what long prompts contain.",
		},
		queries: []query{{expr: ofTraffic(eventWindow, " by (context_bucket)"), legend: "up to {{context_bucket}}"}},
	}, linear())
}

func trafficHeatmap() dashboard.Panel {
	return buckets(panel{
		title: "Tokens per verify pass, traffic", unit: "none", empty: noTraffic, width: 12, height: 9,
		about: about{
			what: "How many tokens single verify passes of finished requests committed, passes per hour in each bucket, by the server's log.",
			bad:  "Another shape than that of the probes above.",
			do:   "A second band at one: requests with high temperature or in another language. One at the block size: loops or copying.",
		},
		queries: []query{{expr: "sum by (le) (increase(" + ofTarget(logStepAccept+"_bucket") + "[" + stepWindow + "]))", legend: "{{le}}"}},
	})
}

func trafficRequests() dashboard.Panel {
	return bars(panel{
		title: "Finished requests by length of prompt", unit: "none", empty: noTraffic, width: 12, height: 9,
		about: about{
			what: "Requests per hour that the server's log tells of, by the smallest bound that holds their prompt; probes among them.",
			bad:  "A shift to other lengths: means over all traffic move with it, and nothing is broken.",
			do:   "Then compare acceptance at equal length, above.",
		},
		queries: []query{{
			expr:   "sum by (context_bucket) (increase(" + ofTarget(logRequests) + "[" + runWindow + "])) > 0",
			legend: "up to {{context_bucket}}",
		}},
	})
}

func decodeShares() dashboard.Panel {
	return overTime(panel{
		title: "Where the decode speed went", unit: "percentunit", empty: noUsual, width: 24, height: 9,
		about: about{
			what: "Natural logarithms of acceptance over usual, and of usual over step time; they add up to that of the decode speed. Near zero, 0.1 is about 10 % of speed gained, and -0.1 lost.",
			bad:  "The line that went down is the cause: acceptance the drafter, step the kernel or the machine.",
			do:   "Acceptance: this dashboard. Step: the signature on the target's long-context dashboard.",
		},
		queries: []query{
			{expr: "ln(" + ofRung(acceptFresh) + " / " + ofRung(acceptMedian) + ")", legend: "acceptance {{rung}}"},
			{expr: "-ln(" + ofRung(stepConfirmedFresh) + " / " + ofRung(stepMedian) + ")", legend: "step {{rung}}"},
		},
	}, linear())
}

func drafting() dashboard.Panel {
	return rows(panel{
		title: "What the target says of speculation", unit: "none", empty: "The target was not identified yet", width: 24, height: 6,
		about: about{
			what: "Model, version, algorithm and attention backend as the target tells, its block size, and since when it runs so.",
			bad:  "Not what was deployed, or no algorithm where one was meant.",
			do:   "Compare with the server's flags; the deploys in the graphs show when it changed.",
		},
	}, []column{
		{query: query{ref: "info", expr: "max by (target, model, served_model, dialect, server_version, spec_algorithm, attention_backend, deploy) (" + ofTarget(targetInfo) + ")"}, name: "Identified", unit: "none"},
		{query: query{ref: "block", expr: "max by (target, model) (" + ofTarget(targetBlockSize) + ")"}, name: "Block size", unit: "none"},
		{query: query{ref: "since", expr: "time() - max by (target, model) (" + ofTarget(targetDeployTime) + ")"}, name: "Deployed for", unit: "s"},
	}, "Value #info")
}
