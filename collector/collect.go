package collector

import (
	"math"
	"strings"
	"time"
	"unicode"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// labelRunes is the longest label value, in characters, that is taken from a server.
const labelRunes = 128

// collect adds what is known of the target to a page.
func (t *target) collect(p page) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	var f fit
	for _, r := range t.ladder {
		p.schedule(r)
		p.outcome(r)
		p.baseline(r, t.deploy.ID)
		plans := r.compared(now)
		p.known(planStepRatio, plans.step, r.labels)
		p.known(planAcceptRatio, plans.accept, r.labels)
		if felt := r.contended(now); felt != nil {
			p.known(contendedTTFT, felt.TTFT, r.labels)
			p.known(contendedStep, felt.Step, r.labels)
			p.known(contendedDecode, felt.DecodeRate, r.labels)
			p.known(contendedRunning, float64(felt.Running), r.labels)
		}
		if s := r.whole.fresh(now, r.longest()); s != nil {
			p.whole(r, s)
		}
		if s := r.clean.fresh(now, r.longest()); s != nil {
			p.sample(r, s)
			p.jitter(r)
			p.known(stepExpected, f.add(r.length, s), r.labels)
		}
		p.add(stepDuration, r.step.show())
		p.add(acceptLengthTokens, r.accept.show())
		p.add(prefillThroughput, r.prefill.show())
		p.add(timeToFirstToken, r.ttft.show())
	}
	p.fit(f, t.labels)
	p.self(t)
	p.target(t)
	p.engine(t)
	p.logs(t.logs)
}

// target adds what stands for the target as a whole.
func (p page) target(t *target) {
	for _, c := range t.reasons {
		p.counter(probeReasons, c.n, c.labels)
	}
	p.counter(promptTokens, t.computed.n, t.computed.labels)
	p.counter(promptTokens, t.cached.n, t.cached.labels)
	p.counter(engineBusy, t.busy, t.labels)
	if t.evicted != nil {
		p.counter(evictedTokens, *t.evicted, t.labels)
	}
	if t.used != nil {
		p.gauge(budgetUsed, *t.used, t.labels)
	}
	p.gauge(probesInFlight, float64(t.inFlight.Load()), t.labels)
	if t.up != nil {
		p.gauge(targetUp, truth(*t.up), t.labels)
	}
	p.time(targetDeployTime, t.deploy.Since, t.labels)
	if t.facts == nil {
		return
	}
	p.gauge(targetInfo, 1, t.info)
	p.known(targetMaxContext, float64(t.facts.ContextLimit), t.labels)
	p.known(targetKVPool, float64(t.facts.KVPoolTokens), t.labels)
	p.known(targetBlockSize, float64(t.facts.BlockSize), t.labels)
}

// infoLabels are the values of the labels that targetInfo adds, in their order.
func infoLabels(f inference.Facts, d prober.Deploy) []string {
	return []string{
		labelValue(f.Model), labelValue(string(f.Dialect)), labelValue(string(f.API)), labelValue(f.ServerVersion),
		labelValue(f.Speculation), labelValue(f.PrefixCache), labelValue(f.Attention), d.ID,
	}
}

// labelValue makes a server's text fit for a label: of bounded length, valid and free of control characters.
func labelValue(s string) string {
	n := 0
	return strings.Map(func(c rune) rune {
		switch n++; {
		case n > labelRunes:
			return -1
		case unicode.IsControl(c):
			return '\uFFFD'
		}
		return c // bytes that are not UTF-8 come as U+FFFD
	}, s)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// schedule adds when the rung is run.
func (p page) schedule(r *rung) {
	p.gauge(rungContext, float64(r.length), r.labels)
	p.gauge(probeInterval, r.configured.Seconds(), r.labels)
	p.gauge(probeEffective, r.interval().Seconds(), r.labels)
	p.time(probeNextDue, r.nextDue, r.labels)
	p.time(probeLastAttempt, r.attempted, r.labels)
	p.time(probeLastSuccess, r.succeeded, r.labels)
	if !r.attempted.IsZero() {
		p.gauge(probeDuration, r.duration.Seconds(), r.labels)
	}
}

// outcome adds what is known of a rung without a measurement.
func (p page) outcome(r *rung) {
	p.counter(probeRuns, r.runs, r.labels)
	p.counter(probeFailures, r.failures, r.labels)
	p.counter(probeRejections, r.rejections, r.labels)
	p.counter(probeSkips, r.skips, r.labels)
	p.counter(probeConfirms, r.confirmations, r.labels)
	p.gauge(failuresInARow, r.failing, r.labels)
	p.gauge(rejectionsInARow, r.rejecting, r.labels)
	p.counter(verifySteps, r.verifySteps, r.labels)
	p.counter(completionTokens, r.completionTokens, r.labels)
	if r.reachable != nil {
		p.gauge(rungReachable, truth(*r.reachable), r.labels)
	}
	p.recall(r)
	for _, o := range r.objectives {
		p.objective(o)
	}
}

// whole adds the prefill of the latest whole run, as far as it is known, and what the latest three agree on: of acceptance too, for
// which a text that is sent again is no further evidence.
func (p page) whole(r *rung, s *prober.Sample) {
	latest, all := valuesOf(*s), agreed(r.recent(true))
	p.known(ttft, latest.ttft, r.labels)
	p.known(prefillRate, latest.prefill, r.labels)
	p.known(ttftConfirmed, all.ttft, r.labels)
	p.known(prefillConfirmed, all.prefill, r.labels)
	p.known(acceptConfirmed, all.accept, r.labels)
}

// sample adds the other latest clean values, those that are known, and what the latest three agree on.
func (p page) sample(r *rung, s *prober.Sample) {
	latest, all := valuesOf(*s), agreed(r.recent(false))
	p.known(probePromptTokens, float64(s.PromptTokens), r.labels)
	p.known(stepConfirmed, all.step, r.labels)
	p.known(stepTime, latest.step, r.labels)
	p.known(acceptLength, latest.accept, r.labels)
	p.known(decodeRate, s.DecodeRate, r.labels)
	p.known(stepError, s.StepError, r.labels)
	if share := r.shares.most; share != nil {
		p.gauge(acceptCap, *share, r.labels)
	}
	if share := r.shares.one; share != nil {
		p.gauge(acceptOne, *share, r.labels)
	}
	p.gauge(isolationProved, truth(s.Isolation == prober.Proved), r.labels)
	if r.spread != nil {
		p.gauge(stepSpread, *r.spread, r.labels)
	}
	// A step time that comes from the stream has no second opinion here.
	if s.Method != "stream" && latest.step > 0 && positive(s.StepStream) {
		p.gauge(methodDisagreement, math.Abs(s.StepStream-s.Step)/s.Step, r.labels)
	}
}
