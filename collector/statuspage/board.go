package statuspage

import (
	"slices"
	"sync"

	"longctx_exporter/prober"
)

// board keeps what became of the last run of every rung of the targets that are there. It is safe for concurrent use.
type board struct {
	mu      sync.Mutex
	targets []prober.Target
	last    map[place]Summary
}

type place struct {
	target string
	rung   prober.Rung
}

// setTargets forgets the rungs that are gone, and those that are measured in another way from now on.
func (b *board) setTargets(targets []prober.Target) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := map[place]Summary{}
	for _, t := range targets {
		if !slices.ContainsFunc(b.targets, t.Same) {
			continue
		}
		for _, r := range t.Ladder {
			if s, known := b.last[place{t.Name, r}]; known {
				last[place{t.Name, r}] = s
			}
		}
	}
	b.targets, b.last = slices.Clone(targets), last
}

// observe keeps a run.
func (b *board) observe(run prober.Run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.targets, func(t prober.Target) bool { return t.Name == run.Target })
	if i >= 0 && slices.Contains(b.targets[i].Ladder, run.Rung) {
		b.last[place{run.Target, run.Rung}] = newSummary(run)
	}
}

// names are those of the targets, in their order.
func (b *board) names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []string
	for _, t := range b.targets {
		names = append(names, t.Name)
	}
	return names
}

// state is a target and its rungs as a page shows them.
type state struct {
	Name, Model, Server string
	Rungs               []rungState
	Unparsed            []string // lines of its logs
}

type rungState struct {
	Rung  prober.Rung
	Last  *Summary       // nil before the first run
	Clean *prober.Sample // nil where no clean value is exported
	Age   string         // of Clean
	Ended string         // how long ago Last was
}

// states shows the board; clean gives the values that are exported.
func (b *board) states(clean Values) []state {
	b.mu.Lock()
	defer b.mu.Unlock()
	var states []state
	for _, t := range b.targets {
		s := state{Name: t.Name, Model: t.ModelLabel(), Server: t.Server}
		for _, r := range slices.Sorted(slices.Values(t.Ladder)) {
			row := rungState{Rung: r}
			if last, known := b.last[place{t.Name, r}]; known {
				row.Last, row.Ended = &last, ago(last.Started, last.Duration)
			}
			if sample, at, ok := clean.Latest(t.Name, r); ok {
				row.Clean, row.Age = &sample, ago(at, 0)
			}
			s.Rungs = append(s.Rungs, row)
		}
		states = append(states, s)
	}
	return states
}

// count is how many rungs ended in a way the last time.
type count struct {
	Status prober.Status
	Number int
}

// counts leaves out what did not happen.
func counts(states []state) []count {
	number := map[prober.Status]int{}
	for _, s := range states {
		for _, r := range s.Rungs {
			if r.Last != nil {
				number[r.Last.Status]++
			}
		}
	}
	var all []count
	for _, status := range statuses() {
		if n := number[status]; n > 0 {
			all = append(all, count{status, n})
		}
	}
	return all
}
