package prober

import (
	"time"

	"github.com/go-kit/log/level"

	"longctx_exporter/prober/inference"
)

// noteLimits tells when a server that was known takes longer or only shorter prompts than before.
func (r *Runner) noteLimits(now inference.Facts) {
	for _, l := range []struct {
		what    string
		was, is int
	}{
		{"context limit", r.facts.ContextLimit, now.ContextLimit},
		{"KV pool", r.facts.KVPoolTokens, now.KVPoolTokens},
	} {
		switch {
		case l.was == 0 || l.is == 0 || l.was == l.is:
		case l.is < l.was:
			level.Warn(r.logger).Log("msg", "the server's limit shrank", "target", r.target.Name, "limit", l.what, "was", l.was, "is", l.is)
		default:
			level.Info(r.logger).Log("msg", "the server's limit grew", "target", r.target.Name, "limit", l.what, "was", l.was, "is", l.is)
		}
	}
}

const (
	mostEvicted = 0.05 // of a pool, which may be pushed out all the same: a pool in use is always full of prefixes, and those go first that were not used for longest
	poolSlack   = 0.01 // of a pool that does not count as others' prefixes: pages that are partly filled, warm-up
	poolIsFree  = 0.98 // of a pool, from which it holds nobody: what does not fit then never will, which others judge
	unseenColds = 2    // cold legs to expect of a rung that was never measured
	stirring    = 64   // tokens by which a pool may change without anybody having used it
)

// checkPool skips a rung that the KV pool has no room for now: beside what running requests hold, or, unless the configuration
// allows that, without pushing out more than a little of what others have cached. A server that tells only how large its pool is, or does not tell
// cached tokens apart from free ones, is taken at its word that there is room.
func (e *execution) checkPool(m int) error {
	l := e.before
	if l == nil || l.PoolTokens == nil {
		return nil
	}
	if time.Since(e.memory.lastLeg) > gaugePatience {
		e.run.Evicted = e.memory.pool.evicted(*l)
	}
	pool, one := *l.PoolTokens, float64(e.length+1+m+e.facts.BlockSize)
	if l.PoolFree != nil && one > *l.PoolFree && *l.PoolFree < poolIsFree*pool {
		return skip(PoolFull, "%.0f tokens do not fit the server's KV pool now: requests of others hold all but %.0f of its %.0f tokens",
			one, *l.PoolFree, pool)
	}
	if l.PoolUnused == nil || e.target.AllowEviction {
		return nil
	}
	ours := e.memory.pool.ours(*l)
	others := pool - *l.PoolUnused - ours
	need := one * float64(e.memory.colds(e.rung))
	if others <= poolSlack*pool || need <= *l.PoolUnused+ours+mostEvicted*pool {
		return nil
	}
	return skip(PoolFull, "the rung puts %.0f tokens into the server's KV pool, of which %.0f of %.0f are unused: that would push out what others have cached (allow_eviction is false)",
		need, *l.PoolUnused+ours, pool)
}

// colds is how many cold prompts a run of a rung is expected to send.
func (m *memory) colds(r Rung) int {
	switch n := m.coldLegs[r]; {
	case n > 0:
		return n
	case m.expectedCold(r) >= repeatBelow:
		return 1
	}
	return unseenColds
}

// poolMemory is what earlier runs left in the server's KV pool. It is ours to push out again.
type poolMemory struct {
	left   float64 // tokens, by all runs up to the last one
	before *Load   // of the last run
	added  float64 // tokens that the last run put into the pool
	sent   float64 // what the last run added to the counters of prompt and generated tokens
	exact  bool    // all of its requests told what they took
}

// ours is how many tokens of earlier runs must still be in the pool: all, if it has had room for whatever came since; else
// none can be counted on.
func (p *poolMemory) ours(now Load) float64 {
	if p.before == nil || p.before.PoolUnused == nil || now.PoolUnused == nil {
		return 0
	}
	unused := max(0, *p.before.PoolUnused-p.added)
	came := unused - *now.PoolUnused
	if tokens, ok := served(*p.before, now); ok {
		came = tokens - p.sent
		if came <= unused {
			return p.left
		}
	} else if came <= stirring {
		return p.left
	}
	return 0
}

// served is how many prompt and generated tokens a server counted between two readings.
func served(before, after Load) (tokens float64, ok bool) {
	if before.PromptTokens == nil || after.PromptTokens == nil || before.GeneratedTokens == nil || after.GeneratedTokens == nil {
		return 0, false
	}
	return *after.PromptTokens - *before.PromptTokens + *after.GeneratedTokens - *before.GeneratedTokens, true
}

// notePool remembers what a run left in the pool.
func (e *execution) notePool() {
	if e.before == nil || e.before.PoolUnused == nil || e.before.PoolTokens == nil {
		return
	}
	p := &e.memory.pool
	added := float64(e.tally.prompt - e.tally.cached + e.tally.completion)
	if e.tally.uncounted {
		added += float64(e.length) // at most: a prompt that was cut off stays as far as it got
	}
	*p = poolMemory{
		left: min(p.ours(*e.before)+added, *e.before.PoolTokens), before: e.before, added: added,
		sent: float64(e.tally.prompt + e.tally.completion), exact: !e.tally.uncounted,
	}
	colds := 0
	for _, l := range e.run.Legs {
		if l.Kind == cold {
			colds++
		}
	}
	if colds > 0 {
		e.memory.coldLegs[e.rung] = colds
	}
}

// evicted is how many tokens the pool gave up for the last run, as a later reading shows if nobody else has used the server
// since: the gauges of the pool may be half a minute old right after a run.
func (p *poolMemory) evicted(now Load) *float64 {
	if p.before == nil || now.PoolUnused == nil || !p.exact {
		return nil
	}
	if tokens, ok := served(*p.before, now); !ok || tokens != p.sent {
		return nil
	}
	evicted := p.added - (*p.before.PoolUnused - *now.PoolUnused)
	if evicted <= stirring {
		evicted = 0
	}
	return &evicted
}
