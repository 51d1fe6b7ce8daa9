package prober

import (
	"slices"
	"time"
)

// Past is a run of an earlier process.
type Past struct {
	Target  string
	Rung    Rung
	Started time.Time
	Took    time.Duration // on the server; 0 where that is not known
	Clean   []Sample      // the latest accepted ones of the rung up to then, oldest first
}

// recall takes over the runs of an earlier process: a rung is next due an interval after its last start, or within the minute
// that first runs are given, and what the runs cost is still owed, unless this process has it in its books. Runs of rungs that
// are not scheduled are ignored. The caller holds mu.
func (s *Scheduler) recall(past []Past, now time.Time) {
	past = slices.SortedFunc(slices.Values(past), func(a, b Past) int { return a.Started.Compare(b.Started) })
	inDebt := map[*account]bool{}
	for _, sv := range s.servers {
		for _, a := range sv.ledger.owing() {
			inDebt[a] = true
		}
	}
	for _, p := range past {
		sv, sl := s.find(p.Target, p.Rung)
		if sl == nil {
			continue
		}
		if p.Started.After(now) { // the clock was set back
			p.Started = now
		}
		sl.resume(p, now)
		for _, sample := range p.Clean {
			sl.take(sample) // which finds what the earlier process found
		}
		if !inDebt[sl.account] {
			sv.ledger.recall(sl, p, now)
		}
	}
}

// resume makes a slot go on where an earlier process left it.
func (sl *slot) resume(p Past, now time.Time) {
	sl.took, sl.cost = p.Took, price(p.Took, sl.target.Budget)
	if now.Sub(p.Started) > sl.interval {
		return // the time away is no forecast of the time from run to run
	}
	sl.last = p.Started
	if due := p.Started.Add(sl.interval); due.After(sl.due) {
		sl.due, sl.since = due, due
	}
}

// recall books a run of an earlier process.
func (l *ledger) recall(sl *slot, p Past, now time.Time) {
	if len(l.spent) == 0 && p.Started.Before(l.paid) {
		l.paid = p.Started
	}
	payer := sl.account
	if unlimited(sl.target.Budget) {
		payer = nil
	}
	l.begin(p.Started)
	l.charge(payer, sl.cost, p.Started.Add(min(p.Took, now.Sub(p.Started))))
}
