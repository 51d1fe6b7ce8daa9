// Package prober decides when each rung of a ladder of context lengths is measured, measures it with a few requests, and
// judges whether what came back is a measurement. It exports nothing itself: whoever observes its runs does.
package prober

import (
	"context"
	"fmt"
	"hash/fnv"
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

// RunFunc measures one rung of one target; its decode alone, where it is to confirm that of an earlier run, whose ID it is given,
// and can do so on that run's prompt (see Runner.Confirm). It returns soon after its context ends.
type RunFunc func(ctx context.Context, t Target, r Rung, earlier string) Run

// Scheduler decides when each rung of each target is measured. Every server has one goroutine, so that it is never probed
// twice at once, and a ledger, by which probes keep within the budget of its time. Targets come and go while it runs; the
// others keep their due times.
type Scheduler struct {
	run      RunFunc
	observer RunObserver
	logger   log.Logger

	mu      sync.Mutex // guards what follows, all of each server but its signal, and all of each slot but what says otherwise
	servers map[string]*server
	spawn   func(*server) // starts the goroutine of a server; nil while the scheduler does not run

	telling sync.RWMutex // read-held while the observer is told of a skip, so that Remove can wait for that
}

// slot is one rung of one target, and when it is due.
type slot struct {
	target   Target
	rung     Rung
	interval time.Duration
	quiet    []quiet
	account  *account

	due     time.Time // the next due time of the grid that has not been run or missed
	since   time.Time // the first due time since the last run; how late the slot is
	again   time.Time // when a run that was put off is tried again; zero for none
	confirm time.Time // from when on a confirmation is wanted; zero for none
	warm    warmth    // of that confirmation
	evidence
	barred time.Time     // until when budget or quiet hours have kept it from running
	putOff int           // how often in a row a run was
	last   time.Time     // start of the last run; zero before the first
	took   time.Duration // of the last run, on the server
	cost   time.Duration // of a run as they go, in time of the server

	failing  bool // this and the next two belong to the server's goroutine
	rejected int  // runs in a row
	tooLong  bool // the last run took longer than the interval
	removed  bool // guarded by Scheduler.telling
}

// NewScheduler makes the scheduler of the targets. Due times count from now; nothing runs before Run. The observer is told of
// every run and of every due time that was missed, by several goroutines at once.
func NewScheduler(targets []Target, run RunFunc, observer RunObserver, logger log.Logger) *Scheduler {
	s := &Scheduler{run: run, observer: observer, logger: logger, servers: map[string]*server{}}
	s.Add(targets, nil)
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
		slots[i] = &slot{target: t, rung: r, interval: t.Intervals.At(r), quiet: findZones(t.QuietHours), due: due, since: due}
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

// shutDown tells of the slots that would be next.
func (s *Scheduler) shutDown(sv *server) {
	s.mu.Lock()
	now := time.Now()
	var next []missed
	for _, sl := range sv.slots {
		if !sl.due.After(now) {
			next = append(next, missed{sl, sl.due, ShuttingDown})
		}
	}
	s.mu.Unlock()
	for _, m := range next {
		s.skip(m.slot, m.due, m.reason)
	}
}

func (s *Scheduler) skip(sl *slot, due time.Time, reason Reason) {
	s.telling.RLock()
	defer s.telling.RUnlock()
	if sl.removed {
		return
	}
	message := map[Reason]string{
		OverBudget:      "the server rested to keep within its budget, or by its quiet hours",
		Cooldown:        "the server was left alone after it had no room for the run before",
		PreviousRunning: "another run was going on",
		ShuttingDown:    "the exporter is shutting down",
	}[reason]
	run := sl.newRun(due)
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

// execute runs a slot, books what that cost, tells the observer, and logs what has changed.
func (s *Scheduler) execute(ctx context.Context, sv *server, o opening) {
	started := time.Now()
	run := s.guarded(ctx, o)
	run.Confirmation = o.confirms
	took := time.Since(started)
	if run.Duration > 0 || run.Status == Skipped {
		took = run.Duration // waiting for others costs the server nothing
	}
	s.mu.Lock()
	sv.settle(o, run, took)
	found, d := o.slot.weigh(run, time.Now())
	s.mu.Unlock()
	s.observer.ObserveRun(run)
	if run.Status != Skipped && ctx.Err() == nil {
		s.logChange(o.slot, run, took)
	}
	s.logFinding(o.slot, found, d)
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
func (s *Scheduler) guarded(ctx context.Context, o opening) (run Run) {
	started, sl := time.Now(), o.slot
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
	return s.run(ctx, sl.target, sl.rung, o.earlier)
}
