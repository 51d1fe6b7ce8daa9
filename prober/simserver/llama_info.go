package simserver

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

func (a *llamaAnswer) toldCache() int {
	cached, _ := a.config.Faults.toldCached(a.cached)
	return cached
}

// account adds usage and timings to the last chunk.
func (a *llamaAnswer) account(e object, completion int) {
	e["timings"] = a.finalTimings(completion)
	if a.config.Faults.NoUsage {
		return
	}
	u := object{
		"prompt_tokens": len(a.prompt), "completion_tokens": completion, "total_tokens": len(a.prompt) + completion,
	}
	if cached, told := a.config.Faults.toldCached(a.cached); told {
		u["prompt_tokens_details"] = object{"cached_tokens": cached}
	}
	e["usage"] = u
}

func (a *llamaAnswer) nativeEnd(e object, completion int) {
	e["stop_type"] = "limit"
	if a.finish == "stop" {
		e["stop_type"] = "eos"
	}
	e["tokens_predicted"], e["tokens_evaluated"] = completion, len(a.prompt)
	e["tokens_cached"], e["truncated"] = len(a.prompt)+completion-1, false
	e["timings"] = a.finalTimings(completion)
}

func (a *llamaAnswer) finalTimings(completion int) object {
	t := a.timings(completion, a.finished)
	if steps := a.verifyPasses(); steps > 0 && a.config.Profile.Algorithm != "" {
		t["draft_n"], t["draft_n_accepted"] = steps*(a.config.Profile.BlockSize()-1), a.correctDrafts()
	}
	return t
}

// timings runs prompt time up to the first token and predicted time from there to the last one.
func (a *llamaAnswer) timings(completion int, last time.Time) object {
	prompt := a.firstToken.Sub(a.job.scheduled).Seconds() * 1000
	predicted := last.Sub(a.firstToken).Seconds() * 1000
	fresh := len(a.prompt) - a.toldCache()
	counted := completion - 1
	if a.era.has(llamaFirstFree) {
		counted = completion
	}
	t := object{
		"prompt_n": fresh, "prompt_ms": prompt, "prompt_per_token_ms": prompt / float64(fresh),
		"prompt_per_second": perSecond(float64(fresh), prompt), "predicted_n": completion, "predicted_ms": predicted,
		"predicted_per_token_ms": predicted / float64(max(1, counted)),
		"predicted_per_second":   perSecond(float64(counted), predicted),
	}
	if !a.config.Faults.HideCached {
		t["cache_n"] = a.toldCache()
	}
	return t
}

func perSecond(n, ms float64) float64 {
	if ms <= 0 {
		return 0
	}
	return n / ms * 1000
}

func (s llama) infoRoutes(handle func(string, http.HandlerFunc)) {
	handle("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, object{"status": "ok"})
	})
	handle("GET /v1/models", s.models)
	handle("GET /models", s.models)
	handle("GET /props", s.props)
	handle("GET /slots", s.slots)
	handle("POST /tokenize", s.tokenize)
	handle("POST /detokenize", func(w http.ResponseWriter, r *http.Request) {
		if in, ok := s.readTokenize(w, r); ok {
			writeJSON(w, http.StatusOK, object{"content": s.tok.decode(in.Tokens)})
		}
	})
	handle("GET /metrics", s.metrics)
	handle("/", func(w http.ResponseWriter, _ *http.Request) {
		s.refuse(w, &problem{status: http.StatusNotFound, kind: "not_found_error", message: "File Not Found"})
	})
}

func (s llama) models(w http.ResponseWriter, _ *http.Request) {
	p := s.config.Profile
	writeJSON(w, http.StatusOK, object{"object": "list", "data": []any{object{
		"id": p.Model + ".gguf", "object": "model", "created": time.Now().Unix(), "owned_by": "llamacpp",
		"meta": object{
			"vocab_type": 1, "n_vocab": p.Vocab, "n_ctx": p.ContextLimit, "n_ctx_train": 262_144, "n_embd": 4096,
			"n_params": 8_000_000_000, "size": 16_000_000_000, "ftype": "F16",
		},
	}}})
}

func (s llama) props(w http.ResponseWriter, _ *http.Request) {
	p := s.config.Profile
	writeJSON(w, http.StatusOK, object{
		"default_generation_settings": object{"id": 0, "id_task": -1, "n_ctx": p.ContextLimit, "speculative": p.Algorithm != ""},
		"total_slots":                 1, "model_path": "/models/" + p.Model + ".gguf", "model_ftype": "F16", "build_info": s.era.version,
		"endpoint_slots": true, "endpoint_props": false, "endpoint_metrics": !s.config.Options.NoMetrics,
		"bos_token": "<s>", "eos_token": "</s>", "is_sleeping": false,
	})
}

func (s llama) slots(w http.ResponseWriter, _ *http.Request) {
	p := s.config.Profile
	slot := object{
		"id": 0, "n_ctx": p.ContextLimit, "speculative": p.Algorithm != "", "is_processing": false, "params": object{},
	}
	s.engine.mu.Lock()
	if len(s.engine.running) > 0 {
		j := s.engine.running[0]
		slot["is_processing"], slot["n_prompt_tokens"] = true, len(j.prompt)
		slot["n_prompt_tokens_processed"], slot["n_prompt_tokens_cache"] = j.computed-j.cached, j.cached
		slot["next_token"] = []any{object{"has_next_token": true, "n_remain": j.maxTokens - len(j.output), "n_decoded": len(j.output)}}
	}
	s.engine.mu.Unlock()
	writeJSON(w, http.StatusOK, []any{slot})
}

func (s llama) tokenize(w http.ResponseWriter, r *http.Request) {
	in, ok := s.readTokenize(w, r)
	if !ok {
		return
	}
	ids := s.tokens(in.Content, in.LlamaAdd)
	if !in.WithPieces {
		writeJSON(w, http.StatusOK, object{"tokens": ids})
		return
	}
	pieces := make([]any, len(ids))
	for i, id := range ids {
		piece := s.tok.decode([]int32{id})
		if int(id) == s.config.Profile.BOS {
			piece = "<s>"
		}
		pieces[i] = object{"id": id, "piece": piece}
	}
	writeJSON(w, http.StatusOK, object{"tokens": pieces})
}

// metrics is a page without labels; its counters move when a request ends.
func (s llama) metrics(w http.ResponseWriter, _ *http.Request) {
	if s.config.Options.NoMetrics {
		s.refuse(w, &problem{
			status: http.StatusNotImplemented, kind: "not_supported_error",
			message: "This server does not support metrics endpoint. Start it with `--metrics`",
		})
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	w.Header().Set("Process-Start-Time-Unix", strconv.FormatInt(s.started.UnixMicro()%10_000_000_000, 10))
	c, g := s.engine.observe()
	p := page{w: w, plain: true}
	count := func(name, help string, v float64) { p.one("counter", "llamacpp:"+name, "", help, v) }
	gauge := func(name, help string, v float64) { p.one("gauge", "llamacpp:"+name, "", help, v) }
	count("prompt_tokens_total", "Number of prompt tokens processed.", float64(c.prompt-c.cached))
	if s.era.has(llamaSpecCounters) {
		count("prompt_tokens_cached_total", "Number of prompt tokens taken from the cache.", float64(c.cached))
	}
	count("prompt_seconds_total", "Prompt process time", c.promptSeconds)
	count("tokens_predicted_total", "Number of generation tokens processed.", float64(c.generated))
	count("tokens_predicted_seconds_total", "Predict process time", c.decodeSeconds)
	count("n_decode_total", "Total number of llama_decode() calls", float64(c.prefillPasses+c.decodeCalls))
	count("n_tokens_max", "Largest observed n_tokens.", float64(c.longest))
	if s.era.has(llamaSpecCounters) {
		s.specMetrics(p, c)
	}
	gauge("prompt_tokens_seconds", "Average prompt throughput in tokens/s.", 0)
	gauge("predicted_tokens_seconds", "Average generation throughput in tokens/s.", 0)
	gauge("requests_processing", "Number of requests processing.", float64(g.running))
	gauge("requests_deferred", "Number of requests deferred.", float64(g.waiting))
	gauge("n_busy_slots_per_decode", "Average number of busy slots per llama_decode() call", float64(min(1, c.decodeCalls)))
}

func (s llama) specMetrics(p page, c counters) {
	count := func(name, help string, v int) { p.one("counter", "llamacpp:spec_decode_"+name, "", help, float64(v)) }
	count("num_drafts_total", "Number of drafts.", c.drafts())
	count("num_draft_tokens_total", "Number of draft tokens.", c.drafted)
	count("num_accepted_tokens_total", "Number of accepted draft tokens.", c.draftOK)
	if c.drafts() == 0 {
		return
	}
	const name = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
	p.head(name, "counter", "Accepted draft tokens per position.")
	for i, n := range c.endedPositions {
		p.sample(name, fmt.Sprintf(`position="%d"`, i), float64(n))
	}
}
