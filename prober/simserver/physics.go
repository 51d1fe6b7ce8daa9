package simserver

import (
	"math"
	"math/rand/v2"
	"time"
)

// gauss is a normal factor around 1, cut at four standard deviations.
func gauss(rng *rand.Rand, sd float64) float64 {
	return 1 + sd*math.Max(-4, math.Min(4, rng.NormFloat64()))
}

// roll draws a job's luck when it is scheduled.
func (e *engine) roll(j *job) {
	p := e.profile
	j.prefillFactor = gauss(j.rng, p.PrefillSD)
	if p.ResidualSeconds > 0 {
		j.residual = p.ResidualSeconds * gauss(j.rng, p.ResidualSD/p.ResidualSeconds)
	}
	j.stepFactor, j.warmup = 1, 1
	if p.SlowShare > 0 && j.rng.Float64() < p.SlowShare {
		j.stepFactor = p.SlowFactor
	}
	if e.scheduledJobs < e.faults.WarmupSlow {
		j.warmup = 3
	}
	e.scheduledJobs++
}

// chunkSeconds is how long the next prefill chunk of so many tokens takes. What is cached costs its share of the residual.
func (e *engine) chunkSeconds(j *job, tokens int) float64 {
	t := e.profile.PrefillSeconds(j.computed+tokens) - e.profile.PrefillSeconds(j.computed)
	t *= j.prefillFactor
	if j.computed == j.cached && len(j.prompt) > 0 {
		t += j.residual * float64(j.cached) / float64(len(j.prompt))
	}
	return t * j.warmup
}

// passSeconds is how long one decode step of a batch takes: its requests read all their contexts together.
func (e *engine) passSeconds(batch []*job, at time.Time) float64 {
	tokens, first, slow := 0, false, 1.0
	for _, j := range batch {
		tokens += j.length()
		first = first || len(j.accepted) == 0
		slow = math.Max(slow, j.stepFactor*j.warmup)
	}
	t := e.profile.StepSeconds(tokens) * gauss(e.rng, e.profile.StepSD) * slow
	if first {
		t *= 1 + e.profile.FirstStepExtra
	}
	hours := at.Sub(e.started).Hours() * e.scale
	return t * (1 + e.profile.DriftPerHour*hours)
}

// drawAccepted draws how many tokens one step commits.
func (e *engine) drawAccepted(j *job) int {
	if e.faults.Degenerate {
		return e.profile.BlockSize()
	}
	law := e.profile.AcceptLaw(j.length())
	u := j.rng.Float64()
	for i, w := range law {
		if u -= w; u < 0 {
			return i + 1
		}
	}
	return len(law)
}

// nextTokens continues a job's text by n tokens.
func (e *engine) nextTokens(j *job, n int) []int32 {
	from := len(j.output)
	for i := from; i < from+n; i++ {
		at := splitmix(j.textSeed+uint64(i)) % uint64(len(e.words))
		if e.faults.Degenerate {
			at = 0
		}
		token := e.words[at]
		if i < len(j.reply) {
			token = j.reply[i]
		}
		j.output = append(j.output, token)
	}
	return j.output[from:len(j.output):len(j.output)]
}

// seedOf decides the continuation of a prompt.
func seedOf(ids []int32) uint64 {
	h := uint64(14695981039346656037)
	for _, id := range ids {
		h = (h ^ uint64(uint32(id))) * 1099511628211
	}
	return splitmix(h)
}

func splitmix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// sleepUntil waits for an absolute time, so that errors of sleeping never add up. Close ends it early. The last stretch is
// spun, because a timer alone is coarser than the steps of a server that runs a hundred times too fast; a clock that
// stands still, as in a synctest bubble, is left to the timer.
func (e *engine) sleepUntil(deadline time.Time) bool {
	const spin = 200 * time.Microsecond
	early := time.Duration(0)
	if e.scale > 1 {
		early = spin
	}
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return true
		}
		if left <= early {
			if time.Until(deadline) < left {
				continue
			}
			early = 0
		}
		if !wait(left-early, e.done) {
			return false
		}
	}
}
