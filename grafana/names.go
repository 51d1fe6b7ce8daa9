package grafana

// Exported metrics that the dashboards query. The tests hold them against the collector's catalogue.
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
	probeLastSuccess = "longctx_probe_last_success_timestamp_seconds"
	probeDuration    = "longctx_probe_duration_seconds"
	probeRuns        = "longctx_probe_runs_total"
	probeFailures    = "longctx_probe_failures_total"
	probeRejections  = "longctx_probe_rejections_total"
	probeSkips       = "longctx_probe_skips_total"
	probeReasons     = "longctx_probe_reasons_total"
	failuresInARow   = "longctx_probe_consecutive_failures"
	rejectionsInARow = "longctx_probe_consecutive_rejections"
	budgetUsed       = "longctx_budget_used_ratio"

	needleFound      = "longctx_needle_found"
	needleInARow     = "longctx_needle_consecutive_misses"
	firstTokenChecks = "longctx_first_token_checks_total"
	firstTokenMisses = "longctx_first_token_mismatches_total"

	decodeRate         = "longctx_decode_tokens_per_second"
	acceptLength       = "longctx_accept_length"
	acceptCap          = "longctx_accept_cap_ratio"
	stepError          = "longctx_step_error_ratio"
	stepSpread         = "longctx_step_spread_ratio"
	stepP99            = "longctx_step_p99_seconds"
	stepMax            = "longctx_step_max_seconds"
	selfLag            = "longctx_self_lag_seconds"
	selfGC             = "longctx_self_gc_pause_seconds"
	selfSteal          = "longctx_self_steal_ratio"
	isolationProved    = "longctx_probe_isolation_proved"
	methodDisagreement = "longctx_method_disagreement_ratio"
	planStepRatio      = "longctx_plan_step_ratio"
	planAcceptRatio    = "longctx_plan_accept_length_ratio"

	contendedTTFT    = "longctx_contended_ttft_seconds"
	contendedStep    = "longctx_contended_step_seconds"
	contendedDecode  = "longctx_contended_decode_tokens_per_second"
	contendedRunning = "longctx_contended_running_requests"

	stepBaseline  = "longctx_step_baseline_seconds"
	stepExpected  = "longctx_step_expected_seconds"
	stepSlope     = "longctx_step_slope_seconds_per_token"
	stepIntercept = "longctx_step_intercept_seconds"
	stepFitError  = "longctx_step_fit_error_ratio"
	stepFitRungs  = "longctx_step_fit_rungs"

	sloThreshold     = "longctx_slo_threshold_seconds"
	sloEvents        = "longctx_slo_events_total"
	verifySteps      = "longctx_verify_steps_total"
	completionTokens = "longctx_completion_tokens_total"
	promptTokens     = "longctx_prompt_tokens_total"
	evictedTokens    = "longctx_probe_evicted_tokens_total"
	engineBusy       = "longctx_engine_busy_seconds_total"
	stepBuckets      = "longctx_step_duration_seconds_bucket"
	acceptBuckets    = "longctx_accept_length_tokens_bucket"
)

// What the engine and its logs tell of all traffic, probes included.
const (
	engineUp      = "longctx_engine_metrics_up"
	engineRunning = "longctx_engine_running_requests"
	engineQueued  = "longctx_engine_queued_requests"
	engineKVUsed  = "longctx_engine_kv_used_ratio"
	enginePrompt  = "longctx_engine_prompt_tokens_total"
	engineSteps   = "longctx_engine_verify_steps_total"
	engineDrafts  = "longctx_engine_accepted_drafts_total"

	logUp         = "longctx_server_log_up"
	logLines      = "longctx_server_log_lines_total"
	logUnparsed   = "longctx_server_log_unparsed_lines_total"
	logLastLine   = "longctx_server_log_last_line_timestamp_seconds"
	logRequests   = "longctx_server_log_requests_total"
	logStepAccept = "longctx_server_log_step_accept_length_tokens"
)

// Recorded series. The tests hold them against the recording rules.
const (
	stepFresh            = "target_context:longctx_step_seconds:fresh"
	stepConfirmedFresh   = "target_context:longctx_step_confirmed_seconds:fresh"
	stepMedian           = "target_context:longctx_step_seconds:median7d"
	stepGrowth           = "target_context:longctx_step_seconds:growth"
	ttftFresh            = "target_context:longctx_ttft_confirmed_seconds:fresh"
	prefillFresh         = "target_context:longctx_prefill_confirmed_tokens_per_second:fresh"
	prefillMedian        = "target_context:longctx_prefill_confirmed_tokens_per_second:median7d"
	acceptFresh          = "target_context:longctx_accept_confirmed_length:fresh"
	acceptMedian         = "target_context:longctx_accept_confirmed_length:median7d"
	slopeFresh           = "target:longctx_step_slope_seconds_per_token:fresh"
	slopeMedian          = "target:longctx_step_slope_seconds_per_token:median7d"
	interceptFresh       = "target:longctx_step_intercept_seconds:fresh"
	interceptMedian      = "target:longctx_step_intercept_seconds:median7d"
	stepExpectedMax      = "target_context:longctx_step_expected_seconds:max1h"
	reachableInSevenDays = "target_context:longctx_rung_reachable:max7d"
)

// Series of the process and of Prometheus itself.
const (
	processStart = "process_start_time_seconds"
	stateSaved   = "longctx_state_last_save_timestamp_seconds"
	stateFailed  = "longctx_state_save_failures_total"
	alertsSeries = "ALERTS"
	ourAlerts    = `alertname=~"LongCtx.*",alertstate="firing"`
)
