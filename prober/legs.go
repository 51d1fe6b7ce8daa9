package prober

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"longctx_exporter/prober/inference"
)

// The kinds of legs.
const (
	preRoll = "pre-roll"
	cold    = "cold"
	warm    = "warm"
	recall  = "recall" // asks for the planted fact
)

// execution is one run while it goes on.
type execution struct {
	*Runner
	rung     Rung
	earlier  string // run whose prompt is to be sent again; "" for none
	progress func(Progress)
	run      Run

	fresh    bool          // the server was identified in this run
	waited   time.Duration // for others to end, and for counters to move
	length   int           // prompt tokens: the rung, or slightly less where the server's limit asks for it
	tally    tally         // what our own legs add to the server's counters
	before   *Load         // before the run; nil where the server tells nothing
	decode   *Load         // between prefills and long legs, for the growth of step counters; nil where that is not known
	after    *Load         // after the run
	counted  bool          // the counters between the two grew by exactly ours
	strayed  bool          // the run's requests do not show in the server's counters
	canaries []canary      // before and after the run, where the server tells nothing of its load
	self     *selfWatch    // of our own lateness
	needle   *needle       // planted in the prompts of this run; nil for none
	found    *foundCold    // a cold leg that was sent already; nil for none
	replica  string        // that has the prompt of a warm run; "" where not known
	learnt   rungMemory    // what the pairs say about the next run of this rung
}

// tally sums the legs of a run as the server's counters must have seen them.
type tally struct {
	requests, prompt, cached, completion int
	uncounted                            bool // a leg ended without usage
	forward                              int  // tokens committed by decode passes, those cut off at max_tokens included
	forwardUnknown                       bool // a leg decoded without telling how many
}

// send sends one leg and records it. The error says why its answer cannot be used, if so.
func (e *execution) send(ctx context.Context, kind string, run int, b built, maxTokens int, expected time.Duration) (Leg, error) {
	limited, cancel := context.WithTimeout(ctx, e.timeout(b.tokens, expected))
	defer cancel()
	p := Progress{Rung: e.rung, Run: run, Kind: kind, MaxTokens: maxTokens, Started: time.Now(), Expected: expected}
	e.progress(p)
	if e.tally.requests == 0 { // what came before cost the engine nothing
		e.run.Started, e.waited = p.Started, 0
	}
	watched, stop := e.watch(limited)
	response, err := e.client.Complete(watched, inference.Request{
		Prompt: b.prompt, MaxTokens: maxTokens, Salt: b.salt,
		Progress: func(chunks int) { p.Chunks = chunks; e.progress(p) },
	})
	began := time.Now().Add(-response.Total)
	others := stop()
	p.Ended = true
	e.progress(p)
	e.memory.lastLeg = time.Now()
	e.tally.add(response, !e.speculationOff())

	leg := Leg{Run: run, Kind: kind, MaxTokens: maxTokens, Response: response, index: len(e.run.Legs), began: began}
	var wire *inference.Error
	if errors.As(err, &wire) {
		leg.ErrorClass, leg.Error = wire.Class, wire.Message
	}
	if kind == cold || kind == warm {
		e.run.Legs = append(e.run.Legs, leg)
		e.run.Sample.Buffered = e.run.Sample.Buffered || e.buffered(leg)
	}
	if err != nil && others != nil {
		return leg, reject(Yielded, "the server has %d running and %d queued requests: the run makes way for those of others",
			known(others.Running), known(others.Queued))
	}
	if err != nil {
		e.noteHang(leg)
		e.noteRefusal(b.tokens, err)
		return leg, err
	}
	if n := response.PromptTokens; n != nil && (kind == preRoll || float64(*n) >= truncation*float64(b.tokens)) {
		e.prompts.learn(b, *n) // a cut prompt teaches nothing
	}
	return leg, checkLeg(leg, b)
}

func (t *tally) add(r inference.Response, speculates bool) {
	t.requests++
	if r.PromptTokens == nil || r.CompletionTokens == nil {
		t.uncounted = true
		return
	}
	t.prompt += *r.PromptTokens
	t.cached += known(r.CachedTokens)
	t.completion += *r.CompletionTokens
	switch decoded := *r.CompletionTokens - 1; {
	case r.Spec != nil && !r.Spec.AtLeast && r.Spec.Drafts >= 0:
		t.forward += r.Spec.Steps + r.Spec.Drafts
	case decoded == 0 || !speculates:
		t.forward += decoded
	default:
		t.forwardUnknown = true
	}
}

// noteHang remembers a server that hangs when it is asked for a single token.
func (e *execution) noteHang(l Leg) {
	if l.MaxTokens == 1 && l.ErrorClass == inference.Timeout && len(l.Response.Chunks) == 0 {
		e.memory.shortTokens = 2
	}
}

// timeout is the longest that one leg may take: as configured, else 60 s and 10 ms per prompt token, or four times what the
// leg took before where that is more.
func (e *execution) timeout(tokens int, expected time.Duration) time.Duration {
	if e.target.Timeout > 0 {
		return e.target.Timeout
	}
	return max(time.Minute+time.Duration(tokens)*10*time.Millisecond, 4*expected)
}

// coldPrefill is the outcome of the cold legs of a run.
type coldPrefill struct {
	legs    []Leg   // the ones that agree; none of a warm run
	last    Leg     // the last one sent
	built   built   // its prompt, which is in the cache now if the server has one
	earlier float64 // seconds to the first token when an earlier run computed it; 0 where this one did
}

// seconds is the mean time to the first token of the agreeing legs.
func (c coldPrefill) seconds() float64 {
	if len(c.legs) == 0 {
		return c.earlier
	}
	var sum float64
	for _, l := range c.legs {
		sum += shortSeconds(l)
	}
	return sum / float64(len(c.legs))
}

// repeatBelow is the cold leg's duration below which it is sent again for certainty, and agreement how close two must be.
const (
	repeatBelow = 30 * time.Second
	cheapBelow  = 5 * time.Second // below which a third one costs nothing
	agreement   = 0.05

	noisyAgreement = 0.10  // of the median of all, where the server is noisier
	jitterFloor    = 0.002 // seconds that no two answers of one server agree better than

	restBeforeBelief = 30 * time.Second
	dawdle           = 0.04 // relative slowness that is not believed at once of a server that tells nothing of its load
	surprise         = 0.15 // relative deviation from the expected TTFT that asks for a second cold leg, however long
)

// coldLegs sends short legs on prompts that no cache has seen until two agree; three where the server has not shown that it
// counts cached tokens and they are cheap, or faster than they should be: a hidden cache may have served some. One is enough
// where it is long and as expected, or where only one is wanted.
func (e *execution) coldLegs(ctx context.Context, single bool) (coldPrefill, error) {
	const most = 5
	var legs []Leg
	for rested := false; ; {
		leg, b, err := e.coldLeg(ctx, len(legs)+1)
		if err != nil {
			return coldPrefill{}, err
		}
		if !rested && !single && e.before == nil && e.dawdling(shortSeconds(leg)) {
			if err := sleep(ctx, restBeforeBelief); err != nil {
				return coldPrefill{}, err
			}
			e.waited += restBeforeBelief
			rested, legs = true, nil
			continue
		}
		legs = append(legs, leg)
		c := coldPrefill{legs: agreeing(legs, shortSeconds(leg), agreement), last: leg, built: b}
		seconds := shortSeconds(leg)
		wanted := 2
		switch fast, slow := e.surprise(seconds); {
		case !e.memory.countsSeen && (fast || seconds < cheapBelow.Seconds()):
			wanted = 3
		case single, seconds >= repeatBelow.Seconds() && e.asExpected(leg) && !slow:
			wanted = 1
		}
		switch {
		case single || len(c.legs) >= wanted:
			return c, nil
		case len(legs) == most && len(majority(legs)) > most/2:
			c.legs = majority(legs)
			return c, nil
		case len(legs) == most:
			return coldPrefill{}, reject(Inconsistent, "cold legs of the same length took from %.3g to %.3g s to the first token",
				shortSeconds(slices.MinFunc(legs, bySeconds)), shortSeconds(slices.MaxFunc(legs, bySeconds)))
		}
	}
}

func bySeconds(a, b Leg) int { return cmp.Compare(shortSeconds(a), shortSeconds(b)) }

// coldLeg sends one short leg on a fresh prompt, again with a better one where the length of a text prompt was not yet known.
func (e *execution) coldLeg(ctx context.Context, run int) (Leg, built, error) {
	const tries = 3
	if f := e.found; f != nil {
		e.found = nil
		return f.leg, f.built, nil
	}
	for try := 1; ; try++ {
		b, err := e.prompts.build(e.length, e.needle)
		if err != nil {
			return Leg{}, b, err
		}
		leg, err := e.send(ctx, cold, run, b, e.memory.shortTokens, e.memory.expectedCold(e.rung))
		if reasonOf(err) == PromptMismatch && e.prompts.calibrates() && try < tries {
			continue
		}
		if err == nil {
			err = checkCold(leg)
		}
		if err == nil && known(leg.Response.CachedTokens) > 0 {
			e.memory.countsSeen = true
		}
		return leg, b, err
	}
}

// agreeing are the legs that come within agreement, or within the jitter of a network, of the given time.
func agreeing(legs []Leg, seconds, within float64) []Leg {
	var near []Leg
	for _, l := range legs {
		if math.Abs(shortSeconds(l)-seconds) <= max(within*seconds, jitterFloor) {
			near = append(near, l)
		}
	}
	return near
}

// majority are the legs near the median of as many as are sent: a server may be noisier than agreement asks for.
func majority(legs []Leg) []Leg {
	sorted := slices.SortedFunc(slices.Values(legs), bySeconds)
	return agreeing(legs, shortSeconds(sorted[len(sorted)/2]), noisyAgreement)
}

// surprise says whether a cold TTFT is far from what shorter rungs or earlier runs let expect: faster hints at a hidden cache,
// slower at other requests.
func (e *execution) surprise(seconds float64) (fast, slow bool) {
	expected := e.memory.expectedCold(e.rung).Seconds()
	return seconds < (1-surprise)*expected, expected > 0 && seconds > (1+surprise)*expected
}

// dawdling says whether a cold TTFT is a little slower than expected. Where the server tells nothing of its load, that may be
// others, who are given time to end before it is believed.
func (e *execution) dawdling(seconds float64) bool {
	expected := e.memory.expectedCold(e.rung).Seconds()
	return expected > 0 && seconds > (1+dawdle)*expected
}

// asExpected says whether something speaks for a cold leg having been computed: the server's count, or the time that was
// expected.
func (e *execution) asExpected(l Leg) bool {
	fast, _ := e.surprise(shortSeconds(l))
	return !fast && (l.Response.CachedTokens != nil || e.memory.expectedCold(e.rung) > 0)
}

// shortSeconds is the time to the first token of a short leg. Where it was not streamed, the whole answer is as good: it
// ends with that token.
func shortSeconds(l Leg) float64 {
	if l.Response.TTFT > 0 {
		return l.Response.TTFT.Seconds()
	}
	return l.Response.LastToken.Seconds()
}
