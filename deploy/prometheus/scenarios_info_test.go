package prometheus

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
