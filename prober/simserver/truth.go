package simserver

import (
	"fmt"
	"sync"
	"time"
)

// truthKept is how many requests /truth remembers.
const truthKept = 4096

// TruthRequest is what really happened to one request. All seconds are wall clock: what a client with a watch would see,
// the profile's seconds divided by the time scale.
type TruthRequest struct {
	ID               string    `json:"id"`
	Endpoint         string    `json:"endpoint"`
	Rank             int       `json:"rank"` // the engine that served it
	Background       bool      `json:"background"`
	Received         float64   `json:"received_seconds"` // since the server's start
	PromptTokens     int       `json:"prompt_tokens"`
	CachedTokens     int       `json:"cached_tokens"`
	RecomputedTokens int       `json:"recomputed_tokens"`
	QueueSeconds     float64   `json:"queue_seconds"`
	PrefillSeconds   float64   `json:"prefill_seconds"` // from scheduling to the first token; 0 where there was none
	TTFTSeconds      float64   `json:"ttft_seconds"`    // from reception to the first token; 0 where there was none
	StepSeconds      []float64 `json:"step_seconds"`    // the decode passes that it took part in
	Accepted         []int     `json:"accepted"`        // tokens committed by each of them, not cut at the end
	CompletionTokens int       `json:"completion_tokens"`
	TotalSeconds     float64   `json:"total_seconds"` // from reception to the last token
	FinishReason     string    `json:"finish_reason"`
	Aborted          bool      `json:"aborted"`
	FirstTokenHash   string    `json:"first_token_hash"`
	TimeScale        float64   `json:"time_scale"`
	OutputAt         []float64 `json:"output_at_seconds,omitempty"` // when the tokens of each pass came, since the server's start; of the background only

	// Cached tokens that had to make room for this request, by whose they were.
	EvictedBackground int `json:"evicted_background_tokens"`
	EvictedForeground int `json:"evicted_foreground_tokens"`
}

// history keeps the last requests, through restarts.
type history struct {
	mu      sync.Mutex
	records []TruthRequest
	next    int
}

func (h *history) add(t TruthRequest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.records) < truthKept {
		h.records = append(h.records, t)
		return
	}
	h.records[h.next] = t
	h.next = (h.next + 1) % truthKept
}

// all lists the records, the oldest first.
func (h *history) all() []TruthRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append(append([]TruthRequest{}, h.records[h.next:]...), h.records[:h.next]...)
}

func (e *engine) record(j *job) TruthRequest {
	t := TruthRequest{
		ID: j.id, Endpoint: j.endpoint, Rank: e.rank, Background: j.background,
		Received:     j.received.Sub(e.epoch).Seconds(),
		PromptTokens: len(j.prompt), CachedTokens: j.cached, RecomputedTokens: j.computed - j.cached,
		StepSeconds: append([]float64{}, j.steps...), Accepted: append([]int{}, j.accepted...),
		CompletionTokens: len(j.output), TotalSeconds: j.finished.Sub(j.received).Seconds(),
		FinishReason: j.finish, Aborted: j.finish == "abort", TimeScale: e.scale,
	}
	t.EvictedBackground, t.EvictedForeground = j.evicted.background, j.evicted.foreground
	for _, at := range j.outputAt {
		t.OutputAt = append(t.OutputAt, at.Sub(e.epoch).Seconds())
	}
	waitedUntil := j.scheduled
	if j.scheduled.IsZero() {
		waitedUntil = j.finished
	}
	t.QueueSeconds = secondsBetween(j.received, waitedUntil)
	if !j.firstToken.IsZero() {
		t.PrefillSeconds = secondsBetween(j.scheduled, j.firstToken)
		t.TTFTSeconds = secondsBetween(j.received, j.firstToken)
	}
	if len(j.output) > 0 {
		t.FirstTokenHash = fmt.Sprintf("%016x", splitmix(uint64(j.output[0])))
	}
	return t
}

func secondsBetween(from, to time.Time) float64 { return max(0, to.Sub(from).Seconds()) }
