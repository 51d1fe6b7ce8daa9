package simserver

import (
	"encoding/json"
	"net/http"
	"time"
)

// lmdeploy speaks as LMDeploy's api_server does: ids on /generate only, no context length, no cached tokens but in chat.
type lmdeploy struct{ *instance }

func (s lmdeploy) guarded(path string) bool { return path != "/health" }

func (s lmdeploy) unauthorized() any {
	return object{"error": object{"message": "", "type": "invalid_request_error", "param": nil, "code": "invalid_api_key"}}
}

func (s lmdeploy) problem(p *problem) any {
	return object{"message": p.message, "type": "invalid_request_error", "code": p.status, "param": nil, "object": "error"}
}

// The endpoints of LMDeploy that generate.
const (
	lmdeployGenerate = iota
	lmdeployCompletions
	lmdeployChat
)

func (s lmdeploy) routes(mux *http.ServeMux) {
	for path, kind := range map[string]int{
		"/generate": lmdeployGenerate, "/v1/completions": lmdeployCompletions, "/v1/chat/completions": lmdeployChat,
	} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, kind) })
	}
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		p := s.config.Profile
		writeJSON(w, http.StatusOK, object{"object": "list", "data": []any{object{
			"id": p.Model, "object": "model", "created": time.Now().Unix(), "owned_by": "lmdeploy", "root": p.Model, "parent": nil,
			"permission": []any{},
		}}})
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		status := http.StatusOK
		if s.loading() {
			status = http.StatusServiceUnavailable
		}
		writeJSON(w, status, object{"status": http.StatusText(status)})
	})
	if !s.config.Options.NoMetrics {
		mux.HandleFunc("GET /metrics", s.metrics)
	}
	if !s.config.Options.NoTokenizer {
		mux.HandleFunc("POST /v1/encode", s.encode)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusNotFound, object{"detail": "Not Found"})
	})
}

func (s lmdeploy) encode(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Input  string `json:"input"`
		AddBOS *bool  `json:"add_bos"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		s.refuse(w, badRequest("%v", err))
		return
	}
	ids := s.tokens(in.Input, in.AddBOS == nil || *in.AddBOS)
	writeJSON(w, http.StatusOK, object{"input_ids": ids, "length": len(ids)})
}

func (s lmdeploy) generate(w http.ResponseWriter, r *http.Request, kind int) {
	if s.refused(w) {
		return
	}
	b, p := readBody(r)
	var c *call
	if p == nil {
		c, p = s.call(r, b, kind)
	}
	if p != nil {
		s.refuse(w, p)
		return
	}
	st := s.newStream(w, nil)
	a := &lmdeployAnswer{lmdeploy: s, call: c, st: st, w: w, kind: kind, created: time.Now().Unix()}
	if c.stream {
		st.open()
	}
	s.run(r, c, a, st)
}

func (s lmdeploy) call(r *http.Request, b *body, kind int) (*call, *problem) {
	if p := s.rejectField(b); p != nil {
		return nil, p
	}
	if kind != lmdeployGenerate && b.Model != s.config.Profile.Model {
		return nil, &problem{status: http.StatusNotFound, message: "The model " + b.Model + " does not exist."}
	}
	if kind == lmdeployCompletions && b.lifted != nil {
		return nil, badRequest("a list is a list of prompts here, and %d of them are more than fit", len(b.lifted))
	}
	read := s.promptIDs
	if kind == lmdeployChat {
		read = s.chatIDs
	}
	ids, p := read(b)
	if p != nil {
		return nil, p
	}
	c := s.newCall(r, b, ids, kind == lmdeployChat)
	limit := s.config.Profile.ContextLimit
	if len(c.prompt) >= limit {
		return nil, badRequest("Input length (%d) must be smaller than the model context length (%d).", len(c.prompt), limit)
	}
	asked := map[int]int{lmdeployGenerate: 128, lmdeployCompletions: 16, lmdeployChat: limit}[kind]
	for _, n := range []*int{b.MaxTokens, b.MaxCompletionTokens} {
		if n != nil {
			asked = *n
		}
	}
	c.steady = false
	c.id = s.newID()
	s.budget(c, min(asked, limit-len(c.prompt)), b.IgnoreEOS)
	return c, nil
}

// lmdeployAnswer answers all three endpoints, a chunk a step.
type lmdeployAnswer struct {
	lmdeploy
	*call
	quiet
	st      *stream
	w       http.ResponseWriter
	kind    int
	created int64
}

// piece is one event: increments, beside counts that run.
func (a *lmdeployAnswer) piece(tokens []int32, completion int, finish any) object {
	text := a.tok.decode(tokens)
	if a.kind == lmdeployGenerate {
		meta := object{"prompt_tokens": len(a.prompt), "completion_tokens": completion, "finish_reason": nil, "output_token_logprobs": nil}
		if finish != nil {
			meta["finish_reason"] = object{"type": finish}
		}
		return object{"text": text, "output_ids": append([]int32{}, tokens...), "meta_info": meta}
	}
	choice := object{"index": 0, "logprobs": nil, "finish_reason": finish, "gen_tokens": nil}
	if a.chat {
		choice["delta"] = object{"role": "assistant", "content": text, "reasoning_content": nil}
	} else {
		choice["text"] = text
	}
	return a.envelope(choice)
}

func (a *lmdeployAnswer) envelope(choices ...any) object {
	kind := "text_completion"
	if a.chat {
		kind = "chat.completion.chunk"
	}
	if choices == nil {
		choices = []any{}
	}
	return object{"id": a.id, "object": kind, "created": a.created, "model": a.config.Profile.Model, "choices": choices, "usage": nil}
}

func (a *lmdeployAnswer) chunk(tokens, all []int32) { a.st.event(a.piece(tokens, len(all), nil)) }

func (a *lmdeployAnswer) end(tokens, all []int32) {
	a.st.event(a.piece(tokens, len(all), a.finish))
	if a.usage && a.kind != lmdeployGenerate {
		e := a.envelope()
		e["usage"] = a.usageOf(len(all))
		a.st.event(e)
	}
	a.st.raw("data: [DONE]\n\n")
}

func (a *lmdeployAnswer) fail(p *problem) {
	a.st.event(object{"error": object{"message": p.message, "type": "internal_error", "code": p.status}})
	a.st.raw("data: [DONE]\n\n")
}

func (a *lmdeployAnswer) usageOf(completion int) object {
	u := object{"prompt_tokens": len(a.prompt), "total_tokens": len(a.prompt) + completion, "completion_tokens": completion}
	if cached, told := a.config.Faults.toldCached(a.cached); told && a.chat {
		u["prompt_tokens_details"] = object{"cached_tokens": cached}
	}
	return u
}

func (a *lmdeployAnswer) whole(all []int32) {
	e := a.piece(all, len(all), a.finish)
	if a.kind == lmdeployGenerate {
		writeJSON(a.w, http.StatusOK, e)
		return
	}
	if a.chat {
		e["object"] = "chat.completion"
		e["choices"] = []any{object{"index": 0, "finish_reason": a.finish, "message": object{"role": "assistant", "content": a.tok.decode(all)}}}
	}
	if !a.config.Faults.NoUsage {
		e["usage"] = a.usageOf(len(all))
	}
	writeJSON(a.w, http.StatusOK, e)
}
