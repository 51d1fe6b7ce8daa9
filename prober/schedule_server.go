package prober

import (
	"context"
	"slices"
	"time"
)

// server is what must not be probed twice at once.
type server struct {
	slots   []*slot       // never changed in place, so that whoever has them may read on
	changed chan struct{} // takes one signal: slots came or went
	serving bool          // its goroutine lives
	turn    *turn         // the run that is going on, nil between runs
	ledger  *ledger

	cool     time.Time // until when it is left alone
	refusals int       // how often in a row it had no room for a run
}

// turn is one run of a server.
type turn struct {
	target string
	cancel context.CancelFunc
	ended  chan struct{} // closed once the observer knows
}

// Add schedules more targets, whose names must be new. Their due times count from now, but for the rungs that an earlier process
// has run: past may be nil.
func (s *Scheduler) Add(targets []Target, past []Past) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for name, sv := range s.servers {
		if sv.ledger.book(now); len(sv.slots) == 0 && !sv.serving && sv.ledger.settled() {
			delete(s.servers, name)
		}
	}
	for _, t := range targets {
		sv := s.servers[t.Server]
		if sv == nil {
			sv = &server{changed: make(chan struct{}, 1), ledger: newLedger(now)}
			s.servers[t.Server] = sv
		}
		slots := slotsOf(t, now)
		for _, sl := range slots {
			sl.account = sv.ledger.open(accountKey{t.Name, sl.rung}, t.weight(sl.rung))
		}
		sv.slots = slices.Concat(sv.slots, slots)
	}
	s.recall(past, now)
	for _, t := range targets {
		s.wake(s.servers[t.Server])
	}
}

// Remove ends the schedule of targets. Runs of theirs that are going on are cancelled; it returns when the observer has been
// told of them, after which it hears no more of these targets, or when ctx ends.
func (s *Scheduler) Remove(ctx context.Context, targets []string) {
	var turns []*turn
	var gone []*slot
	s.mu.Lock()
	for _, sv := range s.servers {
		var stay []*slot
		for _, sl := range sv.slots {
			if slices.Contains(targets, sl.target.Name) {
				gone = append(gone, sl)
				sl.account.closed = true
			} else {
				stay = append(stay, sl)
			}
		}
		if len(stay) == len(sv.slots) {
			continue
		}
		sv.slots = stay
		s.wake(sv)
		if sv.turn != nil && slices.Contains(targets, sv.turn.target) {
			turns = append(turns, sv.turn)
		}
	}
	s.mu.Unlock()

	s.telling.Lock()
	for _, sl := range gone {
		sl.removed = true
	}
	s.telling.Unlock()
	for _, t := range turns {
		t.cancel()
	}
	for _, t := range turns {
		select {
		case <-t.ended:
		case <-ctx.Done():
		}
	}
}

// wake makes a server's goroutine look at its slots, and starts it where there is none. The caller holds mu.
func (s *Scheduler) wake(sv *server) {
	if !sv.serving && s.spawn != nil && len(sv.slots) > 0 {
		sv.serving = true
		s.spawn(sv)
		return
	}
	select {
	case sv.changed <- struct{}{}:
	default: // it knows already
	}
}

// serve is the life of one server, until ctx ends or nothing is left to do.
func (s *Scheduler) serve(ctx context.Context, sv *server) {
	for {
		if !s.current(sv) {
			return
		}
		how := await(ctx, s.nextStart(sv), sv.changed)
		s.miss(sv)
		switch how {
		case ended:
			s.shutDown(sv)
			return
		case disturbed:
			continue
		}
		o, turn, ctx := s.begin(ctx, sv)
		if turn == nil {
			continue
		}
		s.execute(ctx, sv, o)
		s.end(sv, turn)
		s.miss(sv)
	}
}

// current says whether a server has slots; where it has none its goroutine must end.
func (s *Scheduler) current(sv *server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sv.serving = len(sv.slots) > 0
	return sv.serving
}

// begin picks what runs now, if anything, and moves its slot on to the due time after that run.
func (s *Scheduler) begin(ctx context.Context, sv *server) (opening, *turn, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	o, ok := sv.choose(now)
	if !ok {
		return o, nil, ctx
	}
	sv.ledger.begin(now)
	sl := o.slot
	sl.last = now
	if o.confirms {
		o.earlier = sl.earlier(now)
		sl.confirm = time.Time{}
	} else {
		if !sl.due.After(now) {
			sl.due = sl.due.Add(sl.interval)
		}
		sl.since, sl.again = sl.due, time.Time{}
	}
	ctx, cancel := context.WithCancel(ctx)
	sv.turn = &turn{target: sl.target.Name, cancel: cancel, ended: make(chan struct{})}
	return o, sv.turn, ctx
}

// end lets whoever waits for the end of the run go on.
func (s *Scheduler) end(sv *server, t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sv.turn = nil
	t.cancel()
	close(t.ended)
}

// awakening says why a sleep is over.
type awakening int

const (
	inTime awakening = iota
	disturbed
	ended
)

// await waits for a time, a signal or the end of ctx, which comes first where several are there.
func await(ctx context.Context, until time.Time, signal <-chan struct{}) awakening {
	if left := time.Until(until); left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-signal:
			return disturbed
		case <-timer.C:
		}
	}
	if ctx.Err() != nil {
		return ended
	}
	return inTime
}
