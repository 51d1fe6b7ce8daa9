package state

import "slices"

const (
	mostSteps = 64 // that a median rests on; of more, evenly spread ones are kept
	// EnoughSteps is how many clean step times a baseline needs at least.
	EnoughSteps = 3
)

// Baseline is the step times of one rung under one deploy. The zero value has none.
type Baseline struct {
	Deploy string    `json:"deploy"`
	Every  int       `json:"every,omitempty"`  // one of so many is kept; 0 is each
	Passed int       `json:"passed,omitempty"` // since the last that was kept
	Steps  []float64 `json:"steps,omitempty"`  // seconds, in order of time
}

// add takes one more step time in. Steps is not changed in place.
func (b Baseline) add(step float64) Baseline {
	every := max(b.Every, 1)
	if b.Passed++; b.Passed < every && len(b.Steps) > 0 {
		return b
	}
	b.Passed = 0
	if len(b.Steps) < mostSteps {
		b.Steps = append(slices.Clip(b.Steps), step)
		return b
	}
	thinned := make([]float64, 0, mostSteps)
	for i := 0; i < len(b.Steps); i += 2 {
		thinned = append(thinned, b.Steps[i])
	}
	b.Steps, b.Every = append(thinned, step), 2*every
	return b
}

// Median is the median of the step times in seconds; 0 where there are too few.
func (b Baseline) Median() float64 { return median(b.Steps) }

func median(values []float64) float64 {
	n := len(values)
	if n < EnoughSteps {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// AddStep takes the step time in seconds of a clean sample under a deploy in. Under a new deploy the baseline of the one before
// is kept, or where that has too few samples the one before it. Nothing is kept where the deploy is not known.
func (r *Rung) AddStep(deploy string, step float64) {
	if deploy == "" {
		return
	}
	deploys := slices.Clone(r.Deploys)
	present := func() bool { return len(deploys) > 0 && deploys[len(deploys)-1].Deploy == deploy }
	if !present() {
		deploys = slices.DeleteFunc(deploys, func(b Baseline) bool { return b.Median() == 0 })
	}
	if !present() {
		deploys = append(deploys[max(0, len(deploys)-keptDeploys+1):], Baseline{Deploy: deploy})
	}
	last := &deploys[len(deploys)-1]
	*last = last.add(step)
	r.Deploys = deploys
}

// Medians are the baselines in seconds under the present deploy and under the latest one before it; 0 where not known.
func (r Rung) Medians(deploy string) (present, previous float64) {
	earlier := r.Deploys
	if last := len(earlier) - 1; last >= 0 && earlier[last].Deploy == deploy {
		present, earlier = earlier[last].Median(), earlier[:last]
	}
	for _, b := range earlier {
		if median := b.Median(); median > 0 {
			previous = median
		}
	}
	return present, previous
}

// Usual is what a baseline of the rung is pinned to: the median step time in seconds of the present deploy, else of the kept
// samples; 0 where there are too few.
func (r Rung) Usual(deploy string) float64 {
	if present, _ := r.Medians(deploy); present > 0 {
		return present
	}
	var steps []float64
	for _, s := range r.Samples {
		if s.Step > 0 {
			steps = append(steps, s.Step)
		}
	}
	return median(steps)
}
