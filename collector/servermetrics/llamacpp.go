package servermetrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"longctx_exporter/prober"
)

// llamaCpp reads llama-server's page of metrics, or its slots where the page is not switched on.
type llamaCpp struct {
	page  *endpoint
	slots *endpoint // nil where its address is not known
}

// printedDigits is how precisely llama-server prints its counters: with a stream's default of six significant digits.
const printedDigits = 6

// read maps llama-server's counters, which all move at the end of a request. prompt_tokens_total leaves cached tokens out.
func (c *llamaCpp) read(ctx context.Context) (prober.Load, error) {
	p, err := c.page.page(ctx, "llamacpp", names(
		"requests_processing", "requests_deferred", "prompt_tokens", "prompt_tokens_cached", "tokens_predicted",
		"spec_decode_num_drafts", "spec_decode_num_accepted_tokens",
	))
	if errors.Is(err, errNotOffered) {
		running, err := c.busySlots(ctx)
		return prober.Load{Running: running}, err
	}
	if err != nil {
		return prober.Load{}, err
	}
	l := prober.Load{
		Digits:          printedDigits,
		Running:         p.gauge("requests_processing"),
		Queued:          p.gauge("requests_deferred"),
		ComputedTokens:  p.sum("prompt_tokens"),
		GeneratedTokens: p.sum("tokens_predicted"),
		Steps:           p.sum("spec_decode_num_drafts"),
		CorrectDrafts:   p.sum("spec_decode_num_accepted_tokens"),
	}
	// A sum of two rounded counters would be blurred twice.
	if cached := p.sum("prompt_tokens_cached"); cached != nil && l.ComputedTokens != nil && *cached+*l.ComputedTokens < math.Pow10(printedDigits) {
		all := *cached + *l.ComputedTokens
		l.PromptTokens = &all
	}
	// The counters stand at 0 without speculation too; a server that never drafted tells nothing of steps.
	if l.Steps != nil && *l.Steps == 0 {
		l.Steps, l.CorrectDrafts = nil, nil
	}
	return l, nil
}

// busySlots counts the slots that work; nil where the server does not show its slots.
func (c *llamaCpp) busySlots(ctx context.Context) (*int, error) {
	if c.slots == nil {
		return nil, nil
	}
	body, err := c.slots.get(ctx)
	if errors.Is(err, errNotOffered) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var slots []struct {
		Processing *bool `json:"is_processing"`
	}
	if err := json.Unmarshal(body, &slots); err != nil {
		return nil, fmt.Errorf("reading the slots of %s: %w", c.slots.url, err)
	}
	running := 0
	for _, s := range slots {
		if s.Processing == nil {
			return nil, fmt.Errorf("reading the slots of %s: a slot does not tell whether it works", c.slots.url)
		}
		if *s.Processing {
			running++
		}
	}
	return &running, nil
}
