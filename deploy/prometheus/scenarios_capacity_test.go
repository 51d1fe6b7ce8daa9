package prometheus

const (
	contextLimit = "longctx_target_max_context_tokens"
	kvPool       = "longctx_target_kv_pool_tokens"
	rungTokens   = "longctx_rung_context_tokens"
)

func reachScenarios() []scenario {
	lost := rung{context: 131072, every: 5 * minute, unreachable: 20 * minute, runs: every(5*minute, 0, 15*minute, run{step: 1})}
	never := rung{context: 196608, every: hour, unreachable: always}
	return []scenario{{
		name:      "a length that was taken and is refused is lost; one that never was taken is not",
		exporters: one(target{name: "t", rungs: []rung{now(1, 0, 1), lost, never}}),
		checks: []check{
			silent(24 * minute),
			firing(25*minute, "RungUnreachable t 128k"),
			reads(25*minute, "RungUnreachable", "t no longer takes prompts of 128k.",
				"job=longctx", "target=t", "model=m", "context=131072", "rung=128k"),
		},
	}}
}

func limitScenarios() []scenario {
	return []scenario{{
		name:      "the advertised limit, by how much it shrank",
		exporters: one(),
		extra: []series{
			shifting(contextLimit, ofTarget("less"), 200000, 30*minute, 188000), shifting(contextLimit, ofTarget("little"), 200000, 30*minute, 192000),
			shifting(contextLimit, ofTarget("grew"), 32768, 30*minute, 200000), gauge(contextLimit, ofTarget("same"), 200000),
		},
		checks: []check{
			silent(44 * minute),
			firing(45*minute, "ContextLimitShrank less"),
			reads(45*minute, "ContextLimitShrank", "less says that it takes 188000 tokens, and said more within seven days.",
				"job=longctx", "target=less", "model=m"),
		},
	}}
}

// advertisedScenarios look back a week.
func advertisedScenarios() []scenario {
	return []scenario{{
		name:      "what was advertised is remembered for seven days",
		exporters: one(),
		extra:     []series{shifting(contextLimit, ofTarget("t"), 200000, 10*hour, 32768)},
		checks: []check{
			yields(6*day, "target:longctx_target_max_context_tokens:max7d == 200000",
				sample{`target:longctx_target_max_context_tokens:max7d{job="longctx",target="t",model="m"}`, 200000}),
			yields(8*day, "target:longctx_target_max_context_tokens:max7d == 200000"),
		},
	}}
}

func poolScenarios() []scenario {
	of := func(target string, limit, pool float64) []series {
		all := []series{
			gauge(rungTokens, ofRung(target, 64), 65536), gauge(rungTokens, ofRung(target, 128), 131072),
			gauge(kvPool, ofTarget(target), pool),
		}
		if limit > 0 {
			all = append(all, gauge(contextLimit, ofTarget(target), limit))
		}
		return all
	}
	var extra []series
	for _, some := range [][]series{
		of("advertised", 200000, 101134), of("fits", 200000, 218484), of("exactly", 200000, 131072),
		of("beyond", 100000, 101134), of("beyond-one", 70000, 60000), of("untold", 0, 101134),
	} {
		extra = append(extra, some...)
	}
	return []scenario{{
		name:      "lengths that the server advertises and its pool cannot hold",
		exporters: one(),
		extra:     extra,
		checks: []check{
			silent(14 * minute),
			firing(15*minute, "ContextExceedsKVPool advertised 128k", "ContextExceedsKVPool beyond-one 64k", "ContextExceedsKVPool untold 128k"),
			among("ContextExceedsKVPool", hour, "advertised 128k", "beyond-one 64k", "untold 128k"),
		},
	}, {
		name:      "it says which length",
		exporters: one(),
		extra:     of("t", 0, 101134),
		checks: []check{
			reads(15*minute, "ContextExceedsKVPool", "The KV pool of t cannot hold one prompt of 128k.",
				"job=longctx", "target=t", "model=m", "context=131072", "rung=128k"),
		},
	}}
}
