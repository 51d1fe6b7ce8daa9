package prober

import (
	"cmp"
	"slices"
	"time"
)

// EffectiveInterval forecasts the time from run to run of a rung: its interval, or more where the server's budget, quiet
// hours or long runs do not allow that. It is 0 for a rung that is not scheduled.
func (s *Scheduler) EffectiveInterval(target string, rung Rung) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	sv, sl := s.find(target, rung)
	if sl == nil {
		return 0
	}
	effective := max(sl.interval, sv.stretched(sl))
	for _, other := range sv.slots {
		effective = max(effective, other.took) // which may hold the server when this one is due
	}
	if !sl.last.IsZero() {
		effective = max(effective, sv.nextDue(sl, time.Now()).Sub(sl.last))
	}
	return effective
}

// NextDue forecasts when the next run of a rung starts: at its due time, or as soon afterwards as budget, quiet hours and
// cool-downs allow. It stays where it is when due times are missed, so that it tells how late the rung is. It is zero for a
// rung that is not scheduled.
func (s *Scheduler) NextDue(target string, rung Rung) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	sv, sl := s.find(target, rung)
	if sl == nil {
		return time.Time{}
	}
	return sv.nextDue(sl, time.Now())
}

// BudgetUsed is the share of a target's budget that runs of its server took in the last 24 hours; 0 for a target that is
// not scheduled.
func (s *Scheduler) BudgetUsed(target string) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sv := range s.servers {
		for _, sl := range sv.slots {
			if sl.target.Name == target {
				return sv.ledger.used(time.Now())
			}
		}
	}
	return 0
}

// find gives a rung's slot and its server, nil for a rung that is not scheduled.
func (s *Scheduler) find(target string, rung Rung) (*server, *slot) {
	for _, sv := range s.servers {
		for _, sl := range sv.slots {
			if sl.target.Name == target && sl.rung == rung {
				return sv, sl
			}
		}
	}
	return nil, nil
}

func (sv *server) nextDue(sl *slot, now time.Time) time.Time {
	sv.ledger.book(now)
	at := sl.since
	if !sl.again.IsZero() && sl.again.Before(at) {
		at = sl.again
	}
	gate := sv.gate(sl, now, sv.ledger.solvent())
	if gate = later(gate, sv.cool); gate.After(now) {
		at = later(at, gate)
	}
	return afterQuiet(sl.quiet, at)
}

// stretched is the interval that the budget leaves a slot when every slot gets what it asks for, or else a share of what
// is left by its weight. It is 0 where the budget leaves enough.
func (sv *server) stretched(sl *slot) time.Duration {
	if unlimited(sl.target.Budget) {
		return 0
	}
	type claim struct {
		slot  *slot
		wants float64 // share of the server's time
	}
	var claims []claim
	left, sum, own := ladderShare, 0.0, claim{}
	for _, s := range sv.slots {
		if unlimited(s.target.Budget) {
			continue
		}
		c := claim{s, float64(sv.expected(s)) / float64(s.interval)}
		if claims = append(claims, c); s == sl {
			own = c
		}
		sum += s.account.weight
	}
	slices.SortFunc(claims, func(a, b claim) int { return cmp.Compare(a.wants/a.slot.account.weight, b.wants/b.slot.account.weight) })
	for _, c := range claims {
		if c.wants > left/sum*c.slot.account.weight {
			break // and so do all that follow
		}
		if c.slot == sl {
			return 0
		}
		left, sum = left-c.wants, sum-c.slot.account.weight
	}
	part := left / sum * sl.account.weight
	return time.Duration(min(own.wants*float64(sl.interval)/part, float64(longestPrice)))
}
