package collector

import "longctx_exporter/prober"

// The values of the label `baseline`.
const (
	baselinePinned   = "pinned"
	baselineDeploy   = "deploy"
	baselinePrevious = "previous_deploy"
)

// baselineMetrics describes what step times are held against.
func baselineMetrics() []Metric {
	return []Metric{{
		Name: stepBaseline, Type: Gauge, Labels: perRung("baseline"), Children: 3,
		Help: "Step time in seconds that later ones are held against: pinned by an operator, the median of clean runs since what the target runs was deployed (deploy), or that of the latest deploy before it that was measured (previous_deploy). Absent where not known or of fewer than three runs.",
	}}
}

// baseline adds what the rung's step times are held against.
func (p page) baseline(r *rung, deploy string) {
	present, previous := r.kept.Medians(deploy)
	p.known(stepBaseline, r.pinned, r.baselines[baselinePinned])
	p.known(stepBaseline, present, r.baselines[baselineDeploy])
	p.known(stepBaseline, previous, r.baselines[baselinePrevious])
}

// SetPinned takes the step times in seconds, by prompt tokens, that an operator pinned for a target; those before are dropped.
func (c *Collector) SetPinned(name string, steps map[int]float64) {
	t := c.target(name)
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.ladder {
		r.pinned = steps[int(r.length)]
	}
}

var _ prober.RunObserver = (*Collector)(nil)
