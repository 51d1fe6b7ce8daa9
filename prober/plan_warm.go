package prober

import (
	"context"
	"math"
)

// sentPrompt is the prompt of a clean run that the server's cache may still hold.
type sentPrompt struct {
	run     string // its ID
	recipe  recipe
	cold    float64 // seconds to the first token when it was computed
	replica string  // that answered; "" where not known
}

// keepPrompt remembers the prompt of a run whose pairs took it from the cache.
func (e *execution) keepPrompt(c coldPrefill) {
	e.memory.sent[e.rung] = sentPrompt{run: e.run.ID, recipe: c.built.recipe, cold: c.seconds(), replica: c.last.Response.Replica}
}

// again gives the prompt that is to be sent again. Where several replicas may answer and nothing tells which, another one would have
// to compute it.
func (e *execution) again() (sentPrompt, bool) {
	sent, ok := e.memory.sent[e.rung]
	reached := sent.replica != "" || !e.scattered()
	return sent, ok && sent.run == e.earlier && sent.recipe.tokens == e.length && reached
}

// foundCold is a cold leg and its prompt.
type foundCold struct {
	leg   Leg
	built built
}

// warmPlan is pairs on a prompt that an earlier run has left in the server's cache. The first leg is part of none: it finds out
// whether it is still there, and brings back what is not. Where all of it had to be computed, that was the cold leg of a triple.
func (e *execution) warmPlan(ctx context.Context, sent sentPrompt, m int) error {
	e.run.Plan = Warm
	b, err := e.prompts.follow(sent.recipe)
	if err != nil {
		return err
	}
	first, err := e.send(ctx, warm, 1, b, e.memory.shortTokens, e.memory.expectedCold(e.rung))
	if err != nil {
		return err
	}
	if e.wasCold(first, sent.cold) {
		first.Kind, e.run.Legs[first.index].Kind = cold, cold
		e.found, e.needle = &foundCold{first, b}, sent.recipe.needle
		return e.triplePlan(ctx, m)
	}
	e.run.Sample.PromptTokens, e.replica = *first.Response.PromptTokens, sent.replica
	if err := e.readBeforeDecode(ctx); err != nil {
		return err
	}
	c := coldPrefill{last: first, built: b, earlier: sent.cold}
	pairs, err := e.warmPairs(ctx, c, m)
	if err != nil {
		return err
	}
	if err := e.evaluate(ctx, c, pairs); err != nil {
		return err
	}
	e.keepPrompt(c)
	return nil
}

// wasCold says whether a leg on a prompt of an earlier run was computed, all of it: as the server counts, or else by a time to the
// first token like the one then.
func (e *execution) wasCold(l Leg, before float64) bool {
	if l.Response.CachedTokens != nil && e.memory.countsSeen {
		return checkCold(l) == nil
	}
	return known(l.Response.CachedTokens) == 0 && math.Abs(shortSeconds(l)-before) <= agreement*before
}
