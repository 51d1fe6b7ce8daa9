package collector

import "longctx_exporter/prober"

// Names of what the server's logs tell of real traffic.
const (
	logUp          = "longctx_server_log_up"
	logLines       = "longctx_server_log_lines_total"
	logMatched     = "longctx_server_log_matched_lines_total"
	logUnparsed    = "longctx_server_log_unparsed_lines_total"
	logRotations   = "longctx_server_log_rotations_total"
	logTruncations = "longctx_server_log_truncations_total"
	logLastLine    = "longctx_server_log_last_line_timestamp_seconds"
	logEvents      = "longctx_server_log_events_total"
	logAccept      = "longctx_server_log_accept_length_tokens"
	logRequests    = "longctx_server_log_requests_total"
	logStepAccept  = "longctx_server_log_step_accept_length_tokens"
)

const labelContextBucket = "context_bucket"

// contextBuckets are the bounds of the label context_bucket, the same for every target, and one for what is longer.
func contextBuckets() []prober.Rung { return append(prober.DefaultLadder(), 0) }

// contextBucket is a bound as a label.
func contextBucket(bound prober.Rung) string {
	if bound == 0 {
		return "+Inf"
	}
	return bound.String()
}

func logMetrics() []Metric {
	return []Metric{
		{
			Name: logUp, Type: Gauge, Labels: perTarget(),
			Help: "Whether every configured log of the target is being read: 1 if so, 0 if one is not there or cannot be read; absent, like all that follows, for targets without logs.",
		},
		{Name: logLines, Type: Counter, Labels: perTarget(), Help: "Number of lines read from the target's logs."},
		{Name: logMatched, Type: Counter, Labels: perTarget(), Help: "Number of lines of the target's logs that gave a value."},
		{
			Name: logUnparsed, Type: Counter, Labels: perTarget(),
			Help: "Number of lines of the target's logs that begin like those that give values but could not be read, and of lines above 4 MiB. The status page shows the latest.",
		},
		{Name: logRotations, Type: Counter, Labels: perTarget(), Help: "Number of times that another file took the place of one of the target's logs."},
		{Name: logTruncations, Type: Counter, Labels: perTarget(), Help: "Number of times that one of the target's logs was cut and read from its beginning."},
		{Name: logLastLine, Type: Gauge, Labels: perTarget(), Help: "Unix time at which the latest line of the target's logs was read; absent before the first."},
		{
			Name: logEvents, Type: Counter, Labels: perTarget("event"), Children: len(logEventNames()),
			Help: "Number of lines of the target's logs that tell of trouble: requests thrown out of a full KV pool (retraction), prompts that were cut to fit (prompt_truncated), requests that filled their context (context_full).",
		},
		{
			Name: logAccept, Type: Histogram, Labels: perTarget(), Native: true,
			Buckets: []float64{1, 1.1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 24, 32},
			Help:    "Tokens committed per verify pass, bonus token included: one observation per line of the target's logs that tells the mean of a batch, an interval or, from llama.cpp, a request.",
		},
		{
			Name: logRequests, Type: Counter, Labels: perTarget(labelContextBucket), Children: len(contextBuckets()),
			Help: "Number of finished requests in the target's logs, by the smallest context_bucket that holds the prompt.",
		},
		{
			Name: logStepAccept, Type: Histogram, Labels: perTarget(labelContextBucket), Native: true, Children: len(contextBuckets()),
			Buckets: []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 24, 32},
			Help:    "Tokens committed per verify pass, bonus token included: one observation per pass of the finished requests in the target's logs, by the smallest context_bucket that holds the prompt.",
		},
	}
}
