package prober

import (
	"cmp"
	"math"
	"time"

	"github.com/go-kit/log/level"

	"longctx_exporter/prober/inference"
)

// opening is when a slot may run: as it is due, or to confirm what was seen.
type opening struct {
	slot     *slot
	confirms bool
	earlier  string    // run whose prompt it sends again; "" for a whole run
	at       time.Time // never before now
}

// openings lists when each slot may run, if nothing else does until then.
func (sv *server) openings(now time.Time) []opening {
	sv.ledger.book(now)
	solvent := sv.ledger.solvent()
	openings := make([]opening, 0, len(sv.slots))
	for _, sl := range sv.slots {
		gate := sv.gate(sl, now, solvent)
		if gate.After(now) {
			sl.barred = later(sl.barred, gate)
		}
		openings = append(openings, opening{slot: sl, at: afterQuiet(sl.quiet, later(gate, later(sl.wanted(), sv.cool)))})
		if !sl.confirm.IsZero() {
			at := later(sv.confirmable(sl, now), later(sl.confirm, sv.cool))
			openings = append(openings, opening{slot: sl, confirms: true, at: afterQuiet(sl.quiet, at)})
		}
	}
	return openings
}

// gate is when budget and quiet hours let a slot run; now at the earliest.
func (sv *server) gate(sl *slot, now time.Time, solvent map[*account]time.Time) time.Time {
	at := now
	if !unlimited(sl.target.Budget) {
		at = later(at, later(solvent[sl.account], sv.ledger.room(sv.expected(sl), 1)))
	}
	return afterQuiet(sl.quiet, at)
}

// expected is what a run of a slot will cost; before its first one, as much per token as that of the longest shorter rung.
func (sv *server) expected(sl *slot) time.Duration {
	if sl.cost > 0 {
		return sl.cost
	}
	var near *slot
	for _, s := range sv.slots {
		if s.target.Name == sl.target.Name && s.rung < sl.rung && s.cost > 0 && (near == nil || near.rung < s.rung) {
			near = s
		}
	}
	if near == nil {
		return 0
	}
	return time.Duration(min(float64(near.cost)*float64(sl.rung)/float64(near.rung), float64(longestPrice)))
}

// wanted is when a slot wants to run: at its due time, or earlier where a run was put off.
func (sl *slot) wanted() time.Time {
	if !sl.again.IsZero() && sl.again.Before(sl.due) {
		return sl.again
	}
	return sl.due
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// longestSleep is after how long at most the due times that were missed are told of.
const longestSleep = 5 * time.Minute

// nextStart is when the first of a server's slots may run, or earlier.
func (s *Scheduler) nextStart(sv *server) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	next := now.Add(longestSleep)
	for _, o := range sv.openings(now) {
		if o.at.Before(next) {
			next = o.at
		}
	}
	return next
}

// choose picks, of the slots that may run now, a confirmation first, then a rung that was never measured, then the one that is
// latest in parts of its interval, the shorter rung of two: so short intervals come often and long ones are not starved.
func (sv *server) choose(now time.Time) (opening, bool) {
	lateness := func(o opening) float64 {
		if o.slot.last.IsZero() {
			return math.Inf(1)
		}
		return float64(now.Sub(o.slot.since)) / float64(o.slot.interval)
	}
	var best opening
	for _, o := range sv.openings(now) {
		if o.at.After(now) {
			continue
		}
		if best.slot == nil || cmp.Or(compareBool(o.confirms, best.confirms), cmp.Compare(lateness(o), lateness(best)),
			cmp.Compare(best.slot.rung, o.slot.rung)) > 0 {
			best = o
		}
	}
	return best, best.slot != nil
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// settle books the end of a run: what the time that it took of the server costs, and when the server may be tried again if it had no room for it.
func (sv *server) settle(o opening, run Run, took time.Duration) {
	sl, now := o.slot, time.Now()
	cost := price(took, sl.target.Budget)
	payer := sl.account
	switch {
	case unlimited(sl.target.Budget):
		payer = nil
	case o.confirms:
		payer = &sv.ledger.reserve
	}
	sv.ledger.charge(payer, cost, now)
	if run.Status != Skipped && run.Plan != Warm { // which tells nothing of a whole run
		sl.took = took
		if sl.cost > 0 {
			cost = (cost + sl.cost) / 2 // a run that fails at once does not make the next one cheap
		}
		sl.cost = cost
	}
	sv.putOff(o, run, now)
}

// putOff lets a run that the server had no room for be tried again, after a while that doubles each time. Where real requests
// had to be let past, or the server asked for it, all its rungs wait.
func (sv *server) putOff(o opening, run Run, now time.Time) {
	sl := o.slot
	var again time.Time
	switch {
	case hadNoRoom(run):
		sv.refusals++
		sv.cool = now.Add(coolDown(sv.refusals))
		again = sv.cool
	case run.Status == Skipped && (run.Reason == Busy || run.Reason == PoolFull):
		sl.putOff++
		again = now.Add(coolDown(sl.putOff))
	case run.Status == Skipped:
		return
	default:
		sv.refusals, sl.putOff = 0, 0
		return
	}
	if o.confirms {
		sl.confirm = again
	} else {
		sl.again = again
	}
}

// hadNoRoom says whether a run came at a bad time for the whole server.
func hadNoRoom(run Run) bool {
	switch run.Reason {
	case Yielded, Reason(inference.Overloaded), Reason(inference.RateLimited):
		return true
	}
	return false
}

// The first and the longest pause before a server that had no room is tried again.
const (
	firstCoolDown   = time.Minute
	longestCoolDown = 30 * time.Minute
)

func coolDown(times int) time.Duration {
	d := firstCoolDown
	for ; times > 1 && d < longestCoolDown; times-- {
		d *= 2
	}
	return min(d, longestCoolDown)
}

// missed is a due time that was overtaken by the next one.
type missed struct {
	slot   *slot
	due    time.Time
	reason Reason
}

// miss drops every due time that has been overtaken by the next one, and tells of it. The last one stays: it is run late.
func (s *Scheduler) miss(sv *server) {
	s.mu.Lock()
	now := time.Now()
	var all []missed
	for _, sl := range sv.slots {
		for ; !sl.due.Add(sl.interval).After(now); sl.due = sl.due.Add(sl.interval) {
			reason := PreviousRunning
			switch {
			case sv.cool.After(sl.due):
				reason = Cooldown
			case sl.barred.After(sl.due):
				reason = OverBudget
			}
			all = append(all, missed{sl, sl.due, reason})
		}
	}
	s.mu.Unlock()
	for _, m := range all {
		s.skip(m.slot, m.due, m.reason)
	}
	if len(all) > 0 {
		level.Debug(s.logger).Log("msg", "due times missed", "missed", len(all), "first_target", all[0].slot.target.Name,
			"first_rung", all[0].slot.rung, "reason", all[0].reason)
	}
}
