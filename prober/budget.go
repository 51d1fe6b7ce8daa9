package prober

import (
	"cmp"
	"slices"
	"time"
)

// A budget holds over a day: at any time, what ran in the day before is no more than budget x day, give or take.
const (
	budgetWindow = 24 * time.Hour
	windowPart   = 5 * time.Minute // in which the day is counted
	tolerance    = 0.1             // of the day's budget, by which a single run may exceed it; larger runs exceed it by themselves

	// ladderShare is the part of the budget that the ladder may use; the rest is kept for confirmations.
	ladderShare = 0.75
)

// longestPrice keeps a tiny budget from overflowing; a process hardly outlives it.
const longestPrice = 365 * 24 * time.Hour

// unlimited says whether a budget is none: whoever gives all of a server's time does not want probes to wait.
func unlimited(budget float64) bool { return budget >= 1 }

// price is the time of a server that pays for a run: the run itself and the rest that its budget calls for.
func price(ran time.Duration, budget float64) time.Duration {
	if ran <= 0 {
		return 0
	}
	return time.Duration(min(float64(ran)/budget, float64(longestPrice)))
}

// account is what one rung of a target, or the confirmations of a server, still owe for their runs. It may run on credit
// once, and then not before it has paid: so the first run of each rung comes early, and a dear rung waits without keeping
// the cheap ones waiting.
type account struct {
	weight float64       // its part of the ladder's income, beside those of the others that owe
	debt   time.Duration // in time of the server
	closed bool          // its rung is gone; it is forgotten once it has paid
}

// accountKey names the account of a rung: whoever comes again under that name takes over what is owed.
type accountKey struct {
	target string
	rung   Rung
}

// spending is what runs cost that ended within one part of the day.
type spending struct {
	from time.Time
	cost time.Duration
}

// ledger keeps the budget of one server, whose targets may have different ones: a run of d under a budget b costs d/b of the
// server's time. Every second pays one second: three quarters go to the rungs that owe, by weight, the rest to the
// confirmations. Income that nobody owes is lost, so that nothing is saved up for a burst, but for that of the time in which
// the run itself goes on.
type ledger struct {
	accounts map[accountKey]*account
	reserve  account       // of the confirmations
	paid     time.Time     // until when income has been booked
	idle     time.Duration // income of the ladder that nobody owed, since the run began that goes on
	spent    []spending    // of the last day, oldest first
}

func newLedger(now time.Time) *ledger {
	return &ledger{accounts: map[accountKey]*account{}, paid: now}
}

// open gives the account of a rung, with what it owes if there was one.
func (l *ledger) open(k accountKey, weight float64) *account {
	a := l.accounts[k]
	if a == nil {
		a = &account{}
		l.accounts[k] = a
	}
	a.weight, a.closed = weight, false
	return a
}

// owing lists the accounts of the ladder that owe, those first that will have paid first.
func (l *ledger) owing() []*account {
	var owing []*account
	for _, a := range l.accounts {
		if a.debt > 0 {
			owing = append(owing, a)
		}
	}
	slices.SortFunc(owing, func(a, b *account) int { return cmp.Compare(a.relative(), b.relative()) })
	return owing
}

// relative is the debt per weight: those of all accounts that owe shrink alike.
func (a *account) relative() float64 { return float64(a.debt) / a.weight }

func weights(accounts []*account) (sum float64) {
	for _, a := range accounts {
		sum += a.weight
	}
	return sum
}

// book takes the income until now.
func (l *ledger) book(now time.Time) {
	income := now.Sub(l.paid)
	if income <= 0 {
		return
	}
	l.paid = now
	l.reserve.debt = max(0, l.reserve.debt-time.Duration((1-ladderShare)*float64(income)))
	owing := l.owing()
	left, level, sum := ladderShare*float64(income), 0.0, weights(owing)
	for _, a := range owing {
		need := (a.relative() - level) * sum
		if need > left {
			level, left = level+left/sum, 0
			break
		}
		left, level, sum = left-need, a.relative(), sum-a.weight
	}
	l.idle += time.Duration(left)
	for _, a := range owing {
		a.debt = max(0, a.debt-time.Duration(level*a.weight)-roundingError)
	}
	for k, a := range l.accounts {
		if a.closed && a.debt == 0 {
			delete(l.accounts, k)
		}
	}
	l.spent = slices.DeleteFunc(l.spent, func(s spending) bool { return !now.Before(s.forgotten()) })
}

// roundingError is what is forgiven at each booking, so that whoever sleeps until an account has paid finds it paid.
const roundingError = time.Microsecond

// solvent tells when each account that owes will have paid, if nothing else runs until then.
func (l *ledger) solvent() map[*account]time.Time {
	at := map[*account]time.Time{}
	owing := l.owing()
	var after, level float64
	sum := weights(owing)
	for _, a := range owing {
		after += (a.relative() - level) * sum / ladderShare
		level, sum = a.relative(), sum-a.weight
		at[a] = l.paid.Add(time.Duration(after))
	}
	return at
}

// lends is when the confirmations will owe no more than the credit, if nothing else runs until then.
func (l *ledger) lends(credit time.Duration) time.Time {
	return l.paid.Add(time.Duration(float64(max(0, l.reserve.debt-credit)) / (1 - ladderShare)))
}

// begin books the beginning of a run.
func (l *ledger) begin(now time.Time) {
	l.book(now)
	l.idle = 0
}

// charge books a run that ended; no account owes for a run without a budget.
func (l *ledger) charge(a *account, cost time.Duration, now time.Time) {
	l.book(now)
	if cost <= 0 {
		return
	}
	switch a {
	case nil:
	case &l.reserve:
		a.debt = min(a.debt+cost, longestPrice)
	default:
		a.debt = min(a.debt+max(0, cost-l.idle), longestPrice)
	}
	if n := len(l.spent); n == 0 || now.Sub(l.spent[n-1].from) >= windowPart {
		l.spent = append(l.spent, spending{from: now})
	}
	last := &l.spent[len(l.spent)-1]
	last.cost = min(last.cost+cost, longestPrice)
}

// forgotten is when all of it lies a day back.
func (s spending) forgotten() time.Time { return s.from.Add(budgetWindow + windowPart) }

// settled says that nothing is owed, and nothing ran for a day.
func (l *ledger) settled() bool {
	return len(l.owing()) == 0 && l.reserve.debt == 0 && len(l.spent) == 0
}

// used is the share of the day's budget that the last day's runs took.
func (l *ledger) used(now time.Time) float64 {
	var sum float64
	for _, s := range l.spent {
		if now.Before(s.forgotten()) {
			sum += float64(s.cost)
		}
	}
	return sum / float64(budgetWindow)
}

// room tells when the day has room for a run of some cost, as far as such a run can be blamed: it may use the budget of the
// day up to a share. The zero time is now.
func (l *ledger) room(cost time.Duration, share float64) time.Time {
	most := share*float64(budgetWindow) - min(float64(cost), tolerance*float64(budgetWindow))
	var sum float64
	for _, s := range l.spent {
		sum += float64(s.cost)
	}
	var at time.Time
	for _, s := range l.spent {
		if sum <= most {
			break
		}
		sum -= float64(s.cost)
		at = s.forgotten()
	}
	return at
}
