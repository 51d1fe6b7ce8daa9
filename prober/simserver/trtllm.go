package simserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// trtllmVersion is what the newest era claims to be.
const trtllmVersion = "1.2.0"

// trtllm speaks as TensorRT-LLM's trtllm-serve does: it forbids fields that it does not know, tells no context length, and
// takes ids on completions.
type trtllm struct{ *instance }

func (s trtllm) guarded(string) bool { return true }

func (s trtllm) unauthorized() any { return object{"error": "Unauthorized"} }

func (s trtllm) problem(p *problem) any {
	return object{"object": "error", "message": p.message, "type": p.kind, "param": nil, "code": p.status}
}

func (s trtllm) routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, false) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, true) })
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, object{"object": "list", "data": []any{object{
			"id": s.config.Profile.Model, "object": "model", "created": time.Now().Unix(), "owned_by": "tensorrt_llm",
		}}})
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, object{"version": s.era.version})
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if s.loading() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	if !s.config.Options.NoTokenizer {
		mux.HandleFunc("POST /_internal/tokenize", s.tokenize)
	}
	if !s.config.Options.NoMetrics {
		mux.HandleFunc("GET /prometheus/metrics", s.metrics)
		mux.HandleFunc("GET /metrics", s.drained)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusNotFound, object{"detail": "Not Found"})
	})
}

// tokenize puts special tokens before every text, wanted or not.
func (s trtllm) tokenize(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Prompt string `json:"prompt"`
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		s.refuse(w, badRequest("%v", err))
		return
	}
	ids := s.tokens(in.Prompt, true)
	writeJSON(w, http.StatusOK, object{"count": len(ids), "tokens": ids})
}

// trtllmFields are those of both request classes; chat knows two more.
func trtllmFields(chat bool) []string {
	both := []string{
		"model", "max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "n", "stream", "stream_options", "stop", "stop_token_ids",
		"ignore_eos", "min_tokens", "repetition_penalty", "truncate_prompt_tokens", "add_special_tokens", "detokenize", "priority",
	}
	if chat {
		return append(both, "messages", "prompt_token_ids", "max_completion_tokens", "cache_salt")
	}
	return append(both, "prompt")
}

// forbidden refuses what the request class does not know.
func (s trtllm) forbidden(b *body, chat bool) *problem {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b.raw, &fields); err != nil {
		return badRequest("%v", err)
	}
	known := trtllmFields(chat)
	for name := range fields {
		if !slices.Contains(known, name) {
			return badRequest("[{'type': 'extra_forbidden', 'loc': ('body', '%s'), 'msg': 'Extra inputs are not permitted'}]", name)
		}
	}
	return nil
}

func (s trtllm) generate(w http.ResponseWriter, r *http.Request, chat bool) {
	if s.refused(w) {
		return
	}
	b, p := readBody(r)
	if p == nil {
		p = s.forbidden(b, chat)
	}
	var c *call
	if p == nil {
		c, p = s.call(r, b, chat)
	}
	if p != nil {
		s.refuse(w, p)
		return
	}
	st := s.newStream(w, nil)
	a := &trtllmAnswer{trtllm: s, call: c, st: st, w: w, created: time.Now().Unix()}
	if c.stream {
		st.open()
		if s.config.Faults.RoleChunkEarly && chat {
			a.role()
		}
	}
	s.run(r, c, a, st)
}

func (s trtllm) call(r *http.Request, b *body, chat bool) (*call, *problem) {
	if p := s.rejectField(b); p != nil {
		return nil, p
	}
	if b.StreamOptions != nil && !b.Stream {
		return nil, badRequest("Stream options can only be defined when stream is true.")
	}
	read := s.promptIDs
	if chat {
		read = s.chatIDs
	}
	ids, p := read(b)
	if p != nil {
		return nil, p
	}
	c := s.newCall(r, b, ids, chat)
	if b.MaxCompletionTokens != nil {
		b.MaxTokens = b.MaxCompletionTokens
	}
	limit := s.config.Profile.ContextLimit
	asked := limit - len(c.prompt)
	if asked <= 0 {
		return nil, badRequest("`default_max_tokens` (%d) must be greater than 0, `default_max_tokens` (%d) = max_seq_len (%d) - `splited_prompt_len` (%d)",
			asked, asked, limit, len(c.prompt))
	}
	if b.MaxTokens != nil {
		asked = *b.MaxTokens
	}
	if asked < 1 || len(c.prompt)+asked > limit {
		return nil, badRequest("The sum of prompt length (%d), query length (0), max_tokens (%d) should not exceed max_seq_len (%d)", len(c.prompt), asked, limit)
	}
	if b.StreamOptions == nil {
		c.usage = !s.config.Faults.NoUsage
	}
	c.salt = b.CacheSalt
	c.id = "cmpl-" + s.newID()
	s.budget(c, asked, b.IgnoreEOS || b.MinTokens >= asked)
	return c, nil
}

// trtllmAnswer answers completions and chat.
type trtllmAnswer struct {
	trtllm
	*call
	quiet
	st      *stream
	w       http.ResponseWriter
	created int64
	hasRole bool
}

func (a *trtllmAnswer) envelope(choices ...any) object {
	return a.openAIChunk(a.created, a.config.Profile.Model, choices)
}

// role is the chunk that ends in a blank.
func (a *trtllmAnswer) role() {
	a.hasRole = true
	e, _ := json.Marshal(a.envelope(object{
		"index": 0, "delta": object{"role": "assistant", "content": "", "reasoning": nil, "reasoning_content": nil}, "finish_reason": nil,
	}))
	a.st.raw(fmt.Sprintf("data: %s \n\n", e))
}

// iterations counts the forward passes that committed the given number of tokens, the prefill included.
func (a *trtllmAnswer) iterations(tokens int) int {
	a.home.mu.Lock()
	defer a.home.mu.Unlock()
	n, committed := 1, 1
	for _, k := range a.accepted {
		if committed >= tokens {
			break
		}
		committed += k
		n++
	}
	return n
}

func (a *trtllmAnswer) choice(text string, tokens int, finish any) object {
	c := object{
		"index": 0, "logprobs": nil, "finish_reason": finish, "stop_reason": nil, "disaggregated_params": nil,
		"avg_decoded_tokens_per_iter": float32(tokens) / float32(a.iterations(tokens)),
	}
	if a.chat {
		c["delta"] = object{"role": nil, "content": text, "reasoning": nil, "reasoning_content": nil, "tool_calls": []any{}}
		return c
	}
	c["text"], c["token_ids"] = text, nil
	return c
}

func (a *trtllmAnswer) chunk(tokens, all []int32) { a.write(tokens, all, nil) }

func (a *trtllmAnswer) write(tokens, all []int32, finish any) {
	if a.chat && !a.hasRole {
		a.role()
	}
	e := a.envelope(a.choice(a.tok.decode(tokens), len(all), finish))
	if a.steady {
		e["usage"] = a.usageOf(len(all))
	}
	a.st.event(e)
}

func (a *trtllmAnswer) end(tokens, all []int32) {
	a.write(tokens, all, a.finish)
	if a.usage {
		e := a.envelope()
		e["usage"] = a.usageOf(len(all))
		a.st.event(e)
	}
	a.st.raw("data: [DONE]\n\n")
}

func (a *trtllmAnswer) fail(p *problem) {
	a.st.event(object{"error": object{"message": p.message, "type": "server_error", "code": nil, "param": nil}})
	a.st.raw("data: [DONE]\n\n")
}

func (a *trtllmAnswer) usageOf(completion int) object {
	u := object{"prompt_tokens": len(a.prompt), "total_tokens": len(a.prompt) + completion, "completion_tokens": completion}
	if cached, told := a.config.Faults.toldCached(a.cached); told {
		u["prompt_tokens_details"] = object{"cached_tokens": cached}
	}
	return u
}

func (a *trtllmAnswer) whole(all []int32) {
	choice := a.choice(a.tok.decode(all), len(all), a.finish)
	e := a.envelope(choice)
	if a.chat {
		e["object"] = "chat.completion"
		choice["message"] = choice["delta"]
		delete(choice, "delta")
	}
	if !a.config.Faults.NoUsage {
		e["usage"] = a.usageOf(len(all))
	}
	writeJSON(a.w, http.StatusOK, e)
}
