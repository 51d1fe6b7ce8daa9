package main

import (
	"context"
	"time"

	"longctx_exporter/collector"
	"longctx_exporter/prober"
	"longctx_exporter/prober/state"
)

// keepWith makes the fleet keep in a store what outlives the process. It must come before the first target.
func (f *fleet) keepWith(store *state.Store) {
	f.store = store
	f.series.KeepWith(func(target string, rung prober.Rung, s state.Rung) {
		store.SetRung(f.current()[target].target.StateKey(), int(rung), s)
		store.Sync(context.Background()) // which is bounded, and must not end before a run that was broken off is on disk
	})
}

// restore gives a target that begins what is kept of it.
func (f *fleet) restore(m member) {
	key := m.target.StateKey()
	kept := f.store.Target(key)
	m.runner.Restore(kept.Server)
	f.series.Restore(m.target.Name, kept, f.store.Age)
	f.series.SetPinned(m.target.Name, f.store.Pinned(key))
}

// past lists the last runs that an earlier process made of targets.
func (f *fleet) past(targets []prober.Target) []prober.Past {
	var past []prober.Past
	now := time.Now()
	for _, t := range targets {
		for context, kept := range f.store.Target(t.StateKey()).Rungs {
			age, known := f.store.Age(kept.Attempted)
			if !known {
				continue
			}
			p := prober.Past{
				Target: t.Name, Rung: prober.Rung(context), Started: now.Add(-age), Took: time.Duration(kept.Duration * float64(time.Second)),
			}
			for _, s := range kept.Samples {
				p.Clean = append(p.Clean, prober.SampleOf(s))
			}
			past = append(past, p)
		}
	}
	return past
}

// setActive tells the store which targets there are.
func (f *fleet) setActive() {
	names := map[string]string{}
	for name, m := range f.current() {
		names[m.target.StateKey()] = name
	}
	f.store.SetActive(names)
}

// repin shows the pinned baselines of all targets.
func (f *fleet) repin() {
	for name, m := range f.current() {
		f.series.SetPinned(name, f.store.Pinned(m.target.StateKey()))
	}
}

// watchSaves exports how the saving goes, where there is something to save to.
func (s *service) watchSaves() {
	if s.fleet.store.Dir != "" {
		collector.NewSaves(s.process, s.fleet.store.LastSave)
	}
}
