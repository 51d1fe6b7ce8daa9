// Package collector is the Prometheus side: it turns runs into series.
//
// Each target keeps all its series, so that a removed target leaves with them at once. A series is exported only with a value
// that is known: counters stand at 0 from the start, gauges of measurements are absent until measured.
//
// The gauges of the latest clean value are set by accepted runs alone. A run that fails or is rejected neither changes nor
// deletes them: it says nothing of the value, and its counters and longctx_probe_last_success_timestamp_seconds tell of it.
// They leave once 2.5 effective intervals have passed without a clean run, by which a target that only fails shows no old
// value as a current one for longer than that.
package collector

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
	"longctx_exporter/prober/state"
)

// Collector keeps the series of all targets. It is safe for concurrent use.
type Collector struct {
	metrics map[string]Metric
	keep    Keeper // may be nil

	mu      sync.RWMutex
	targets map[string]*target
}

// New makes a collector with the series of the given targets.
func New(targets []prober.Target) (*Collector, error) {
	c := &Collector{metrics: map[string]Metric{}, targets: map[string]*target{}}
	for _, m := range Catalogue() {
		c.metrics[m.Name] = m
	}
	for _, t := range targets {
		if err := c.Add(t); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Add begins the series of one more target. A target of that name must not be there.
func (c *Collector) Add(t prober.Target) error {
	if t.Name == "" || !utf8.ValidString(t.Name) || !utf8.ValidString(t.Model) {
		return fmt.Errorf("target %q: name and model must be valid UTF-8 and the name not empty", t.Name)
	}
	added, err := newTarget(t, c.metrics)
	if err != nil {
		return fmt.Errorf("target %q: %w", t.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, exists := c.targets[t.Name]; exists {
		return fmt.Errorf("target %q: the name is given twice", t.Name)
	}
	c.targets[t.Name] = added
	return nil
}

// Remove ends every series of a target.
func (c *Collector) Remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.targets, name)
}

// ObserveRun takes a run that ended into the series of its target and rung; one of a target or rung that is not configured
// is ignored.
func (c *Collector) ObserveRun(run prober.Run) {
	if t := c.target(run.Target); t != nil {
		t.observe(run, c.keep)
	}
}

// KeepWith makes the gauges of each run be kept before they are shown. It must come before the first run.
func (c *Collector) KeepWith(k Keeper) { c.keep = k }

// Restore gives a target the gauges that were kept of it. It must come before the first run of the target. age tells how old a
// kept time is, where that is known.
func (c *Collector) Restore(name string, s state.Target, age func(time.Time) (time.Duration, bool)) {
	t := c.target(name)
	if t == nil {
		return
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deploy = prober.Deploy{ID: s.Server.Deploy.ID, Since: s.Server.Deploy.Since}
	for _, r := range t.ladder {
		if kept, ok := s.Rungs[int(r.length)]; ok {
			r.record = recordOf(kept, now, age)
		}
	}
}

// SetFacts takes what a target was last identified as, and what it was then seen to run.
func (c *Collector) SetFacts(name string, facts inference.Facts, deploy prober.Deploy) {
	if t := c.target(name); t != nil {
		t.setFacts(facts, deploy)
	}
}

// SetInterval tells the effective interval of a rung where it is longer than the configured one, because the budget or long
// runs stretch it. Clean values stay exported for 2.5 times the longer of the two.
func (c *Collector) SetInterval(name string, rung prober.Rung, effective time.Duration) {
	if t := c.target(name); t != nil {
		t.setInterval(rung, effective)
	}
}

// SetBudgetUsed tells what share of a target's budget runs of its server have used.
func (c *Collector) SetBudgetUsed(name string, share float64) {
	if t := c.target(name); t != nil {
		t.setBudgetUsed(share)
	}
}

// SetNextDue tells when the next run of a rung should start.
func (c *Collector) SetNextDue(name string, rung prober.Rung, due time.Time) {
	if t := c.target(name); t != nil {
		t.setNextDue(rung, due)
	}
}

// BeginRun counts a run of a target as going on until end is called, once.
func (c *Collector) BeginRun(name string) (end func()) {
	t := c.target(name)
	if t == nil {
		return func() {}
	}
	t.inFlight.Add(1)
	return func() { t.inFlight.Add(-1) }
}

func (c *Collector) target(name string) *target {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.targets[name]
}

// Gatherer gathers the series of all targets that are there at that moment, and those of more gatherers, such as the
// process registry, which must not share a name with the catalogue.
//
// It makes the families itself: a registry would check at every scrape that no two series are the same, and no two targets
// share a name nor two rungs of one a length.
func (c *Collector) Gatherer(more ...prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		all, err := prometheus.Gatherers(more).Gather()
		if err != nil {
			return nil, fmt.Errorf("gathering metrics: %w", err)
		}
		c.mu.RLock()
		targets := slices.SortedFunc(maps.Values(c.targets), func(a, b *target) int { return strings.Compare(a.values[0], b.values[0]) })
		c.mu.RUnlock()
		p := newPage(c.metrics)
		for _, t := range targets {
			t.collect(p)
		}
		return slices.SortedFunc(slices.Values(append(all, p.families()...)), func(a, b *dto.MetricFamily) int {
			return strings.Compare(a.GetName(), b.GetName())
		}), nil
	})
}
