package prober

import (
	"math"

	"longctx_exporter/prober/estimate"
	"longctx_exporter/prober/inference"
)

// noSpeculation is what servers that say so call it.
const noSpeculation = "none"

// speculationOff says whether the server is known to decode one token per step.
func (e *execution) speculationOff() bool {
	return e.facts.Speculation == noSpeculation || e.facts.BlockSize == 1
}

// blockSize is the largest number of tokens that one step can commit as the server says, or else its answers; 0 where neither
// does.
func (e *execution) blockSize(pairs []pairLegs) int {
	if e.facts.BlockSize > 0 {
		return e.facts.BlockSize
	}
	most := 0
	for _, p := range pairs {
		if spec := p.long.Response.Spec; spec != nil {
			most = max(most, spec.Block)
		}
	}
	return most
}

// stepsBy counts the verify passes that each pair's long leg made beyond its short one, by one source; false where that source
// does not know them all.
func (e *execution) stepsBy(source string, pairs []pairLegs) ([]int, bool) {
	if source == "counters" {
		return e.stepsByCounters(pairs)
	}
	steps := make([]int, len(pairs))
	for i, p := range pairs {
		long, ok := e.legSteps(source, p.long)
		if !ok {
			return nil, false
		}
		short, ok := e.legSteps(source, p.short)
		if !ok || long <= short {
			return nil, false
		}
		steps[i] = long - short
	}
	return steps, true
}

// checkSources says whether every source that knows the steps gives the same number, but for rounding: one of two that
// contradict each other is wrong, and their mean is too.
func (e *execution) checkSources(pairs []pairLegs, chosen string) error {
	for _, p := range pairs {
		if clash := p.long.Response.Clash; clash != "" {
			return reject(Inconsistent, "an answer contradicts itself: %s", clash)
		}
	}
	ours, ok := e.totalBy(chosen, pairs)
	if !ok {
		return nil
	}
	for _, other := range stepSources() {
		theirs, ok := e.totalBy(other, pairs)
		missed := other == "counters" && e.facts.Dialect == inference.VLLM && theirs < ours // passes without a draft
		apart := math.Abs(float64(theirs - ours))
		if ok && !missed && apart > max(float64(len(pairs)), stepRounding*float64(ours)) {
			return reject(Inconsistent, "the long legs took %d steps by %s and %d by %s", ours, chosen, theirs, other)
		}
	}
	if chosen == "counters" {
		return e.checkDrafts(pairs)
	}
	return nil
}

// checkDrafts says whether the accepted drafts that the answers tell are those of the server's counter.
func (e *execution) checkDrafts(pairs []pairLegs) error {
	if e.decode.CorrectDrafts == nil || !e.after.exact(e.after.CorrectDrafts) {
		return nil
	}
	told := 0
	for _, p := range pairs {
		if p.long.Response.Spec == nil || p.long.Response.Spec.Drafts < 0 {
			return nil
		}
		told += p.long.Response.Spec.Drafts
	}
	counted := int(math.Round(*e.after.CorrectDrafts - *e.decode.CorrectDrafts))
	if max(counted-told, told-counted) > len(pairs) {
		return reject(Inconsistent, "the answers tell of %d accepted drafts, the server's counter of %d", told, counted)
	}
	return nil
}

// stepSources are the sources of steps in the order of trust.
func stepSources() []string { return []string{"response", "tokens", "counters", "chunks"} }

// stepRounding is by how much two sources may differ, relative to the steps.
const stepRounding = 0.02

// totalBy is the number of steps of all pairs by one source.
func (e *execution) totalBy(source string, pairs []pairLegs) (total int, ok bool) {
	steps, ok := e.stepsBy(source, pairs)
	for _, n := range steps {
		total += n
	}
	return total, ok
}

// legSteps counts the verify passes of one leg.
func (e *execution) legSteps(source string, l Leg) (int, bool) {
	decoded := *l.Response.CompletionTokens - 1
	if decoded == 0 {
		return 0, true // prefill alone
	}
	switch source {
	case "response":
		spec := l.Response.Spec
		if spec == nil || spec.AtLeast || !estimate.CheckSteps(spec.Steps, spec.Drafts, decoded, e.facts.BlockSize) {
			return 0, false
		}
		return spec.Steps, true
	case "tokens":
		return decoded, e.speculationOff() && l.Response.Spec == nil
	case "chunks":
		if !e.streamed(l) {
			return 0, false
		}
		stamps, tokens := chunkSeries(l.Response)
		steps, ok := estimate.StepsFromChunks(stamps, tokens)
		if spec := l.Response.Spec; spec != nil && spec.AtLeast {
			bursts, proved := estimate.Bursts(stamps)
			steps, ok = len(bursts)-1, proved && len(bursts)-1 >= spec.Steps
		}
		return steps, ok && estimate.CheckSteps(steps, -1, decoded, e.facts.BlockSize)
	}
	return 0, false
}

// stepsByCounters takes the growth of the server's own count of verify passes since the prefills, where its counters have
// nobody's tokens but ours, and shares it out by tokens: only the sum is known, and only the sum is used.
func (e *execution) stepsByCounters(pairs []pairLegs) ([]int, bool) {
	if !e.counted || e.run.Sample.Isolation == NotKnown || e.decode == nil || e.decode.Steps == nil || !e.after.exact(e.after.Steps) {
		return nil, false
	}
	total := int(math.Round(*e.after.Steps - *e.decode.Steps))
	decoded, drafts, atLeast := 0, -1, 0
	for _, p := range pairs {
		if *p.short.Response.CompletionTokens != 1 {
			return nil, false
		}
		decoded += *p.long.Response.CompletionTokens - 1
		if spec := p.long.Response.Spec; spec != nil {
			atLeast += spec.Steps
		}
	}
	total = max(total, atLeast) // passes without a draft are not in the counter
	if e.decode.CorrectDrafts != nil && e.after.CorrectDrafts != nil {
		drafts = int(math.Round(*e.after.CorrectDrafts - *e.decode.CorrectDrafts))
	}
	if total < len(pairs) || !estimate.CheckSteps(total, drafts, decoded, e.facts.BlockSize*len(pairs)) {
		return nil, false
	}
	steps := make([]int, len(pairs))
	left, tokens := total, decoded
	for i, p := range pairs {
		n := *p.long.Response.CompletionTokens - 1
		steps[i] = int(math.Round(float64(left) * float64(n) / float64(tokens)))
		left -= steps[i]
		tokens -= n
	}
	return steps, true
}

// acceptance is the histogram of tokens committed per step and its mean, bonus token included, from the same source as the
// steps. Zero where it is not known; 1 without speculation.
func (e *execution) acceptance(pairs []pairLegs, c comparison) (histogram []int, tau float64) {
	switch c.source {
	case "tokens":
		return nil, 1
	case "counters":
		if e.decode.CorrectDrafts != nil && e.after.CorrectDrafts != nil {
			drafts := int(math.Round(*e.after.CorrectDrafts - *e.decode.CorrectDrafts))
			tau, _ = estimate.AcceptLength(estimate.Pool(c.two).Steps, drafts)
		}
		return nil, tau
	case "chunks":
		if spec := pairs[0].long.Response.Spec; spec != nil && spec.AtLeast {
			return nil, burstAcceptance(pairs, c)
		}
		tau, _ = estimate.AcceptLengthCut(chunkPasses(pairs))
		return chunkHistogram(pairs), tau
	case "response":
		return responseAcceptance(pairs)
	}
	return nil, 0
}

// responseAcceptance pools what the long legs' answers tell; the histogram only where each of them has one that sums up to
// its steps. Where they tell no drafts the length is that of the stream, if its chunks are as many as the steps: tokens over steps
// are short of what the last step accepted in vain.
func responseAcceptance(pairs []pairLegs) (histogram []int, tau float64) {
	var steps, drafts int
	whole := true
	for _, p := range pairs {
		spec := p.long.Response.Spec
		if spec.Drafts < 0 {
			tau, _ = estimate.AcceptLengthCut(chunkPasses(pairs))
			return nil, tau
		}
		steps += spec.Steps
		drafts += spec.Drafts
		s, d, ok := estimate.HistogramTotals(spec.Histogram)
		whole = whole && ok && s == spec.Steps && d == spec.Drafts
		histogram = estimate.HistogramSum(histogram, spec.Histogram)
	}
	tau, _ = estimate.AcceptLength(steps, drafts)
	if !whole {
		return nil, tau
	}
	return histogram, tau
}

// chunkHistogram counts tokens per chunk, where each chunk was proved to be one step. The last step of a leg is cut off at
// max_tokens and left out.
func chunkHistogram(pairs []pairLegs) []int {
	var histogram []int
	for _, p := range pairs {
		_, tokens := chunkSeries(p.long.Response)
		for _, n := range tokens[1 : len(tokens)-1] {
			for len(histogram) < n {
				histogram = append(histogram, 0)
			}
			histogram[n-1]++
		}
	}
	return histogram
}

// chunkPasses are the verify passes behind the chunks of the long legs; nil where chunks and steps are not as many, or a chunk's
// tokens are not known.
func chunkPasses(pairs []pairLegs) (passes []estimate.Pass) {
	for _, p := range pairs {
		_, tokens := chunkSeries(p.long.Response)
		if spec := p.long.Response.Spec; len(tokens) < 2 || tokens[0] != 1 || spec != nil && (spec.AtLeast || spec.Steps != len(tokens)-1) {
			return nil
		}
		for _, n := range tokens[1:] {
			passes = append(passes, estimate.Pass{Tokens: n})
		}
		passes[len(passes)-1].Cut = true
	}
	return passes
}

// burstAcceptance is the acceptance length where drafts are told and passes were counted in the stream.
func burstAcceptance(pairs []pairLegs, c comparison) (tau float64) {
	drafts := 0
	for _, p := range pairs {
		if p.long.Response.Spec.Drafts < 0 {
			return 0
		}
		drafts += p.long.Response.Spec.Drafts
	}
	tau, _ = estimate.AcceptLength(estimate.Pool(c.two).Steps, drafts)
	return tau
}
