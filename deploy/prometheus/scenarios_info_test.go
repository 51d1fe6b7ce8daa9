package prometheus

import "time"

// infoScenarios are of what says how much silence is worth.
func infoScenarios() []scenario {
	const budget, up, engine = "longctx_budget_used_ratio", "longctx_target_up", "longctx_engine_metrics_up"
	return []scenario{
		{
			name:      "the budget is spent, for an hour",
			exporters: one(),
			extra: []series{
				shifting(budget, ofTarget("spent"), 0.5, 10*minute, 1.02), shifting(budget, ofTarget("nearly"), 0.5, 10*minute, 0.98),
			},
			checks: []check{
				silent(69 * minute),
				firing(70*minute, "BudgetExhausted spent"),
				reads(70*minute, "BudgetExhausted", "Runs on the server of spent took 102% of its budget within 24 hours.",
					"job=longctx", "target=spent", "model=m"),
			},
		},
		{
			name:      "the engine's page is gone while the server answers",
			exporters: one(),
			extra: []series{
				gauge(up, ofTarget("t"), 1), shifting(engine, ofTarget("t"), 1, 20*minute, 0),
				gauge(up, ofTarget("down"), 0), gauge(engine, ofTarget("down"), 0),
				gauge(engine, ofTarget("never-contacted"), 0),
				gauge(up, ofTarget("without"), 1),
			},
			checks: []check{
				silent(43 * minute), // the last that succeeded was at 19m
				firing(45*minute, "EngineMetricsDown t"),
				reads(45*minute, "EngineMetricsDown", "The server of t answers, but its page of metrics does not.",
					"job=longctx", "target=t", "model=m"),
			},
		},
	}
}

func noiseScenarios() []scenario {
	const spread = "longctx_step_spread_ratio"
	return []scenario{{
		name:      "single steps are apart, for three hours",
		exporters: one(),
		extra: []series{
			shifting(spread, ofRung("t", 8), 0.1, 10*minute, 0.31), shifting(spread, ofRung("t", 16), 0.1, 10*minute, 0.29),
		},
		checks: []check{
			silent(3*hour + 9*minute),
			firing(3*hour+10*minute, "NoisyMeasurement t 8k"),
			reads(3*hour+10*minute, "NoisyMeasurement", "Single steps of t at 8k deviate from their median by 31%.",
				"job=longctx", "target=t", "model=m", "context=8192", "rung=8k"),
		},
	}}
}

func savingScenarios() []scenario {
	const failures, saved = "longctx_state_save_failures_total", "longctx_state_last_save_timestamp_seconds"
	of := func(name, instance string) string { return name + `{job="longctx",instance="` + instance + `"}` }
	// attempts failed at 10m, 11m, ...
	failed := func(instance string, attempts float64) series {
		return series{of(failures, instance), func(t time.Duration) (float64, bool) {
			return min(attempts, max(0, (t-9*minute).Minutes())), true
		}}
	}
	seldom := series{of(failures, "seldom"), func(t time.Duration) (float64, bool) { return float64(t / (7 * minute)), true }}
	ago := func(instance string, age time.Duration) series {
		return series{of(saved, instance), func(t time.Duration) (float64, bool) { return (t - age).Seconds(), true }}
	}
	return []scenario{{
		name:      "attempts to save the state fail",
		exporters: []exporter{{instance: "three"}, {instance: "two"}, {instance: "lately"}, {instance: "before"}, {instance: "quiet"}, {instance: "seldom"}},
		extra: []series{
			failed("three", 3), failed("two", 2), failed("lately", 60), ago("lately", 850*time.Second),
			failed("before", 60), ago("before", 1000*time.Second), failed("quiet", 0), ago("quiet", day), seldom,
		},
		checks: []check{
			silent(20 * minute),
			firing(22*minute, "StateNotSaved before", "StateNotSaved three"),
			firing(hour, "StateNotSaved before"),
		},
	}, {
		name:      "it says which exporter",
		exporters: one(),
		extra:     []series{failed("a", 60)},
		checks:    []check{reads(22*minute, "StateNotSaved", "The exporter a cannot save its state.", "job=longctx", "instance=a")},
	}}
}
