package simserver

import (
	"net/http"
	"strings"
	"time"
)

// object is a JSON object.
type object = map[string]any

// sglang speaks as SGLang does.
type sglang struct{ *instance }

func (s sglang) guarded(path string) bool {
	return !strings.HasPrefix(path, "/health") && !strings.HasPrefix(path, "/metrics")
}

func (s sglang) unauthorized() any { return object{"error": "Unauthorized"} }

func (s sglang) problem(p *problem) any {
	return object{"object": "error", "message": p.message, "type": p.kind, "param": nil, "code": p.status}
}

func (s sglang) routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { s.openai(w, r, false) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.openai(w, r, true) })
	mux.HandleFunc("POST /generate", s.generate)
	mux.HandleFunc("PUT /generate", s.generate)
	s.infoRoutes(mux)
}

// maxRequest is the longest sequence that the scheduler takes.
func (s sglang) maxRequest() int {
	return min(s.config.Profile.ContextLimit, s.config.Profile.PoolTokens) - 1
}

func (s sglang) maxInput() int { return s.maxRequest() - 5 }

// early refuses what the tokenizer's side refuses.
func (s sglang) early(prompt, asked int) *problem {
	limit := s.config.Profile.ContextLimit
	switch {
	case prompt >= limit:
		return badRequest("The input (%d tokens) is longer than the model's context length (%d tokens).", prompt, limit)
	case prompt+asked > limit:
		return badRequest("Requested token count exceeds the model's maximum context length of %d tokens. You requested a total"+
			" of %d tokens: %d tokens from the input messages and %d tokens for the completion. Please reduce the number of"+
			" tokens in the input messages or the completion to fit within the limit.", limit, prompt+asked, prompt, asked)
	}
	return nil
}

// late refuses what the scheduler refuses.
func (s sglang) late(prompt int) *problem {
	if prompt >= s.maxInput() {
		return badRequest("Input length (%d tokens) exceeds the maximum allowed length (%d tokens). Use a shorter input or"+
			" enable --allow-auto-truncate.", prompt, s.maxInput())
	}
	return nil
}

// fit is the silent clamp of the scheduler: what the pool leaves.
func (s sglang) fit(prompt, asked int) int {
	p := s.config.Profile
	pages := (prompt + p.PageSize - 1) / p.PageSize * p.PageSize
	return max(0, min(asked, s.maxRequest()-prompt-1, p.PoolTokens-pages-p.PageSize-1))
}

func (s sglang) openai(w http.ResponseWriter, r *http.Request, chat bool) {
	if s.refused(w) {
		return
	}
	b, p := readBody(r)
	if p != nil {
		p.kind = "Bad Request"
		s.refuse(w, p)
		return
	}
	c, p := s.openaiCall(r, b, chat)
	inStream := s.era.has(sglangHeadWithToken) // what the scheduler refuses is told in the stream, the rest is not
	if p != nil && (c == nil || inStream) {
		s.refuse(w, p)
		return
	}
	st := s.newStream(w, nil)
	sp := &sglangOpenAI{sglang: s, call: c, st: st, w: w, created: time.Now().Unix()}
	if p == nil {
		p = s.late(len(c.prompt))
	}
	if p != nil {
		if c.stream {
			sp.fail(p)
			st.flush()
			return
		}
		s.refuse(w, p)
		return
	}
	if s.config.Faults.RoleChunkEarly && chat && c.stream {
		sp.role()
	}
	if c.stream && !s.era.has(sglangHeadWithToken) {
		st.open()
	}
	s.run(r, c, sp, st)
}

func (s sglang) openaiCall(r *http.Request, b *body, chat bool) (*call, *problem) {
	if p := s.rejectField(b); p != nil {
		return nil, p
	}
	if chat && b.ReturnMeta && b.Stream && s.era.has(sglangMetaInfo) {
		return nil, badRequest("return_meta_info is not supported with streaming.")
	}
	read, asked := s.promptIDs, 16
	if chat {
		read = s.chatIDs
	}
	ids, p := read(b)
	if p != nil {
		return nil, p
	}
	c := s.newCall(r, b, ids, chat)
	if chat {
		asked = s.config.Profile.ContextLimit - len(c.prompt)
		if b.MaxCompletionTokens != nil && *b.MaxCompletionTokens > 0 {
			b.MaxTokens = b.MaxCompletionTokens
		}
	}
	if b.MaxTokens != nil && (*b.MaxTokens != 0 || !chat) {
		asked = *b.MaxTokens
	}
	if asked <= 0 {
		bad := badRequest("max_tokens must be positive")
		bad.kind = "Bad Request"
		return nil, bad
	}
	c.id = b.RID
	if s.era.has(sglangSalts) {
		c.salt = b.CacheSalt + b.ExtraKey
	}
	c.steady = c.steady && s.era.has(sglangContinuous)
	if p := s.early(len(c.prompt), asked); p != nil {
		return c, p
	}
	s.budget(c, s.fit(len(c.prompt), asked), b.IgnoreEOS)
	return c, nil
}

// sglangOpenAI answers the OpenAI endpoints.
type sglangOpenAI struct {
	sglang
	*call
	quiet
	st      *stream
	w       http.ResponseWriter
	created int64
	hasRole bool
}

func (a *sglangOpenAI) envelope(choices ...any) object {
	return a.openAIChunk(a.created, a.body.Model, choices)
}

func (a *sglangOpenAI) role() {
	a.hasRole = true
	content := any("")
	if !a.era.has(sglangUsageApart) {
		content = nil
	}
	a.delta(object{"role": "assistant", "content": content, "reasoning_content": nil}, nil, nil)
}

func (a *sglangOpenAI) delta(delta object, finish any, all []int32) {
	e := a.envelope(object{
		"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish, "matched_stop": a.matched(finish),
	})
	if a.steady && all != nil {
		e["usage"] = a.usageOf(len(all), false)
	}
	if a.usageWith(finish) {
		e["usage"] = a.usageOf(len(a.output), false)
	}
	a.st.event(e)
}

// usageWith tells whether usage comes with the last choice instead of after it.
func (a *sglangOpenAI) usageWith(finish any) bool {
	return finish != nil && a.usage && !a.era.has(sglangUsageApart)
}

func (a *sglangOpenAI) matched(finish any) any {
	if finish == "stop" {
		return a.config.Profile.Vocab - 1
	}
	return nil
}

func (a *sglangOpenAI) chunk(tokens, all []int32) { a.write(tokens, all, nil) }

func (a *sglangOpenAI) write(tokens, all []int32, finish any) {
	text := a.tok.decode(tokens)
	if a.chat {
		if !a.hasRole {
			a.role()
		}
		if text != "" {
			a.delta(object{"content": text, "reasoning_content": nil}, nil, all)
		}
		return
	}
	e := a.envelope(object{
		"index": 0, "text": text, "logprobs": nil, "finish_reason": finish, "matched_stop": a.matched(finish),
	})
	e["usage"] = nil
	if a.steady || a.usageWith(finish) {
		e["usage"] = a.usageOf(len(all), false)
	}
	a.st.event(e)
}

func (a *sglangOpenAI) end(tokens, all []int32) {
	a.write(tokens, all, a.finish)
	if a.chat {
		a.delta(object{"reasoning_content": nil}, a.finish, nil)
	}
	if ext := a.extension(); ext != nil {
		e := a.envelope()
		e["sglext"] = ext
		a.st.event(e)
	}
	a.tail(len(all))
}

func (a *sglangOpenAI) tail(completion int) {
	if a.usage && a.era.has(sglangUsageApart) {
		e := a.envelope()
		e["usage"] = a.usageOf(completion, true)
		a.st.event(e)
	}
	a.st.raw("data: [DONE]\n\n")
}

func (a *sglangOpenAI) fail(p *problem) {
	a.st.event(object{"error": object{
		"object": "error", "message": p.message, "type": statusName(p.status), "param": nil, "code": p.status,
	}})
	a.tail(0)
}

// statusName is Python's name of an HTTP status.
func statusName(status int) string {
	return strings.ToUpper(strings.ReplaceAll(http.StatusText(status), " ", "_"))
}

// usageOf is the usage object; the last chunk of a stream leaves out what is null.
func (a *sglangOpenAI) usageOf(completion int, bare bool) object {
	u := object{
		"prompt_tokens": len(a.prompt), "completion_tokens": completion,
		"total_tokens": len(a.prompt) + completion, "reasoning_tokens": 0,
	}
	cached, told := a.config.Faults.toldCached(a.cached)
	switch {
	case told && a.config.Options.CacheReport && (cached > 0 || !a.era.has(sglangUsageApart)):
		u["prompt_tokens_details"] = object{"cached_tokens": cached}
	case !bare:
		u["prompt_tokens_details"] = nil
	}
	return u
}

func (a *sglangOpenAI) extension() object {
	if !a.body.ReturnSpec || !a.config.Options.SpecMetrics || !a.era.has(sglangExtension) || a.verifyPasses() == 0 ||
		a.config.Profile.Algorithm == "" {
		return nil
	}
	d := a.specFields(a.job)
	delete(d, "spec_accepted_drafts")
	delete(d, "spec_proposed_drafts")
	delete(d, "spec_accept_histogram")
	d["spec_cap_length"], d["spec_block_accept_length"], d["spec_cap_lens_histogram"] = 0.0, 0.0, []int{}
	return object{"spec_tokens_details": d}
}

func (a *sglangOpenAI) whole(all []int32) {
	text := a.tok.decode(all)
	choice := object{"index": 0, "logprobs": nil, "finish_reason": a.finish, "matched_stop": a.matched(a.finish)}
	e := a.envelope(choice)
	if a.chat {
		e["object"] = "chat.completion"
		choice["message"] = object{"role": "assistant", "content": text, "reasoning_content": nil, "tool_calls": nil}
		if a.body.ReturnMeta && a.era.has(sglangMetaInfo) {
			choice["meta_info"] = a.metaInfo(a.job, len(all), true)
		}
	} else {
		choice["text"] = text
	}
	e["metadata"] = object{"weight_version": "default"}
	if ext := a.extension(); ext != nil {
		e["sglext"] = ext
	}
	e["usage"] = a.usageOf(len(all), false)
	if a.config.Faults.NoUsage {
		delete(e, "usage")
	}
	writeJSON(a.w, http.StatusOK, e)
}
