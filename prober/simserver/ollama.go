package simserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// ollamaVersion is what the newest era claims to be.
const ollamaVersion = "0.30.1"

// ollama speaks as Ollama's OpenAI routes do: text only, its template around every prompt, no end that can be ignored, and
// prompts that do not fit are cut without a word.
type ollama struct{ *instance }

func (s ollama) guarded(string) bool { return false }

func (s ollama) unauthorized() any { return object{"error": "unauthorized"} }

func (s ollama) problem(p *problem) any {
	kind := "invalid_request_error"
	switch {
	case p.status == http.StatusNotFound:
		kind = "not_found_error"
	case p.status >= http.StatusInternalServerError:
		kind = "api_error"
	}
	return object{"error": object{"message": p.message, "type": kind, "param": nil, "code": nil}}
}

func (s ollama) routes(mux *http.ServeMux) {
	p := s.config.Profile
	name := p.Model + ":latest"
	for path, page := range map[string]any{
		"/api/version": object{"version": ollamaVersion},
		"/v1/models": object{"object": "list", "data": []any{object{
			"id": name, "object": "model", "created": s.started.Unix(), "owned_by": "library",
		}}},
		"/api/ps": object{"models": []any{object{"name": name, "model": name, "size": 1 << 30, "context_length": p.ContextLimit}}},
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, page) })
	}
	mux.HandleFunc("POST /api/show", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, object{
			"parameters": fmt.Sprintf("num_ctx                        %d", p.ContextLimit),
			"model_info": object{"general.architecture": "sim", "sim.context_length": 2 * p.ContextLimit},
		})
	})
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, false) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, true) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "404 page not found", http.StatusNotFound) })
}

func (s ollama) generate(w http.ResponseWriter, r *http.Request, chat bool) {
	if s.refused(w) {
		return
	}
	b, p := readBody(r)
	var c *call
	if p == nil {
		c, p = s.call(r, b, chat)
	}
	if p != nil {
		s.refuse(w, p)
		return
	}
	st := s.newStream(w, nil)
	s.run(r, c, &ollamaAnswer{ollama: s, call: c, st: st, w: w, created: time.Now().Unix()}, st)
}

func (s ollama) call(r *http.Request, b *body, chat bool) (*call, *problem) {
	if p := s.rejectField(b); p != nil {
		return nil, p
	}
	if b.Model != s.config.Profile.Model+":latest" && b.Model != s.config.Profile.Model {
		return nil, &problem{status: http.StatusNotFound, message: fmt.Sprintf("model %q not found, try pulling it first", b.Model)}
	}
	if b.lifted != nil {
		return nil, badRequest("json: cannot unmarshal array into Go struct field CompletionRequest.prompt of type string")
	}
	if text, ok := b.text(); ok && !chat {
		content, _ := json.Marshal(text)
		b.Messages = []message{{Role: "user", Content: content}}
	}
	ids, p := s.chatIDs(b)
	if p != nil {
		return nil, p
	}
	c := s.newCall(r, b, ids, chat)
	if limit := s.config.Profile.ContextLimit; len(c.prompt) >= limit {
		c.prompt = c.prompt[len(c.prompt)-limit/2:]
	}
	asked := s.config.Profile.ContextLimit - len(c.prompt)
	if b.MaxTokens != nil && *b.MaxTokens > 0 {
		asked = min(asked, *b.MaxTokens)
	}
	c.steady = false
	c.id = "cmpl-" + s.newID()
	s.budget(c, asked, false)
	return c, nil
}

// ollamaAnswer answers completions and chat, one chunk a token.
type ollamaAnswer struct {
	ollama
	*call
	quiet
	st      *stream
	w       http.ResponseWriter
	created int64
}

// piece is a chunk; those of completions have a usage of zeros where one was asked for.
func (a *ollamaAnswer) piece(text string, finish any) object {
	choice := object{"index": 0, "finish_reason": finish}
	e := object{
		"id": a.id, "object": "text_completion", "created": a.created, "model": a.config.Profile.Model, "choices": []any{choice},
		"system_fingerprint": "fp_ollama",
	}
	if a.chat {
		e["object"] = "chat.completion.chunk"
		choice["delta"] = object{"role": "assistant", "content": text}
		return e
	}
	choice["text"] = text
	if a.usage {
		e["usage"] = object{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
	}
	return e
}

func (a *ollamaAnswer) chunk(tokens, _ []int32) {
	for i := range tokens {
		a.st.event(a.piece(a.tok.decode(tokens[i:i+1]), nil))
	}
}

func (a *ollamaAnswer) end(tokens, all []int32) {
	a.chunk(tokens, all)
	e := a.piece("", a.finish)
	a.st.event(e)
	if a.usage {
		e["choices"], e["usage"] = []any{}, a.usageOf(len(all))
		a.st.event(e)
	}
	a.st.raw("data: [DONE]\n\n")
}

func (a *ollamaAnswer) fail(p *problem) { a.st.event(a.problem(p)) }

func (a *ollamaAnswer) usageOf(completion int) object {
	return object{"prompt_tokens": len(a.prompt), "completion_tokens": completion, "total_tokens": len(a.prompt) + completion}
}

func (a *ollamaAnswer) whole(all []int32) {
	e := a.piece(a.tok.decode(all), a.finish)
	if a.chat {
		e["object"] = "chat.completion"
		e["choices"] = []any{object{"index": 0, "finish_reason": a.finish, "message": object{"role": "assistant", "content": a.tok.decode(all)}}}
	}
	if !a.config.Faults.NoUsage {
		e["usage"] = a.usageOf(len(all))
	}
	writeJSON(a.w, http.StatusOK, e)
}
