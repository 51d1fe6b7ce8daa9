package grafana

// Exported metrics that the dashboards query. The tests hold them against the collector's catalogue.
const (
	targetUp         = "longctx_target_up"
	targetInfo       = "longctx_target_info"
	targetMaxContext = "longctx_target_max_context_tokens"
	targetKVPool     = "longctx_target_kv_pool_tokens"
	rungContext      = "longctx_rung_context_tokens"
	rungReachable    = "longctx_rung_reachable"

	probeEffective   = "longctx_probe_effective_interval_seconds"
	probeLastSuccess = "longctx_probe_last_success_timestamp_seconds"
	probeReasons     = "longctx_probe_reasons_total"
	failuresInARow   = "longctx_probe_consecutive_failures"

	decodeRate      = "longctx_decode_tokens_per_second"
	acceptLength    = "longctx_accept_length"
	stepSpread      = "longctx_step_spread_ratio"
	isolationProved = "longctx_probe_isolation_proved"

	stepExpected  = "longctx_step_expected_seconds"
	stepSlope     = "longctx_step_slope_seconds_per_token"
	stepIntercept = "longctx_step_intercept_seconds"
	stepFitError  = "longctx_step_fit_error_ratio"
	stepFitRungs  = "longctx_step_fit_rungs"

	sloThreshold = "longctx_slo_threshold_seconds"
	sloEvents    = "longctx_slo_events_total"
	promptTokens = "longctx_prompt_tokens_total"
	engineBusy   = "longctx_engine_busy_seconds_total"
	stepBuckets  = "longctx_step_duration_seconds_bucket"
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
	reachableInSevenDays = "target_context:longctx_rung_reachable:max7d"
)

// Series of the process and of Prometheus itself.
const (
	processStart = "process_start_time_seconds"
	alertsSeries = "ALERTS"
	ourAlerts    = `alertname=~"LongCtx.*",alertstate="firing"`
)
