package collector

import (
	"longctx_exporter/collector/servermetrics"
)

// The exported names of what an engine tells of itself.
const (
	engineUp        = "longctx_engine_metrics_up"
	engineRunning   = "longctx_engine_running_requests"
	engineQueued    = "longctx_engine_queued_requests"
	engineKVUsed    = "longctx_engine_kv_used_ratio"
	engineKVFree    = "longctx_engine_kv_free_tokens"
	engineAccept    = "longctx_engine_accept_length"
	engineDecode    = "longctx_engine_decode_tokens_per_second"
	enginePrompt    = "longctx_engine_prompt_tokens_total"
	engineCached    = "longctx_engine_cached_tokens_total"
	engineGenerated = "longctx_engine_generation_tokens_total"
	engineSteps     = "longctx_engine_verify_steps_total"
	engineDrafts    = "longctx_engine_accepted_drafts_total"
	engineFinished  = "longctx_engine_finished_requests_total"
	engineAborted   = "longctx_engine_aborted_requests_total"
)

// told ends the help of what an engine tells of itself.
const told = " The engine's own account of all its traffic; absent where it does not tell."

// toldCounter ends the help of a counter that the engine keeps.
const toldCounter = " The engine's own count of all its traffic, added up over its ranks, workers and pages; absent where it does not tell."

func engineMetrics() []Metric {
	gauge := func(name, help string) Metric {
		return Metric{Name: name, Type: Gauge, Labels: perTarget(), Help: help}
	}
	counter := func(name, help string) Metric {
		return Metric{Name: name, Type: Counter, Labels: perTarget(), Help: help + toldCounter}
	}
	return []Metric{
		gauge(engineUp, "Whether the latest reading of the engine's own page of metrics, every 15 seconds and around runs, succeeded: 1 if so, 0 if not; absent where the target's kind of server has none, and before the first."),
		gauge(engineRunning, "Number of requests in the batch, over all data-parallel ranks."+told),
		gauge(engineQueued, "Number of requests that wait, over all data-parallel ranks."+told),
		gauge(engineKVUsed, "Share of the KV cache in use (0 to 1), of the data-parallel rank with the largest; cached prefixes that nobody uses count as free."+told),
		gauge(engineKVFree, "Tokens that are free in the KV cache, or taken only by cached prefixes that nobody uses, of the data-parallel rank with the fewest."+told),
		gauge(engineAccept, "Mean tokens committed per verify pass, bonus token included, between the latest two readings, where the engine has counters of them, else as it shows while it decodes; absent where nothing was verified."+told),
		gauge(engineDecode, "Mean output tokens per second of the time that requests spent in decoding, of those that ended between the latest two readings."+told),
		counter(enginePrompt, "Number of prompt tokens, those from the cache included where the engine counts them."),
		counter(engineCached, "Number of prompt tokens that came from a cache."),
		counter(engineGenerated, "Number of output tokens."),
		counter(engineSteps, "Number of verify passes of speculative decoding that had a draft."),
		counter(engineDrafts, "Number of draft tokens that verify passes accepted, bonus tokens left out; divided by longctx_engine_verify_steps_total and increased by 1, the acceptance length."),
		counter(engineFinished, "Number of requests that ended."),
		counter(engineAborted, "Number of requests that were aborted."),
	}
}

// SetEngine takes what a target's engine tells of itself, in the place of what it told before.
func (c *Collector) SetEngine(name string, s servermetrics.Snapshot) {
	if t := c.target(name); t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.engine = &s
	}
}

// engine adds what the engine tells of itself.
func (p page) engine(t *target) {
	s := t.engine
	if s == nil {
		return
	}
	p.gauge(engineUp, truth(s.Up), t.labels)
	for name, v := range map[string]*int{engineRunning: s.Running, engineQueued: s.Queued} {
		if v != nil {
			p.gauge(name, float64(*v), t.labels)
		}
	}
	for name, v := range map[string]*float64{
		engineKVUsed: s.KVUsed, engineKVFree: s.KVFree, engineAccept: s.AcceptLength, engineDecode: s.DecodeRate,
	} {
		if v != nil {
			p.gauge(name, *v, t.labels)
		}
	}
	for name, v := range map[string]*float64{
		enginePrompt: s.PromptTokens, engineCached: s.CachedTokens, engineGenerated: s.GeneratedTokens, engineSteps: s.VerifySteps,
		engineDrafts: s.AcceptedDrafts, engineFinished: s.FinishedRequests, engineAborted: s.AbortedRequests,
	} {
		if v != nil {
			p.counter(name, *v, t.labels)
		}
	}
}
