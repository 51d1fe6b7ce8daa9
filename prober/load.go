package prober

import (
	"context"
	"math"
	"slices"
	"time"
)

// Load is one reading of a server's own view of its load, summed over data-parallel ranks. Pointers are nil where the
// server does not tell.
type Load struct {
	At      time.Time
	Running *int // requests in the batch
	Queued  *int // requests that wait

	// Digits is the number of significant digits that the server prints counters with, 0 for all of them: a larger counter
	// cannot prove single tokens.
	Digits int

	// SeesBroken says that requests which are broken off show somewhere, however far they got: in AbortedRequests, or in
	// ComputedTokens and ForwardTokens, which then move with every forward pass.
	SeesBroken bool

	// Since is the Unix time since when the server counts, which changes when it starts again; nil where it does not tell.
	Since *float64

	// Counters since the server's start. They move when a request finishes, or with every forward pass.
	ScheduledTokens  *float64 // prompt tokens of requests as soon as they are scheduled, cached ones included
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

// counters are all that a reading counts.
func (l Load) counters() []*float64 {
	return []*float64{
		l.ScheduledTokens, l.PromptTokens, l.ComputedTokens, l.GeneratedTokens, l.ForwardTokens, l.Steps, l.CorrectDrafts,
		l.FinishedRequests, l.AbortedRequests,
	}
}

// counts says whether two readings count the same.
func (l Load) counts(other Load) bool {
	return slices.EqualFunc(l.counters(), other.counters(), func(a, b *float64) bool {
		return a == nil && b == nil || a != nil && b != nil && *a == *b
	})
}

// idle says whether a reading shows nobody.
func (l Load) idle() bool { return known(l.Running) == 0 && known(l.Queued) == 0 }

// LoadReader reads the load of one server. It is safe for use by one goroutine at a time.
type LoadReader interface {
	ReadLoad(ctx context.Context) (Load, error)
}
