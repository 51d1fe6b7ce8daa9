package servermetrics

import "math"

// Snapshot is what is known of an engine by its own account, as it is exported. Pointers are nil where it does not tell.
//
// A counter is the sum over the engine's ranks, workers and pages. It goes on where some of them begin anew, and falls where
// all of them do, as the engine's own counter would: a partial fall would pass for growth by all that is left.
type Snapshot struct {
	Up bool // the engine's own page was read

	Running, Queued *int
	KVUsed          *float64 // share of the KV pool in use, 0 to 1, of the fullest replica
	KVFree          *float64 // tokens that a prompt could get now, of the replica with the least
	AcceptLength    *float64 // tokens per verify pass, bonus token included, since the last snapshot
	DecodeRate      *float64 // tokens per second of decoding that a request got, since the last snapshot

	PromptTokens, CachedTokens, GeneratedTokens *float64
	VerifySteps, AcceptedDrafts                 *float64
	FinishedRequests, AbortedRequests           *float64
}

// accuracy is how large a relative error, from counters that are printed with few digits, a ratio of their growth may have.
const accuracy = 0.02

// tracker makes snapshots of readings that follow each other.
type tracker struct {
	totals [counters]total
	drafts derived

	acceptance, decoding interval
}

// take makes the snapshot of the next reading.
func (t *tracker) take(r reading) Snapshot {
	anew := false
	for c := range t.totals {
		if t.totals[c].update(r.counts[c]) {
			anew = true
		}
	}
	value := func(c counter) *float64 { return t.totals[c].value }
	s := Snapshot{
		Up: r.missing == nil, Running: r.load.Running, Queued: r.load.Queued, KVUsed: r.kvUsed, KVFree: r.load.PoolFree,
		PromptTokens: value(promptTokens), CachedTokens: value(cachedTokens), GeneratedTokens: value(generatedTokens),
		VerifySteps: value(verifySteps), AcceptedDrafts: value(acceptedDrafts),
		FinishedRequests: value(finishedRequests), AbortedRequests: value(abortedRequests),
	}
	if r.firstFree {
		s.AcceptedDrafts = t.drafts.update(anew, s.GeneratedTokens, s.FinishedRequests, s.VerifySteps)
	}
	if drafts := t.acceptance.ratio(s.AcceptedDrafts, s.VerifySteps, r.digits); drafts != nil {
		tau := 1 + *drafts
		s.AcceptLength = &tau
	} else if s.VerifySteps == nil {
		s.AcceptLength = r.accept
	}
	s.DecodeRate = t.decoding.ratio(s.GeneratedTokens, value(decodeSeconds), r.digits)
	return s
}

// total is a counter that lasts over restarts of a part of what it counts.
type total struct {
	last  parts
	lost  float64 // what parts had counted that began anew or went away
	value *float64
}

// update takes the next reading and says whether all parts began anew.
func (t *total) update(now parts) (anew bool) {
	t.value = nil
	if now == nil {
		return false
	}
	gone, goesOn := 0.0, len(t.last) == 0
	for key, before := range t.last {
		if v, there := now[key]; there && v >= before {
			goesOn = true
		} else {
			gone += before
		}
	}
	if goesOn {
		t.lost += gone
	} else {
		t.lost = 0
	}
	t.last = now
	if sum := now.sum(); sum != nil {
		t.value = finite(*sum + t.lost)
	}
	return !goesOn
}

// derived is the counter of correct drafts where the engine counts tokens, finished requests and verify passes: each request's
// first token comes from its prefill, each pass adds one of its own. Tokens of a last pass beyond what was asked for are left out.
type derived struct{ last *float64 }

// update takes the next values. They are not read at one instant, so that it may seem to fall by what just ended.
func (d *derived) update(anew bool, generated, finished, steps *float64) *float64 {
	if anew {
		d.last = nil
	}
	if generated == nil || finished == nil || steps == nil {
		return nil
	}
	v := *generated - *finished - *steps
	if d.last != nil {
		v = math.Max(v, *d.last)
	}
	if v < 0 {
		return nil
	}
	d.last = &v
	return &v
}

// interval lasts from the latest reading in which both of two counters were known to the next such one.
type interval struct{ last *[2]float64 }

// ratio is the growth of one counter by that of the other over the interval that ends now, and begins the next. It is nil
// where the second did not grow, where one fell, and where too few digits are told.
func (i *interval) ratio(over, under *float64, digits int) *float64 {
	if over == nil || under == nil {
		return nil
	}
	before := i.last
	i.last = &[2]float64{*over, *under}
	if before == nil {
		return nil
	}
	a, b := *over-before[0], *under-before[1]
	aOff := blur(*over, digits) + blur(before[0], digits)
	bOff := blur(*under, digits) + blur(before[1], digits)
	if !(b > 0 && a >= 0) || aOff > accuracy/2*a || bOff > accuracy/2*b {
		return nil
	}
	return finite(a / b)
}

// blur is by how much a printed value may differ from the true one.
func blur(v float64, digits int) float64 {
	if digits == 0 || v < math.Pow10(digits) {
		return 0
	}
	return math.Pow10(int(math.Log10(v))+1-digits) / 2
}
