package prober

import (
	"slices"
	"time"
)

// memory is what one target has taught so far. It is lost with the process.
type memory struct {
	lastLeg       time.Time              // end of the last request, the pre-roll included
	shortTokens   int                    // max_tokens of the short legs: 1, or 2 where 1 misbehaves
	countsSeen    bool                   // the server has reported cached tokens above 0, so its 0 can be believed
	noPrefixCache time.Time              // when the target last showed that it caches no prefix
	noWarm        map[Rung]time.Time     // the same for single rungs, where warm could not be shown
	runs          map[Rung]int           // begun so far
	rungs         map[Rung]rungMemory    // of the last clean sample
	cold          map[Rung]time.Duration // last sound cold TTFT
	sent          map[Rung]sentPrompt    // by the last clean run on a cached prompt
	canaries      []canary               // of the last runs
	coldLegs      map[Rung]int           // of the last run
	pool          poolMemory
	refused       refusal       // of the last prompt that was too long
	lateness      time.Duration // of the server's counters, at most
}

// rungMemory is what the last clean sample of a rung says about the next.
type rungMemory struct {
	step   float64 // seconds
	tau    float64 // tokens per step; 1 where not known
	jitter float64 // seconds; spread of the short legs
}

// remembered is how long a target that showed no prefix cache is believed.
const remembered = 24 * time.Hour

func newMemory() memory {
	return memory{
		shortTokens: 1,
		noWarm:      map[Rung]time.Time{},
		runs:        map[Rung]int{},
		rungs:       map[Rung]rungMemory{},
		cold:        map[Rung]time.Duration{},
		sent:        map[Rung]sentPrompt{},
		coldLegs:    map[Rung]int{},
	}
}

// warmPossible says whether a triple is worth trying.
func (m *memory) warmPossible(r Rung) bool {
	fresh := func(t time.Time) bool { return !t.IsZero() && time.Since(t) < remembered }
	return !fresh(m.noPrefixCache) && !fresh(m.noWarm[r])
}

// expectedCold predicts the cold TTFT of a rung: the last sound one, else from the two longest shorter rungs, since prefill
// time is p1·L + p2·L² and so TTFT/L a line. Zero where neither is known.
func (m *memory) expectedCold(r Rung) time.Duration {
	if t, ok := m.cold[r]; ok {
		return t
	}
	var shorter []Rung
	for s := range m.cold {
		if s < r {
			shorter = append(shorter, s)
		}
	}
	if len(shorter) < 2 {
		return 0
	}
	slices.Sort(shorter)
	a, b := shorter[len(shorter)-2], shorter[len(shorter)-1]
	rate := func(s Rung) float64 { return m.cold[s].Seconds() / float64(s) }
	perToken := rate(b) + max(0, (rate(b)-rate(a))/float64(b-a)*float64(r-b))
	return time.Duration(perToken * float64(r) * float64(time.Second))
}
