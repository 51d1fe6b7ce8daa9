package collector

import (
	"math"
	"slices"
	"time"

	"longctx_exporter/prober"
	"longctx_exporter/prober/state"
)

// Keeper keeps the state of a rung where a restart finds it. It may take as long as a disk takes.
type Keeper func(target string, rung prober.Rung, s state.Rung)

// record is what the outcomes of a rung's runs leave behind: the gauges, which unlike counters outlive the process. A copy is
// another record.
type record struct {
	failing, rejecting float64 // in a row
	attempted          time.Time
	duration           time.Duration
	succeeded          time.Time // wall clock, for people and alerts
	reachable          *bool

	clean  latest
	whole  latest   // the same, but for warm runs, which measure decode alone
	spread *float64 // of the steps of clean
	jitter jitter   // of the same
	plans  planComparison

	shares shares             // of the steps of clean
	felt   *prober.Contention // in the latest contended run; a restart loses it
	feltAt time.Time          // monotonic

	answer *answer // nil before the first

	kept state.Rung // samples and step times by deploy; the rest is written by state
}

// latest is the latest of a rung's clean samples.
type latest struct {
	sample   *prober.Sample // nil before the first
	at       time.Time      // monotonic, for its age
	plan     prober.Plan
	unbroken int // how many of them came without a gap, up to this one, confirmedBy at most
}

// fresh is the sample while it may be shown, else nil.
func (l latest) fresh(now time.Time, longest time.Duration) *prober.Sample {
	if l.sample == nil || now.Sub(l.at) > longest {
		return nil
	}
	return l.sample
}

// next is the latest sample once there is another.
func (l latest) next(s prober.Sample, plan prober.Plan, now time.Time, longest time.Duration) latest {
	unbroken := 1
	if l.fresh(now, longest) != nil {
		unbroken = min(l.unbroken+1, confirmedBy)
	}
	return latest{&s, now, plan, unbroken}
}

// take takes a run in; longest is how long a sample may be shown.
func (r *record) take(run prober.Run, longest time.Duration) {
	switch run.Status {
	case prober.Failed:
		r.failing++
	case prober.Rejected:
		r.rejecting++
		if run.Contended != nil {
			r.felt, r.feltAt = run.Contended, time.Now()
		}
		if finished(run.Reason) {
			r.failing = 0
		}
	case prober.Accepted:
		r.failing, r.rejecting = 0, 0
		r.takeSample(run, longest)
	case prober.Skipped:
	default:
		return
	}
	r.answer = r.answer.next(run)
	if reachable, known := reached(run); known {
		r.reachable = &reachable
	}
	if run.Status != prober.Skipped {
		r.attempted, r.duration = run.Started, max(0, run.Duration)
	}
}

// takeSample takes the sample of an accepted run.
func (r *record) takeSample(run prober.Run, longest time.Duration) {
	s, now := run.Sample, time.Now()
	r.spread, r.shares, r.jitter = spread(s), sharesOf(s), jitterOf(s)
	s.StepTimes, s.AcceptHistogram = nil, nil // shown by the histograms, not worth keeping
	if before := r.whole; run.Plan == prober.Pair && before.plan == prober.Triple {
		r.plans = planComparison{at: now, step: ratio(s.Step, before.sample.Step), accept: ratio(s.AcceptLength, before.sample.AcceptLength)}
	}
	r.clean = r.clean.next(s, run.Plan, now, longest)
	if run.Plan != prober.Warm {
		r.whole = r.whole.next(s, run.Plan, now, longest)
	}
	if !run.Started.IsZero() {
		r.succeeded = run.Started.Add(max(0, run.Duration))
	}
	samples := append(r.kept.Samples[:len(r.kept.Samples):len(r.kept.Samples)], r.keptSample(run))
	r.kept.Samples = samples[max(0, len(samples)-state.KeptSamples):]
	if positive(s.Step) {
		r.kept.AddStep(run.Deploy, s.Step)
	}
}

// keptSample is the clean sample as it is kept.
func (r *record) keptSample(run prober.Run) state.Sample {
	s := run.Sample
	return state.Sample{
		At: r.succeeded, Deploy: run.Deploy, PromptTokens: max(0, s.PromptTokens), TTFT: known(s.TTFT), Prefill: known(s.Prefill), Step: known(s.Step),
		StepStream: known(s.StepStream), StepError: known(s.StepError), Spread: r.spread,
		TimedSteps: r.jitter.steps, StepP99: r.jitter.p99, StepMax: r.jitter.max, AcceptLength: known(s.AcceptLength),
		DecodeTokens: known(s.DecodeTokens), DecodeRate: known(s.DecodeRate), Method: s.Method, Plan: string(run.Plan), Isolation: string(s.Isolation),
		Buffered: s.Buffered, AcceptOne: r.shares.one, AcceptCap: r.shares.most,
	}
}

// recent are the values of the latest clean samples that came without a gap, or of those of them that are not warm.
func (r *record) recent(whole bool) []values {
	wanted := r.clean.unbroken
	if whole {
		wanted = r.whole.unbroken
	}
	var recent []values
	for _, s := range slices.Backward(r.kept.Samples) {
		if len(recent) == wanted {
			break
		}
		if !whole || isWhole(s) {
			recent = append(recent, valuesOf(prober.SampleOf(s)))
		}
	}
	return recent
}

// isWhole says whether a kept sample is none of a warm run.
func isWhole(s state.Sample) bool { return prober.Plan(s.Plan) != prober.Warm }

// state is the record as it is kept.
func (r *record) state() state.Rung {
	s := r.kept
	s.Attempted, s.Duration, s.Succeeded = r.attempted, r.duration.Seconds(), r.succeeded
	s.Failing, s.Rejecting, s.Reachable = int(r.failing), int(r.rejecting), r.reachable
	s.Unbroken, s.UnbrokenWhole = r.clean.unbroken, r.whole.unbroken
	s.Plans, s.Needle = nil, nil
	if a := r.answer; a != nil {
		s.Needle = &state.Needle{At: a.at, Found: a.found, Missing: int(a.missing)}
	}
	if !r.plans.at.IsZero() {
		s.Plans = &state.Plans{At: r.plans.at, Step: r.plans.step, Accept: r.plans.accept}
	}
	return s
}

// recordOf turns what was kept back. age tells how old a kept time is; a value of unknown age is not shown, though it still
// counts as measured.
func recordOf(s state.Rung, now time.Time, age func(time.Time) (time.Duration, bool)) record {
	r := record{
		failing: float64(s.Failing), rejecting: float64(s.Rejecting), attempted: s.Attempted, succeeded: s.Succeeded, reachable: s.Reachable,
		duration: time.Duration(min(s.Duration*float64(time.Second), math.MaxInt64/2)), kept: s,
	}
	if p := s.Plans; p != nil {
		if old, ok := age(p.At); ok {
			r.plans = planComparison{at: now.Add(-old), step: known(p.Step), accept: known(p.Accept)}
		}
	}
	if n := s.Needle; n != nil {
		r.answer = &answer{found: n.Found, missing: float64(n.Missing)}
		if old, ok := age(n.At); ok {
			r.answer.at = now.Add(-old)
		}
	}
	all := s.Samples
	if len(all) == 0 {
		return r
	}
	last := all[len(all)-1]
	if r.clean = latestOf(last, s.Unbroken, now, age); r.clean.sample != nil {
		r.jitter = jitter{steps: max(0, last.TimedSteps), p99: known(last.StepP99), max: known(last.StepMax)}
		if last.Spread != nil && *last.Spread >= 0 {
			r.spread = last.Spread
		}
		r.shares = shares{one: share(last.AcceptOne), most: share(last.AcceptCap)}
	}
	for _, kept := range slices.Backward(all) {
		if isWhole(kept) {
			r.whole = latestOf(kept, s.UnbrokenWhole, now, age)
			break
		}
	}
	return r
}

// latestOf turns a sample that was kept back; one of unknown age into none.
func latestOf(s state.Sample, unbroken int, now time.Time, age func(time.Time) (time.Duration, bool)) latest {
	old, ok := age(s.At)
	if !ok {
		return latest{}
	}
	sample := prober.SampleOf(s)
	return latest{&sample, now.Add(-old), prober.Plan(s.Plan), min(unbroken, confirmedBy)}
}

// share is a kept share, nil where it is none.
func share(v *float64) *float64 {
	if v == nil || !(*v >= 0 && *v <= 1) {
		return nil
	}
	return v
}

// known is a measured value, 0 where it is none.
func known(v float64) float64 {
	if positive(v) {
		return v
	}
	return 0
}
