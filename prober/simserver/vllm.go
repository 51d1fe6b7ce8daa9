package simserver

import (
	"net/http"
	"strings"
	"time"
)

// When vLLM's answers had what.
const (
	vllmNestedErrors  period = "2025-08-01/" // {"error":{…}}; flat before
	vllmChatSalt      period = "2025-04-30/"
	vllmSalt          period = "2025-07-15/" // on completions as well
	vllmTokenIDs      period = "2025-08-20/" // return_token_ids
	vllmZeroCached    period = "2026-06-12/" // told also where nothing was cached
	vllmReasoning     period = "2025-11-08/" // message.reasoning; reasoning_content before
	vllmSpecPerAnswer period = "2026-08-20/" // metrics.speculative_decoding
)

// vllm speaks as vLLM's v1 engine does.
type vllm struct{ *instance }

func (s vllm) guarded(path string) bool { return strings.HasPrefix(path, "/v1/") }

func (s vllm) unauthorized() any { return object{"error": "Unauthorized"} }

func (s vllm) problem(p *problem) any {
	if !s.era.has(vllmNestedErrors) {
		return object{"object": "error", "message": p.message, "type": p.kind, "param": nil, "code": p.status}
	}
	return object{"error": object{"message": p.message, "type": p.kind, "param": p.extra["param"], "code": p.status}}
}

func (s vllm) routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, false) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, true) })
	mux.HandleFunc("GET /v1/models", s.models)
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, object{"version": s.era.version})
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if s.loading() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	if !s.config.Options.NoTokenizer {
		mux.HandleFunc("POST /tokenize", s.tokenize)
		mux.HandleFunc("POST /detokenize", s.detokenize)
	}
	if !s.config.Options.NoMetrics {
		mux.HandleFunc("GET /metrics", s.metrics)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusNotFound, object{"detail": "Not Found"})
	})
}

func (s vllm) models(w http.ResponseWriter, _ *http.Request) {
	p := s.config.Profile
	writeJSON(w, http.StatusOK, object{"object": "list", "data": []any{object{
		"id": p.Model, "object": "model", "created": time.Now().Unix(), "owned_by": "vllm", "root": "/models/" + p.Model,
		"parent": nil, "max_model_len": p.ContextLimit, "permission": []any{},
	}}})
}

func (s vllm) tokenize(w http.ResponseWriter, r *http.Request) {
	in, ok := s.readTokenize(w, r)
	if !ok {
		return
	}
	ids := s.tokens(in.Prompt, in.AddSpecial == nil || *in.AddSpecial)
	writeJSON(w, http.StatusOK, object{
		"count": len(ids), "max_model_len": s.config.Profile.ContextLimit, "tokens": ids, "token_strs": nil,
	})
}

func (s vllm) detokenize(w http.ResponseWriter, r *http.Request) {
	if in, ok := s.readTokenize(w, r); ok {
		writeJSON(w, http.StatusOK, object{"prompt": s.tok.decode(in.Tokens)})
	}
}

func (s vllm) generate(w http.ResponseWriter, r *http.Request, chat bool) {
	if s.refused(w) {
		return
	}
	b, p := readBody(r)
	if p != nil {
		s.refuse(w, p)
		return
	}
	c, p := s.call(r, b, chat)
	if p != nil {
		s.refuse(w, p)
		return
	}
	st := s.newStream(w, nil)
	a := &vllmAnswer{vllm: s, call: c, st: st, w: w, created: time.Now().Unix()}
	if c.stream {
		st.open()
		if s.config.Faults.RoleChunkEarly && chat {
			a.role()
		}
	}
	s.run(r, c, a, st)
}

func (s vllm) call(r *http.Request, b *body, chat bool) (*call, *problem) {
	if p := s.rejectField(b); p != nil {
		return nil, p
	}
	if b.Model != "" && b.Model != s.config.Profile.Model {
		return nil, &problem{
			status: http.StatusNotFound, kind: "NotFoundError", message: "The model `" + b.Model + "` does not exist.",
			extra: object{"param": "model"},
		}
	}
	if b.StreamOptions != nil && !b.Stream {
		return nil, badRequest("Stream options can only be defined when `stream=True`.")
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
	asked := 16
	if chat {
		asked = s.config.Profile.ContextLimit - len(c.prompt)
		if b.MaxCompletionTokens != nil {
			b.MaxTokens = b.MaxCompletionTokens
		}
	}
	if b.MaxTokens != nil {
		asked = *b.MaxTokens
		if asked < 1 {
			return nil, badRequest("max_tokens must be at least 1, got %d.", asked)
		}
	}
	if limit := s.config.Profile.ContextLimit; len(c.prompt)+asked > limit || len(c.prompt) >= limit {
		p := badRequest("This model's maximum context length is %d tokens. However, you requested %d output tokens and your"+
			" prompt contains %d input tokens, for a total of %d tokens. Please reduce the length of the input prompt or the"+
			" number of requested output tokens.", limit, asked, len(c.prompt), len(c.prompt)+asked)
		p.extra = object{"param": "input_tokens"}
		return nil, p
	}
	c.steady = c.steady && c.usage
	if s.era.has(vllmSalt) || chat && s.era.has(vllmChatSalt) {
		c.salt = b.CacheSalt
	}
	b.ReturnTokenIDs = b.ReturnTokenIDs && s.era.has(vllmTokenIDs)
	c.id = "cmpl-" + b.RequestID
	if chat {
		c.id = "chatcmpl-" + b.RequestID
	}
	if b.RequestID == "" {
		c.id += s.newID()
	}
	s.budget(c, asked, b.IgnoreEOS || b.MinTokens >= asked)
	return c, nil
}

// vllmAnswer answers completions and chat.
type vllmAnswer struct {
	vllm
	*call
	quiet
	st      *stream
	w       http.ResponseWriter
	created int64
	hasRole bool
	begun   bool
}

func (a *vllmAnswer) envelope(choices ...any) object {
	return a.openAIChunk(a.created, a.config.Profile.Model, choices)
}

func (a *vllmAnswer) role() {
	a.hasRole = true
	a.st.event(a.envelope(object{
		"index": 0, "delta": object{"role": "assistant", "content": ""}, "logprobs": nil, "finish_reason": nil,
	}))
}

func (a *vllmAnswer) chunk(tokens, all []int32) { a.write(tokens, all, nil) }

func (a *vllmAnswer) write(tokens, all []int32, finish any) {
	choice := object{"index": 0, "logprobs": nil, "finish_reason": finish, "stop_reason": nil}
	if a.chat {
		if !a.hasRole {
			a.role()
		}
		choice["delta"] = object{"content": a.tok.decode(tokens)}
	} else {
		choice["text"] = a.tok.decode(tokens)
		choice["prompt_token_ids"] = nil
	}
	if a.era.has(vllmTokenIDs) {
		choice["token_ids"] = nil
	}
	if a.body.ReturnTokenIDs {
		choice["token_ids"] = tokens
		if !a.begun {
			choice["prompt_token_ids"] = a.prompt
		}
	}
	a.begun = true
	e := a.envelope(choice)
	if a.steady {
		e["usage"] = a.plainUsage(len(all))
	}
	a.st.event(e)
}

func (a *vllmAnswer) end(tokens, all []int32) {
	a.write(tokens, all, a.finish)
	if a.usage {
		e := a.envelope()
		e["usage"] = a.finalUsage(len(all))
		a.addMetrics(e)
		a.st.event(e)
	}
	a.st.raw("data: [DONE]\n\n")
}

func (a *vllmAnswer) fail(p *problem) {
	a.st.event(a.problem(p))
	a.st.raw("data: [DONE]\n\n")
}

func (a *vllmAnswer) plainUsage(completion int) object {
	return object{
		"prompt_tokens": len(a.prompt), "total_tokens": len(a.prompt) + completion, "completion_tokens": completion,
	}
}

func (a *vllmAnswer) finalUsage(completion int) object {
	u := a.plainUsage(completion)
	if cached, told := a.config.Faults.toldCached(a.cached); told && a.config.Options.CacheReport && (cached > 0 || a.era.has(vllmZeroCached)) {
		u["prompt_tokens_details"] = object{"cached_tokens": cached}
	}
	return u
}

// addMetrics tells of this request's speculation where the server was started to do so.
func (a *vllmAnswer) addMetrics(e object) {
	steps := a.verifyPasses()
	if !a.config.Options.SpecMetrics || !a.era.has(vllmSpecPerAnswer) || steps == 0 || a.config.Profile.Algorithm == "" {
		return
	}
	drafts := a.config.Profile.BlockSize() - 1
	h := make([]int, drafts+1)
	copy(h, a.histogram())
	e["metrics"] = object{"speculative_decoding": object{
		"mean_acceptance_length": 1 + float64(a.correctDrafts())/float64(steps), "acceptance_histogram": h,
		"num_spec_steps": steps, "num_accepted_draft_tokens": a.correctDrafts(), "num_draft_tokens": steps * drafts,
		"num_spec_tokens": drafts,
	}}
}

func (a *vllmAnswer) whole(all []int32) {
	choice := object{"index": 0, "logprobs": nil, "finish_reason": a.finish, "stop_reason": nil, "token_ids": nil}
	e := a.envelope(choice)
	if a.chat {
		e["object"] = "chat.completion"
		message := object{"role": "assistant", "content": a.tok.decode(all), "tool_calls": []any{}, "reasoning": nil}
		if !a.era.has(vllmReasoning) {
			delete(message, "reasoning")
			message["reasoning_content"] = nil
		}
		choice["message"] = message
	} else {
		choice["text"], choice["prompt_token_ids"] = a.tok.decode(all), nil
	}
	if a.body.ReturnTokenIDs {
		choice["token_ids"], choice["prompt_token_ids"] = all, a.prompt
	}
	if !a.config.Faults.NoUsage {
		e["usage"] = a.finalUsage(len(all))
	}
	a.addMetrics(e)
	writeJSON(a.w, http.StatusOK, e)
}
