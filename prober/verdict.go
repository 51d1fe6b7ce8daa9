package prober

import (
	"context"
	"errors"
	"fmt"
	"math"

	"longctx_exporter/prober/inference"
)

// verdict ends a run that is not accepted. It travels as an error from wherever the fault was seen.
type verdict struct {
	status  Status
	reason  Reason
	message string
}

func (v *verdict) Error() string { return fmt.Sprintf("%s (%s): %s", v.status, v.reason, v.message) }

func reject(r Reason, format string, args ...any) error {
	return &verdict{Rejected, r, fmt.Sprintf(format, args...)}
}

func skip(r Reason, format string, args ...any) error {
	return &verdict{Skipped, r, fmt.Sprintf(format, args...)}
}

func fail(c inference.Class, format string, args ...any) error {
	return &verdict{Failed, Reason(c), fmt.Sprintf(format, args...)}
}

// verdictOf turns whatever ended a run into a verdict: a run that was cancelled from outside is interrupted, whatever
// the error on the wire looked like.
func verdictOf(ctx context.Context, err error) *verdict {
	var v *verdict
	if errors.As(err, &v) {
		return v
	}
	if ctx.Err() != nil {
		return &verdict{Rejected, Interrupted, "the run was ended from outside"}
	}
	var wire *inference.Error
	if errors.As(err, &wire) {
		return &verdict{Failed, Reason(wire.Class), wire.Message}
	}
	return &verdict{Failed, Reason(inference.Protocol), err.Error()}
}

// reasonOf is the reason of a verdict, "" of any other error and of none.
func reasonOf(err error) Reason {
	var v *verdict
	if errors.As(err, &v) {
		return v.reason
	}
	return ""
}

// mismatch is the largest accepted relative difference between the prompt tokens sent and those counted, and truncation the
// share below which a prompt counts as cut.
const (
	mismatch = 0.005
	// BOS, end of turn and the like are no fault at short rungs, where they exceed the share.
	mismatchTokens = 8
	truncation     = 0.9
	templates      = 0.02 // largest share of a cold prompt that may come from the cache: BOS, chat template
)

// checkLeg says whether the server answered what it was asked.
func checkLeg(leg Leg, b built) error {
	counted := leg.Response.PromptTokens
	if counted == nil || leg.Response.CompletionTokens == nil {
		return reject(NoUsage, "the answer carries no token counts (usage); nothing can be divided by them")
	}
	wanted := float64(b.tokens)
	switch n := float64(*counted); {
	case n < truncation*wanted:
		return fail(inference.Truncated, "the server counted %d prompt tokens of %d that were sent: the prompt was cut", *counted, b.tokens)
	case math.Abs(n-wanted) > max(mismatch*wanted, mismatchTokens):
		return reject(PromptMismatch, "the server counted %d prompt tokens where %d were sent", *counted, b.tokens)
	}
	if *leg.Response.CompletionTokens < 1 {
		return reject(ShortOutput, "the server generated no token")
	}
	return nil
}

// checkCold says whether a leg that must be computed was: a share of the prompt beyond BOS and chat template from the cache
// makes it worthless.
func checkCold(leg Leg) error {
	if cached := known(leg.Response.CachedTokens); float64(cached) > templates*float64(known(leg.Response.PromptTokens)) {
		return reject(CacheHit, "%d of %d tokens of a prompt that was never sent before came from a cache",
			cached, *leg.Response.PromptTokens)
	}
	return nil
}

// known is the value of an optional count, 0 where it is not known.
func known(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}
