package prober

import (
	"testing"
)

func TestGrade(t *testing.T) {
	n := func(v int) *int { return &v }
	f := func(v float64) *float64 { return &v }
	ours := tally{requests: 3, prompt: 3000, cached: 1000, completion: 70, forward: 68}
	idle := Load{
		Running: n(0), Queued: n(0), PromptTokens: f(500), ComputedTokens: f(400), GeneratedTokens: f(50), FinishedRequests: f(2),
		AbortedRequests: f(1), ForwardTokens: f(48),
	}
	grown := Load{
		Running: n(0), Queued: n(0), PromptTokens: f(3500), ComputedTokens: f(2400), GeneratedTokens: f(120), FinishedRequests: f(5),
		AbortedRequests: f(1), ForwardTokens: f(116),
	}
	with := func(l Load, change func(*Load)) Load { change(&l); return l }
	for name, c := range map[string]struct {
		before, after Load
		ours          tally
		want          Isolation
		later         bool // a later reading may change it
	}{
		"exactly ours":                    {idle, grown, ours, Proved, false},
		"nothing told":                    {Load{}, Load{}, ours, NotKnown, false},
		"gauges alone":                    {Load{Running: n(0)}, Load{Running: n(0)}, ours, Quiet, false},
		"gauges alone, one runs":          {Load{Running: n(0)}, Load{Running: n(3)}, ours, IsContended, true},
		"counters alone":                  {with(idle, noGauges), with(grown, noGauges), ours, NotKnown, false},
		"one token too many":              {idle, with(grown, func(l *Load) { l.GeneratedTokens = f(121) }), ours, IsContended, false},
		"one prompt too many":             {idle, with(grown, func(l *Load) { l.PromptTokens = f(3600) }), ours, IsContended, false},
		"a request too many":              {idle, with(grown, func(l *Load) { l.FinishedRequests = f(6) }), ours, IsContended, false},
		"an aborted one":                  {idle, with(grown, func(l *Load) { l.AbortedRequests = f(2) }), ours, IsContended, false},
		"passes for somebody unfinished":  {idle, with(grown, func(l *Load) { l.ForwardTokens = f(117) }), ours, IsContended, false},
		"late":                            {idle, with(grown, func(l *Load) { l.GeneratedTokens, l.FinishedRequests = f(100), f(4) }), ours, NotKnown, true},
		"all requests, fewer tokens":      {idle, with(grown, func(l *Load) { l.GeneratedTokens = f(100) }), ours, NotKnown, true},
		"not here at all":                 {idle, idle, ours, NotKnown, true},
		"restarted":                       {idle, with(grown, func(l *Load) { l.PromptTokens = f(3) }), ours, NotKnown, false},
		"one still runs":                  {with(idle, noForward), with(grown, func(l *Load) { noForward(l); l.Running = n(1) }), ours, IsContended, true},
		"one seems to run, no pass made":  {idle, with(grown, func(l *Load) { l.Running = n(1) }), ours, Proved, false},
		"two run":                         {idle, with(grown, func(l *Load) { l.Running = n(2) }), ours, IsContended, true},
		"one waits":                       {idle, with(grown, func(l *Load) { l.Queued = n(1) }), ours, IsContended, true},
		"passes that we do not know":      {idle, with(grown, func(l *Load) { l.ForwardTokens = f(130) }), passesUnknown(ours), Proved, false},
		"a leg without counts":            {idle, grown, tally{requests: 3, uncounted: true}, Quiet, false},
		"printed to six digits":           {digits(idle, 1e7), digits(grown, 1e7+37), ours, Quiet, false},
		"printed to six digits, too many": {digits(idle, 1e7), digits(grown, 1e7+300), ours, IsContended, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := grade(c.before, c.after, c.ours)
			if g.isolation != c.want || (g.patience > 0) != c.later {
				t.Errorf("graded %s with patience %v (%s), want %s", g.isolation, g.patience, g.why, c.want)
			}
			if told := g.isolation == IsContended || name == "all requests, fewer tokens"; told != (g.why != "") {
				t.Errorf("%s for the reason %q", g.isolation, g.why)
			}
		})
	}
}

func noGauges(l *Load)  { l.Running, l.Queued = nil, nil }
func noForward(l *Load) { l.ForwardTokens = nil }

func passesUnknown(t tally) tally {
	t.forwardUnknown = true
	return t
}

// digits is a load whose generated tokens are printed with six digits only.
func digits(l Load, generated float64) Load {
	l.Digits, l.GeneratedTokens = 6, &generated
	return l
}
