package prober

import (
	"time"

	"longctx_exporter/prober/state"
)

// longestCold bounds a remembered time to the first token to what a duration can hold.
const longestCold = 24 * time.Hour

// State is what the runner has learnt of its server, for the next process.
func (r *Runner) State() state.Server {
	s := state.Server{
		Deploy:  state.Deploy{ID: r.deploy.ID, Since: r.deploy.Since, Settings: r.deploy.Settings},
		Started: r.lastSigns.started, Counters: r.lastSigns.counters, Unsettled: r.unsettled, ShortTTFT: r.shortTTFT,
		Short: r.memory.shortTokens, Counts: r.memory.countsSeen, NoCache: r.memory.noPrefixCache, Learnt: map[int]state.Learnt{},
	}
	change := func(rung Rung, edit func(*state.Learnt)) {
		l := s.Learnt[int(rung)]
		edit(&l)
		s.Learnt[int(rung)] = l
	}
	for rung, t := range r.memory.cold {
		change(rung, func(l *state.Learnt) { l.Cold = t.Seconds() })
	}
	for rung, m := range r.memory.rungs {
		change(rung, func(l *state.Learnt) { l.Step, l.Tau, l.Jitter = m.step, m.tau, m.jitter })
	}
	for rung, n := range r.memory.runs {
		change(rung, func(l *state.Learnt) { l.Runs = n })
	}
	for rung, t := range r.memory.noWarm {
		change(rung, func(l *state.Learnt) { l.NoWarm = t })
	}
	return s
}

// Restore takes in what an earlier runner of the same target had learnt. It must come before the first run.
func (r *Runner) Restore(s state.Server) {
	r.deploy = Deploy{ID: s.Deploy.ID, Since: s.Deploy.Since, Settings: s.Deploy.Settings}
	r.lastSigns = lifeSigns{started: s.Started, counters: s.Counters}
	r.unsettled, r.shortTTFT = s.Unsettled, s.ShortTTFT
	m := newMemory()
	if s.Short == 2 {
		m.shortTokens = s.Short
	}
	m.countsSeen, m.noPrefixCache = s.Counts, s.NoCache
	for context, l := range s.Learnt {
		rung := Rung(context)
		if l.Cold > 0 && l.Cold < longestCold.Seconds() {
			m.cold[rung] = time.Duration(l.Cold * float64(time.Second))
		}
		if l.Step > 0 && l.Tau >= 1 {
			m.rungs[rung] = rungMemory{step: l.Step, tau: l.Tau, jitter: max(0, l.Jitter)}
		}
		if l.Runs > 0 {
			m.runs[rung] = l.Runs
		}
		if !l.NoWarm.IsZero() {
			m.noWarm[rung] = l.NoWarm
		}
	}
	r.memory = m
}

// StateKey is what the state of a target is found by: a target whose server, model or way of speaking changes begins anew.
func (t Target) StateKey() string {
	return state.Key(t.Name, t.URL, t.Model, string(t.Dialect), string(t.API), t.Replica)
}

// SampleOf is a clean sample as it was kept: without single steps and what else is shown but once.
func SampleOf(s state.Sample) Sample {
	return Sample{
		PromptTokens: s.PromptTokens, TTFT: s.TTFT, Prefill: s.Prefill, Step: s.Step, StepStream: s.StepStream, StepError: s.StepError,
		AcceptLength: s.AcceptLength, DecodeTokens: s.DecodeTokens, DecodeRate: s.DecodeRate, Method: s.Method,
		Isolation: Isolation(s.Isolation), Buffered: s.Buffered,
	}
}
