package simserver

import (
	"slices"
	"time"
)

// counters are everything that a server may count. Those of forward passes move with each pass, the others when a request
// ends.
type counters struct {
	prefillCompute, prefillCache int // prompt tokens
	prefillPasses, decodePasses  int
	decodeTokens                 int // committed by decode steps, not cut at the end
	emitted                      int // tokens handed out, the first one of each request included
	steps, correct               int // verify passes times requests; accepted drafts
	perPosition                  []int
	endedPositions               []int // the same of requests that have ended

	scheduledPrompts                  int // prompt tokens of requests that were scheduled
	prefilledPrompts, prefilledCached int // prompt tokens of requests whose prefill is done

	prompt, cached, generated     int // finished requests
	requests, aborted             int
	verifies                      int
	byLength, byStop              int
	promptSeconds, decodeSeconds  float64
	longest                       int
	decodeCalls, drafted, draftOK int // one-slot servers count these at the end, too
	ttft, e2e, queued, gaps       histogram
	perToken                      histogram // gaps shared out among their tokens
}

// gauges are what the server shows of its load.
type gauges struct {
	running, waiting int
	pool

	// Of the last interval between two lines of a log; what an idle server does not touch again but for the throughput.
	acceptLength, throughput float64
}

func newCounters(block int) counters {
	long := []float64{.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400}
	short := []float64{.002, .004, .006, .008, .01, .02, .04, .06, .08, .1, .2, .4, .6, .8, 1, 2, 4, 6, 8}
	return counters{
		perPosition: make([]int, block-1), endedPositions: make([]int, block-1),
		ttft: newHistogram(long), e2e: newHistogram(long), queued: newHistogram(long), gaps: newHistogram(short), perToken: newHistogram(short),
	}
}

func (c *counters) observePrefill(j *job) {
	c.prefilledPrompts += len(j.prompt)
	c.prefilledCached += j.cached
	c.ttft.observe(j.firstToken.Sub(j.received).Seconds())
	c.queued.observe(secondsBetween(j.received, j.scheduled))
}

func (c *counters) observeStep(accepted int, seconds float64) {
	c.steps++
	c.decodeTokens += accepted
	c.correct += accepted - 1
	for i := range accepted - 1 {
		c.perPosition[i]++
	}
	c.gaps.observe(seconds)
	for range accepted {
		c.perToken.observe(seconds / float64(accepted))
	}
}

func (c *counters) observeEnd(j *job) {
	if j.finish == "abort" {
		c.aborted++
		return
	}
	if j.unlogged {
		return
	}
	c.requests++
	c.prompt += len(j.prompt)
	c.cached += j.cached
	c.generated += len(j.output)
	c.verifies += j.verifyPasses()
	for i, n := range positionsOf(j, len(c.endedPositions)) {
		c.endedPositions[i] += n
	}
	c.decodeCalls += j.verifyPasses()
	c.draftOK += j.correctDrafts()
	c.drafted += j.verifyPasses() * len(c.perPosition)
	c.longest = max(c.longest, j.length())
	c.promptSeconds += secondsBetween(j.scheduled, j.firstToken)
	c.decodeSeconds += secondsBetween(j.firstToken, j.finished)
	c.e2e.observe(j.finished.Sub(j.received).Seconds())
	if j.finish == "stop" {
		c.byStop++
	} else {
		c.byLength++
	}
}

// show brings the shown gauges up to date. The lock is held.
func (e *engine) show() {
	e.shown.running, e.shown.waiting, e.shown.pool = len(e.running), len(e.queue), e.pool()
}

// interval is where the last one ended.
type interval struct {
	steps, tokens int
	at            time.Time
}

// showInterval brings those gauges up to date that tell of the last interval of decode passes.
func (e *engine) showInterval() {
	now := interval{steps: e.count.steps, tokens: e.count.decodeTokens, at: e.clock}
	e.shown.acceptLength = ratio(now.tokens-e.interval.tokens, now.steps-e.interval.steps)
	e.shown.throughput = perSecondOf(now.tokens-e.interval.tokens, e.interval.at, now.at)
	e.interval = now
}

// observe gives a copy of what the server counts and shows.
func (e *engine) observe() (counters, gauges) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.faults.StaleGauges {
		e.show()
	}
	return e.count.copied(), e.shown
}

// copied is a copy that no longer moves.
func (c counters) copied() counters {
	c.perPosition, c.endedPositions = slices.Clone(c.perPosition), slices.Clone(c.endedPositions)
	for _, h := range []*histogram{&c.ttft, &c.e2e, &c.queued, &c.gaps, &c.perToken} {
		h.counts = slices.Clone(h.counts)
	}
	return c
}

// histogram is a classic one; counts are not cumulative and hold +Inf last.
type histogram struct {
	bounds []float64
	counts []int
	sum    float64
	n      int
}

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, counts: make([]int, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	at, _ := slices.BinarySearch(h.bounds, v)
	h.counts[at]++
	h.sum += v
	h.n++
}

// drafts is the number of verify passes of requests that have ended, 0 without speculation.
func (c *counters) drafts() int {
	if len(c.perPosition) == 0 {
		return 0
	}
	return c.verifies
}
