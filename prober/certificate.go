package prober

import (
	"context"
	"time"

	"github.com/go-kit/log/level"
)

// Patience with a server's own view of its load.
const (
	busyPatience  = time.Minute           // for other requests to end before a run
	latePatience  = 3 * time.Second       // for counters that move late after a run
	gaugePatience = 40 * time.Second      // for gauges that are refreshed every half a minute on an idle server
	pollFirst     = 50 * time.Millisecond // between readings, doubled each time
	pollMost      = 1500 * time.Millisecond
)

// waitUntilIdle takes the reading before the run, once nobody else is served and the counters of those before have moved. A
// server that stays busy is left alone.
func (e *execution) waitUntilIdle(ctx context.Context) error {
	if e.load == nil {
		return nil
	}
	began := time.Now()
	defer func() { e.waited += time.Since(began) }()
	var rest restWatch
	pause := pollFirst
	for ; ; pause = min(2*pause, pollMost) {
		load, err := e.load.ReadLoad(ctx)
		if err != nil {
			level.Debug(e.logger).Log("msg", "load of the server is not known", "target", e.target.Name, "err", err)
			return ctx.Err()
		}
		rested := rest.since(load)
		if load.idle() && rested >= e.memory.settling() || load.hidesOne() && load.passes() && rested >= e.memory.longestPass() {
			e.before = &load
			return nil
		}
		switch waited := time.Since(began); {
		case waited > busyPatience && load.idle(): // its counters do not come to rest
			e.before = &load
			return nil
		case waited > busyPatience:
			return skip(Busy, "the server has %d running and %d queued requests of others", known(load.Running), known(load.Queued))
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// restWatch knows since when readings have been alike.
type restWatch struct {
	at   time.Time
	load Load
}

// since is how long readings have been like this one.
func (w *restWatch) since(l Load) time.Duration {
	if w.at.IsZero() || !l.counts(w.load) || l.idle() != w.load.idle() {
		w.at, w.load = time.Now(), l
		return 0
	}
	return time.Since(w.at)
}

// settling is for how long counters must stand still to be believed: longer than they were ever late.
func (m *memory) settling() time.Duration { return min(2*m.lateness, latePatience) }

// leastSettling is for how long a proof stands at least before it is given.
const leastSettling = 100 * time.Millisecond

// passes says whether the server counts what each forward pass does, prefill and decode: while nothing of that moves, nobody is
// served, whatever a gauge shows.
func (l Load) passes() bool { return l.ForwardTokens != nil && l.ComputedTokens != nil }

// hidesOne says whether a gauge shows one request, which may have ended: gauges are not always fresh.
func (l Load) hidesOne() bool { return known(l.Running) == 1 && known(l.Queued) == 0 }

// longestPass is for how long one forward pass may keep a server's counters from moving: a chunk of somebody's prefill.
func (m *memory) longestPass() time.Duration {
	const chunk, least, unknown = 16384, 3 * time.Second, 20 * time.Second
	perToken := time.Duration(0)
	for rung, took := range m.cold {
		perToken = max(perToken, took/time.Duration(rung))
	}
	if perToken == 0 {
		return unknown
	}
	return max(least, 2*chunk*perToken) // the end of a prompt takes twice as long per token as all of it
}

// readBeforeDecode takes the reading between prefills and decoding, for the growth of step counters. Counters that do not hold
// all of ours by then say nothing of steps, and those that hold more end the run.
func (e *execution) readBeforeDecode(ctx context.Context) error {
	e.decode = nil
	if e.before == nil {
		return nil
	}
	began := time.Now()
	defer func() { e.waited += time.Since(began) }()
	for pause := pollFirst; ; pause = min(2*pause, pollMost) {
		load, err := e.load.ReadLoad(ctx)
		if err != nil {
			return ctx.Err()
		}
		if known(load.Running) > 1 || known(load.Queued) > 0 { // one may be a gauge that still shows our own
			return reject(Contended, "the server has %d running and %d queued requests in the middle of the run", known(load.Running), known(load.Queued))
		}
		c := compareCounters(*e.before, load, e.tally)
		switch {
		case c.verdict != nil && c.verdict.isolation == IsContended:
			return reject(Contended, "the server worked for others during the run: %s", c.verdict.why)
		case c.counted:
			e.decode = &load
			return nil
		case c.verdict != nil || time.Since(began) >= max(leastSettling, e.memory.settling()):
			return nil
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// certify grades what is known of other requests during the run, from the server's counters and gauges before and after.
func (e *execution) certify(ctx context.Context) error {
	s := &e.run.Sample
	if s.Isolation = NotKnown; e.before == nil {
		return e.checkCanaries(ctx)
	}
	g, err := e.compareLoads(ctx)
	if err != nil {
		return err
	}
	s.Isolation, e.counted, e.strayed = g.isolation, g.counted, g.strayed
	switch {
	case s.Isolation == IsContended:
		return reject(Contended, "the server worked for others during the run: %s", g.why)
	case g.restarted:
		e.identified = time.Time{} // it may have come back as another
		return reject(ColdStart, "the server started again during the run: %s", g.why)
	case g.why != "":
		return reject(Inconsistent, "the server contradicts itself: %s", g.why)
	}
	return nil
}

// compareLoads reads the load until a later reading can no longer change the grade. A proof must stand for a while: counters of
// those who left as we did may move late.
func (e *execution) compareLoads(ctx context.Context) (g grading, err error) {
	began := time.Now()
	defer func() { e.waited += time.Since(began) }()
	var proved, hidden time.Time
	fell, stood := false, false
	defer func() {
		if fell && stood { // two replicas, by turns
			g = grading{isolation: NotKnown, strayed: true}
		}
	}()
	for pause := pollFirst; ; pause = min(2*pause, pollMost) {
		after, err := e.load.ReadLoad(ctx)
		if err != nil {
			return grading{isolation: NotKnown}, ctx.Err()
		}
		if !proved.IsZero() && !after.idle() || !hidden.IsZero() && !after.counts(*e.after) {
			g.isolation = Quiet // somebody came after the run, and hides what moves late
			return g, nil
		}
		e.after = &after
		g = grade(*e.before, after, e.tally)
		fell, stood = fell || g.restarted, stood || !g.restarted
		patience := g.patience
		switch now := time.Now(); {
		case g.isolation == Proved && proved.IsZero():
			proved = now
			e.memory.lateness = max(e.memory.lateness, proved.Sub(began))
			patience = now.Sub(began) + max(leastSettling, e.memory.settling())
		case g.isolation == Proved:
			patience = proved.Sub(began) + max(leastSettling, e.memory.settling())
		case g.hidden && hidden.IsZero():
			hidden = now
		case g.hidden && now.Sub(hidden) >= e.memory.longestPass():
			g.isolation = Proved // no pass is made for whom the gauge shows
			return g, nil
		}
		if time.Since(began) >= patience {
			return g, nil
		}
		if err := sleep(ctx, min(pause, patience-time.Since(began))); err != nil {
			return g, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
