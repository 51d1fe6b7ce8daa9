package prober

import (
	"fmt"
	"time"
)

// grading is what two readings say.
type grading struct {
	isolation Isolation
	counted   bool          // what was counted is ours to the last token
	hidden    bool          // the gauge shows one request for which nothing was done in between
	strayed   bool          // our requests do not show: another server may have answered them
	restarted bool          // the server started again in between
	why       string        // of contention, of a restart, or of a contradiction
	patience  time.Duration // how long a later reading may still change the grade
}

// grade compares two readings with what our own legs must have added. It proves that nobody else was served by this: nobody is
// there at the end, and everybody who left would have been counted.
func grade(before, after Load, ours tally) grading {
	if before.Since != nil && after.Since != nil && *before.Since != *after.Since {
		return grading{isolation: NotKnown, restarted: true, why: "it counts from a later start"}
	}
	c := compareCounters(before, after, ours)
	if c.verdict != nil {
		return *c.verdict
	}
	conclusive := c.counted && seesBroken(before, after, ours) && after.Queued != nil
	// All passes are counted, or all requests that were scheduled, and none was but for us.
	unseen := conclusive && (after.passes() && !ours.forwardUnknown || before.idle() && scheduledOurs(before, after, ours))
	others := fmt.Sprintf("it has %d running and %d queued requests after it", known(after.Running), known(after.Queued))
	switch {
	case c.matched < c.visible && sawAll(before, after, ours): // all our requests, but fewer tokens
		return grading{isolation: NotKnown, why: c.short, patience: latePatience}
	case c.matched < c.visible: // late, or our legs went elsewhere
		return grading{isolation: NotKnown, strayed: true, patience: latePatience}
	case after.hidesOne() && unseen:
		return grading{isolation: NotKnown, counted: true, hidden: true, patience: gaugePatience}
	case !after.idle() && c.counted: // somebody who is not done yet, or a gauge that is not fresh
		return grading{isolation: IsContended, why: others, patience: gaugePatience}
	case !after.idle():
		return grading{isolation: IsContended, why: others, patience: latePatience}
	case before.Running == nil || after.Running == nil:
		return grading{isolation: NotKnown, counted: c.counted}
	case conclusive:
		return grading{isolation: Proved, counted: true}
	}
	return grading{isolation: Quiet, counted: c.counted}
}

// counterComparison is what the counters of two readings say.
type counterComparison struct {
	visible, matched int
	short            string   // what did not grow enough
	counted          bool     // tokens are counted exactly, and are exactly ours
	verdict          *grading // set where one counter decides alone
}

func compareCounters(before, after Load, ours tally) (c counterComparison) {
	for _, x := range expectations(before, after, ours) {
		if x.after == nil {
			if x.before != nil && after.Digits == 0 { // another server answered; printed digits may also run out
				c.verdict = &grading{isolation: NotKnown, strayed: true, patience: latePatience}
				return c
			}
			continue
		}
		start := 0.0 // a counter that is not there yet has counted nothing
		if x.before != nil {
			start = *x.before
		}
		grown, blur := *x.after-start, before.blur(start)+after.blur(*x.after)
		switch {
		case grown < -blur:
			why := fmt.Sprintf("its count of %s fell from %.0f to %.0f", x.what, start, *x.after)
			c.verdict = &grading{isolation: NotKnown, restarted: true, why: why, patience: latePatience}
			return c
		case grown > x.most+blur:
			why := fmt.Sprintf("its count of %s grew by %.0f, our requests account for %.0f", x.what, grown, x.most)
			c.verdict = &grading{isolation: IsContended, why: why}
			return c
		case grown >= x.least-blur:
			c.matched++
		default:
			c.short = fmt.Sprintf("its count of %s grew by %.0f, its answers claim %.0f", x.what, grown, x.least)
		}
		c.visible++
	}
	// Whoever else was served had at least one token generated: that count must be exact, the prompts' may be blurred.
	c.counted = c.matched == c.visible && after.exact(after.GeneratedTokens) && !ours.uncounted &&
		(after.PromptTokens != nil || after.ComputedTokens != nil)
	return c
}

// seesBroken says whether somebody who was broken off, even before the first token, would have been counted.
func seesBroken(before, after Load, ours tally) bool {
	return after.SeesBroken || scheduledOurs(before, after, ours)
}

// scheduledOurs says whether the server has scheduled exactly our prompts, as far as it counts that.
func scheduledOurs(before, after Load, ours tally) bool {
	return before.ScheduledTokens != nil && after.exact(after.ScheduledTokens) &&
		*after.ScheduledTokens-*before.ScheduledTokens == float64(ours.prompt)
}

// sawAll says whether the server has counted all our requests as finished.
func sawAll(before, after Load, ours tally) bool {
	return before.FinishedRequests != nil && after.FinishedRequests != nil && ours.requests > 0 && !ours.uncounted &&
		*after.FinishedRequests-*before.FinishedRequests == float64(ours.requests)
}

// expectation is what one counter may have grown by if nobody but us was served.
type expectation struct {
	what          string
	before, after *float64
	least, most   float64
}

// expectations lists the counters that our own legs decide. Where a server does not tell cached tokens, what it computed
// of our prompts is only bounded.
func expectations(before, after Load, ours tally) []expectation {
	all, computed := float64(ours.prompt), float64(ours.prompt-ours.cached)
	leastComputed := computed
	if ours.cached == 0 {
		leastComputed = 0
	}
	if ours.uncounted {
		return []expectation{{"aborted requests", before.AbortedRequests, after.AbortedRequests, 0, 0}}
	}
	return []expectation{
		{"scheduled prompt tokens", before.ScheduledTokens, after.ScheduledTokens, 0, all},
		{"prompt tokens", before.PromptTokens, after.PromptTokens, leastComputed, all}, // some vLLM versions leave cached tokens out
		{"computed prompt tokens", before.ComputedTokens, after.ComputedTokens, leastComputed, all},
		{"generated tokens", before.GeneratedTokens, after.GeneratedTokens, float64(ours.completion), float64(ours.completion)},
		{"finished requests", before.FinishedRequests, after.FinishedRequests, float64(ours.requests), float64(ours.requests)},
		{"aborted requests", before.AbortedRequests, after.AbortedRequests, 0, 0},
		ours.expectForward(before, after),
	}
}

// expectForward is what the decode passes of our own legs committed, where they all tell.
func (t tally) expectForward(before, after Load) expectation {
	if t.forwardUnknown {
		return expectation{}
	}
	return expectation{"decoded tokens", before.ForwardTokens, after.ForwardTokens, float64(t.forward), float64(t.forward)}
}
