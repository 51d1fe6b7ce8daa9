package simserver

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// call is one generation request on its way through the server.
type call struct {
	*job
	body   *body
	chat   bool
	stream bool
	usage  bool // streamed usage asked for
	steady bool // usage in every chunk asked for
}

// speaker puts an answer on the wire in one shape. Its methods are called in the order of the file.
type speaker interface {
	// scheduled and progress tell of prefill.
	scheduled()
	progress(done int)
	// ping keeps an idle connection open.
	ping()
	// chunk tells of tokens; all are those so far, these included.
	chunk(tokens, all []int32)
	// end closes a stream.
	end(tokens, all []int32)
	// fail ends a stream in an error event.
	fail(p *problem)
	// whole is an answer that is not streamed.
	whole(all []int32)
}

// newCall makes a call of a body. The limits of the shape are still to be applied.
func (s *instance) newCall(r *http.Request, b *body, ids []int32, chat bool) *call {
	c := &call{body: b, chat: chat, stream: b.Stream, job: &job{endpoint: r.URL.Path, prompt: ids, streamed: b.Stream, asked: len(ids)}}
	if b.StreamOptions != nil {
		c.usage, c.steady = b.StreamOptions.IncludeUsage, b.StreamOptions.ContinuousUsage
	}
	f := s.config.Faults
	if f.NoUsage {
		c.usage, c.steady = false, false
	}
	if f.TruncatePrompt > 0 && len(ids) > f.TruncatePrompt {
		c.prompt = ids[len(ids)-len(ids)/2:]
	}
	return c
}

// budget settles how many tokens the answer may have and where the model would stop by itself.
func (s *instance) budget(c *call, asked int, ignoreEOS bool) {
	c.maxTokens = asked
	c.reply = s.recall(c.prompt)
	if limit := s.config.Faults.ClampMaxTokens; limit > 0 {
		c.maxTokens = min(c.maxTokens, limit)
	}
	rng := rand.New(rand.NewPCG(s.config.Seed, seedOf(c.prompt)+uint64(s.requests.Load())))
	if !ignoreEOS {
		c.stopAt = 50 + int(seedOf(c.prompt)%800)
	}
	if p := s.config.Faults.EarlyStop; p > 0 && c.maxTokens > 2 && rng.Float64() < p {
		c.stopAt = 1 + rng.IntN(c.maxTokens-1)
	}
	if p := s.config.Faults.FlipFirstToken; p > 0 && rng.Float64() < p {
		c.reply = s.tok.encode(" well")
	}
}

// refused answers what is refused before the body is understood: a model that loads, an ill server.
func (s *instance) refused(w http.ResponseWriter) bool {
	n := s.requests.Add(1)
	f := s.config.Faults
	if s.loading() {
		p := &problem{status: http.StatusServiceUnavailable, kind: "unavailable_error", message: "Loading model"}
		s.refuse(w, p)
		return true
	}
	if f.Status != 0 && (f.StatusEvery < 2 || n%int64(f.StatusEvery) == 0) {
		if f.StatusBody == "" {
			s.refuse(w, &problem{status: f.Status, kind: "InternalServerError", message: http.StatusText(f.Status)})
			return true
		}
		contentType := "text/html; charset=utf-8"
		if f.StatusBody[0] == '{' {
			contentType = "application/json"
		}
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(f.Status)
		_, _ = w.Write([]byte(f.StatusBody)) // the client's going away is no concern of ours
		return true
	}
	return false
}

func (s *instance) refuse(w http.ResponseWriter, p *problem) {
	writeJSON(w, p.status, s.proto.problem(p))
}

// rejectField answers a body that holds a field that this server does not know and does not suffer.
func (s *instance) rejectField(b *body) *problem {
	field := s.config.Faults.RejectField
	if field == "" || !b.holds(field) {
		return nil
	}
	return badRequest("[{'type': 'extra_forbidden', 'loc': ('body', '%s'), 'msg': 'Extra inputs are not permitted'}]", field)
}

// run submits a call and speaks its answer.
func (s *instance) run(r *http.Request, c *call, sp speaker, st *stream) {
	if s.config.Faults.HangOnMaxTokens1 && c.maxTokens == 1 {
		select {
		case <-r.Context().Done():
		case <-s.engine.done:
		}
		return
	}
	s.route(r, c.body).submit(c.job)
	if !c.stream {
		s.runWhole(r, c, sp)
		return
	}
	d := s.disturbance(c)
	var tick <-chan time.Time
	if s.config.Shape == shapeLlama {
		pings := time.NewTicker(30 * time.Second)
		defer pings.Stop()
		tick = pings.C
	}
	var all, held []int32
	for scheduled := false; ; {
		events, err := c.home.wait(r.Context(), c.job, tick)
		if err != nil {
			cutOff(err)
			return
		}
		if len(events) == 0 {
			sp.ping()
		}
		for _, ev := range events {
			if len(ev.tokens) == 0 && !ev.final {
				if !scheduled {
					sp.scheduled()
				}
				scheduled = true
				sp.progress(ev.progress)
				continue
			}
			all = append(all, ev.tokens...)
			held = append(held, ev.tokens...)
			if d.breaks(c, sp, st, len(all)) {
				return
			}
			if ev.final {
				sp.end(held, all)
				st.flush()
				return
			}
			if len(all) > 1 && (d.merges() || !s.due(len(all))) {
				continue
			}
			sp.chunk(held, slices.Clip(all))
			held = nil
		}
	}
}

// due tells whether SGLang's stream interval lets a chunk out.
func (s *instance) due(tokens int) bool {
	every := s.config.Options.StreamInterval
	return s.config.Shape != shapeSGLang || every < 2 || tokens%every == 1
}

func (s *instance) runWhole(r *http.Request, c *call, sp speaker) {
	for {
		events, err := c.home.wait(r.Context(), c.job, nil)
		if err != nil {
			cutOff(err)
			return
		}
		if events[len(events)-1].final {
			sp.whole(c.output)
			return
		}
	}
}

// cutOff breaks the connection of a request that a closing server leaves behind, as a crash would.
func cutOff(err error) {
	if errors.Is(err, errClosed) {
		panic(http.ErrAbortHandler) // net/http's way of breaking off an answer
	}
}

// disturbance is what goes wrong within one stream.
type disturbance struct {
	rng     *rand.Rand
	merge   float64
	errorAt int // tokens after which an error event ends the stream; 0 never
	resetAt int // tokens after which the connection breaks; 0 never
}

func (s *instance) disturbance(c *call) disturbance {
	f := s.config.Faults
	d := disturbance{merge: f.MergeChunks, rng: rand.New(rand.NewPCG(s.config.Seed, uint64(s.requests.Load())))}
	if f.ErrorMidStream > 0 && d.rng.Float64() < f.ErrorMidStream {
		d.errorAt = 1 + d.rng.IntN(max(1, c.maxTokens))
	}
	if f.ResetMidStream > 0 && d.rng.Float64() < f.ResetMidStream {
		d.resetAt = 1 + d.rng.IntN(max(1, c.maxTokens))
	}
	return d
}

func (d *disturbance) merges() bool { return d.merge > 0 && d.rng.Float64() < d.merge }

func (d *disturbance) breaks(c *call, sp speaker, st *stream, tokens int) bool {
	switch {
	case d.errorAt > 0 && tokens >= d.errorAt:
		c.home.abort(c.job)
		sp.fail(&problem{
			status: http.StatusInternalServerError, kind: "InternalServerError",
			message: "EngineCore encountered an issue. See stack trace (above) for the root cause.",
		})
		st.flush()
		return true
	case d.resetAt > 0 && tokens >= d.resetAt:
		c.home.abort(c.job)
		st.reset()
		return true
	}
	return false
}

// unix is a time in seconds since 1970.
func unix(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// openAIChunk is the envelope that every OpenAI-compatible server sends.
func (c *call) openAIChunk(created int64, model string, choices []any) object {
	kind := "text_completion"
	if c.chat {
		kind = "chat.completion.chunk"
	}
	if choices == nil {
		choices = []any{}
	}
	return object{"id": c.id, "object": kind, "created": created, "model": model, "choices": choices}
}

// quiet is the part of a speaker that says nothing before the first token.
type quiet struct{}

func (quiet) scheduled()   {}
func (quiet) progress(int) {}
func (quiet) ping()        {}
