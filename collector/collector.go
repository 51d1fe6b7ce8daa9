// Package collector is the Prometheus side: it turns runs into series.
//
// Each target has a registry of its own, so that a removed target leaves with all its series at once. A series is exported
// only with a value that is known: counters stand at 0 from the start, gauges of measurements are absent until measured.
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
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/collectors/version"
	dto "github.com/prometheus/client_model/go"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// Collector keeps the series of all targets. It is safe for concurrent use.
type Collector struct {
	metrics map[string]Metric
	descs   map[string]*prometheus.Desc

	mu      sync.RWMutex
	targets map[string]*target
}

var _ prober.RunObserver = (*Collector)(nil)

// New makes a collector with the series of the given targets.
func New(targets []prober.Target) (*Collector, error) {
	c := &Collector{
		metrics: map[string]Metric{},
		descs:   map[string]*prometheus.Desc{},
		targets: map[string]*target{},
	}
	for _, m := range Catalogue() {
		c.metrics[m.Name] = m
		c.descs[m.Name] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
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
	added, err := newTarget(t, c.metrics, c.descs)
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
		t.observe(run)
	}
}

// SetFacts takes what a target was last identified as.
func (c *Collector) SetFacts(name string, facts inference.Facts) {
	if t := c.target(name); t != nil {
		t.setFacts(facts)
	}
}

// SetInterval tells the effective interval of a rung where it is longer than the configured one, because the budget or long
// runs stretch it. Clean values stay exported for 2.5 times the longer of the two.
func (c *Collector) SetInterval(name string, rung prober.Rung, effective time.Duration) {
	if t := c.target(name); t != nil {
		t.setInterval(rung, effective)
	}
}

func (c *Collector) target(name string) *target {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.targets[name]
}

// Gatherer gathers the series of all targets that are there at that moment, and those of more gatherers, such as the
// process registry, which must not share a name with the catalogue.
func (c *Collector) Gatherer(more ...prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		c.mu.RLock()
		gatherers := slices.Clone(more)
		for _, name := range slices.Sorted(maps.Keys(c.targets)) {
			gatherers = append(gatherers, c.targets[name].registry)
		}
		c.mu.RUnlock()
		return join(gatherers)
	})
}

// join merges families by name. prometheus.Gatherers does so too and checks every series against every other; here each
// registry has checked its own, and no two share a series.
func join(gatherers []prometheus.Gatherer) ([]*dto.MetricFamily, error) {
	byName := map[string]*dto.MetricFamily{}
	for _, g := range gatherers {
		families, err := g.Gather()
		if err != nil {
			return nil, fmt.Errorf("gathering metrics: %w", err)
		}
		for _, f := range families {
			if first, ok := byName[f.GetName()]; ok {
				first.Metric = append(first.Metric, f.Metric...)
			} else {
				byName[f.GetName()] = f
			}
		}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b *dto.MetricFamily) int {
		return strings.Compare(a.GetName(), b.GetName())
	}), nil
}

// NewProcessRegistry makes the registry of the process: Go runtime, process and longctx_exporter_build_info.
func NewProcessRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		version.NewCollector("longctx_exporter"),
	)
	return r
}
