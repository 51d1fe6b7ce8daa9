package prober

import (
	"context"
	"strings"
	"time"

	"github.com/go-kit/log/level"

	"longctx_exporter/prober/inference"
)

// Bounds of the question for the needle.
const (
	leastNeedlePrompt = 512 // tokens; a shorter prompt would be made of the fact for a good part
	answerTokens      = 16
	chatAnswerTokens  = 32 // chat models begin with a sentence, or think aloud
	questionTokens    = 40 // of the question, or a little more
	recallShare       = 8  // the question may take this part of what the run took until then
	recallSeconds     = 5.0
)

// answerTokens is the length of the answer to the question for the needle.
func (e *execution) answerTokens() int {
	if e.facts.API == inference.Chat {
		return chatAnswerTokens
	}
	return answerTokens
}

// recallRoom is what the question for the needle and its answer need beside the prompt; 0 where none is planted.
func (e *execution) recallRoom() int {
	if !e.target.Needle {
		return 0
	}
	return questionTokens + e.answerTokens()
}

// plantNeedle chooses the fact for the prompts of this run. Where it cannot be made of token ids there is none.
func (e *execution) plantNeedle(ctx context.Context) {
	if e.needle != nil || !e.target.Needle || e.length < leastNeedlePrompt {
		return
	}
	n, err := e.prompts.thread(ctx, e.client)
	if err != nil {
		level.Debug(e.logger).Log("msg", "no fact is planted in the prompt", "target", e.target.Name, "err", err)
		return
	}
	e.needle = n
}

// askForNeedle sends the question behind the cached prompt. It comes after the verdict, so that nothing of it can reach the
// measurement, and whatever becomes of it the run stays accepted.
func (e *execution) askForNeedle(ctx context.Context, c coldPrefill) {
	if e.needle == nil || !e.mayAsk() {
		return
	}
	leg, err := e.send(ctx, recall, 1, e.prompts.ask(c.built, e.needle), e.answerTokens(), 0)
	if err != nil {
		level.Debug(e.logger).Log("msg", "the question for the planted fact has no good answer", "target", e.target.Name, "rung", e.rung, "err", err)
	}
	if leg.ErrorClass == "" && strings.TrimSpace(leg.Response.Text) != "" {
		e.run.Needle = &Needle{Found: e.needle.fact.AnsweredBy(leg.Response.Text), Leg: leg}
	}
	e.awaitCounted(ctx, leg)
}

// mayAsk says whether the question is cheap beside the run, which is not late, and fits the server's limits.
func (e *execution) mayAsk() bool {
	spent := time.Since(e.run.Started) - e.waited
	if interval := e.target.Intervals.At(e.rung); interval > 0 && spent > interval {
		return false
	}
	answer := e.answerTokens()
	if e.learnt.step*float64(answer)/max(1, e.learnt.tau) > max(recallSeconds, spent.Seconds()/recallShare) {
		return false
	}
	longest := e.length + questionTokens
	fits := func(limit, tokens int) bool { return limit == 0 || tokens <= limit }
	whole := longest + answer + e.facts.BlockSize
	return fits(e.facts.MaxPrompt, longest) && fits(e.facts.ContextLimit, whole) && fits(e.facts.KVPoolTokens, whole)
}

// awaitCounted waits until the server's counters show the question, so that the next run does not take it for somebody else's.
func (e *execution) awaitCounted(ctx context.Context, asked Leg) {
	if e.after == nil {
		return
	}
	began, pause := time.Now(), pollFirst
	for ; time.Since(began) < latePatience; pause = min(2*pause, pollMost) {
		load, err := e.load.ReadLoad(ctx)
		if err != nil || caughtUp(*e.after, load, known(asked.Response.CompletionTokens)) || sleep(ctx, pause) != nil {
			break
		}
	}
	e.waited += time.Since(began)
}

// caughtUp says whether every counter that moves with a finished request has moved by one of so many output tokens.
func caughtUp(before, after Load, tokens int) bool {
	for _, c := range []struct {
		before, after *float64
		least         float64
	}{
		{before.FinishedRequests, after.FinishedRequests, 1},
		{before.GeneratedTokens, after.GeneratedTokens, float64(tokens)},
		{before.PromptTokens, after.PromptTokens, 1},
	} {
		if c.before != nil && c.after != nil && *c.after-*c.before < c.least-before.blur(*c.before)-after.blur(*c.after) {
			return false
		}
	}
	return true
}

// compareFirstTokens holds the answers to the cached prompt against the answer to the same prompt when it was computed.
func (e *execution) compareFirstTokens(c coldPrefill, pairs []pairLegs) {
	for _, p := range pairs {
		for _, l := range []Leg{p.short, p.long} {
			if alike, known := sameBeginning(c.last.Response.Text, l.Response.Text); known {
				e.run.FirstTokens.Compared++
				if !alike {
					e.run.FirstTokens.Different++
				}
			}
		}
	}
}

// sameBeginning says whether the shorter of two texts begins the longer one; known is false where one of them is empty. The end
// of a text may be half a character.
func sameBeginning(a, b string) (alike, known bool) {
	a, b = strings.TrimRight(a, "\uFFFD"), strings.TrimRight(b, "\uFFFD")
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a), a != "" && b != ""
}
