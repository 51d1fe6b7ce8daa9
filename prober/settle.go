package prober

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/go-kit/log/level"

	"longctx_exporter/prober/inference"
)

// Bounds of when a server that was started anew counts as warm.
const (
	settleTokens    = 1024 // of the short prompt
	settleLegs      = 2    // of which the quicker one counts, in each run
	settledWithin   = 0.10 // relative difference of the times to the first token of two runs
	settlePatience  = 8    // runs after which a server that never agrees with itself is measured all the same
	startedTogether = 2.0  // seconds that two tellings of one start may differ by
)

// lifeSigns are what tells one life of a server's process from the next.
type lifeSigns struct {
	started  float64   // Unix seconds; 0 not told
	counters []float64 // that only grow while it lives; negative where not told
}

// countersOf lists the counters of a reading that only grow.
func countersOf(l Load) []float64 {
	var counters []float64
	for _, c := range []*float64{l.PromptTokens, l.GeneratedTokens, l.FinishedRequests} {
		v := -1.0
		if c != nil {
			v = *c
		}
		counters = append(counters, v)
	}
	return counters
}

// restarted says how the signs show that the server was started anew since earlier ones; "" where they do not.
func (s lifeSigns) restarted(earlier lifeSigns) string {
	if s.started > 0 && earlier.started > 0 && math.Abs(s.started-earlier.started) > startedTogether {
		return "it says so"
	}
	for i, c := range s.counters {
		if i < len(earlier.counters) && c >= 0 && c < earlier.counters[i] {
			return "its counters began anew"
		}
	}
	return ""
}

// continuous says whether both signs tell something that a restart would have changed.
func (s lifeSigns) continuous(earlier lifeSigns) bool {
	if s.started > 0 && earlier.started > 0 {
		return true
	}
	for i, c := range s.counters {
		if i < len(earlier.counters) && c >= 0 && earlier.counters[i] > 0 {
			return true
		}
	}
	return false
}

// isAnother glances at the server, and says whether it runs something else than when it was identified. It is asked before
// each run, so that what another deploy does is never taken for what the last one does.
func (e *execution) isAnother(ctx context.Context) bool {
	if e.fresh {
		return false
	}
	facts, err := e.client.Glance(ctx)
	if err != nil {
		return false // a leg will tell more
	}
	if facts.Started > 0 {
		e.signs.started = facts.Started
	}
	_, changed := e.deploy.next(facts.Settings, time.Now())
	return len(changed) > 0 || facts.Model != e.facts.Model
}

// noticeRestart sees whether the server was started since the last run.
func (e *execution) noticeRestart() {
	told := lifeSigns{started: e.signs.started}
	if e.before != nil {
		told.counters = countersOf(*e.before)
	}
	why := told.restarted(e.lastSigns)
	if why == "" && e.lost && !told.continuous(e.lastSigns) {
		why = "it was away"
	}
	e.lost = false
	if told.started > 0 {
		e.lastSigns.started = told.started
	}
	if told.counters != nil {
		e.lastSigns.counters = told.counters
	}
	if why == "" {
		return
	}
	level.Info(e.logger).Log("msg", "the server was started anew", "target", e.target.Name, "seen", why)
	e.memory.refused = refusal{}
	clear(e.memory.sent)
	e.unsettle()
}

// unsettle begins to wait until the server is warm.
func (r *Runner) unsettle() { r.unsettled, r.shortTTFT, r.settling = true, 0, 0 }

// loses says whether a failure may mean that the server was stopped.
func loses(err error) bool {
	var wire *inference.Error
	if !errors.As(err, &wire) {
		return false
	}
	switch wire.Class {
	case inference.Connect, inference.Loading, inference.GatewayError:
		return true
	case inference.ConnReset:
		return wire.Status == 0
	}
	return false
}

// settle rejects runs on a server that was started anew, or runs something else, until short prompts take as long to the first
// token in two runs: code is compiled, graphs are captured and weights are paged in by then.
func (e *execution) settle(ctx context.Context) error {
	if !e.unsettled {
		return nil
	}
	if _, err := e.preRoll(ctx); err != nil {
		return err
	}
	var ttfts []float64
	for range settleLegs {
		b, err := e.prompts.build(min(settleTokens, int(slices.Min(e.target.Ladder))), nil)
		if err != nil {
			return err
		}
		leg, err := e.send(ctx, preRoll, 0, b, e.memory.shortTokens, 0)
		if wire := (*inference.Error)(nil); errors.As(err, &wire) || ctx.Err() != nil {
			return err
		}
		ttfts = append(ttfts, shortSeconds(leg))
	}
	now, before := slices.Min(ttfts), e.shortTTFT
	e.shortTTFT = now
	e.settling++
	switch {
	case before > 0 && math.Abs(now-before) <= max(settledWithin*before, jitterFloor):
	case e.settling >= settlePatience:
		level.Warn(e.logger).Log("msg", "the server does not settle; it is measured as it is", "target", e.target.Name)
	case before > 0:
		return reject(ColdStart, "the server is still warming up: a short prompt took %.3g s to the first token, and %.3g s in the run before", now, before)
	default:
		return reject(ColdStart, "the server was just started, or runs something else: a short prompt takes %.3g s to the first token, and the next run tells whether it stays so", now)
	}
	e.unsettled = false
	return nil
}
