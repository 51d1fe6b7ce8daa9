package prometheus

import (
	"fmt"
	"time"
)

// gauge is a gauge of exporter a, with the same value all the time.
func gauge(name, labels string, v float64) series { return shifting(name, labels, v, 0, v) }

// shifting is a gauge of exporter a that has one value, and from a time on another.
func shifting(name, labels string, before float64, from time.Duration, after float64) series {
	return series{fmt.Sprintf(`%s{job="longctx",instance="a",%s}`, name, labels), func(t time.Duration) (float64, bool) {
		if t < from {
			return before, true
		}
		return after, true
	}}
}

// ofTarget and ofRung are the labels of what is exported of them.
func ofTarget(name string) string { return fmt.Sprintf(`target=%q,model="m"`, name) }

func ofRung(name string, k int) string {
	return fmt.Sprintf(`%s,context="%d",rung="%dk"`, ofTarget(name), k*1024, k)
}

const expectedStep = "longctx_step_expected_seconds"

func superlinearScenarios() []scenario {
	story := steps(5*minute, 0, 2.1, 3, 3, 3, 3, 2.1, 2.1)
	return []scenario{
		{
			name: "slower than the shorter rungs let expect, by how much: 30 % and 5 ms",
			exporters: one(target{name: "t", rungs: []rung{
				now(1, 0, 0.0209), now(2, 0, 0.0211), now(4, 0, 2.56), now(8, 0, 2.64), now(16, 0, 9),
			}}),
			extra: []series{
				gauge(expectedStep, ofRung("t", 1), 0.016), gauge(expectedStep, ofRung("t", 2), 0.016),
				gauge(expectedStep, ofRung("t", 4), 2), gauge(expectedStep, ofRung("t", 8), 2),
			},
			checks: []check{
				silent(14 * minute),
				firing(15*minute, "StepTimeSuperlinear t 2k", "StepTimeSuperlinear t 8k"),
			},
		},
		{
			name:      "the third slow run fires, and it holds for an hour",
			exporters: one(target{name: "t", rungs: []rung{{context: 8192, every: hour, runs: story}}}),
			extra:     []series{gauge(expectedStep, ofRung("t", 8), 2)},
			checks: []check{
				silent(19 * minute), // the third slow run was at 15m
				reads(20*minute, "StepTimeSuperlinear",
					"A decode step of t at 8k takes 1.50 times as long as the shorter contexts let expect.",
					"job=longctx", "target=t", "model=m", "context=8192", "rung=8k"),
				firing(84*minute, "StepTimeSuperlinear t 8k"), // well again from 25m on
				silent(85 * minute),
			},
		},
		{
			name:      "a prediction that is no longer made says nothing",
			exporters: one(target{name: "t", rungs: []rung{{context: 8192, every: hour, runs: steps(5*minute, 0, 3, 3, 3)}}}),
			extra: []series{{fmt.Sprintf(`%s{job="longctx",instance="a",%s}`, expectedStep, ofRung("t", 8)), func(t time.Duration) (float64, bool) {
				return 2, t < 5*minute
			}}},
			checks: []check{silent(20 * minute), silent(40 * minute)},
		},
		{
			name:      "the largest prediction of an hour counts",
			exporters: one(target{name: "t", rungs: []rung{{context: 8192, every: hour, runs: steps(5*minute, 0, 1.5, 1.5, 1.5)}}}),
			extra:     []series{shifting(expectedStep, ofRung("t", 8), 2, 10*minute, 1)},
			checks: []check{
				silent(73 * minute),
				firing(76*minute, "StepTimeSuperlinear t 8k"),
			},
		},
	}
}

const (
	previousStep = "longctx_step_baseline_seconds"
	deployed     = "longctx_target_deploy_timestamp_seconds"
)

// before is the step time of a rung in the deploy before.
func before(target string, k int, seconds float64) series {
	return gauge(previousStep, ofRung(target, k)+`,baseline="previous_deploy"`, seconds)
}

func deployScenarios() []scenario {
	story := append(steps(5*minute, 0, repeat(2, 3)...), steps(5*minute, 15*minute, 3, 3, 3, 3, 2, 2, 2, 2, 2)...)
	return []scenario{
		{
			name: "by how much: 15 % and 5 ms, against the deploy before and no other baseline",
			exporters: one(target{name: "t", rungs: []rung{
				now(1, 0, 0.0339), now(2, 0, 0.0351), now(4, 0, 2.24), now(8, 0, 2.36), now(16, 0, 3), now(32, 0, 3),
			}}),
			extra: []series{
				gauge(deployed, ofTarget("t"), 0),
				before("t", 1, 0.029), before("t", 2, 0.030), before("t", 4, 2), before("t", 8, 2),
				before("t", 16, 2), gauge(previousStep, ofRung("t", 16)+`,baseline="deploy"`, 3), gauge(previousStep, ofRung("t", 32)+`,baseline="pinned"`, 2),
			},
			checks: []check{
				silent(14 * minute),
				firing(15*minute, "DeployRegression t 16k", "DeployRegression t 2k", "DeployRegression t 8k"),
			},
		},
		{
			name:      "the third slow run fires, and it holds for a quarter of an hour",
			exporters: one(target{name: "t", rungs: []rung{{context: 8192, every: hour, runs: story}}}),
			extra:     []series{gauge(deployed, ofTarget("t"), 0), before("t", 8, 2)},
			checks: []check{
				silent(29 * minute), // the third slow run was at 25m
				reads(30*minute, "DeployRegression", "Since its last deploy a decode step of t at 8k takes 1.50 times as long.",
					"job=longctx", "target=t", "model=m", "context=8192", "rung=8k"),
				firing(49*minute, "DeployRegression t 8k"), // well again from 35m on
				silent(50 * minute),
			},
		},
	}
}

func deployedScenarios() []scenario {
	return []scenario{{
		name: "it ends a day and three intervals after the deploy",
		exporters: one(target{name: "t", rungs: []rung{
			{context: 8192, every: 6 * hour, runs: every(6*hour, 0, 3*day, run{step: 3})},
		}}),
		extra: []series{gauge(deployed, ofTarget("t"), 0), before("t", 8, 2)},
		checks: []check{
			among("DeployRegression", 12*hour), among("DeployRegression", 13*hour, "t 8k"),
			among("DeployRegression", 41*hour, "t 8k"), among("DeployRegression", 43*hour),
		},
	}}
}
