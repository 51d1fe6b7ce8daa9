package prober

import (
	"context"
	"fmt"
	"time"

	"github.com/go-kit/log/level"
)

// Patience with a server's own view of its load.
const (
	busyPatience  = time.Minute           // for other requests to end before a run
	latePatience  = 3 * time.Second       // for counters that move late after a run
	gaugePatience = 40 * time.Second      // for gauges that are refreshed every half a minute on an idle server
	stillness     = 3 * time.Second       // without a token, after which a gauge that shows one request is not fresh
	pollFirst     = 50 * time.Millisecond // between readings, doubled each time
	pollMost      = 1500 * time.Millisecond
)

// waitUntilIdle takes the reading before the run, once nobody else is served. A server that stays busy is left alone.
func (e *execution) waitUntilIdle(ctx context.Context) error {
	if e.load == nil {
		return nil
	}
	began := time.Now()
	defer func() { e.waited = time.Since(began) }()
	var still stillWatch
	pause := pollFirst
	for ; ; pause = min(2*pause, pollMost) {
		load, err := e.load.ReadLoad(ctx)
		if err != nil {
			level.Debug(e.logger).Log("msg", "load of the server is not known", "target", e.target.Name, "err", err)
			return ctx.Err()
		}
		if known(load.Running) == 0 && known(load.Queued) == 0 || still.since(load) > stillness {
			e.before = &load
			return nil
		}
		if time.Since(began) > busyPatience {
			return skip(Busy, "the server has %d running and %d queued requests of others", known(load.Running), known(load.Queued))
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// stillWatch knows since when nothing was generated while a gauge claimed a single running request.
type stillWatch struct {
	at     time.Time
	tokens float64
}

// since is how long the counter that moves with every forward pass has not moved; 0 where there is none.
func (w *stillWatch) since(l Load) time.Duration {
	tokens, live := l.forwardCounter()
	if !live || known(l.Running) > 1 || known(l.Queued) > 0 {
		return 0
	}
	if w.at.IsZero() || tokens != w.tokens {
		w.at, w.tokens = time.Now(), tokens
	}
	return time.Since(w.at)
}

// readBeforeDecode takes the reading between prefills and decoding, for the growth of step counters.
func (e *execution) readBeforeDecode(ctx context.Context) error {
	e.decode = nil
	if e.before == nil {
		return nil
	}
	load, err := e.load.ReadLoad(ctx)
	if err != nil {
		return ctx.Err()
	}
	e.decode = &load
	if known(load.Running) > 1 || known(load.Queued) > 0 { // one may be a gauge that still shows our own
		return reject(Contended, "the server has %d running and %d queued requests in the middle of the run", known(load.Running), known(load.Queued))
	}
	return nil
}

// certify grades what is known of other requests during the run, from the server's counters and gauges before and after.
func (e *execution) certify(ctx context.Context) error {
	s := &e.run.Sample
	if s.Isolation = NotKnown; e.before == nil {
		return e.checkCanaries(ctx)
	}
	var g grading
	pause := pollFirst
	for began := time.Now(); ; pause = min(2*pause, pollMost) {
		after, err := e.load.ReadLoad(ctx)
		if err != nil {
			return ctx.Err()
		}
		e.after = &after
		g = grade(*e.before, after, e.tally)
		s.Isolation = g.isolation
		if time.Since(began) >= g.patience {
			break
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
	switch {
	case s.Isolation == IsContended:
		return reject(Contended, "the server worked for others during the run: %s", g.why)
	case g.why != "":
		return reject(Inconsistent, "the server contradicts itself: %s", g.why)
	}
	return nil
}

// grading is what two readings say.
type grading struct {
	isolation Isolation
	why       string        // of contention, or of a contradiction
	patience  time.Duration // how long a later reading may still change the grade
}

// grade compares two readings with what our own legs must have added.
func grade(before, after Load, ours tally) grading {
	visible, matched, short := 0, 0, ""
	for _, c := range expectations(before, after, ours) {
		if c.before == nil || c.after == nil {
			continue
		}
		grown, blur := *c.after-*c.before, before.blur(*c.before)+after.blur(*c.after)
		switch {
		case grown < 0:
			return grading{isolation: NotKnown} // the server restarted: its counters say nothing
		case grown > c.most+blur:
			why := fmt.Sprintf("its count of %s grew by %.0f, our requests account for %.0f", c.what, grown, c.most)
			return grading{isolation: IsContended, why: why}
		case grown >= c.least-blur:
			matched++
		default:
			short = fmt.Sprintf("its count of %s grew by %.0f, its answers claim %.0f", c.what, grown, c.least)
		}
		visible++
	}
	_, live := after.forwardCounter()
	live = live && (after.ForwardTokens == nil || !ours.forwardUnknown)
	// Whoever else was served had at least one token generated: that count must be exact, the prompts' may be blurred.
	counters := after.exact(after.GeneratedTokens) && (after.PromptTokens != nil || after.ComputedTokens != nil) && !ours.uncounted
	busy := known(after.Running) > 0 || known(after.Queued) > 0
	others := fmt.Sprintf("it has %d running and %d queued requests after it", known(after.Running), known(after.Queued))
	switch {
	case matched < visible && sawAll(before, after, ours): // all our requests, but fewer tokens
		return grading{isolation: NotKnown, why: short, patience: latePatience}
	case matched < visible: // late, or our legs went elsewhere
		return grading{isolation: NotKnown, patience: latePatience}
	case busy && counters && live && known(after.Running) <= 1 && known(after.Queued) == 0:
		return grading{isolation: Proved} // no pass was made but for us: the gauge is not fresh
	case busy && counters: // somebody who is not done yet, or a gauge that is not fresh
		return grading{isolation: IsContended, why: others, patience: gaugePatience}
	case busy:
		return grading{isolation: IsContended, why: others, patience: latePatience}
	case before.Running == nil || after.Running == nil:
		return grading{isolation: NotKnown}
	case counters:
		return grading{isolation: Proved}
	}
	return grading{isolation: Quiet}
}

// sawAll says whether the server has counted all our requests as finished.
func sawAll(before, after Load, ours tally) bool {
	return before.FinishedRequests != nil && after.FinishedRequests != nil && ours.requests > 0 && !ours.uncounted &&
		*after.FinishedRequests-*before.FinishedRequests == float64(ours.requests)
}

// expectation is what one counter may have grown by if nobody but us was served.
type expectation struct {
	what          string
	before, after *float64
	least, most   float64
}

// expectations lists the counters that our own legs decide. Where a server does not tell cached tokens, what it computed
// of our prompts is only bounded.
func expectations(before, after Load, ours tally) []expectation {
	all, computed := float64(ours.prompt), float64(ours.prompt-ours.cached)
	leastComputed := computed
	if ours.cached == 0 {
		leastComputed = 0
	}
	if ours.uncounted {
		return []expectation{{"aborted requests", before.AbortedRequests, after.AbortedRequests, 0, 0}}
	}
	return []expectation{
		{"prompt tokens", before.PromptTokens, after.PromptTokens, leastComputed, all}, // some vLLM versions leave cached tokens out
		{"computed prompt tokens", before.ComputedTokens, after.ComputedTokens, leastComputed, all},
		{"generated tokens", before.GeneratedTokens, after.GeneratedTokens, float64(ours.completion), float64(ours.completion)},
		{"finished requests", before.FinishedRequests, after.FinishedRequests, float64(ours.requests), float64(ours.requests)},
		{"aborted requests", before.AbortedRequests, after.AbortedRequests, 0, 0},
		ours.expectForward(before, after),
	}
}

// expectForward is what the decode passes of our own legs committed, where they all tell.
func (t tally) expectForward(before, after Load) expectation {
	if t.forwardUnknown {
		return expectation{}
	}
	return expectation{"decoded tokens", before.ForwardTokens, after.ForwardTokens, float64(t.forward), float64(t.forward)}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
