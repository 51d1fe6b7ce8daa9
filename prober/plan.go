package prober

import (
	"context"
	"errors"
	"math"
	"time"

	"longctx_exporter/prober/estimate"
	"longctx_exporter/prober/inference"
)

// Bounds of M and of repetition.
const (
	firstDecodeTokens = 64  // M of a rung that was never measured
	leastDecodeTokens = 32  // M that auto chooses at least
	mostDecodeTokens  = 512 // and at most
	enoughTokens      = 8   // decoded tokens that suffice where an answer is shorter than asked
	mostPairs         = 6
	leastPairSeconds  = 10.0 // pairs may always take this long, however short the cold leg
	preRollTokens     = 1024
	preRollOutput     = 16
	unequal           = 0.001            // of the prompt, in cached tokens: prefills that are further apart are not alike
	idleBefore        = 10 * time.Second // a server that idled this long gets a pre-roll
)

// pairLegs are the two requests whose difference is decode alone.
type pairLegs struct{ short, long Leg }

// measure carries out the run: what it learns goes into e.run, why it is not a measurement into the error.
func (e *execution) measure(ctx context.Context) error {
	if err := e.prepare(ctx); err != nil {
		return err
	}
	m, err := e.fitted(e.decodeTokens(e.memory.rungs[e.rung]))
	if err != nil {
		return err
	}
	if err := e.waitUntilIdle(ctx); err != nil {
		return err
	}
	if e.isAnother(ctx) {
		e.identified = time.Time{}
		return e.measure(ctx) // once: it identifies the server then
	}
	if err := e.checkPool(m); err != nil {
		return err
	}
	e.noticeRestart()
	if err := e.settle(ctx); err != nil {
		return err
	}
	err = e.warmUp(ctx)
	if e.adapts(ctx, err) {
		err = e.warmUp(ctx)
	}
	if err != nil {
		return err
	}
	if sent, ok := e.again(); ok {
		return e.warmPlan(ctx, sent, m)
	}
	if e.plan() == Pair {
		return e.pairPlan(ctx, m)
	}
	return e.triplePlan(ctx, m)
}

// adapts says whether a server that refused a prompt of ids turned out to take text only, as one that has but a chat API.
func (e *execution) adapts(ctx context.Context, err error) bool {
	var wire *inference.Error
	if !errors.As(err, &wire) || wire.Class != inference.BadRequest || !e.facts.TokenIDs {
		return false
	}
	facts, err := e.Identify(ctx)
	return err == nil && !facts.TokenIDs && e.prepare(ctx) == nil
}

// plan is the configured one; auto takes the triple where the server caches prefixes, but for every tenth run of a rung: a
// cold pair that the triples can be held against.
func (e *execution) plan() Plan {
	const tenth = 10
	if e.target.Plan != AutoPlan {
		return e.target.Plan
	}
	e.memory.runs[e.rung]++
	if e.memory.runs[e.rung]%tenth == 0 || !e.memory.warmPossible(e.rung) {
		return Pair
	}
	return Triple
}

// prepare identifies the server and tokenises the text, once.
func (e *execution) prepare(ctx context.Context) error {
	if !e.isIdentified() {
		if _, err := e.Identify(ctx); err != nil {
			return err
		}
		e.fresh = true
	}
	if e.prompts != nil {
		return nil
	}
	prompts, err := newPromptSource(ctx, e.client, e.facts, e.prose, e.target.Ladder)
	if err != nil {
		return err
	}
	e.prompts = prompts
	return nil
}

// warmUp sends the pre-roll: after start or idling, clocks are low, code is not compiled and weights may be away. Where a prompt is
// sent again, that does as well, and another one may push it out of the cache. Where the server says nothing of its load, a second
// one is the run's first canary.
func (e *execution) warmUp(ctx context.Context) error {
	if _, again := e.again(); !again && time.Since(e.memory.lastLeg) >= idleBefore {
		if _, err := e.preRoll(ctx); err != nil {
			return err
		}
	}
	if e.before != nil {
		return nil
	}
	strain, err := e.sing(ctx)
	if err == nil && strain != "" {
		return skip(Busy, "the server seems busy with others: %s", strain)
	}
	return err
}

// preRoll sends a short request that is not measured. Only one that was not answered is an error: whatever else is wrong with
// the answer, it has done its work.
func (e *execution) preRoll(ctx context.Context) (Leg, error) {
	b, err := e.prompts.build(min(preRollTokens, e.length), nil)
	if err != nil {
		return Leg{}, err
	}
	leg, err := e.send(ctx, preRoll, 0, b, preRollOutput, 0)
	var wire *inference.Error
	if errors.As(err, &wire) || ctx.Err() != nil {
		return leg, err
	}
	return leg, nil
}

// decodeTokens is M: as configured, else from the wanted error and what was last seen of this rung.
func (e *execution) decodeTokens(seen rungMemory) int {
	if m := e.target.DecodeTokens.At(e.rung); m > 0 {
		return m
	}
	if seen.step == 0 {
		return firstDecodeTokens
	}
	// The growth of the context during decode must stay small beside it.
	most := min(mostDecodeTokens, max(firstDecodeTokens, int(e.rung)/4))
	const share = 3 // jitter between legs may take a third of the wanted error
	least := min(most, max(leastDecodeTokens, int(seen.tau*24)))
	return estimate.DecodeTokens(seen.tau, seen.step, seen.jitter, e.target.Precision/share, least, most)
}

// triplePlan is cold legs, then pairs on the last one's prompt. Where that turns out not to be cached, the cold leg becomes
// the short one of a cold pair, so that prefill is not paid a third time at the next run.
func (e *execution) triplePlan(ctx context.Context, m int) error {
	e.run.Plan = Triple
	e.plantNeedle(ctx)
	c, err := e.coldLegs(ctx, false)
	if err != nil {
		return err
	}
	e.keepPrefill(c)
	if err := e.readBeforeDecode(ctx); err != nil {
		return err
	}
	pairs, err := e.warmPairs(ctx, c, m)
	if reasonOf(err) == CacheMiss && e.target.Plan != Triple {
		if err := e.readBeforeDecode(ctx); err != nil {
			return err
		}
		return e.finishAsPair(ctx, c, m)
	}
	if err != nil {
		return err
	}
	if err := e.evaluate(ctx, c, pairs); err != nil {
		return err
	}
	e.keepPrompt(c)
	e.compareFirstTokens(c, pairs)
	e.askForNeedle(ctx, c)
	return nil
}

// pairPlan is a short and a long cold leg, each with a nonce of its own.
func (e *execution) pairPlan(ctx context.Context, m int) error {
	e.run.Plan = Pair
	c, err := e.coldLegs(ctx, e.target.DecodeTokens.At(e.rung) > 0) // who sets M wants two requests, as the old script sends
	if err != nil {
		return err
	}
	e.keepPrefill(c)
	if err := e.readBeforeDecode(ctx); err != nil {
		return err
	}
	return e.finishAsPair(ctx, c, m)
}

// finishAsPair sends the long cold leg to a short one that is there already, and further pairs where those are cheap and
// the precision asks for them.
func (e *execution) finishAsPair(ctx context.Context, c coldPrefill, m int) error {
	e.run.Plan = Pair
	var pairs []pairLegs
	for short := c.last; ; {
		long, err := e.longCold(ctx, short, m)
		if err != nil {
			return err
		}
		if more := e.moreDecodeTokens(pairLegs{short, long}, m); more > m && len(pairs) == 0 {
			m = more
			if err := e.readBeforeDecode(ctx); err != nil { // the counters hold steps of a leg that is not used
				return err
			}
			if long, err = e.longCold(ctx, short, m); err != nil {
				return err
			}
		}
		pairs = append(pairs, pairLegs{short, long})
		if e.scattered() {
			break // the next pair may be answered by another replica, and the mean of two is true of none
		}
		cheap := shortSeconds(short) < repeatBelow.Seconds() && e.target.DecodeTokens.At(e.rung) == 0
		if !cheap || len(pairs) == mostPairs || e.preciseEnough(pairs) {
			break
		}
		if short, _, err = e.coldLeg(ctx, len(pairs)+1); err != nil {
			return err
		}
	}
	return e.evaluate(ctx, c, pairs)
}

// moreDecodeTokens is the M that a pair should have had whose difference drowns in the noise of its prefills: without a stream
// nothing but more tokens helps.
func (e *execution) moreDecodeTokens(p pairLegs, m int) int {
	pairs := []pairLegs{p}
	noise, ok := e.differenceNoise(pairs, e.compare(pairs))
	now, learnt := e.lessons(pairs)
	if !learnt || ok && (noise <= noiseLimit || e.streamed(p.long)) {
		return m
	}
	return min(e.decodeTokens(now), e.roomForDecode())
}

// longCold sends the long leg of a cold pair.
func (e *execution) longCold(ctx context.Context, short Leg, m int) (Leg, error) {
	b, err := e.prompts.build(e.length, e.needle)
	if err != nil {
		return Leg{}, err
	}
	leg, err := e.send(ctx, cold, short.Run, b, e.memory.shortTokens+m, e.expectedLong(shortSeconds(short), m))
	if err != nil {
		return leg, err
	}
	if err := checkCold(leg); err != nil {
		return leg, err
	}
	if apart := known(leg.Response.CachedTokens) - known(short.Response.CachedTokens); math.Abs(float64(apart)) > unequal*float64(e.length) {
		return leg, reject(CacheHit, "the cold legs of a pair took %d and %d tokens from a cache",
			known(short.Response.CachedTokens), known(leg.Response.CachedTokens))
	}
	return leg, checkLength(short, leg)
}

// warmPairs sends pairs on a cached prompt until the step time is precise enough, the pairs have taken half the cold leg's
// time, or there are six.
func (e *execution) warmPairs(ctx context.Context, c coldPrefill, m int) ([]pairLegs, error) {
	most := max(leastPairSeconds, c.seconds()/2)
	began := time.Now()
	var pairs []pairLegs
	for len(pairs) < mostPairs {
		p, err := e.warmPair(ctx, c, len(pairs)+1, m)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, p)
		if now, ok := e.lessons(pairs); ok {
			m = max(m, e.decodeTokens(now)) // never fewer: the estimate of a noisy first pair may mislead
			m = min(m, e.roomForDecode())
		}
		if e.scattered() {
			break
		}
		took := time.Since(began).Seconds()
		next := took / float64(len(pairs))
		if took+next > most || len(pairs) >= 2 && e.preciseEnough(pairs) {
			break
		}
	}
	return pairs, nil
}

// warmPair sends a short and a long leg on the cached prompt and makes sure that both took it from the cache alike. A pair
// that did not is tried once more: the cache may have lost and regained a part of it in between.
func (e *execution) warmPair(ctx context.Context, c coldPrefill, run, m int) (pairLegs, error) {
	for try := 1; ; try++ {
		short, err := e.send(ctx, warm, run, c.built, e.memory.shortTokens, e.memory.expectedWarm(e.rung))
		if err == nil {
			err = e.checkWarm(c, short)
		}
		if err != nil {
			return pairLegs{}, err
		}
		long, err := e.send(ctx, warm, run, c.built, e.memory.shortTokens+m, e.expectedLong(shortSeconds(short), m))
		if err == nil {
			err = checkLength(short, long)
		}
		if err != nil {
			return pairLegs{}, err
		}
		err = e.checkAlike(c, short, long)
		if err == nil {
			return pairLegs{short, long}, nil
		}
		if try == 2 {
			return pairLegs{}, err
		}
		e.decode = nil // the counters hold steps of a leg that is not used
	}
}

// expectedLong predicts how long a long leg takes; 0 where the rung was never measured.
func (e *execution) expectedLong(short float64, m int) time.Duration {
	last, ok := e.memory.rungs[e.rung]
	if !ok {
		return 0
	}
	return time.Duration((short + float64(m)/last.tau*last.step) * float64(time.Second))
}

// checkLength says whether a long leg decoded enough tokens to divide by.
func checkLength(short, long Leg) error {
	asked := long.MaxTokens - short.MaxTokens
	got := *long.Response.CompletionTokens - *short.Response.CompletionTokens
	if got >= asked || got >= enoughTokens {
		return nil
	}
	return reject(ShortOutput, "the answer has %d tokens where %d were asked for (finish reason %q): too few to divide by",
		*long.Response.CompletionTokens, long.MaxTokens, long.Response.FinishReason)
}
