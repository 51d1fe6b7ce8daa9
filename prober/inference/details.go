package inference

import (
	"math"
	"strconv"
	"time"
)

// details keeps what an event says beyond text and usage: speculation, queue and prefill times, the replica.
func (a *answer) details(e event) {
	r := a.resp
	if e.slot != nil {
		r.Replica = strconv.Itoa(*e.slot)
	}
	for _, info := range append(e.infos, e.info) {
		if info != nil {
			a.metaInfo(info)
		}
	}
	if e.spec != nil {
		a.spec(e.spec.spec("sglext"))
	}
	if e.perPass > 0 {
		a.perPass = e.perPass
	}
	if e.timings != nil {
		a.timings(e.timings)
	}
	if m := e.metrics; m != nil {
		r.Prefill, r.Queued = milliseconds(m.TTFT), milliseconds(m.Queue)
		a.spec(m.Spec.spec("metrics"))
	}
	a.spec(e.counts.spec("choice"))
}

func (a *answer) metaInfo(m *metaInfo) {
	r := a.resp
	a.spec(m.spec("meta_info"))
	if m.Rank != nil {
		r.Replica = strconv.Itoa(*m.Rank)
	}
	if m.QueueTime > 0 {
		r.Queued = milliseconds(m.QueueTime * 1000)
	}
	if m.ForwardEntry > 0 && m.PrefillFinished > m.ForwardEntry {
		r.Prefill = milliseconds((m.PrefillFinished - m.ForwardEntry) * 1000)
	}
	keep(&r.CachedTokens, m.cached)
}

// timings reads llama.cpp's. It counts no passes, but each commits one token beside its accepted drafts. Versions that draft
// beyond max_tokens in the last pass accept there too, so that the number of passes can come out too low.
func (a *answer) timings(t *timings) {
	a.resp.Prefill = milliseconds(t.PromptMS)
	if a.resp.CachedTokens == nil {
		keep(&a.resp.CachedTokens, t.CacheN)
	}
	if steps := t.PredictedN - 1 - t.DraftAccepted; t.DraftN > 0 && t.DraftAccepted >= 0 && steps > 0 {
		a.spec(&Spec{Steps: steps, Drafts: t.DraftAccepted, Source: "timings", AtLeast: true}, "")
	}
}

// passes finds the verify passes behind TensorRT-LLM's mean of tokens per iteration. It tells no drafts: what
// was delivered leaves out what the last pass accepted beyond max_tokens. As many chunks as passes confirm the number.
func (a *answer) passes() {
	if a.perPass <= 0 || a.resp.CompletionTokens == nil {
		return
	}
	generated := *a.resp.CompletionTokens
	steps, ok := passesOf(generated, a.perPass)
	if !ok || steps < 1 || steps >= generated {
		return
	}
	a.spec(&Spec{Steps: steps, Drafts: -1, Source: "iterations", AtLeast: len(a.resp.Chunks)-1 != steps}, "")
}

// passesOf is the number of decode passes among the iterations that a mean was taken over. The prefill may be one of those
// or not: only a mean that fits a whole number in one way alone, or the same number in both, tells.
func passesOf(generated int, mean float64) (passes int, ok bool) {
	const rounding = 0.01 // of a number of iterations, from a mean in 32 bits
	all, decodes := float64(generated)/mean, float64(generated-1)/mean
	first, second := math.Round(all), math.Round(decodes)
	fits, fitsToo := math.Abs(all-first) <= rounding, math.Abs(decodes-second) <= rounding
	switch {
	case all > mostCount, !fits && !fitsToo, fits && fitsToo && first-1 != second:
		return 0, false
	case fits:
		return int(first) - 1, true
	}
	return int(second), true
}

// milliseconds is a server's duration, 0 where it makes no sense.
func milliseconds(ms float64) time.Duration {
	if !(ms > 0 && ms < 1e9) {
		return 0
	}
	return time.Duration(ms * float64(time.Millisecond))
}
