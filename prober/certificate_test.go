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
		AbortedRequests: f(1), ForwardTokens: f(48), SeesBroken: true,
	}
	grown := Load{
		Running: n(0), Queued: n(0), PromptTokens: f(3500), ComputedTokens: f(2400), GeneratedTokens: f(120), FinishedRequests: f(5),
		AbortedRequests: f(1), ForwardTokens: f(116), SeesBroken: true,
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
		"restarted":                       {idle, with(grown, func(l *Load) { l.PromptTokens = f(3) }), ours, NotKnown, true},
		"restarted, and counts more":      {with(idle, since(100)), with(grown, since(200)), ours, NotKnown, false},
		"not restarted":                   {with(idle, since(100)), with(grown, since(100)), ours, Proved, false},
		"a sum can no longer be printed":  {digits(idle, 50), digits(with(grown, func(l *Load) { l.PromptTokens = nil }), 120), ours, Proved, false},
		"a counter is gone":               {idle, with(grown, func(l *Load) { l.GeneratedTokens = nil }), ours, NotKnown, true},
		"the first requests ever":         {Load{Running: n(0), Queued: n(0)}, with(grown, firstEver), ours, Proved, false},
		"the first, and somebody else":    {Load{Running: n(0), Queued: n(0)}, with(grown, func(l *Load) { firstEver(l); l.PromptTokens = f(3001) }), ours, IsContended, false},
		"the first abort ever":            {with(idle, func(l *Load) { l.AbortedRequests = nil }), grown, ours, IsContended, false},
		"aborts do not count":             {with(idle, noAborts), with(grown, noAborts), ours, Quiet, false},
		"aborts do not count, prompts do": {with(idle, scheduled(500)), with(grown, scheduled(3500)), ours, Proved, false},
		"somebody was broken off early":   {with(idle, scheduled(500)), with(grown, scheduled(9500)), ours, IsContended, false},
		"nobody's prompts are counted":    {with(idle, scheduled(0)), with(grown, scheduled(0)), ours, Quiet, false},
		"the queue is not told":           {with(idle, noQueue), with(grown, noQueue), ours, Quiet, false},
		"one still runs":                  {with(idle, noForward), with(grown, func(l *Load) { noForward(l); l.Running = n(1) }), ours, IsContended, true},
		"one seems to run, no pass made":  {idle, with(grown, func(l *Load) { l.Running = n(1) }), ours, NotKnown, true},
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
			if told := g.isolation == IsContended || g.restarted || name == "all requests, fewer tokens"; told != (g.why != "") {
				t.Errorf("%s for the reason %q", g.isolation, g.why)
			}
		})
	}
}

func noGauges(l *Load)  { l.Running, l.Queued = nil, nil }
func noForward(l *Load) { l.ForwardTokens = nil }
func noQueue(l *Load)   { l.Queued = nil }
func noAborts(l *Load)  { l.AbortedRequests, l.SeesBroken = nil, false }

func since(at float64) func(*Load) { return func(l *Load) { l.Since = &at } }

// scheduled is a load of a server that counts prompts when it schedules them, and no aborts.
func scheduled(tokens float64) func(*Load) {
	return func(l *Load) { noAborts(l); l.ScheduledTokens = &tokens }
}

// firstEver makes the counters those of a server that has served nobody before.
func firstEver(l *Load) {
	prompt, computed, generated, forward, finished := 3000.0, 2000.0, 70.0, 68.0, 3.0
	l.PromptTokens, l.ComputedTokens, l.GeneratedTokens, l.ForwardTokens = &prompt, &computed, &generated, &forward
	l.FinishedRequests, l.AbortedRequests = &finished, nil
}

func passesUnknown(t tally) tally {
	t.forwardUnknown = true
	return t
}

// digits is a load whose generated tokens are printed with six digits only.
func digits(l Load, generated float64) Load {
	l.Digits, l.GeneratedTokens = 6, &generated
	return l
}
