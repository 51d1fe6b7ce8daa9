package prober

import (
	"context"
	"math"
	"slices"

	"longctx_exporter/prober/estimate"
	"longctx_exporter/prober/inference"
)

// Bounds of what can be true.
const (
	fastest        = 100_000.0 // tokens per second of one request
	leastDelta     = 0.001     // seconds; a shorter difference is timer noise
	agreeWithin    = 3         // two-point and stream agree within the wanted error divided by this
	disagreeBeyond = 0.10      // and contradict each other beyond this, on warm legs
	prefillNoise   = 0.01      // relative standard deviation of a cold TTFT where nothing better is known
	warmNoise      = 0.10      // and of a warm one
	leastSpread    = 0.15      // relative distance of one pair from the median that is always accepted
	mostSpread     = 0.3       // and beyond which none is
	errorLimit     = 0.15      // relative standard error of the step time, from which on it says too little
	noiseLimit     = 0.017     // share of a two-point difference that may be prefill noise, one standard deviation
)

// keepPrefill puts what the cold legs measured into the sample.
func (e *execution) keepPrefill(c coldPrefill) {
	var computed, seconds float64
	e.run.Sample.PromptTokens = *c.last.Response.PromptTokens
	e.run.Sample.TTFT = 0
	ttfts := 0
	for _, l := range c.legs {
		computed += float64(*l.Response.PromptTokens - known(l.Response.CachedTokens))
		seconds += prefillSeconds(l)
		if l.Response.TTFT > 0 {
			e.run.Sample.TTFT += l.Response.TTFT.Seconds()
			ttfts++
		}
	}
	if ttfts > 0 {
		e.run.Sample.TTFT /= float64(ttfts)
	}
	if seconds > 0 {
		e.run.Sample.Prefill = computed / seconds
	}
}

// prefillSeconds is the server's own prefill time where it tells one that fits what was seen from outside, since that is free of
// network and tokenisation; else the time to the first token.
func prefillSeconds(l Leg) float64 {
	seen, told := shortSeconds(l), l.Response.Prefill.Seconds()
	const overhead = 0.05 // seconds that network, tokenisation and the first output may take
	if told > 0 && told <= seen && (told >= 0.8*seen || seen-told <= overhead) {
		return told
	}
	return seen
}

// comparison are the differences of a run's pairs by both estimators.
type comparison struct {
	two    []estimate.Difference // long less short
	stream []estimate.Difference // within the long leg, from its first chunk to its last; nil where a stamp cannot be trusted
	gaps   []float64             // seconds between chunks, first gaps left out; nil as above
	pace   []float64             // usual gap of each long leg
	single []float64             // those of legs whose every chunk was one step
	source string                // of the steps
}

// compare computes the differences. Steps come from the first source, in the order of trust, that knows all legs.
func (e *execution) compare(pairs []pairLegs) comparison {
	c := comparison{}
	for _, source := range stepSources() {
		steps, ok := e.stepsBy(source, pairs)
		if !ok {
			continue
		}
		c.source = source
		e.differences(&c, pairs, steps)
		return c
	}
	unknown := make([]int, len(pairs))
	for i := range unknown {
		unknown[i] = -1
	}
	e.differences(&c, pairs, unknown)
	return c
}

func (e *execution) differences(c *comparison, pairs []pairLegs, steps []int) {
	trusted := true
	for i, p := range pairs {
		short, long := legTime(p.short), legTime(p.long)
		if e.buffered(p.long) || !p.long.Response.Streamed || !p.short.Response.Streamed {
			short, long = p.short.Response.Total.Seconds(), p.long.Response.Total.Seconds()
		}
		tokens := *p.long.Response.CompletionTokens - *p.short.Response.CompletionTokens
		c.two = append(c.two, estimate.Difference{Seconds: long - short, Tokens: tokens, Steps: steps[i]})

		first := *p.short.Response.CompletionTokens
		if !e.streamed(p.long) || first != 1 || p.long.Response.Chunks[0].Tokens > 1 {
			trusted = false
			continue
		}
		span := (p.long.Response.LastToken - p.long.Response.TTFT).Seconds()
		c.stream = append(c.stream, estimate.Difference{Seconds: span, Tokens: tokens, Steps: steps[i]})
		gaps, single := stepGaps(p.long.Response, steps[i])
		c.gaps = append(c.gaps, gaps...)
		if usual, ok := estimate.Quantile(gaps, usually); ok {
			c.pace = append(c.pace, usual)
		}
		if single {
			c.single = append(c.single, gaps...)
		}
	}
	if !trusted {
		c.stream, c.gaps, c.pace, c.single = nil, nil, nil, nil
	}
}

// stepGaps are the gaps of a stream, the first left out, and whether each is known to be a single step: chunks as many as
// steps, or bursts that prove to be one each.
func stepGaps(r inference.Response, steps int) (gaps []float64, single bool) {
	stamps, _ := chunkSeries(r)
	if r.Spec != nil && r.Spec.AtLeast {
		bursts, ok := estimate.Bursts(stamps)
		return estimate.Gaps(bursts), ok // the gaps of a burst that is not understood say nothing
	}
	return estimate.Gaps(stamps), steps == len(stamps)-1
}

func legTime(l Leg) float64 { return l.Response.LastToken.Seconds() }

func chunkSeries(r inference.Response) (stamps []float64, tokens []int) {
	// As many chunks as tokens, each with at least one: exactly one each.
	one := len(r.Chunks) == known(r.CompletionTokens)
	for _, c := range r.Chunks {
		stamps = append(stamps, c.At.Seconds())
		if c.Tokens == 0 && one {
			c.Tokens = 1
		}
		tokens = append(tokens, c.Tokens)
	}
	return stamps, tokens
}

// relativeError estimates the relative standard error of the step time: from the spread of the pairs where there are three,
// else from the spread of single steps, else of gaps; else from the noise that prefill brings into the difference.
func (e *execution) relativeError(pairs []pairLegs, c comparison) (float64, bool) {
	if len(pairs) >= 3 && c.perPair() {
		return estimate.RelativeError(c.two)
	}
	for _, gaps := range [][]float64{c.single, c.gaps} {
		if mean, ok := estimate.Mean(gaps); ok && len(gaps) >= 2 {
			se, _ := estimate.StandardError(gaps)
			return se / mean, mean > 0
		}
	}
	spread, _ := estimate.RelativeError(c.two)
	noise, ok := e.differenceNoise(pairs, c)
	return max(noise, spread), ok
}

// differenceNoise is what prefill adds to or takes from the two-point difference, relative to it.
func (e *execution) differenceNoise(pairs []pairLegs, c comparison) (float64, bool) {
	total := estimate.Pool(c.two).Seconds
	noise := 0.0
	for _, p := range pairs {
		noise = math.Hypot(noise, e.prefillNoiseOf(p))
	}
	return noise / total, total > 0
}

// prefillNoiseOf is what prefill adds to or takes from a pair's difference, in seconds: as the streams of both legs show it,
// else as it must be expected.
func (e *execution) prefillNoiseOf(p pairLegs) float64 {
	if p.short.Response.TTFT > 0 && e.streamed(p.long) {
		return math.Abs((p.long.Response.TTFT - p.short.Response.TTFT).Seconds())
	}
	share := max(prefillNoise, e.coldSpread())
	if p.short.Kind == warm {
		share = warmNoise
	}
	return math.Sqrt2 * share * shortSeconds(p.short)
}

// coldSpread is how far the short cold legs of the run are apart, relative to the quickest; 0 where they agree. Those that the
// prefill does not rest on count too: the long leg of a pair may be as far off.
func (e *execution) coldSpread() float64 {
	var all []float64
	for _, l := range e.run.Legs {
		if l.Kind == cold && l.MaxTokens <= e.memory.shortTokens && l.Response.Total > 0 && l.ErrorClass == "" {
			all = append(all, shortSeconds(l))
		}
	}
	if len(all) < 2 {
		return 0
	}
	least, most := slices.Min(all), slices.Max(all)
	if most-least <= max(agreement*least, jitterFloor) {
		return 0
	}
	return (most - least) / least
}

func (e *execution) preciseEnough(pairs []pairLegs) bool {
	r, ok := e.relativeError(pairs, e.compare(pairs))
	return ok && r <= e.target.Precision
}

// lessons is what pairs say about the next ones: step time, tokens per step, and the spread of warm prefills. Where steps
// are unknown, one token stands for one step.
func (e *execution) lessons(pairs []pairLegs) (rungMemory, bool) {
	c := e.compare(pairs)
	pool := estimate.Pool(c.two)
	now := rungMemory{tau: 1}
	if pool.Steps > 0 {
		now.tau = max(1, float64(pool.Tokens)/float64(pool.Steps))
	}
	rate, ok := pool.Rate()
	if !ok {
		return rungMemory{}, false
	}
	now.step = now.tau / rate
	var prefills []float64
	usual := warmNoise
	for _, p := range pairs {
		if p.short.Kind == cold {
			usual = prefillNoise
		}
		prefills = append(prefills, shortSeconds(p.short))
		if e.streamed(p.long) {
			prefills = append(prefills, p.long.Response.TTFT.Seconds())
		}
	}
	if now.jitter, ok = estimate.StandardDeviation(prefills); !ok {
		now.jitter = usual * prefills[0]
	}
	return now, true
}

// evaluate turns the pairs into the sample, or says why they are no measurement.
func (e *execution) evaluate(ctx context.Context, prefill coldPrefill, pairs []pairLegs) error {
	if err := e.checkReplicas(); err != nil {
		return err
	}
	if err := e.certify(ctx); err != nil {
		return err
	}
	if err := e.confirmPrefill(ctx, prefill); err != nil {
		return err
	}
	c := e.compare(pairs)
	if err := e.checkSources(pairs, c.source); err != nil {
		return err
	}
	s := &e.run.Sample
	s.Pairs = len(pairs)
	basis, method, err := e.chooseMethod(pairs, c)
	if err != nil {
		return err
	}
	if rate, ok := basis.Rate(); !ok || rate > fastest || basis.Seconds < leastDelta {
		return reject(Implausible, "%d tokens in %.3g s is faster than any server decodes", basis.Tokens, basis.Seconds)
	}
	if len(pairs) >= 2 {
		if err := checkSpread(c); err != nil {
			return err
		}
	}
	if s.Isolation == NotKnown {
		if err := e.checkSteady(pairs); err != nil {
			return err
		}
	}
	if noise, ok := e.differenceNoise(pairs, c); ok && method == "two_point" && noise > noiseLimit {
		return reject(Implausible, "the difference of %.3g s is within its noise (±%.0f %%): more decode tokens are needed", basis.Seconds, 100*noise)
	}
	s.Method = method
	s.DecodeTokens = float64(estimate.Pool(c.two).Tokens) / float64(len(pairs))
	s.StepError, _ = e.relativeError(pairs, c)
	if s.StepError > errorLimit {
		return reject(Inconsistent, "steps differ so much that their mean has a standard error of %.0f %%", 100*s.StepError)
	}
	if err := e.checkSelf(pairs, basis.Seconds); err != nil {
		return err
	}
	e.learnt, _ = e.lessons(pairs)
	e.discardBut(prefill, pairs)
	return e.fillDecode(pairs, c, basis)
}

// discardBut marks the legs that the sample does not rest on.
func (e *execution) discardBut(prefill coldPrefill, pairs []pairLegs) {
	used := map[int]bool{}
	for _, l := range prefill.legs {
		used[l.index] = true
	}
	for _, p := range pairs {
		used[p.short.index], used[p.long.index] = true, true
	}
	for i := range e.run.Legs {
		e.run.Legs[i].Discarded = !used[i]
	}
}

// chooseMethod picks the two-point difference where the stream confirms it or there is none, else the stream: within the
// long leg, prefill noise does not reach it. Estimators that contradict each other are no measurement.
func (e *execution) chooseMethod(pairs []pairLegs, c comparison) (estimate.Difference, string, error) {
	two := estimate.Pool(c.two)
	if two.Seconds <= 0 {
		return two, "", reject(NonpositiveDelta, "the long legs were not slower than the short ones (%.3g s)", two.Seconds)
	}
	if err := e.checkColdPairs(pairs); err != nil {
		return two, "", err
	}
	if len(c.stream) == 0 {
		return two, "two_point", e.checkWhole()
	}
	stream := estimate.Pool(c.stream)
	if e.scattered() && e.run.Plan == Pair {
		return stream, "stream", nil
	}
	apart := math.Abs(two.Seconds-stream.Seconds) / two.Seconds
	switch {
	case apart <= e.target.Precision/agreeWithin:
		return two, "two_point", nil
	case e.run.Plan != Pair && apart > disagreeBeyond:
		return two, "", reject(Inconsistent, "the two-point difference (%.3g s) and the stream (%.3g s) contradict each other", two.Seconds, stream.Seconds)
	}
	return stream, "stream", nil
}

// checkColdPairs says whether both legs of cold pairs were prefilled alike, as far as their streams tell.
func (e *execution) checkColdPairs(pairs []pairLegs) error {
	for _, p := range pairs {
		if p.short.Kind != cold || !p.short.Response.Streamed || !e.streamed(p.long) {
			continue
		}
		a, b := shortSeconds(p.short), p.long.Response.TTFT.Seconds()
		if min(a, b) < (1-alikeTTFT)*max(a, b) {
			return reject(Inconsistent, "the cold legs of a pair took %.3g and %.3g s to the first token: one was cached, queued or slow", a, b)
		}
	}
	return nil
}

// perPair says whether the steps of each single pair are known, not only their sum.
func (c comparison) perPair() bool { return c.source != "" && c.source != "counters" }

// checkSpread says whether two or more pairs tell the same story: one that stands further apart than the spread of single
// gaps explains was disturbed. Where the steps of a pair are not known, its usual gap stands for the step.
func checkSpread(c comparison) error {
	each := c.pace
	if c.perPair() {
		each = nil
		for _, d := range c.two {
			step, ok := d.Step()
			if !ok {
				return reject(Inconsistent, "a warm pair has no positive difference")
			}
			each = append(each, step)
		}
	}
	median, ok := estimate.Median(each)
	if !ok {
		return nil // nothing to compare by
	}
	apart := leastSpread
	if mean, ok := estimate.Mean(c.gaps); ok && mean > 0 {
		sd, _ := estimate.StandardDeviation(c.gaps)
		perPair := float64(len(c.gaps)) / float64(len(c.two))
		apart = min(max(apart, 4*sd/mean/math.Sqrt(perPair)), mostSpread)
	}
	for _, v := range each {
		if math.Abs(v-median) > apart*median {
			return reject(Inconsistent, "%d pairs took %.3g to %.3g s per step: the server or this machine was busy", len(each), slices.Min(each), slices.Max(each))
		}
	}
	return nil
}

// fillDecode puts steps, acceptance and rates into the sample.
func (e *execution) fillDecode(pairs []pairLegs, c comparison, basis estimate.Difference) error {
	s := &e.run.Sample
	s.AcceptHistogram, s.AcceptLength = e.acceptance(pairs, c)
	s.BlockSize = e.blockSize(pairs)
	if estimate.Degenerate(s.AcceptHistogram, s.BlockSize) {
		return reject(Degenerate, "every step committed all of its %d tokens: the text runs in a loop", s.BlockSize)
	}
	step, ok := basis.Step()
	if !ok {
		s.DecodeRate, _ = basis.Rate()
		s.AcceptLength, s.AcceptHistogram = 0, nil
		return nil
	}
	s.Step, s.Steps, s.StepsSource = step, basis.Steps, c.source
	s.StepTimes = c.single
	if mean, ok := estimate.Mean(c.single); ok {
		s.StepStream = mean
	} else if len(c.stream) > 0 {
		s.StepStream, _ = estimate.Pool(c.stream).Step()
	}
	s.StepCI = e.interval(step, pairs, c)
	s.DecodeRate, _ = basis.Rate()
	if s.AcceptLength > 0 {
		s.DecodeRate = s.AcceptLength / step
	}
	return nil
}

// interval is the 95 % interval of the step time: distribution-free from six pairs on, else from the standard error.
func (e *execution) interval(step float64, pairs []pairLegs, c comparison) [2]float64 {
	var each []float64
	for _, d := range c.two {
		if v, ok := d.Step(); ok && c.perPair() {
			each = append(each, v)
		}
	}
	if lo, hi, ok := estimate.MedianInterval(each, 0.95); ok {
		return [2]float64{lo, hi}
	}
	n := len(c.gaps)
	if len(pairs) >= 3 {
		n = len(pairs)
	}
	if r := e.run.Sample.StepError; r > 0 && n >= 2 {
		if lo, hi, ok := estimate.Interval(step, r*step, n-1, 0.95); ok && lo > 0 {
			return [2]float64{lo, hi}
		}
	}
	return [2]float64{}
}
