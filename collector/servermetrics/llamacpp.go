package servermetrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// llamaCpp reads llama-server's page of metrics and its slots.
type llamaCpp struct {
	page  *endpoint
	slots *endpoint // nil where its address is not known
}

// printedDigits is how precisely llama-server prints its counters: with a stream's default of six significant digits.
const printedDigits = 6

func llamaCppNames() map[string]bool {
	return names(
		"requests_processing", "requests_deferred", "prompt_tokens", "prompt_tokens_cached", "tokens_predicted",
		"tokens_predicted_seconds", "spec_decode_num_drafts", "spec_decode_num_accepted_tokens",
	)
}

// read takes the running requests from the slots where the page is not switched on, and what is left of their context always.
func (c *llamaCpp) read(ctx context.Context) (reading, error) {
	p, missing := c.page.page(ctx, "llamacpp", llamaCppNames())
	if missing != nil && !notOffered(missing) {
		return reading{}, missing
	}
	slots, err := c.readSlots(ctx)
	if ctx.Err() != nil || missing != nil && err != nil && !notOffered(err) {
		return reading{}, err
	}
	var r reading
	if missing == nil {
		r = fromLlamaCpp(p)
	} else if err == nil {
		running := slots.busy()
		r.load.Running = &running
	}
	r.missing, r.odd = missing, p.odd
	if err == nil {
		r.load.PoolTokens, r.load.PoolFree = slots.pool()
	}
	return r, nil
}

// fromLlamaCpp maps llama-server's counters, which all move at the end of a request. prompt_tokens_total leaves cached tokens
// out. Its gauges of speed start anew whenever anybody reads the page, and are no use to anyone.
func fromLlamaCpp(p page) reading {
	r := reading{digits: printedDigits}
	l := &r.load
	l.Digits = printedDigits
	l.Running, l.Queued = p.gauge("requests_processing"), p.gauge("requests_deferred")
	l.ComputedTokens, l.GeneratedTokens = p.sum("prompt_tokens"), p.sum("tokens_predicted")
	l.Steps, l.CorrectDrafts = p.sum("spec_decode_num_drafts"), p.sum("spec_decode_num_accepted_tokens")
	cached := p.parts("prompt_tokens_cached")
	// A sum of two rounded counters would be blurred twice.
	if sum := cached.sum(); sum != nil && l.ComputedTokens != nil && *sum+*l.ComputedTokens < math.Pow10(printedDigits) {
		all := *sum + *l.ComputedTokens
		l.PromptTokens = &all
	}
	r.counts[promptTokens] = p.parts("prompt_tokens")
	for key, v := range cached {
		if r.counts[promptTokens] != nil {
			r.counts[promptTokens]["cached"+key] = v
		}
	}
	r.counts[cachedTokens] = cached
	r.counts[generatedTokens] = p.parts("tokens_predicted")
	r.counts[decodeSeconds] = p.parts("tokens_predicted_seconds")
	r.counts[verifySteps], r.counts[acceptedDrafts] = p.parts("spec_decode_num_drafts"), p.parts("spec_decode_num_accepted_tokens")
	// The counters stand at 0 without speculation too; a server that never drafted tells nothing of steps.
	if l.Steps != nil && *l.Steps == 0 {
		l.Steps, l.CorrectDrafts = nil, nil
		r.counts[verifySteps], r.counts[acceptedDrafts] = nil, nil
	}
	return r
}

// llamaSlots are the slots of a server; a slot has a context of its own, or all share one, which they do not tell.
type llamaSlots []struct {
	Processing *bool    `json:"is_processing"`
	Context    *float64 `json:"n_ctx"`
	Prompt     *float64 `json:"n_prompt_tokens"`
	Next       []struct {
		Decoded *float64 `json:"n_decoded"`
	} `json:"next_token"`
}

func (c *llamaCpp) readSlots(ctx context.Context) (llamaSlots, error) {
	if c.slots == nil {
		return nil, errNoAddress
	}
	body, err := c.slots.get(ctx)
	if err != nil {
		return nil, err
	}
	slots, err := parseSlots(body)
	if err != nil {
		return nil, fmt.Errorf("reading the slots of %s: %w", c.slots.url, err)
	}
	return slots, nil
}

func parseSlots(body []byte) (llamaSlots, error) {
	var slots llamaSlots
	if err := json.Unmarshal(body, &slots); err != nil {
		return nil, err
	}
	for _, s := range slots {
		if s.Processing == nil {
			return nil, errors.New("a slot does not tell whether it works")
		}
	}
	return slots, nil
}

func (s llamaSlots) busy() int {
	n := 0
	for _, slot := range s {
		if *slot.Processing {
			n++
		}
	}
	return n
}

// pool is the context of one slot. What an idle slot keeps is a cached prefix, which the next request takes over or drops. With
// one of several slots at work the rest is not known: they may share one context or have their own.
func (s llamaSlots) pool() (capacity, free *float64) {
	for _, slot := range s {
		if slot.Context == nil || !(*slot.Context > 0) {
			return nil, nil
		}
		least(&capacity, slot.Context)
	}
	switch {
	case s.busy() == 0:
		return capacity, capacity
	case len(s) > 1 || s[0].Prompt == nil || len(s[0].Next) == 0 || s[0].Next[0].Decoded == nil:
		return capacity, nil
	}
	left := max(0, *capacity-*s[0].Prompt-*s[0].Next[0].Decoded)
	return capacity, &left
}
