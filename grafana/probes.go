package grafana

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

const notRead = "No target has such a source"

// probes answers whether the other dashboards may be believed, and what that costs.
func probes() Dashboard {
	return frame(probesUID, "Long context / Probes",
		"May the other dashboards be believed, and what does it cost? Read the top line: what is not fresh, late, unproved or unread is a hole in the rest.",
		variables(true), []row{
			{"May it be believed?", probeFigures()},
			{"Runs", []dashboard.Panel{outcomes(), reasonsPanel("{{target}} {{kind}}: {{reason}}", 12)}},
			{"Schedule", []dashboard.Panel{schedule(), lateness(), intervals(), durations()}},
			{"Cost", []dashboard.Panel{cost(), shareOfPrompts(), budgetPanel(), evictions(), kvUsed()}},
			{"Trust", []dashboard.Panel{
				noisePanel(), errorPanel(), disagreement(), isolation(), planRatios(), load(), slowSteps(), selfLateness(), selfSteals(),
			}},
			{"Sources", []dashboard.Panel{pages(), logLinesPanel(), logUnparsedPanel(), logAge(), stateAge(), saveFailures()}},
		})
}

// probeFigures are what to read first.
func probeFigures() []dashboard.Panel {
	return []dashboard.Panel{
		number(panel{
			title: "Clean runs", unit: "percentunit", empty: neverYet, width: 3, height: 4,
			about: about{
				what: "Share of the runs of the last 6 hours that are measurements: neither failed nor rejected.",
				bad:  "Much less than usual for this fleet: measurements become rare.",
				do:   "The reasons below say why.",
			},
			queries: []query{{expr: "1 - (" + sumOf(ofRung(probeFailures), eventWindow) + " + " + sumOf(ofRung(probeRejections), eventWindow) + ") / (" +
				sumOf(ofRung(probeRuns), eventWindow) + " > 0)"}},
		}),
		unwatched(),
		number(panel{
			title: "Rungs overdue", unit: "none", empty: noTargets, width: 3, height: 4, thresholds: anyIs(orange),
			about: about{
				what: "Context lengths whose run is late by half its interval and ten minutes.",
				bad:  "Any: the schedule is stuck there.",
				do:   "A run that does not end, a lock that is held, or a server that other targets keep busy.",
			},
			queries: []query{{expr: orZero("count(" + overdue() + ")")}},
		}),
		number(panel{
			title: "Isolation proved", unit: "percentunit", empty: noClean, width: 4, height: 4,
			about: about{
				what: "Share of the latest clean measurements of which the server's counters proved that it served nobody else.",
				bad:  "Less than usual: the rest is quiet at best, and nobody can be sure.",
				do:   "See below on which targets, and whether their pages of metrics are read.",
			},
			queries: []query{{expr: "avg(" + joined(ofRung(isolationProved)) + ")"}},
		}),
		number(panel{
			title: "Most of a budget used", unit: "percentunit", empty: noTargets, width: 4, height: 4, thresholds: budget(),
			about: about{
				what: "Largest share of a server's budget that runs took in the last 24 hours.",
				bad:  "All of it: due runs wait, and bad values are not confirmed at once.",
				do:   "Raise the budget, or lengthen the intervals of long rungs.",
			},
			queries: []query{{expr: "max(" + ofTarget(budgetUsed) + ")"}},
		}),
		number(panel{
			title: "Pages not read", unit: "none", empty: notRead, width: 3, height: 4, thresholds: anyIs(orange),
			about: about{
				what: "Targets whose own page of metrics could not be read at the latest try.",
				bad:  "Any: load and queue are unknown there, and isolation is not proved.",
				do:   "Is the page switched on, and reachable from the exporter?",
			},
			queries: []query{{expr: orZero("count(" + joined(ofTarget(engineUp)) + " == 0)")}},
		}),
		number(panel{
			title: "Logs not read", unit: "none", empty: notRead, width: 3, height: 4, thresholds: anyIs(orange),
			about: about{
				what: "Targets of which a configured log is not there or cannot be read.",
				bad:  "Any: nothing is known of the acceptance of real traffic there.",
				do:   "Path, permissions, and whether the folder is mounted rather than the file.",
			},
			queries: []query{{expr: orZero("count(" + joined(ofTarget(logUp)) + " == 0)")}},
		}),
	}
}

func outcomes() dashboard.Panel {
	runs, failures, rejections := sumOf(ofRung(probeRuns), runWindow), sumOf(ofRung(probeFailures), runWindow), sumOf(ofRung(probeRejections), runWindow)
	return bars(panel{
		title: "Outcomes", unit: "none", empty: neverYet, width: 12, height: 9,
		about: about{
			what: "Runs per hour by outcome: clean ones are measurements; failed ones had no answer, rejected ones an answer that is no measurement, skipped ones were not sent.",
			bad:  "Clean ones become few, or stop.",
			do:   "Failed: the server. Rejected: its load, or its cache. Skipped: budget, quiet hours or limits.",
		},
		queries: []query{
			{expr: "clamp_min(" + runs + " - " + failures + " - " + rejections + ", 0)", legend: "clean"},
			{expr: failures, legend: "failed"},
			{expr: rejections, legend: "rejected"},
			{expr: sumOf(ofRung(probeSkips), runWindow), legend: "skipped"},
		},
	})
}

func schedule() dashboard.Panel {
	return rows(panel{
		title: "Schedule of each rung", unit: "none", empty: neverYet, width: 24, height: 11,
		about: about{
			what: "State, age of the latest clean value in intervals, the interval as configured and as the budget allows it, how late the next run is, and how long the latest took.",
			bad:  "An age over 2.5 intervals: its values are gone. An interval far above the configured one: the budget is too small for the ladder.",
			do:   "Sort by age. Failures in a row point at the server, rejections in a row at its load.",
		},
		overrides: []dashboard.DashboardFieldConfigSourceOverrides{override("target", toDashboards())},
	}, []column{
		{
			query: query{ref: "state", expr: byRung("max", rungState())}, name: "State", unit: "none", maps: stateNames(),
			thresholds: steps(green, from(stateSlow, yellow), from(stateUnknown, grey), from(stateFailing, orange), from(stateOutOfReach, red)),
		},
		{query: query{ref: "age", expr: byRung("max", intervalsSince())}, name: "Age in intervals", unit: "none", thresholds: age()},
		{query: query{ref: "configured", expr: byRung("max", joined(ofRung(probeInterval)))}, name: "Interval, configured", unit: "s"},
		{query: query{ref: "effective", expr: byRung("max", joined(ofRung(probeEffective)))}, name: "Interval, possible", unit: "s"},
		{query: query{ref: "late", expr: byRung("max", late())}, name: "Late by", unit: "s"},
		{query: query{ref: "took", expr: byRung("max", joined(ofRung(probeDuration)))}, name: "Latest run took", unit: "s"},
		{query: query{ref: "failures", expr: byRung("max", joined(ofRung(failuresInARow)))}, name: "Failures in a row", unit: "none", thresholds: steps(green, from(failuresWarn, orange))},
		{query: query{ref: "rejections", expr: byRung("max", joined(ofRung(rejectionsInARow)))}, name: "Rejections in a row", unit: "none"},
	})
}

func lateness() dashboard.Panel {
	return overTime(panel{
		title: "Lateness", unit: "s", empty: neverYet, width: 8, height: 9,
		about: about{
			what: "How long the next run of each rung has been due.",
			bad:  "A line that rises and does not come back: half an interval and ten minutes late, an alert fires.",
			do:   "All rungs of one server: a run does not end, or another program holds its lock. All of the exporter: see its log.",
		},
		queries: []query{{expr: late(), legend: rungOfTarget}},
	}, linear())
}

func intervals() dashboard.Panel {
	return overTime(panel{
		title: "Interval against the configured one", unit: "suffix:x", empty: neverYet, width: 8, height: 9,
		about: about{
			what: "The interval that budget and duration of runs leave, over the configured one.",
			bad:  "Far above 1: the rung is measured much more rarely than wanted.",
			do:   "Raise the budget, give the rung more by weights, or configure what is possible.",
		},
		queries: []query{{expr: joined(ofRung(probeEffective)) + " / " + joined(ofRung(probeInterval)), legend: rungOfTarget}},
	}, logarithmic())
}

func durations() dashboard.Panel {
	return overTime(panel{
		title: "Duration of runs", unit: "s", empty: neverYet, width: 8, height: 9,
		about: about{
			what: "Time from the first request of the latest run of each rung to the end of its last one, without waiting for requests of others.",
			bad:  "A rise while prefill and steps are as usual: more repetitions, because values scatter.",
			do:   "Look at the run's requests on the exporter's page of runs.",
		},
		queries: []query{{expr: joined(ofRung(probeDuration)), legend: rungOfTarget}},
	}, logarithmic())
}

func shareOfPrompts() dashboard.Panel {
	return overTime(panel{
		title: "Share of prompt tokens", unit: "percentunit", empty: notTold, width: 8, height: 9,
		about: about{
			what: "Prompt tokens of probes over all that the engine counted, within 6 hours, cached ones included.",
			bad:  "A large part on a server with users: probes take prefill from them. On an idle one it is near 1, and means nothing.",
			do:   "Lower the budget, or shorten the ladder.",
		},
		queries: []query{{
			expr: "sum by (target) (increase(" + ofTarget(promptTokens) + "[" + eventWindow + "])) / (sum by (target) (increase(" +
				ofTarget(enginePrompt) + "[" + eventWindow + "])) > 0)",
			legend: "{{target}}",
		}},
	}, linear())
}

func budgetPanel() dashboard.Panel {
	return overTime(panel{
		title: "Budget used", unit: "percentunit", empty: noTargets, width: 8, height: 9, thresholds: budget(),
		about: about{
			what: "Share of the server's budget that runs of all its targets took in the last 24 hours.",
			bad:  "All of it for an hour: an alert of severity info fires.",
			do:   "Which rungs take it? Duration over interval, in the table above.",
		},
		queries: []query{{expr: joined(ofTarget(budgetUsed)), legend: "{{target}}"}},
	}, linear())
}

func evictions() dashboard.Panel {
	return overTime(panel{
		title: "Cached tokens pushed out", unit: "locale", empty: notTold, width: 12, height: 7,
		about: about{
			what: "Tokens of cached prefixes that KV pools gave up for probes within 6 hours, those of earlier probes included.",
			bad:  "Much more than the probes' own prompts: prefixes of users go, and their next requests are slower.",
			do:   "Lower allow_eviction in the configuration, or the longest rungs.",
		},
		queries: []query{{expr: "sum by (target) (increase(" + ofTarget(evictedTokens) + "[" + eventWindow + "]))", legend: "{{target}}"}},
	}, linear())
}

func kvUsed() dashboard.Panel {
	return overTime(panel{
		title: "KV cache in use", unit: "percentunit", empty: notTold, width: 12, height: 7,
		about: about{
			what: "Share of the KV cache in use by the engine's own account, of the data-parallel rank with the largest, probes included; cached prefixes that nobody uses count as free.",
			bad:  "Near 100 %: long prompts wait or push others out, those of users and those of probes.",
			do:   "Look whether requests of users or the longest rungs fill it, and leave out rungs for which there is no room.",
		},
		queries: []query{{expr: joined(ofTarget(engineKVUsed)), legend: "{{target}}"}},
	}, linear())
}

func noisePanel() dashboard.Panel {
	return overTime(panel{
		title: "Spread of the steps within a run", unit: "percentunit", empty: "Fewer than five steps were seen", width: 8, height: 9, thresholds: noise(),
		about: about{
			what: "Median absolute deviation of single steps over their median, in the latest clean run.",
			bad:  "Over 30 % for three hours: an alert of severity info fires, and small slowdowns will not be seen.",
			do:   "Look at the single steps on the target's long-context dashboard.",
		},
		queries: []query{{expr: joined(ofRung(stepSpread)), legend: rungOfTarget}},
	}, linear())
}

func errorPanel() dashboard.Panel {
	return overTime(panel{
		title: "Standard error of the step time", unit: "percentunit", empty: noClean, width: 8, height: 9,
		about: about{
			what: "Relative standard error of the step time in the latest clean run, over its pairs of requests.",
			bad:  "Above the configured precision: the run ended at its limit of pairs or time before it was sure.",
			do:   "More decode tokens, or a quieter server. Changes of that size are noise.",
		},
		queries: []query{{expr: joined(ofRung(stepError)), legend: rungOfTarget}},
	}, linear())
}

func disagreement() dashboard.Panel {
	return overTime(panel{
		title: "Disagreement of the two estimators", unit: "percentunit", empty: "Only one estimator is known", width: 8, height: 9,
		about: about{
			what: "Difference of the step time of the stream from that of the two-point difference, without sign, in the latest clean run.",
			bad:  "A rise that stays: something holds the stream back or merges it, or decoding starts slower than it goes on.",
			do:   "Look for a new proxy; compare with a sweep directly at the server.",
		},
		queries: []query{{expr: joined(ofRung(methodDisagreement)), legend: rungOfTarget}},
	}, linear())
}

func isolation() dashboard.Panel {
	return states(panel{
		title: "Isolation of the latest clean run", unit: "none", empty: noClean, width: 8, height: 9,
		about: about{
			what: "Whether the server's counters proved that it served nobody else during the latest clean run of each rung.",
			bad:  "Not proved any more, where it was: the page of metrics is gone, or a router stands between.",
			do:   "See under Sources whether the page is read; probe replicas by their own URLs.",
		},
		queries:    []query{{expr: joined(ofRung(isolationProved)), legend: rungOfTarget}},
		thresholds: steps(grey, from(1, green)),
		maps: map[string]dashboard.ValueMappingResult{
			"0": {Text: new("not proved"), Color: new(grey), Index: new(int32(0))}, "1": {Text: new("proved"), Color: new(green), Index: new(int32(1))},
		},
	})
}

func planRatios() dashboard.Panel {
	return overTime(panel{
		title: "Cold pairs against warm ones", unit: "suffix:x", empty: "Every tenth run is a cold pair: none yet", width: 8, height: 9,
		about: about{
			what: "Step time, and acceptance, of the latest cold pair over those of the clean run with a cached prefix before it. 1 where a cached prefix decodes like a computed one.",
			bad:  "Away from 1 and staying there: what is measured on a cached prefix is not what a cold request gets.",
			do:   "Set the plan of the target to pair, at the price of a second prefill, and compare.",
		},
		queries: []query{
			{expr: joined(ofRung(planStepRatio)), legend: rungOfTarget + " step"}, {expr: joined(ofRung(planAcceptRatio)), legend: rungOfTarget + " acceptance"},
		},
	}, linear())
}

func load() dashboard.Panel {
	return overTime(panel{
		title: "Requests running and waiting", unit: "none", empty: notTold, width: 8, height: 9,
		about: about{
			what: "Requests in the batch and in the queue by the engine's own account, probes included; and how many ran beside the latest run that was rejected for them.",
			bad:  "Never at rest: runs are skipped as busy or rejected as contended, and values become rare.",
			do:   "Probe a quieter replica, or accept longer intervals.",
		},
		queries: []query{
			{expr: joined(ofTarget(engineRunning)), legend: "{{target}} running"},
			{expr: joined(ofTarget(engineQueued)), legend: "{{target}} waiting"},
			{expr: joined(ofRung(contendedRunning)), legend: rungOfTarget + " beside a rejected run"},
		},
	}, linear())
}

func slowSteps() dashboard.Panel {
	return overTime(panel{
		title: "Slowest single steps of a run", unit: "s", empty: "Fewer than twenty steps were seen", width: 8, height: 9,
		about: about{
			what: "The longest single step in the latest clean run of each rung, and the 99th percentile where a hundred steps were seen.",
			bad:  "Far above the step time and more often than before: users see the text stop, though the mean hardly moves.",
			do:   "Late exporter beside it: not the server. Else look for pauses there: garbage collection, batches of others, clocks that change.",
		},
		queries: []query{
			{expr: joined(ofRung(stepMax)), legend: rungOfTarget + " longest"}, {expr: joined(ofRung(stepP99)), legend: rungOfTarget + " p99"},
		},
	}, logarithmic())
}

func selfLateness() dashboard.Panel {
	return overTime(panel{
		title: "Lateness of the exporter itself", unit: "s", empty: neverYet, width: 8, height: 9,
		about: about{
			what: "Longest time that the exporter itself was late during the latest run of each target, and the longest pause of its garbage collector in it.",
			bad:  "Near the length of a step, again and again: runs that it may have moved are rejected as implausible.",
			do:   "Give the exporter CPU time of its own, and raise its limit of memory where the pauses are the collector's.",
		},
		queries: []query{
			{expr: joined(ofTarget(selfLag)), legend: "{{target}} late"}, {expr: joined(ofTarget(selfGC)), legend: "{{target}} collector"},
		},
	}, logarithmic())
}

func selfSteals() dashboard.Panel {
	return overTime(panel{
		title: "CPU time taken from the exporter's machine", unit: "percentunit", empty: "The machine does not tell", width: 8, height: 9,
		about: about{
			what: "Share of the CPU time of the exporter's machine that its hypervisor gave to others during the latest run of each target.",
			bad:  "More than a few per cent: times are stretched where nothing inside the machine can see it.",
			do:   "Move the exporter to a machine that is not overcommitted, or reserve its CPUs.",
		},
		queries: []query{{expr: joined(ofTarget(selfSteal)), legend: "{{target}}"}},
	}, linear())
}

func pages() dashboard.Panel {
	read := map[string]dashboard.ValueMappingResult{
		"0": {Text: new("not read"), Color: new(orange), Index: new(int32(0))}, "1": {Text: new("read"), Color: new(green), Index: new(int32(1))},
	}
	return states(panel{
		title: "Pages and logs read", unit: "none", empty: notRead, width: 8, height: 9, maps: read,
		about: about{
			what: "Whether each target's own page of metrics, and all its configured logs, are being read.",
			bad:  "Not read: for a page while the server answers, an alert of severity info fires.",
			do:   "The exporter's log says once what is wrong.",
		},
		queries: []query{
			{expr: joined(ofTarget(engineUp)), legend: "{{target}} metrics"}, {expr: joined(ofTarget(logUp)), legend: "{{target}} logs"},
		},
		thresholds: steps(orange, from(1, green)),
	})
}

func logLinesPanel() dashboard.Panel {
	return overTime(panel{
		title: "Lines of logs read", unit: "suffix:lines/s", empty: notRead, width: 8, height: 9,
		about: about{
			what: "Lines per second read from each target's logs.",
			bad:  "Zero while the server works: the file was moved, or another one is written.",
			do:   "Is the path still the one that the server writes?",
		},
		queries: []query{{expr: "sum by (target) (rate(" + ofTarget(logLines) + "[" + costWindow + "]))", legend: "{{target}}"}},
	}, linear())
}

func logUnparsedPanel() dashboard.Panel {
	return overTime(panel{
		title: "Lines that could not be read", unit: "none", empty: notRead, width: 8, height: 9,
		about: about{
			what: "Lines of the last 6 hours that begin like those that give values and could not be parsed.",
			bad:  "Any that come regularly: the server's version writes another form, and values are missed.",
			do:   "The status page shows the latest of them; report them with the server's version.",
		},
		queries: []query{{expr: "sum by (target) (increase(" + ofTarget(logUnparsed) + "[" + eventWindow + "]))", legend: "{{target}}"}},
	}, linear())
}

func logAge() dashboard.Panel {
	return overTime(panel{
		title: "Age of the latest line", unit: "s", empty: notRead, width: 8, height: 9,
		about: about{
			what: "Time since a line of each target's logs was read.",
			bad:  "Longer than between two probes, which write lines too.",
			do:   "As for lines read: path, rotation, permissions.",
		},
		queries: []query{{expr: "time() - " + joined(ofTarget(logLastLine)), legend: "{{target}}"}},
	}, linear())
}

func stateAge() dashboard.Panel {
	return overTime(panel{
		title: "Age of the saved state", unit: "s", empty: "No exporter stores its state", width: 8, height: 9,
		about: about{
			what: "Time since everything that a restart should find again was last on disk. Without news, as in quiet hours, nothing is saved.",
			bad:  "A rise while attempts fail, as beside: a restart would lose what was learnt since.",
			do:   "The exporter's log says why: a full disk, a lost permission.",
		},
		queries: []query{{expr: "time() - " + ofExporter(stateSaved), legend: "{{instance}}"}},
	}, linear())
}

func saveFailures() dashboard.Panel {
	return bars(panel{
		title: "Attempts to save that failed", unit: "none", empty: "No exporter stores its state", width: 8, height: 9,
		about: about{
			what: "Attempts per hour to save the state that failed.",
			bad:  "Three in 15 minutes, without a success: an alert of severity info fires.",
			do:   "Space and permissions of the storage path.",
		},
		queries: []query{{expr: "increase(" + ofExporter(stateFailed) + "[" + runWindow + "])", legend: "{{instance}}"}},
	})
}
