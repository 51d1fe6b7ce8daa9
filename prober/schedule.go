// Package prober decides when each rung of a ladder of context lengths is measured, measures it with a few requests, and
// judges whether what came back is a measurement. It exports nothing itself: whoever observes its runs does.
package prober

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"longctx_exporter/prober/inference"
)

// firstRunWithin bounds the wait for the first run of a rung on an idle server.
const firstRunWithin = time.Minute

// RunFunc measures one rung of one target. It returns soon after its context ends.
type RunFunc func(context.Context, Target, Rung) Run

// Scheduler decides when each rung of each target is measured. Every server has one goroutine, so that it is never probed
// twice at once, and rests after each run by the budget of the run's target. Targets come and go while it runs; the others
// keep their due times.
type Scheduler struct {
	run      RunFunc
	observer RunObserver
	logger   log.Logger

	mu      sync.Mutex // guards what follows, the slots and turn of each server, and of each slot cost and since
	servers map[string]*server
	spawn   func(*server) // starts the goroutine of a server; nil while the scheduler does not run

	telling sync.RWMutex // read-held while the observer is told of a skip, so that Remove can wait for that
}

// slot is one rung of one target, and when it is due.
type slot struct {
	target   Target
	rung     Rung
	interval time.Duration
	due      time.Time     // the next due time of the grid that has not been run or missed
	since    time.Time     // the first due time since the last run; how late the slot is
	ran      bool          // at least once
	cost     time.Duration // the last run and the rest that it called for
	failing  bool
	rejected int  // runs in a row
	tooLong  bool // the last run took longer than the interval
	removed  bool // guarded by Scheduler.telling
}

// NewScheduler makes the scheduler of the targets. Due times count from now; nothing runs before Run. The observer is told of every run and of every
// due time that was missed, by several goroutines at once.
func NewScheduler(targets []Target, run RunFunc, observer RunObserver, logger log.Logger) *Scheduler {
	s := &Scheduler{run: run, observer: observer, logger: logger, servers: map[string]*server{}}
	s.Add(targets)
	return s
}

// slotsOf spreads the first due times of a target over its shortest interval, a minute at most, shorter rungs first. The
// names decide where, so that restarts and other targets do not move them.
func slotsOf(t Target, start time.Time) []*slot {
	ladder := slices.Sorted(slices.Values(t.Ladder))
	window := firstRunWithin
	for _, r := range ladder {
		window = min(window, t.Intervals.At(r))
	}
	part := window / time.Duration(max(len(ladder), 1))
	slots := make([]*slot, len(ladder))
	for i, r := range ladder {
		h := fnv.New32a()
		fmt.Fprintf(h, "%s\x00%d", t.Name, r)
		within := time.Duration(float64(part) * float64(h.Sum32()) / (1 << 32))
		due := start.Add(time.Duration(i)*part + within)
		slots[i] = &slot{target: t, rung: r, interval: t.Intervals.At(r), due: due, since: due}
	}
	return slots
}

// Run schedules until ctx ends. Then the run that is going on is cancelled and observed, and nothing more is sent.
func (s *Scheduler) Run(ctx context.Context) {
	var servers sync.WaitGroup
	s.mu.Lock()
	s.spawn = func(sv *server) { servers.Go(func() { s.serve(ctx, sv) }) }
	for _, sv := range s.servers {
		s.wake(sv)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.spawn = nil
	s.mu.Unlock()
	servers.Wait()
}

// EffectiveInterval forecasts the time from run to run of a rung: its interval, or more where the server's budget does not
// allow that. It is 0 for a rung that is not scheduled.
func (s *Scheduler) EffectiveInterval(target string, rung Rung) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl, slots := s.find(target, rung); sl != nil {
		return effectiveInterval(sl.interval, slots)
	}
	return 0
}

// NextDue forecasts when the next run of a rung starts: an effective interval after the due time of the one before. It stays
// where it is when due times are missed, so that it tells how late the rung is. It is zero for a rung that is not scheduled.
func (s *Scheduler) NextDue(target string, rung Rung) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl, slots := s.find(target, rung)
	if sl == nil {
		return time.Time{}
	}
	return sl.since.Add(effectiveInterval(sl.interval, slots) - sl.interval)
}

// find gives a rung's slot and the slots of its server, nil for a rung that is not scheduled.
func (s *Scheduler) find(target string, rung Rung) (*slot, []*slot) {
	for _, sv := range s.servers {
		for _, sl := range sv.slots {
			if sl.target.Name == target && sl.rung == rung {
				return sl, sv.slots
			}
		}
	}
	return nil, nil
}

// nextDue is the earliest due time of the slots.
func nextDue(slots []*slot) time.Time {
	return slices.MinFunc(slots, func(a, b *slot) int { return a.due.Compare(b.due) }).due
}

// mostOverdue picks, of the slots that are due, the one that is latest in parts of its interval, the shorter rung of two:
// so short intervals come often and long ones are not starved. A rung that was never measured comes before all others.
func mostOverdue(slots []*slot, now time.Time) *slot {
	lateness := func(sl *slot) float64 {
		if !sl.ran {
			return math.Inf(1)
		}
		return float64(now.Sub(sl.since)) / float64(sl.interval)
	}
	var best *slot
	for _, sl := range slots {
		if sl.due.After(now) {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(lateness(sl), lateness(best)), cmp.Compare(best.rung, sl.rung)) > 0 {
			best = sl
		}
	}
	return best
}

// miss drops every due time that has been overtaken by the next one, and tells of it. The last one stays: it is run late.
func (s *Scheduler) miss(slots []*slot, now time.Time, reason Reason) {
	for _, sl := range slots {
		missed := 0
		for ; !sl.due.Add(sl.interval).After(now); missed++ {
			s.skip(sl, reason)
			sl.due = sl.due.Add(sl.interval)
		}
		if missed > 0 {
			level.Debug(s.logger).Log("msg", "due times missed", "target", sl.target.Name, "rung", sl.rung, "reason", reason,
				"missed", missed)
		}
	}
}

// shutDown tells of the slots that would be next.
func (s *Scheduler) shutDown(slots []*slot) {
	now := time.Now()
	for _, sl := range slots {
		if !sl.due.After(now) {
			s.skip(sl, ShuttingDown)
		}
	}
}

func (s *Scheduler) skip(sl *slot, reason Reason) {
	s.telling.RLock()
	defer s.telling.RUnlock()
	if sl.removed {
		return
	}
	message := map[Reason]string{
		OverBudget:      "the server rested to keep within its budget",
		PreviousRunning: "another run was going on",
		ShuttingDown:    "the exporter is shutting down",
	}[reason]
	run := sl.newRun(sl.due)
	run.Status, run.Reason, run.Message = Skipped, reason, message
	s.observer.ObserveRun(run)
}

func (sl *slot) newRun(started time.Time) Run {
	return Run{
		ID:     strconv.FormatUint(rand.Uint64(), 36),
		Target: sl.target.Name, Model: sl.target.ModelLabel(), Rung: sl.rung, Started: started,
		Sample: Sample{Isolation: NotKnown},
	}
}

// execute runs a slot, tells the observer, and logs what has changed. It returns the rest that the run calls for.
func (s *Scheduler) execute(ctx context.Context, sl *slot) time.Duration {
	started := time.Now()
	run := s.guarded(ctx, sl)
	took := time.Since(started)
	spent := took
	if run.Duration > 0 || run.Status == Skipped {
		spent = run.Duration // waiting for others costs the server nothing
	}
	pause := rest(spent, sl.target.Budget)
	s.mu.Lock()
	sl.cost = took + pause
	s.mu.Unlock()
	s.observer.ObserveRun(run)
	if run.Status != Skipped && ctx.Err() == nil {
		s.logChange(sl, run, took)
	}
	return pause
}

// unmeasured is after how many rejected runs in a row a rung counts as not measured.
const unmeasured = 3

// logChange logs when a rung begins or ceases to fail, to be rejected, or to take longer than its interval; single runs are
// no news.
func (s *Scheduler) logChange(sl *slot, run Run, took time.Duration) {
	logger := log.With(s.logger, "target", sl.target.Name, "rung", sl.rung)
	if tooLong := took > sl.interval; tooLong != sl.tooLong {
		sl.tooLong = tooLong
		if tooLong {
			level.Warn(logger).Log("msg", "a run takes longer than its interval", "took", took, "interval", sl.interval)
		}
	}
	switch {
	case run.Status == Rejected && run.Reason != Interrupted:
		if sl.rejected++; sl.rejected == unmeasured {
			level.Warn(logger).Log("msg", "no clean measurement", "rejected_in_a_row", sl.rejected, "reason", run.Reason, "detail", run.Message)
		}
	case run.Status == Accepted:
		if sl.rejected >= unmeasured {
			level.Info(logger).Log("msg", "clean measurements again")
		}
		sl.rejected = 0
	}
	switch failed := run.Status == Failed; {
	case failed && !sl.failing:
		level.Warn(logger).Log("msg", "probe fails", "reason", run.Reason, "err", run.Message)
		sl.failing = true
	case !failed && sl.failing:
		level.Info(logger).Log("msg", "probe works again", "status", run.Status)
		sl.failing = false
	}
}

// guarded turns a panic into a failed run: one bad answer must not end the probing of all servers.
func (s *Scheduler) guarded(ctx context.Context, sl *slot) (run Run) {
	started := time.Now()
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		level.Error(s.logger).Log("msg", "run panicked", "target", sl.target.Name, "rung", sl.rung, "err", p,
			"stack", string(debug.Stack()))
		run = sl.newRun(started)
		run.Duration = time.Since(started)
		run.Status, run.Reason, run.Message = Failed, Reason(inference.Protocol), "the probe itself broke; its log has the details"
	}()
	return s.run(ctx, sl.target, sl.rung)
}
