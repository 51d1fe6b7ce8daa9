package simserver

import (
	"fmt"
	"net/http"
	"time"
)

// llamaBuild is what the newest era claims to be.
const llamaBuild = "b10587-3f545becc"

// When llama-server's answers and metrics had what.
const (
	llamaHeadAtStart  period = "2026-05-30/" // the head goes out when a slot takes the request; with the first token before
	llamaSpecCounters period = "2026-08-05/"
	llamaFirstFree    period = "/2026-08-13" // speeds count the first token, whose time they leave out
)

// llama speaks as llama.cpp's llama-server does, with one slot.
type llama struct{ *instance }

func (s llama) guarded(path string) bool { return path != "/health" && path != "/v1/health" }

func (s llama) unauthorized() any {
	return object{"error": object{"message": "Invalid API Key", "type": "authentication_error", "code": 401}}
}

func (s llama) problem(p *problem) any {
	kind := p.kind
	switch kind {
	case "BadRequestError":
		kind = "invalid_request_error"
	case "InternalServerError":
		kind = "server_error"
	}
	e := object{"code": p.status, "message": p.message, "type": kind}
	for k, v := range p.extra {
		e[k] = v
	}
	return object{"error": e}
}

func (s llama) routes(mux *http.ServeMux) {
	handle := func(pattern string, h http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Server", "llama.cpp")
			if s.loading() {
				s.refuse(w, &problem{status: http.StatusServiceUnavailable, kind: "unavailable_error", message: "Loading model"})
				return
			}
			h(w, r)
		})
	}
	generate := func(kind int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, kind) }
	}
	handle("POST /v1/completions", generate(llamaCompletions))
	handle("POST /v1/chat/completions", generate(llamaChat))
	handle("POST /completion", generate(llamaNative))
	handle("POST /completions", generate(llamaNative))
	s.infoRoutes(handle)
}

// The endpoints that generate.
const (
	llamaCompletions = iota
	llamaChat
	llamaNative
)

func (s llama) generate(w http.ResponseWriter, r *http.Request, kind int) {
	if s.refused(w) {
		return
	}
	b, p := readBody(r)
	if p != nil {
		s.refuse(w, p)
		return
	}
	c, p := s.call(r, b, kind)
	if p != nil {
		s.refuse(w, p)
		return
	}
	st := s.newStream(w, func(h http.Header) { h.Set("X-Accel-Buffering", "no") })
	a := &llamaAnswer{llama: s, call: c, st: st, w: w, kind: kind, created: time.Now().Unix()}
	if c.stream && c.chat && s.config.Faults.RoleChunkEarly {
		a.role()
	}
	s.run(r, c, a, st)
}

func (s llama) call(r *http.Request, b *body, kind int) (*call, *problem) {
	if p := s.rejectField(b); p != nil {
		return nil, p
	}
	read := s.promptIDs
	if kind == llamaChat {
		read = s.chatIDs
	}
	ids, p := read(b)
	if p != nil {
		if b.lifted != nil {
			p.message = "Prompt contains invalid tokens"
		}
		return nil, p
	}
	c := s.newCall(r, b, ids, kind == llamaChat)
	limit := s.config.Profile.ContextLimit
	if n := len(c.prompt); n >= limit {
		return nil, &problem{
			status: http.StatusBadRequest, kind: "exceed_context_size_error", extra: object{"n_prompt_tokens": n, "n_ctx": limit},
			message: fmt.Sprintf("request (%d tokens) exceeds the available context size (%d tokens), try increasing it", n, limit),
		}
	}
	asked := -1
	for _, n := range []*int{b.MaxTokens, b.MaxCompletionTokens, b.NPredict} {
		if n != nil {
			asked = *n
		}
	}
	// What does not fit is cut short without an error.
	if room := limit - len(c.prompt); asked < 0 || asked > room {
		asked = room
	}
	c.noCache = b.CachePrompt != nil && !*b.CachePrompt
	c.id = "chatcmpl-" + s.newID()
	s.budget(c, asked, b.IgnoreEOS)
	return c, nil
}

// llamaAnswer answers all three endpoints: one chunk a token, also where a step commits several.
type llamaAnswer struct {
	llama
	*call
	st      *stream
	w       http.ResponseWriter
	kind    int
	created int64
	hasRole bool
}

// scheduled sends the head when the slot takes the request.
func (a *llamaAnswer) scheduled() {
	if a.era.has(llamaHeadAtStart) {
		a.st.open()
	}
}

// ping is the comment that keeps idle connections open.
func (a *llamaAnswer) ping() {
	if a.st.opened {
		a.st.raw(":\n\n")
	}
}

func (a *llamaAnswer) progress(done int) {
	if !a.body.ReturnProgress {
		return
	}
	e := a.piece("", nil)
	e["prompt_progress"] = object{
		"total": len(a.prompt), "cache": a.toldCache(), "processed": done,
		"time_ms": time.Since(a.scheduledAt()).Milliseconds(),
	}
	a.st.event(e)
}

func (a *llamaAnswer) scheduledAt() time.Time { return a.job.scheduled }

func (a *llamaAnswer) role() {
	a.hasRole = true
	e := a.envelope(object{"index": 0, "delta": object{"role": "assistant", "content": nil}, "finish_reason": nil})
	a.st.event(e)
}

func (a *llamaAnswer) envelope(choices ...any) object {
	kind := "text_completion"
	if a.chat {
		kind = "chat.completion.chunk"
	}
	if choices == nil {
		choices = []any{}
	}
	return object{
		"id": a.id, "object": kind, "created": a.created, "model": a.config.Profile.Model + ".gguf",
		"system_fingerprint": a.era.version, "choices": choices,
	}
}

// piece is a chunk of text, or the finish chunk.
func (a *llamaAnswer) piece(text string, finish any) object {
	switch a.kind {
	case llamaChat:
		delta := object{}
		if finish == nil {
			delta["content"] = text
		}
		return a.envelope(object{"index": 0, "delta": delta, "finish_reason": finish})
	case llamaNative:
		return object{"index": 0, "content": text, "tokens": []int32{}, "stop": finish != nil, "id_slot": -1}
	}
	return a.envelope(object{"index": 0, "text": text, "logprobs": nil, "finish_reason": finish})
}

func (a *llamaAnswer) chunk(tokens, all []int32) {
	for i, id := range tokens {
		if a.chat && !a.hasRole {
			a.role()
		}
		e := a.piece(a.tok.decode(tokens[i:i+1]), nil)
		n := len(all) - len(tokens) + i + 1
		if a.kind == llamaNative {
			e["tokens_predicted"], e["tokens_evaluated"] = n, len(a.prompt)
			if a.body.ReturnTokens {
				e["tokens"] = []int32{id}
			}
		}
		if a.body.TimingsPerToken {
			e["timings"] = a.timings(n, time.Now())
		}
		a.st.event(e)
	}
}

func (a *llamaAnswer) end(tokens, all []int32) {
	a.chunk(tokens, all)
	e := a.piece("", a.finish)
	switch a.kind {
	case llamaNative:
		a.nativeEnd(e, len(all))
		a.st.event(e)
		return
	case llamaCompletions:
		a.account(e, len(all))
		a.st.event(e)
	default:
		if !a.usage {
			e["timings"] = a.finalTimings(len(all))
			a.st.event(e)
			break
		}
		a.st.event(e)
		last := a.envelope()
		a.account(last, len(all))
		a.st.event(last)
	}
	a.st.raw("data: [DONE]\n\n")
}

func (a *llamaAnswer) fail(p *problem) { a.st.event(a.problem(p)) }

func (a *llamaAnswer) whole(all []int32) {
	text := a.tok.decode(all)
	if a.kind == llamaNative {
		e := a.piece(text, a.finish)
		a.nativeEnd(e, len(all))
		writeJSON(a.w, http.StatusOK, e)
		return
	}
	choice := object{"index": 0, "finish_reason": a.finish}
	e := a.envelope(choice)
	if a.chat {
		e["object"] = "chat.completion"
		choice["message"] = object{"role": "assistant", "content": text}
	} else {
		choice["text"], choice["logprobs"] = text, nil
	}
	a.account(e, len(all))
	writeJSON(a.w, http.StatusOK, e)
}
