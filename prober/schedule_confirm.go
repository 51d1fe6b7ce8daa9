package prober

import (
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

// confirmAfter keeps a confirmation from seeing the very moment again that made the value surprising.
const confirmAfter = time.Minute

// confirmer is the account that pays for the next confirmation of a slot: the part of the budget that is kept for them. The second
// one of a surprise does not wait until the first is paid for, or it would come too late to be of use.
func (sv *server) confirmer(sl *slot) *account {
	if sl.doubt != nil && sl.doubt.asked > 1 {
		return nil
	}
	return &sv.ledger.reserve
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
		sl.confirm = now.Add(confirmAfter)
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
