package prober

import (
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

const (
	// confirmAfter keeps a confirmation from seeing the very moment again that made the value surprising.
	confirmAfter = time.Minute
	// promptKept is how long the prompt of a run is worth sending again; later the server's cache has hardly kept it.
	promptKept = 10 * time.Minute
)

// warmth is what lets the next confirmation of a slot be a warm one; zero where it must be a whole run.
type warmth struct {
	run   string        // whose prompt it sends again
	until time.Time     // when that is given up
	cost  time.Duration // in time of the server
}

// warmthOf is that of a run which is to be confirmed: what it measured is decode, and its own warm legs tell what that costs.
func (sl *slot) warmthOf(run Run, now time.Time) warmth {
	if run.Plan != Triple && run.Plan != Warm || !sl.decodeAlone() {
		return warmth{}
	}
	var took time.Duration
	for _, l := range run.Legs {
		if l.Kind == warm {
			took += l.Response.Total
		}
	}
	return warmth{run.ID, now.Add(promptKept), price(took, sl.target.Budget)}
}

// earlier is the run whose prompt a confirmation sends again; "" where it is a whole run.
func (sl *slot) earlier(now time.Time) string {
	if now.Before(sl.warm.until) {
		return sl.warm.run
	}
	return ""
}

// confirmable is when the budget lets a slot be confirmed, now at the earliest: out of the part that is kept for confirmations, on
// credit up to the cost of a whole run. The second one of a surprise does not wait for that, or it would come too late to be of use.
func (sv *server) confirmable(sl *slot, now time.Time) time.Time {
	if unlimited(sl.target.Budget) {
		return now
	}
	whole := sv.expected(sl)
	cost := whole
	if sl.earlier(now) != "" {
		cost = min(whole, sl.warm.cost)
	}
	at := later(now, sv.ledger.room(cost, 1+tolerance))
	if sl.doubt != nil && sl.doubt.asked > 1 {
		return at
	}
	return later(at, sv.ledger.lends(whole-cost))
}

// weigh holds a clean run against those before it, and asks for a confirmation where it is surprising, or bears a surprise out
// that is not certain yet. Whatever else runs end in asks for none.
func (sl *slot) weigh(run Run, now time.Time) (finding, doubt) {
	if run.Status != Accepted {
		return nothingNew, doubt{}
	}
	found, d := sl.take(run.Sample)
	switch {
	case found == confirmed || found == refuted:
		sl.confirm = time.Time{} // a run of the ladder may have settled it
	case sl.doubt != nil && sl.confirm.IsZero() && sl.doubt.asked < confirmations:
		sl.doubt.asked++
		sl.confirm, sl.warm = now.Add(confirmAfter), sl.warmthOf(run, now)
	}
	return found, d
}

// logFinding logs the beginning and the end of a doubt.
func (s *Scheduler) logFinding(sl *slot, found finding, d doubt) {
	logger := log.With(s.logger, "target", sl.target.Name, "rung", sl.rung, "quantity", d.name, "value", d.value, "usual", d.usual)
	switch found {
	case surprised:
		level.Info(logger).Log("msg", "a surprising value; it is measured again")
	case confirmed:
		level.Warn(logger).Log("msg", "a surprising value is confirmed", "runs", d.seen)
	case refuted:
		level.Info(logger).Log("msg", "a surprising value is not confirmed")
	case nothingNew:
	}
}
