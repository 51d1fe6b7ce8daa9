package prometheus

const (
	needleFound  = "longctx_needle_found"
	needleMissed = "longctx_needle_consecutive_misses"
)

func answerScenarios() []scenario {
	return []scenario{{
		name:      "the second miss in a row, where the fact was found before",
		exporters: one(),
		extra: []series{
			shifting(needleFound, ofRung("t", 128), 1, 20*minute, 0), shifting(needleMissed, ofRung("t", 128), 0, 20*minute, 2),
			shifting(needleFound, ofRung("once", 128), 1, 20*minute, 0), shifting(needleMissed, ofRung("once", 128), 0, 20*minute, 1),
			gauge(needleFound, ofRung("small", 128), 0), gauge(needleMissed, ofRung("small", 128), 30),
		},
		checks: []check{
			silent(19 * minute),
			firing(20*minute, "WrongAnswer t 128k"),
			reads(20*minute, "WrongAnswer", "t missed the fact planted in its prompt at 128k 2 times in a row.",
				"job=longctx", "target=t", "model=m", "context=131072", "rung=128k"),
		},
	}}
}

// recalledScenarios look back a week.
func recalledScenarios() []scenario {
	return []scenario{{
		name:  "that a fact was found is remembered for seven days",
		extra: []series{shifting(needleFound, ofRung("t", 128), 1, 10*hour, 0)},
		checks: []check{
			yields(6*day, "count(target_context:longctx_needle_found:max7d == 1)", sample{"{}", 1}),
			yields(8*day, "target_context:longctx_needle_found:max7d == 1"),
		},
	}}
}
