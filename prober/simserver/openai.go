package simserver

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// openai speaks as some server or gateway that has the OpenAI API and nothing else: text prompts only, no tokenizer, no
// metrics.
type openai struct{ *instance }

func (s openai) guarded(path string) bool { return strings.HasPrefix(path, "/v1/") }

func (s openai) unauthorized() any {
	return object{"error": object{
		"message": "Incorrect API key provided.", "type": "invalid_request_error", "param": nil, "code": "invalid_api_key",
	}}
}

func (s openai) problem(p *problem) any {
	kind, code := "invalid_request_error", p.extra["code"]
	if p.status >= http.StatusInternalServerError {
		kind = "server_error"
	}
	return object{"error": object{"message": p.message, "type": kind, "param": p.extra["param"], "code": code}}
}

func (s openai) routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, false) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, true) })
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, object{"object": "list", "data": []any{object{
			"id": s.config.Profile.Model, "object": "model", "created": s.started.Unix(), "owned_by": "organization",
		}}})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "404 page not found", http.StatusNotFound)
	})
}

func (s openai) generate(w http.ResponseWriter, r *http.Request, chat bool) {
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
	a := &openaiAnswer{openai: s, call: c, st: st, w: w, created: time.Now().Unix()}
	if c.stream && chat && s.config.Faults.RoleChunkEarly {
		a.role()
	}
	s.run(r, c, a, st)
}

func (s openai) call(r *http.Request, b *body, chat bool) (*call, *problem) {
	if p := s.rejectField(b); p != nil {
		return nil, p
	}
	if b.Model != s.config.Profile.Model {
		return nil, &problem{
			status: http.StatusNotFound, message: fmt.Sprintf("The model '%s' does not exist.", b.Model),
			extra: object{"code": "model_not_found", "param": "model"},
		}
	}
	if b.lifted != nil {
		return nil, badRequest("json: cannot unmarshal array into Go struct field CompletionRequest.prompt of type string")
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
	limit := s.config.Profile.ContextLimit
	asked := limit - len(c.prompt)
	if b.MaxCompletionTokens != nil {
		b.MaxTokens = b.MaxCompletionTokens
	}
	if b.MaxTokens != nil {
		asked = *b.MaxTokens
	}
	if len(c.prompt) >= limit || len(c.prompt)+asked > limit {
		p := badRequest("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens."+
			" Please reduce the length of the messages.", limit, len(c.prompt)+asked)
		p.extra = object{"code": "context_length_exceeded", "param": "messages"}
		return nil, p
	}
	if asked < 1 {
		return nil, badRequest("max_tokens must be at least 1.")
	}
	c.steady = false
	c.id = "cmpl-" + s.newID()
	s.budget(c, asked, b.IgnoreEOS)
	return c, nil
}

// openaiAnswer answers completions and chat.
type openaiAnswer struct {
	openai
	*call
	quiet
	st      *stream
	w       http.ResponseWriter
	created int64
	hasRole bool
}

func (a *openaiAnswer) envelope(choices ...any) object {
	return a.openAIChunk(a.created, a.config.Profile.Model, choices)
}

func (a *openaiAnswer) choice(text string, finish any) object {
	if !a.chat {
		return object{"index": 0, "text": text, "logprobs": nil, "finish_reason": finish}
	}
	delta := object{}
	if finish == nil {
		delta["content"] = text
	}
	return object{"index": 0, "delta": delta, "finish_reason": finish}
}

func (a *openaiAnswer) role() {
	a.hasRole = true
	a.st.event(a.envelope(object{
		"index": 0, "delta": object{"role": "assistant", "content": ""}, "finish_reason": nil,
	}))
}

func (a *openaiAnswer) chunk(tokens, _ []int32) {
	if a.chat && !a.hasRole {
		a.role()
	}
	a.st.event(a.envelope(a.choice(a.tok.decode(tokens), nil)))
}

func (a *openaiAnswer) end(tokens, all []int32) {
	a.chunk(tokens, all)
	a.st.event(a.envelope(a.choice("", a.finish)))
	if a.usage {
		e := a.envelope()
		e["usage"] = a.usageOf(len(all))
		a.st.event(e)
	}
	a.st.raw("data: [DONE]\n\n")
}

func (a *openaiAnswer) fail(p *problem) { a.st.event(a.problem(p)) }

func (a *openaiAnswer) usageOf(completion int) object {
	u := object{
		"prompt_tokens": len(a.prompt), "completion_tokens": completion, "total_tokens": len(a.prompt) + completion,
	}
	if cached, told := a.config.Faults.toldCached(a.cached); told && a.config.Options.CacheReport {
		u["prompt_tokens_details"] = object{"cached_tokens": cached}
	}
	return u
}

func (a *openaiAnswer) whole(all []int32) {
	choice := object{"index": 0, "finish_reason": a.finish}
	e := a.envelope(choice)
	if a.chat {
		e["object"] = "chat.completion"
		choice["message"] = object{"role": "assistant", "content": a.tok.decode(all)}
	} else {
		choice["text"], choice["logprobs"] = a.tok.decode(all), nil
	}
	if !a.config.Faults.NoUsage {
		e["usage"] = a.usageOf(len(all))
	}
	writeJSON(a.w, http.StatusOK, e)
}
