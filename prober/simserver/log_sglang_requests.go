package simserver

import (
	"fmt"
	"time"
)

// received and ended write what --log-requests asks for, at level 1: no text, no ids.
func (l *sglangLog) received(_ *engine, j *job) {
	at := j.received
	switch l.server.config.Options.LogRequests {
	case "json":
		l.line(at, false, "%s", pyJSON([]field{
			{"timestamp", stampOf(at)}, {"event", "request.received"}, {"rid", j.id}, {"obj", l.object(j)},
		}))
	case "text":
		l.line(at, false, "Receive: obj=%s", l.repr(j))
	}
}

func (l *sglangLog) ended(_ *engine, j *job) {
	if j.finish == "abort" && j.scheduled.IsZero() {
		return // never reached the scheduler's output
	}
	at := j.finished
	meta := l.meta(j)
	switch l.server.config.Options.LogRequests {
	case "json":
		l.line(at, false, "%s", pyJSON([]field{
			{"timestamp", stampOf(at)},
			{"event", "request.finished"},
			{"rid", j.id},
			{"obj", l.object(j)},
			{"out", []field{{"meta_info", meta}}},
		}))
	case "text":
		l.line(at, false, "Finish: obj=%s, out=%s", l.repr(j), pyRepr([]field{{"meta_info", meta}}))
	}
	if l.server.config.Options.LogTimeStats {
		l.timeStats(j, at)
	}
}

// meta is all of meta_info, in the order in which SGLang puts it together.
func (l *sglangLog) meta(j *job) []field {
	m := l.server.metaInfo(j, len(j.output), true)
	m["e2e_latency"] = j.finished.Sub(j.received).Seconds()
	if j.scheduled.IsZero() || j.firstToken.IsZero() {
		delete(m, "prefill_finished_time")
	}
	return ordered(m, "id", "finish_reason", "prompt_tokens", "weight_version", "num_retractions", "queue_time", "reasoning_tokens",
		"completion_tokens", "cached_tokens", "cached_tokens_details", "dp_rank", "e2e_latency")
}

func (l *sglangLog) object(j *job) []field {
	return []field{
		{"rid", j.id},
		{"stream", j.streamed},
		{"sampling_params", []field{{"max_new_tokens", j.maxTokens}, {"temperature", 0}}},
		{"log_metrics", !j.unlogged},
		{"extra_key", none(j.salt)},
	}
}

func none(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (l *sglangLog) repr(j *job) string {
	return fmt.Sprintf("GenerateReqInput(rid=%s, stream=%s, sampling_params=%s, log_metrics=%s, extra_key=%s)", pyRepr(j.id),
		pyRepr(j.streamed), pyRepr([]field{{"max_new_tokens", j.maxTokens}, {"temperature", 0}}), pyRepr(!j.unlogged), pyRepr(none(j.salt)))
}

// timeStats is the line of --enable-request-time-stats-logging; its output is not cut at the limit.
func (l *sglangLog) timeStats(j *job, at time.Time) {
	out := len(j.output)
	if n := j.verifyPasses(); n > 0 {
		out = 1 + n + j.correctDrafts()
	}
	queue := 1000 * secondsBetween(j.received, j.scheduled)
	forward := 1000 * secondsBetween(j.scheduled, j.finished)
	if l.server.era.has(logTimeStatsLong) {
		l.line(at, true, "ReqTimeStats(rid=%s, input_len=%d, cached_input_len=%d, output_len=%d, attempts=1, type=unified): queue_duration=%.2fms, forward_duration=%.2fms, entry_time=%.3f",
			j.id, len(j.prompt), j.cached, out, queue, forward, unix(j.scheduled))
		return
	}
	l.line(at, true, "Req Time Stats(rid=%s, input len=%d, output len=%d, type=unified): queue_duration=%.2fms, forward_duration=%.2fms, start_time=%.2f",
		j.id, len(j.prompt), out, queue, forward, unix(j.scheduled))
}

func stampOf(at time.Time) string { return at.Format("2006-01-02T15:04:05.000000") }
