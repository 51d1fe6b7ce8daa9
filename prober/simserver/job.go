package simserver

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// errClosed ends requests that run when the server is closed.
var errClosed = errors.New("the server is closed")

// job is one request inside the engine. What it asks for is set before it is submitted; the rest belongs to the engine
// and may be read without its lock once the final event is out.
type job struct {
	id         string
	home       *engine // that it was submitted to
	endpoint   string
	prompt     []int32
	salt       string
	maxTokens  int
	stopAt     int  // completion tokens after which the model stops by itself; 0 never
	noCache    bool // neither reads nor feeds the prefix cache
	unlogged   bool // left out of the counters of finished requests
	background bool
	streamed   bool
	asked      int // prompt tokens as they were sent, before any cut

	rng      *rand.Rand
	reply    []int32 // what the answer begins with, nil as the seed has it
	textSeed uint64  // decides the continuation: the same for the same prompt

	received, scheduled, firstToken, finished time.Time

	matched       int     // tokens found in the cache
	cached        int     // of those, tokens that were not computed again
	computed      int     // prompt tokens done, cached ones included
	prefillFactor float64 // this request's luck with prefill
	residual      float64 // seconds
	stepFactor    float64 // slow mode
	warmup        float64
	node          *node
	reserved      int

	prefilled bool
	output    []int32
	steps     []float64 // seconds, wall clock
	accepted  []int
	outputAt  []time.Time // when tokens came, of the background only
	evicted   losses      // what had to make room
	finish    string      // "length", "stop", "abort"; "" while it runs

	events    []event
	notify    chan struct{}
	over      chan struct{} // closed at the end where it is not nil
	cancelled bool
}

// event is what one forward pass yields for a request: tokens, or progress of its prefill.
type event struct {
	tokens   []int32
	final    bool
	progress int // prompt tokens done; the first such event tells that the request was scheduled
}

// length is the context length before the next step.
func (j *job) length() int { return len(j.prompt) + len(j.output) }

func (j *job) verifyPasses() int { return len(j.accepted) }

// correctDrafts counts accepted draft tokens, bonus tokens left out, not truncated at the end.
func (j *job) correctDrafts() int {
	n := 0
	for _, a := range j.accepted {
		n += a - 1
	}
	return n
}

// histogram counts at i the steps that accepted exactly i drafts, as long as the longest that was seen.
func (j *job) histogram() []int {
	var h []int
	for _, a := range j.accepted {
		for len(h) < a {
			h = append(h, 0)
		}
		h[a-1]++
	}
	return h
}

// wait gives the events since the last call, at least one, or none after a tick.
func (e *engine) wait(ctx context.Context, j *job, tick <-chan time.Time) ([]event, error) {
	for {
		e.mu.Lock()
		events := j.events
		j.events = nil
		e.mu.Unlock()
		if len(events) > 0 {
			return events, nil
		}
		select {
		case <-j.notify:
		case <-tick:
			return nil, nil
		case <-ctx.Done():
			e.abort(j)
			return nil, ctx.Err()
		case <-e.done:
			return nil, errClosed
		}
	}
}

// emit hands an event to whoever waits for the job. The engine's lock is held.
func (j *job) emit(ev event) {
	if j.background {
		if ev.final && j.over != nil {
			close(j.over)
		}
		return
	}
	j.events = append(j.events, ev)
	select {
	case j.notify <- struct{}{}:
	default:
	}
}

func (j *job) noteOutput(at time.Time) {
	if j.background {
		j.outputAt = append(j.outputAt, at)
	}
}
