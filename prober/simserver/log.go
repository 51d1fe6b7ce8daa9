package simserver

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// journal is what one kind of server logs. All but access are called with the engine's lock held.
type journal interface {
	// started comes once, before all others.
	started(e *engine, at time.Time)
	received(e *engine, j *job)
	// scheduled and prefilled frame the forward pass of a prefill chunk.
	scheduled(e *engine, c chunk)
	prefilled(e *engine, c chunk)
	// decoded comes after each decode pass.
	decoded(e *engine, batch []*job)
	// ended comes once for each request, finished or aborted.
	ended(e *engine, j *job)
	// every comes each ten seconds of the server's time.
	every(e *engine, at time.Time)
	// access tells of an HTTP request that was answered.
	access(r *http.Request, status int, began, ended time.Time)
}

// chunk is one forward pass of prefill, as it stood when it was scheduled.
type chunk struct {
	job     *job
	tokens  int
	cached  int // tokens that the cache saved, told with the first chunk only
	running int // requests that decode
	queued  int
	pending int // uncached tokens that are still to be computed after this chunk, those of the queue included
	held    int // tokens in the pool
	done    time.Time
}

// noJournal is a server that logs nothing; others embed it for what they do not log.
type noJournal struct{}

func (noJournal) started(*engine, time.Time)                      {}
func (noJournal) received(*engine, *job)                          {}
func (noJournal) scheduled(*engine, chunk)                        {}
func (noJournal) prefilled(*engine, chunk)                        {}
func (noJournal) decoded(*engine, []*job)                         {}
func (noJournal) ended(*engine, *job)                             {}
func (noJournal) every(*engine, time.Time)                        {}
func (noJournal) access(*http.Request, int, time.Time, time.Time) {}

// newJournal gives the log of the configured server; one without a Log writes nothing.
func newJournal(s *instance) journal {
	c := s.config
	if c.Log == nil {
		return noJournal{}
	}
	out := s.lines
	switch c.Shape {
	case shapeSGLang:
		return &sglangLog{server: sglang{s}, out: out}
	case shapeVLLM:
		return &vllmLog{server: vllm{s}, out: out}
	case shapeLlama:
		return &llamaLog{server: llama{s}, out: out}
	case shapeLMDeploy:
		return &lmdeployLog{out: out}
	case shapeOllama:
		return &ollamaLog{out: out}
	}
	return noJournal{}
}

// lineWriter writes lines as they would stand in the file that a server's log ends up in.
type lineWriter struct {
	w     io.Writer
	wrap  string
	shape string

	mu sync.Mutex
}

// line writes one line, or several that belong together. What the writer cannot take is lost, as it is for a server whose
// standard error is closed.
func (l *lineWriter) line(at time.Time, format string, args ...any) {
	data := wrapLine(l.wrap, l.shape, at, fmt.Sprintf(format, args...))
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.w.Write(data)
}

// tick calls the journal each ten seconds of the server's time until the engine is closed.
func (e *engine) tick() {
	defer close(e.ticked)
	ticker := time.NewTicker(max(time.Millisecond, time.Duration(10/e.scale*float64(time.Second))))
	defer ticker.Stop()
	for {
		select {
		case at := <-ticker.C:
			e.mu.Lock()
			e.journal.every(e, at)
			e.mu.Unlock()
		case <-e.done:
			return
		}
	}
}

// chunkFacts are those of a chunk that is about to be computed. The lock is held.
func (e *engine) chunkFacts(j *job, tokens int) chunk {
	c := chunk{job: j, tokens: tokens, queued: len(e.queue), held: e.pool().held}
	if j.computed == j.cached {
		c.cached = j.cached
	}
	for _, other := range e.running {
		if other.prefilled {
			c.running++
		}
		c.pending += len(other.prompt) - other.computed
	}
	c.pending -= tokens
	for _, other := range e.queue {
		c.pending += len(other.prompt)
	}
	return c
}

// watched passes an answer on and remembers its status for the access log.
type watched struct {
	http.ResponseWriter
	status int
}

func (w *watched) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }
