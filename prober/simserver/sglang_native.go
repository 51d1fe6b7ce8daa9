package simserver

import (
	"maps"
	"net/http"
	"time"
)

// generate is SGLang's native endpoint: the head of a stream goes out at once and each object repeats all before it.
func (s sglang) generate(w http.ResponseWriter, r *http.Request) {
	if s.refused(w) {
		return
	}
	b, p := readBody(r)
	if p != nil {
		s.refuseNative(w, p, false)
		return
	}
	ids, p := s.promptIDs(b)
	if p == nil {
		p = s.rejectField(b)
	}
	asked := 128
	if b.Sampling.MaxNewTokens != nil {
		asked = *b.Sampling.MaxNewTokens
	}
	if p == nil && asked < 0 {
		p = badRequest("max_new_tokens must be at least 0, got %d.", asked)
	}
	if p != nil {
		s.refuseNative(w, p, b.Stream)
		return
	}
	c := s.newCall(r, b, ids, false)
	c.id = b.RID
	if s.era.has(sglangSalts) {
		c.salt = b.ExtraKey
	}
	c.unlogged = b.LogMetrics != nil && !*b.LogMetrics
	if p := s.early(len(c.prompt), asked); p != nil {
		s.refuseNative(w, p, b.Stream)
		return
	}
	st := s.newStream(w, nil)
	sp := &sglangNative{sglang: s, call: c, st: st, w: w}
	if p := s.late(len(c.prompt)); p != nil {
		sp.refuse(p)
		return
	}
	s.budget(c, s.fit(len(c.prompt), asked), b.Sampling.IgnoreEOS)
	if c.stream {
		st.open()
	}
	s.run(r, c, sp, st)
}

func (s sglang) refuseNative(w http.ResponseWriter, p *problem, stream bool) {
	told := object{"error": object{
		"message": p.message, "type": "invalid_request_error", "code": p.status, "retryable": false,
	}}
	if !stream {
		writeJSON(w, p.status, told)
		return
	}
	st := s.newStream(w, nil)
	st.event(told)
	st.raw("data: [DONE]\n\n")
	st.flush()
}

// sglangNative answers /generate.
type sglangNative struct {
	sglang
	*call
	quiet
	st   *stream
	w    http.ResponseWriter
	text string // so far
}

func (a *sglangNative) chunk(tokens, all []int32) { a.st.event(a.answer(tokens, all, false)) }

func (a *sglangNative) end(tokens, all []int32) {
	a.st.event(a.answer(tokens, all, true))
	a.st.raw("data: [DONE]\n\n")
}

func (a *sglangNative) fail(p *problem) {
	a.st.event(object{"error": object{
		"message": p.message, "type": "internal_server_error", "code": p.status, "retryable": true,
	}})
	a.st.raw("data: [DONE]\n\n")
}

func (a *sglangNative) whole(all []int32) { writeJSON(a.w, http.StatusOK, a.answer(all, all, true)) }

// refuse is how the scheduler's refusal shows: an answer that was aborted.
func (a *sglangNative) refuse(p *problem) {
	if !a.stream {
		a.refuseNative(a.w, p, false)
		return
	}
	a.st.event(object{"text": "", "output_ids": []int32{}, "meta_info": object{
		"id": a.id, "prompt_tokens": len(a.prompt), "completion_tokens": 0, "cached_tokens": 0,
		"finish_reason": object{
			"type": "abort", "message": p.message, "status_code": p.status, "err_type": "BadRequestError",
		},
	}})
	a.st.raw("data: [DONE]\n\n")
	a.st.flush()
}

func (a *sglangNative) answer(tokens, all []int32, final bool) object {
	a.text += a.tok.decode(tokens)
	return object{"text": a.text, "output_ids": all, "meta_info": a.metaInfo(a.job, len(all), final)}
}

// metaInfo is what SGLang tells of a request beside its text.
func (s sglang) metaInfo(j *job, completion int, final bool) object {
	m := object{
		"id": j.id, "finish_reason": nil, "prompt_tokens": len(j.prompt), "completion_tokens": completion,
		"weight_version": "default", "num_retractions": 0, "reasoning_tokens": 0, "cached_tokens_details": nil, "dp_rank": nil,
		"e2e_latency": time.Since(j.received).Seconds(),
	}
	if cached, told := s.config.Faults.toldCached(j.cached); told {
		m["cached_tokens"] = cached
	}
	if s.config.Ranks.DP > 1 {
		m["dp_rank"] = j.home.rank
	}
	s.addTimes(m, j, completion, final)
	if !final {
		return m
	}
	m["finish_reason"] = object{"type": "length", "length": completion}
	if j.finish == "stop" {
		m["finish_reason"] = object{"type": "stop", "matched": s.config.Profile.Vocab - 1}
	}
	if j.finish == "abort" {
		m["finish_reason"] = object{
			"type": "abort", "message": "Aborted by AbortReq.", "status_code": nil, "err_type": nil,
		}
	}
	maps.Copy(m, s.specFields(j))
	return m
}
