package prober

import (
	"context"
	"math"
	"time"
)

// Load is one reading of a server's own view of its load, summed over data-parallel ranks. Pointers are nil where the
// server does not tell.
type Load struct {
	At      time.Time
	Running *int // requests in the batch
	Queued  *int // requests that wait

	// Live says that GeneratedTokens moves with every forward pass, not only when a request finishes.
	Live bool

	// Digits is the number of significant digits that the server prints counters with, 0 for all of them: a larger counter
	// cannot prove single tokens.
	Digits int

	// Counters since the server's start. They move when a request finishes, or with every forward pass.
	PromptTokens     *float64 // prompt tokens, cached ones included
	ComputedTokens   *float64 // prompt tokens that were prefilled, cached ones left out
	GeneratedTokens  *float64 // output tokens of the API: completion_tokens
	ForwardTokens    *float64 // tokens committed by decode passes: steps plus correct drafts, the prefill token left out
	Steps            *float64 // verify passes of speculation
	CorrectDrafts    *float64 // accepted draft tokens
	FinishedRequests *float64
	AbortedRequests  *float64

	// The KV pool of one replica, in tokens: of several, that of the one with the least, for a prompt has to fit into a single
	// one, and which it will be is not known.
	PoolTokens *float64 // capacity
	PoolFree   *float64 // what a prompt could get now: free, or taken only by cached prefixes that nobody uses
	PoolUnused *float64 // what a prompt could get without pushing a cached prefix out
}

// blur is by how much a counter's printed value may differ from the true one.
func (l Load) blur(counter float64) float64 {
	if l.Digits == 0 || counter < math.Pow10(l.Digits) {
		return 0
	}
	return math.Pow10(int(math.Log10(counter))+1-l.Digits) / 2
}

// exact says whether the server tells a counter to the last token.
func (l Load) exact(counter *float64) bool { return counter != nil && l.blur(*counter) == 0 }

// forwardCounter is the counter of output tokens that moves with every forward pass, if there is one.
func (l Load) forwardCounter() (tokens float64, ok bool) {
	switch {
	case l.ForwardTokens != nil:
		return *l.ForwardTokens, true
	case l.Live && l.GeneratedTokens != nil:
		return *l.GeneratedTokens, true
	}
	return 0, false
}

// LoadReader reads the load of one server. It is safe for use by one goroutine at a time.
type LoadReader interface {
	ReadLoad(ctx context.Context) (Load, error)
}
