package state

import (
	"maps"
	"slices"
	"time"
)

// The most that can have been measured. JSON has no NaN and no infinite numbers.
const (
	mostSeconds = 7 * 24 * 3600  // of whatever was waited for
	mostUptime  = 1e9            // seconds
	mostRatio   = 1000           // of two measurements of one thing
	mostNumber  = 1e12           // of anything else: tokens, rates, Unix seconds
	mostCount   = 1 << 30        // of runs, prompt tokens and the like
	mostCounted = 1e18           // by a counter of a server
	ahead       = 24 * time.Hour // how far a time may lie ahead: clocks are set back by hours
)

// judge leaves out what cannot be true, though its checksum is right, and counts it.
type judge struct {
	latest  time.Time // that anything can have happened
	dropped int
}

// newJudge judges what was saved, and is read now: after both nothing can have happened, whichever clock was wrong.
func newJudge(saved, now time.Time) *judge {
	if saved.Before(now) {
		saved = now
	}
	return &judge{latest: saved.Round(0).Add(ahead)}
}

func upTo[T int | float64](most T, values ...T) bool {
	return !slices.ContainsFunc(values, func(v T) bool { return v < 0 || v > most })
}

func (j *judge) past(times ...time.Time) bool {
	return !slices.ContainsFunc(times, j.latest.Before)
}

// drop counts an entry that is not true.
func (j *judge) drop(isTrue bool) bool {
	if !isTrue {
		j.dropped++
	}
	return !isTrue
}

// check puts the zero value, which is not known, in the place of one that is not true.
func check[T any](j *judge, v *T, isTrue bool) {
	if j.drop(isTrue) {
		*v = *new(T)
	}
}

func (j *judge) snapshot(s *snapshot) {
	check(j, &s.Uptime, upTo(mostUptime, s.Uptime))
	if s.Uptime == 0 {
		s.Boot = ""
	}
	for key, t := range s.Targets {
		check(j, &t.Seen, j.past(t.Seen))
		j.server(&t.Server)
		maps.DeleteFunc(t.Rungs, func(context int, _ Rung) bool { return j.drop(context > 0 && context <= mostCount) })
		for context, r := range t.Rungs {
			j.rung(&r)
			t.Rungs[context] = r
		}
		s.Targets[key] = t
	}
}

func (j *judge) server(s *Server) {
	check(j, &s.Deploy.Since, j.past(s.Deploy.Since))
	check(j, &s.Started, upTo(mostNumber, s.Started))
	check(j, &s.Counters, !slices.ContainsFunc(s.Counters, func(v float64) bool { return v < -1 || v > mostCounted })) // -1 is not told
	check(j, &s.ShortTTFT, upTo(mostSeconds, s.ShortTTFT))
	check(j, &s.Short, upTo(mostCount, s.Short))
	check(j, &s.NoCache, j.past(s.NoCache))
	maps.DeleteFunc(s.Learnt, func(context int, l Learnt) bool {
		return j.drop(context > 0 && upTo(mostCount, context, l.Runs) && upTo(mostSeconds, l.Cold, l.Step, l.Jitter) &&
			upTo(mostNumber, l.Tau) && j.past(l.NoWarm))
	})
}

func (j *judge) rung(r *Rung) {
	check(j, &r.Attempted, j.past(r.Attempted))
	check(j, &r.Duration, upTo(mostSeconds, r.Duration))
	check(j, &r.Succeeded, j.past(r.Succeeded))
	check(j, &r.Failing, upTo(mostCount, r.Failing))
	check(j, &r.Rejecting, upTo(mostCount, r.Rejecting))
	check(j, &r.Unbroken, upTo(mostCount, r.Unbroken))
	check(j, &r.UnbrokenWhole, upTo(mostCount, r.UnbrokenWhole))
	if p := r.Plans; p != nil {
		check(j, &r.Plans, j.past(p.At) && upTo(mostRatio, p.Step, p.Accept))
	}
	if n := r.Needle; n != nil {
		check(j, &r.Needle, j.past(n.At) && upTo(mostCount, n.Missing))
	}
	var samples []Sample
	behind := 0 // the latest that is dropped, which leaves a gap
	for _, s := range r.Samples[max(0, len(r.Samples)-KeptSamples):] {
		if j.drop(j.sample(s)) {
			behind = 0
			continue
		}
		behind++
		samples = append(samples, s)
	}
	r.Samples, r.Unbroken, r.UnbrokenWhole = samples, min(r.Unbroken, behind), min(r.UnbrokenWhole, behind)
	r.Deploys = r.Deploys[max(0, len(r.Deploys)-keptDeploys):]
	for i := range r.Deploys {
		j.baseline(&r.Deploys[i])
	}
}

func (j *judge) sample(s Sample) bool {
	for _, share := range []*float64{s.AcceptOne, s.AcceptCap} {
		if share != nil && !upTo(1, *share) {
			return false
		}
	}
	return j.past(s.At) && upTo(mostSeconds, s.TTFT, s.Step, s.StepStream, s.StepP99, s.StepMax) &&
		upTo(mostRatio, s.StepError) && (s.Spread == nil || upTo(mostRatio, *s.Spread)) &&
		upTo(mostNumber, s.Prefill, s.AcceptLength, s.DecodeTokens, s.DecodeRate) && upTo(mostCount, s.PromptTokens, s.TimedSteps)
}

func (j *judge) baseline(b *Baseline) {
	check(j, &b.Every, upTo(mostCount, b.Every))
	check(j, &b.Passed, upTo(max(b.Every, 1), b.Passed))
	var steps []float64
	for _, v := range b.Steps[max(0, len(b.Steps)-mostSteps):] {
		if !j.drop(v > 0 && upTo(mostSeconds, v)) {
			steps = append(steps, v)
		}
	}
	b.Steps = steps
}

// pins leaves out baselines that nobody can have pinned. One that was pinned by a wrong clock holds.
func (j *judge) pins(all Pins) {
	for _, pins := range all {
		maps.DeleteFunc(pins, func(context int, p Pin) bool {
			return j.drop(context > 0 && context <= mostCount && p.Step > 0 && upTo(mostSeconds, p.Step))
		})
	}
}
