package collector

import "longctx_exporter/prober"

// Type is what kind of series a metric is.
type Type string

// The types in use.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Metric describes one exported name.
type Metric struct {
	Name    string
	Help    string // a sentence with unit and scope
	Type    Type
	Labels  []string
	Buckets []float64 // upper bounds of the classic buckets; nil for none
	Native  bool      // also, or only, a native histogram

	// Children is how many series the labels beyond those of the target or the rung make; 0 where there are none.
	Children int
	// Group is the heading under which the documentation lists the metric.
	Group string
}

// The labels of a per-target and of a per-rung series.
const (
	labelTarget  = "target"
	labelModel   = "model"
	labelContext = "context"
	labelRung    = "rung"
	labelSLO     = "slo"
)

func perTarget(more ...string) []string { return append([]string{labelTarget, labelModel}, more...) }

func perRung(more ...string) []string { return append(perTarget(labelContext, labelRung), more...) }

// The exported names. Whoever adds one adds its entry to Catalogue.
const (
	targetUp         = "longctx_target_up"
	targetInfo       = "longctx_target_info"
	targetMaxContext = "longctx_target_max_context_tokens"
	targetKVPool     = "longctx_target_kv_pool_tokens"
	targetBlockSize  = "longctx_target_block_size_tokens"
	targetDeployTime = "longctx_target_deploy_timestamp_seconds"
	rungContext      = "longctx_rung_context_tokens"
	rungReachable    = "longctx_rung_reachable"

	probeInterval    = "longctx_probe_interval_seconds"
	probeEffective   = "longctx_probe_effective_interval_seconds"
	probeNextDue     = "longctx_probe_next_due_timestamp_seconds"
	budgetUsed       = "longctx_budget_used_ratio"
	probesInFlight   = "longctx_probes_in_flight"
	probeLastAttempt = "longctx_probe_last_attempt_timestamp_seconds"
	probeLastSuccess = "longctx_probe_last_success_timestamp_seconds"
	probeDuration    = "longctx_probe_duration_seconds"
	probeRuns        = "longctx_probe_runs_total"
	probeFailures    = "longctx_probe_failures_total"
	probeRejections  = "longctx_probe_rejections_total"
	probeSkips       = "longctx_probe_skips_total"
	probeConfirms    = "longctx_probe_confirmations_total"
	probeReasons     = "longctx_probe_reasons_total"
	failuresInARow   = "longctx_probe_consecutive_failures"
	rejectionsInARow = "longctx_probe_consecutive_rejections"

	probePromptTokens  = "longctx_probe_prompt_tokens"
	ttft               = "longctx_ttft_seconds"
	prefillRate        = "longctx_prefill_tokens_per_second"
	stepTime           = "longctx_step_seconds"
	decodeRate         = "longctx_decode_tokens_per_second"
	acceptLength       = "longctx_accept_length"
	acceptCap          = "longctx_accept_cap_ratio"
	acceptOne          = "longctx_accept_one_ratio"
	stepError          = "longctx_step_error_ratio"
	stepSpread         = "longctx_step_spread_ratio"
	isolationProved    = "longctx_probe_isolation_proved"
	methodDisagreement = "longctx_method_disagreement_ratio"
	planStepRatio      = "longctx_plan_step_ratio"
	planAcceptRatio    = "longctx_plan_accept_length_ratio"

	stepConfirmed    = "longctx_step_confirmed_seconds"
	ttftConfirmed    = "longctx_ttft_confirmed_seconds"
	prefillConfirmed = "longctx_prefill_confirmed_tokens_per_second"
	acceptConfirmed  = "longctx_accept_confirmed_length"

	stepBaseline = "longctx_step_baseline_seconds"

	contendedTTFT    = "longctx_contended_ttft_seconds"
	contendedStep    = "longctx_contended_step_seconds"
	contendedDecode  = "longctx_contended_decode_tokens_per_second"
	contendedRunning = "longctx_contended_running_requests"

	stepExpected  = "longctx_step_expected_seconds"
	stepSlope     = "longctx_step_slope_seconds_per_token"
	stepIntercept = "longctx_step_intercept_seconds"
	stepFitError  = "longctx_step_fit_error_ratio"
	stepFitRungs  = "longctx_step_fit_rungs"

	stepP99   = "longctx_step_p99_seconds"
	stepMax   = "longctx_step_max_seconds"
	stepTimed = "longctx_step_timed_steps"

	selfLag   = "longctx_self_lag_seconds"
	selfGC    = "longctx_self_gc_pause_seconds"
	selfSteal = "longctx_self_steal_ratio"

	needleFound       = "longctx_needle_found"
	needleChecks      = "longctx_needle_checks_total"
	needleMisses      = "longctx_needle_misses_total"
	needleMissesInRow = "longctx_needle_consecutive_misses"
	firstTokenChecks  = "longctx_first_token_checks_total"
	firstTokenMisses  = "longctx_first_token_mismatches_total"

	sloEvents    = "longctx_slo_events_total"
	sloThreshold = "longctx_slo_threshold_seconds"

	verifySteps      = "longctx_verify_steps_total"
	completionTokens = "longctx_completion_tokens_total"
	promptTokens     = "longctx_prompt_tokens_total"
	engineBusy       = "longctx_engine_busy_seconds_total"
	evictedTokens    = "longctx_probe_evicted_tokens_total"

	stepDuration       = "longctx_step_duration_seconds"
	acceptLengthTokens = "longctx_accept_length_tokens"
	prefillThroughput  = "longctx_prefill_throughput_tokens_per_second"
	timeToFirstToken   = "longctx_time_to_first_token_seconds"
)

// clean ends the help of a gauge of the latest clean value, and computed that of one which warm runs do not measure.
const (
	clean    = " in the latest accepted run of the rung; absent before the first and once it is 2.5 intervals old."
	computed = " in the latest accepted run of the rung that computed its prompt, which a warm confirmation does not; absent before the first and once it is 2.5 intervals old."
)

// confirmed ends the help of a gauge over several clean values, and computedConfirmed that of one for which warm runs do not count.
const (
	confirmed         = " of the latest three accepted runs of the rung; absent unless all three know it and none is 2.5 intervals older than the next, or than now."
	computedConfirmed = " of the latest three accepted runs of the rung that computed their prompts; absent unless all three know it and none is 2.5 intervals older than the next, or than now."
)

// contended ends the help of a gauge of the latest contended run.
const contended = " of the latest run of the rung that was rejected because the server worked for others too; absent before the first and once it is 2.5 intervals old."

//go:generate go test -run TestMetricsDocument . -update

// Catalogue lists every metric of the targets, in the order of the documentation.
func Catalogue() []Metric {
	var all []Metric
	for _, part := range []struct {
		group   string
		metrics []Metric
	}{
		{"Identity and capacity", identityMetrics()},
		{"Schedule", scheduleMetrics()},
		{"Outcome", outcomeMetrics()},
		{"Latest clean measurement", cleanMetrics()},
		{"Confirmed by three clean measurements", confirmedMetrics()},
		{"Baselines", baselineMetrics()},
		{"What users feel under contention", contendedMetrics()},
		{"Step time against context length", fitMetrics()},
		{"Slow single steps", jitterMetrics()},
		{"The exporter's own lateness", selfMetrics()},
		{"Right answers", needleMetrics()},
		{"Objectives", sloMetrics()},
		{"Tokens and cost", costMetrics()},
		{"The engine's own account", engineMetrics()},
		{"Histograms", histogramMetrics()},
		{"Logs of the server: real traffic", logMetrics()},
	} {
		for _, m := range part.metrics {
			m.Group = part.group
			all = append(all, m)
		}
	}
	return all
}

// reasons is how many there are.
func reasons() int {
	n := 0
	for status := range kinds() {
		n += len(prober.Reasons(status))
	}
	return n
}

func identityMetrics() []Metric {
	return []Metric{
		{
			Name: targetUp, Type: Gauge, Labels: perTarget(),
			Help: "Whether the target can be probed, as far as the latest contact told: 1 if it answered, 0 if it was not there, not ready or refused access; absent before the first contact.",
		},
		{
			Name: targetInfo, Type: Gauge, Labels: perTarget("served_model", "dialect", "api", "server_version", "spec_algorithm", "prefix_cache", "attention_backend", "deploy"),
			Help: "What the target says that it is and serves, as labels with the constant value 1; absent until it was identified. deploy is a short hash over how it says that it was started.",
		},
		{
			Name: targetMaxContext, Type: Gauge, Labels: perTarget(),
			Help: "Longest prompt plus output in tokens that the target says it takes; absent where it does not tell.",
		},
		{
			Name: targetKVPool, Type: Gauge, Labels: perTarget(),
			Help: "Capacity of the KV cache of one replica of the target in tokens; absent where it does not tell.",
		},
		{
			Name: targetBlockSize, Type: Gauge, Labels: perTarget(),
			Help: "Largest number of tokens that one decode step of the target can commit, 1 without speculation; absent where it does not tell.",
		},
		{
			Name: targetDeployTime, Type: Gauge, Labels: perTarget(),
			Help: "Unix time at which the target was first seen to run what it was last seen to run; it outlives restarts of the exporter where state is stored. Absent where the target does not tell.",
		},
		{Name: rungContext, Type: Gauge, Labels: perRung(), Help: "Nominal prompt length of the rung in tokens."},
		{
			Name: rungReachable, Type: Gauge, Labels: perRung(),
			Help: "Whether the server takes prompts of the rung's length: 1 after a run that it answered, 0 after one that it refused, or that was not sent, for length; absent until known.",
		},
	}
}

func scheduleMetrics() []Metric {
	return []Metric{
		{Name: probeInterval, Type: Gauge, Labels: perRung(), Help: "Configured interval between runs of the rung in seconds."},
		{
			Name: probeEffective, Type: Gauge, Labels: perRung(),
			Help: "Forecast of the interval between runs of the rung in seconds: the configured one, or longer where the budget or long runs stretch it. Rules judge ages by this one.",
		},
		{
			Name: probeNextDue, Type: Gauge, Labels: perRung(),
			Help: "Unix time at which the next run of the rung should start; it stands still while the rung is late. Absent where nothing is scheduled.",
		},
		{
			Name: budgetUsed, Type: Gauge, Labels: perTarget(),
			Help: "Share of the target's budget, 1 being all of it, that runs of all targets of its server took in the last 24 hours. Above 1.1 only by a single run that is longer than a tenth of a day's budget.",
		},
		{Name: probesInFlight, Type: Gauge, Labels: perTarget(), Help: "Number of runs that are going on at the target."},
		{
			Name: probeLastAttempt, Type: Gauge, Labels: perRung(),
			Help: "Unix time at which the latest run of the rung sent its first request; absent before the first, skipped runs left out.",
		},
		{
			Name: probeLastSuccess, Type: Gauge, Labels: perRung(),
			Help: "Unix time at which the latest accepted run of the rung ended; absent before the first.",
		},
		{
			Name: probeDuration, Type: Gauge, Labels: perRung(),
			Help: "Time from the first request of the latest run of the rung to the end of its last one in seconds, waiting for requests of others left out; absent before the first, skipped runs left out.",
		},
	}
}

func outcomeMetrics() []Metric {
	return []Metric{
		{
			Name: probeRuns, Type: Counter, Labels: perRung(),
			Help: "Number of runs of the rung that were sent, failed and rejected ones included; clean runs are these less failures and rejections.",
		},
		{Name: probeFailures, Type: Counter, Labels: perRung(), Help: "Number of runs of the rung in which the server did not answer the question."},
		{Name: probeRejections, Type: Counter, Labels: perRung(), Help: "Number of runs of the rung that were answered but are no measurement."},
		{Name: probeSkips, Type: Counter, Labels: perRung(), Help: "Number of due runs of the rung that were not sent."},
		{
			Name: probeConfirms, Type: Counter, Labels: perRung(),
			Help: "Number of runs of the rung that were sent beside the schedule to confirm a surprising value, warm ones included; they count as runs too.",
		},
		{
			Name: failuresInARow, Type: Gauge, Labels: perRung(),
			Help: "Number of failed runs of the rung since the server last answered one; skipped runs and runs that were broken off left out.",
		},
		{
			Name: rejectionsInARow, Type: Gauge, Labels: perRung(),
			Help: "Number of rejected runs of the rung since the latest accepted one; failed and skipped runs left out.",
		},
		{
			Name: probeReasons, Type: Counter, Labels: perTarget("kind", "reason"), Children: reasons(),
			Help: "Number of runs of the target that are no measurement, by kind (failure, rejection or skip) and reason.",
		},
	}
}

func cleanMetrics() []Metric {
	return []Metric{
		{Name: probePromptTokens, Type: Gauge, Labels: perRung(), Help: "Prompt tokens as the server counted them" + clean},
		{
			Name: ttft, Type: Gauge, Labels: perRung(),
			Help: "Time to first token of an uncached prompt in seconds" + computed + " Absent also where the answer came in one burst.",
		},
		{Name: prefillRate, Type: Gauge, Labels: perRung(), Help: "Computed prompt tokens per second of prefill" + computed},
		{
			Name: stepTime, Type: Gauge, Labels: perRung(),
			Help: "Mean seconds per decode step (one verify pass; one token without speculation)" + clean,
		},
		{Name: decodeRate, Type: Gauge, Labels: perRung(), Help: "Decoded tokens per second of one request" + clean},
		{
			Name: acceptLength, Type: Gauge, Labels: perRung(),
			Help: "Mean tokens committed per verify pass, bonus token included" + clean,
		},
		{
			Name: acceptCap, Type: Gauge, Labels: perRung(),
			Help: "Share (0 to 1) of verify passes that committed as many tokens as one can, the block size" + clean + " Absent also unless the tokens of every pass and the block size are known.",
		},
		{
			Name: acceptOne, Type: Gauge, Labels: perRung(),
			Help: "Share (0 to 1) of verify passes that committed a single token" + clean + " Absent also unless the tokens of every pass are known.",
		},
		{Name: stepError, Type: Gauge, Labels: perRung(), Help: "Relative standard error (0 to 1) of the step time" + clean},
		{
			Name: stepSpread, Type: Gauge, Labels: perRung(),
			Help: "Median absolute deviation over median of the single steps" + clean + " Absent also where fewer than five were seen.",
		},
		{
			Name: isolationProved, Type: Gauge, Labels: perRung(),
			Help: "Whether the server's counters proved that it served nobody else: 1 if so, 0 if merely nobody was seen or it does not tell," + clean,
		},
		{
			Name: methodDisagreement, Type: Gauge, Labels: perRung(),
			Help: "Relative difference, without sign, of the streamed step time from the two-point one" + clean + " Absent where only one is known.",
		},
		{
			Name: planStepRatio, Type: Gauge, Labels: perRung(),
			Help: "Step time of the latest cold pair over that of the clean triple before it: 1 where a cached prefix decodes like a computed one; absent without both and once it is 25 intervals old.",
		},
		{
			Name: planAcceptRatio, Type: Gauge, Labels: perRung(),
			Help: "Acceptance length of the latest cold pair over that of the clean triple before it: below 1 where the drafter does better on a cached prefix; absent without both and once it is 25 intervals old.",
		},
	}
}

func confirmedMetrics() []Metric {
	return []Metric{
		{Name: stepConfirmed, Type: Gauge, Labels: perRung(), Help: "Smallest seconds per decode step" + confirmed},
		{Name: ttftConfirmed, Type: Gauge, Labels: perRung(), Help: "Smallest time to first token in seconds" + computedConfirmed},
		{Name: prefillConfirmed, Type: Gauge, Labels: perRung(), Help: "Largest number of computed prompt tokens per second of prefill" + computedConfirmed},
		{Name: acceptConfirmed, Type: Gauge, Labels: perRung(), Help: "Largest mean of tokens committed per verify pass" + computedConfirmed},
	}
}

func contendedMetrics() []Metric {
	return []Metric{
		{Name: contendedTTFT, Type: Gauge, Labels: perRung(), Help: "Time to first token of an uncached prompt in seconds" + contended},
		{
			Name: contendedStep, Type: Gauge, Labels: perRung(),
			Help: "Mean seconds per decode step, from the stream" + contended + " Absent also where the steps of the request are not known.",
		},
		{Name: contendedDecode, Type: Gauge, Labels: perRung(), Help: "Decoded tokens per second of one request, from the stream" + contended},
		{
			Name: contendedRunning, Type: Gauge, Labels: perRung(),
			Help: "Number of running requests that the server told of right after the requests" + contended + " Absent also where it told of none.",
		},
	}
}

func fitMetrics() []Metric {
	return []Metric{
		{
			Name: stepExpected, Type: Gauge, Labels: perRung(),
			Help: "Step time in seconds that a Theil-Sen line through the shorter fresh rungs predicts for the rung's latest clean run; absent below three of them, and where the rung is more than four times as long as they are.",
		},
		{
			Name: stepSlope, Type: Gauge, Labels: perTarget(),
			Help: "Growth of the step time in seconds per token of context: Theil-Sen slope over the target's fresh rungs, absent below three.",
		},
		{
			Name: stepIntercept, Type: Gauge, Labels: perTarget(),
			Help: "Step time in seconds that the line through the target's fresh rungs gives for an empty context; absent below three.",
		},
		{
			Name: stepFitError, Type: Gauge, Labels: perTarget(),
			Help: "Largest distance of a fresh rung's step time from the line through all of them, in parts of that step time; absent below three.",
		},
		{Name: stepFitRungs, Type: Gauge, Labels: perTarget(), Help: "Number of fresh rungs that the line of the step time rests on; absent below three."},
	}
}

func jitterMetrics() []Metric {
	return []Metric{
		{Name: stepP99, Type: Gauge, Labels: perRung(), Help: "99th percentile of the seconds of single decode steps" + clean + " Absent also where fewer than 100 were seen."},
		{Name: stepMax, Type: Gauge, Labels: perRung(), Help: "Longest single decode step in seconds" + clean + " Absent also where fewer than 20 were seen."},
		{Name: stepTimed, Type: Gauge, Labels: perRung(), Help: "Number of single decode steps whose time was seen in streams" + clean},
	}
}

func selfMetrics() []Metric {
	return []Metric{
		{
			Name: selfLag, Type: Gauge, Labels: perTarget(),
			Help: "Longest time in seconds that the exporter itself was late during the latest run of the target; a run is rejected as implausible where that fell on a moment that its step time rests on and exceeds its error.",
		},
		{Name: selfGC, Type: Gauge, Labels: perTarget(), Help: "Longest pause of the exporter's garbage collector during the latest run of the target in seconds, rounded up to the bounds of the Go runtime's histogram."},
		{
			Name: selfSteal, Type: Gauge, Labels: perTarget(),
			Help: "Share of the CPU time of the exporter's machine that its hypervisor gave to others during the latest run of the target; absent where the machine does not tell (Linux does).",
		},
	}
}

func needleMetrics() []Metric {
	return []Metric{
		{
			Name: needleFound, Type: Gauge, Labels: perRung(),
			Help: "Whether the answer to the latest question for the fact planted in the prompt held it: 1 if so, 0 if not; absent before the first and once it is 2.5 intervals old. Small and base models may never find it: only a change tells something.",
		},
		{
			Name: needleChecks, Type: Counter, Labels: perRung(),
			Help: "Number of answers to the question for the fact planted in the prompt; it is asked after an accepted run whose prompt is cached.",
		},
		{Name: needleMisses, Type: Counter, Labels: perRung(), Help: "Number of answers to the question for the fact planted in the prompt that did not hold it."},
		{
			Name: needleMissesInRow, Type: Gauge, Labels: perRung(),
			Help: "Number of answers to the question for the planted fact that did not hold it since the latest one that did; absent before the first answer.",
		},
		{
			Name: firstTokenChecks, Type: Counter, Labels: perRung(),
			Help: "Number of answers to a cached prompt whose first token was held against that of the answer when the prompt was computed, at temperature 0.",
		},
		{
			Name: firstTokenMisses, Type: Counter, Labels: perRung(),
			Help: "Number of answers in longctx_first_token_checks_total that began with another token. Numerics that depend on the batch make single ones; a rise shows a cache that gives back something else than was computed.",
		},
	}
}

func sloMetrics() []Metric {
	return []Metric{
		{
			Name: sloEvents, Type: Counter, Labels: perRung(labelSLO, "result"), Children: 4,
			Help: "Number of runs of the rung judged by an objective (slo ttft or step), by result (good or bad). An accepted run is judged by what it measured; a failed run is bad for ttft and not judged for step; rejected and skipped runs are not judged.",
		},
		{
			Name: sloThreshold, Type: Gauge, Labels: perRung(labelSLO), Children: 2,
			Help: "Longest good time in seconds as the objective is configured (slo ttft to the first token, step per decode step); absent for rungs without one.",
		},
	}
}

func costMetrics() []Metric {
	return []Metric{
		{Name: verifySteps, Type: Counter, Labels: perRung(), Help: "Number of decode steps measured in accepted runs of the rung."},
		{
			Name: completionTokens, Type: Counter, Labels: perRung(),
			Help: "Number of output tokens of the decode steps in longctx_verify_steps_total; divided by these, the tokens per step.",
		},
		{
			Name: promptTokens, Type: Counter, Labels: perTarget("kind"), Children: 2,
			Help: "Number of prompt tokens that the target prefilled (kind computed) or took from its cache (kind cached) for requests of any run; requests that do not tell which are left out.",
		},
		{Name: engineBusy, Type: Counter, Labels: perTarget(), Help: "Wall time in seconds during which runs occupied the target."},
		{
			Name: evictedTokens, Type: Counter, Labels: perTarget(),
			Help: "Number of cached tokens, those of earlier runs included, that the target's KV pool gave up for runs; runs after which somebody else came first are left out. Absent until the target tells what its pool holds.",
		},
	}
}

func histogramMetrics() []Metric {
	return []Metric{
		{
			Name: stepDuration, Type: Histogram, Labels: perRung(), Native: true,
			Buckets: []float64{0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.5, 0.75, 1, 1.5, 2.5, 4, 6, 10, 25, 60, 150, 300, 600},
			Help:    "Duration of single decode steps in seconds, one observation per step seen in the streams of accepted runs of the rung.",
		},
		{
			Name: acceptLengthTokens, Type: Histogram, Labels: perRung(), Native: true,
			Buckets: []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 24, 32},
			Help:    "Tokens committed per verify pass, bonus token included, one observation per pass of accepted runs of the rung.",
		},
		{
			Name: prefillThroughput, Type: Histogram, Labels: perRung(), Native: true,
			Help: "Computed prompt tokens per second of prefill, one observation per accepted run of the rung.",
		},
		{
			Name: timeToFirstToken, Type: Histogram, Labels: perRung(), Native: true,
			Help: "Time to first token of uncached prompts in seconds, one observation per accepted run of the rung.",
		},
	}
}
