package collector

import (
	"math"
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

	cleanAt   time.Time // monotonic, for the age of clean
	clean     *prober.Sample
	cleanPlan prober.Plan
	spread    *float64 // of the steps of clean
	jitter    jitter   // of the same
	unbroken  int      // how many of the latest samples came without a gap, confirmedBy at most
	plans     planComparison

	shares shares             // of the steps of clean
	felt   *prober.Contention // in the latest contended run; a restart loses it
	feltAt time.Time          // monotonic

	answer *answer // nil before the first

	kept state.Rung // samples and step times by deploy; the rest is written by state
}

// take takes a run in.
func (r *record) take(run prober.Run, fresh bool) {
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
		r.takeSample(run, fresh)
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
func (r *record) takeSample(run prober.Run, fresh bool) {
	s, now := run.Sample, time.Now()
	if !fresh {
		r.unbroken = 0
	}
	r.unbroken = min(r.unbroken+1, confirmedBy)
	r.spread, r.shares, r.jitter = spread(s), sharesOf(s), jitterOf(s)
	s.StepTimes, s.AcceptHistogram = nil, nil // shown by the histograms, not worth keeping
	if run.Plan == prober.Pair && r.cleanPlan == prober.Triple {
		r.plans = planComparison{at: now, step: ratio(s.Step, r.clean.Step), accept: ratio(s.AcceptLength, r.clean.AcceptLength)}
	}
	r.clean, r.cleanAt, r.cleanPlan = &s, now, run.Plan
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

// recent are the values of the latest clean samples that came without a gap.
func (r *record) recent() []values {
	var recent []values
	samples := r.kept.Samples
	for _, s := range samples[max(0, len(samples)-r.unbroken):] {
		recent = append(recent, valuesOf(prober.SampleOf(s)))
	}
	return recent
}

// state is the record as it is kept.
func (r *record) state() state.Rung {
	s := r.kept
	s.Attempted, s.Duration, s.Succeeded = r.attempted, r.duration.Seconds(), r.succeeded
	s.Failing, s.Rejecting, s.Reachable, s.Unbroken = int(r.failing), int(r.rejecting), r.reachable, r.unbroken
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
	last := len(s.Samples) - 1
	if last < 0 {
		return r
	}
	latest := s.Samples[last]
	if old, ok := age(latest.At); ok {
		clean := prober.SampleOf(latest)
		r.clean, r.cleanAt, r.cleanPlan = &clean, now.Add(-old), prober.Plan(latest.Plan)
		r.unbroken = min(s.Unbroken, confirmedBy)
		r.jitter = jitter{steps: max(0, latest.TimedSteps), p99: known(latest.StepP99), max: known(latest.StepMax)}
		if latest.Spread != nil && *latest.Spread >= 0 {
			r.spread = latest.Spread
		}
		r.shares = shares{one: share(latest.AcceptOne), most: share(latest.AcceptCap)}
	}
	return r
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
