package simserver

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Faults are the ways in which a server, or what stands before it, can be dirty. The zero value is clean. A probability is
// from 0 to 1 and drawn for each request, or for each step where it says so.
type Faults struct {
	HideCached    bool    // the answer never tells cached tokens
	ZeroCached    bool    // the answer says that nothing was cached, whatever was
	NoPrefixCache bool    // nothing is ever cached
	CacheHitCold  float64 // probability that a cold prompt is found in part, as if by a layer that ignores first tokens
	PartialEvict  float64 // probability that only a part of a cached prefix is left

	BufferProxy     bool    // the whole answer comes in one burst
	BufferBytes     int     // a proxy hands on only so many bytes at a time; 16384 is usual
	MergeChunks     float64 // probability, for each step, that its tokens come with those of the next
	RoleChunkEarly  bool    // chat streams open with their role chunk before prefill
	ErrorMidStream  float64 // probability that a stream ends in an error event
	ResetMidStream  float64 // probability that the connection is reset within a stream
	NoUsage         bool    // usage is never told
	StaleGauges     bool    // running and queued are refreshed only by prefill, every 40th step and after 30 s of rest
	EarlyStop       float64 // probability that ignore_eos is ignored and the answer ends too early with stop
	TruncatePrompt  int     // prompts above so many tokens are silently cut to half; usage tells
	ClampMaxTokens  int     // the largest max_tokens that is honoured
	OvershootBudget bool    // the last step's block is returned whole
	Degenerate      bool    // the text is a loop and each step commits a whole block

	SeenEnds       int     // of longer prompts only so many tokens at either end are read; nothing tells
	Window         int     // attention reaches back so many tokens only
	FlipFirstToken float64 // probability that an answer begins with another token than the prompt asks for

	HangOnMaxTokens1 bool // requests for one token are never answered
	WarmupSlow       int  // so many requests after the start take three times as long

	RejectField string        // a request that holds this field gets 400
	Status      int           // requests are answered with this status
	StatusBody  string        // and this body
	StatusEvery int           // every so many requests only; 0 and 1 are all
	Loading     time.Duration // wall clock after the start in which the model loads: 503

	Script Script // replayed for the next requests of its paths, before anything else
}

func (f Faults) validate() error {
	for name, p := range map[string]float64{
		"CacheHitCold": f.CacheHitCold, "PartialEvict": f.PartialEvict, "MergeChunks": f.MergeChunks,
		"ErrorMidStream": f.ErrorMidStream, "ResetMidStream": f.ResetMidStream, "EarlyStop": f.EarlyStop, "FlipFirstToken": f.FlipFirstToken,
	} {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("fault %s must be a probability from 0 to 1, not %v", name, p)
		}
	}
	if f.Status != 0 && (f.Status < 200 || f.Status > 599) {
		return fmt.Errorf("fault Status must be an HTTP status, not %d", f.Status)
	}
	return nil
}

// distort changes how much of a prompt need not be computed.
func (f Faults) distort(rng *rand.Rand, matched, prompt int) int {
	if f.CacheHitCold > 0 && matched < prompt/10 && rng.Float64() < f.CacheHitCold {
		return max(matched, int(float64(prompt)*(0.3+0.6*rng.Float64())))
	}
	if f.PartialEvict > 0 && matched > prompt/2 && rng.Float64() < f.PartialEvict {
		return int(float64(matched) * (0.2 + 0.7*rng.Float64()))
	}
	return matched
}

// toldCached is what the answer says of cached tokens, and whether it says anything.
func (f Faults) toldCached(cached int) (int, bool) {
	if f.ZeroCached {
		cached = 0
	}
	return cached, !f.HideCached
}
