package simserver

import (
	"testing"
	"time"
)

func backgroundOf(truths []TruthRequest) []TruthRequest {
	var out []TruthRequest
	for _, q := range truths {
		if q.Background {
			out = append(out, q)
		}
	}
	return out
}

// A standing client always has a request running, whatever else comes.
func TestStandingClients(t *testing.T) {
	load := Background{Standing: 2, PromptTokens: [2]int{5000, 6000}, OutputTokens: [2]int{2000, 3000}}
	inBubble(t, Config{Shape: "sglang", Profile: profile(t, "fast-8b"), Background: load}, func(r *rig) {
		for range 20 {
			time.Sleep(29 * time.Second)
			if _, g := r.server.live().engine.observe(); g.running != 2 {
				t.Errorf("%d run, %d wait", g.running, g.waiting)
			}
		}
		if n := len(backgroundOf(r.server.Truth())); n < 10 {
			t.Errorf("%d requests in ten minutes", n)
		}
	})
}

// Those of a burst arrive together.
func TestBursts(t *testing.T) {
	load := Background{Rate: 0.01, Burst: 5, PromptTokens: [2]int{100, 200}, OutputTokens: [2]int{1, 20}}
	inBubble(t, Config{Shape: "sglang", Background: load, Seed: 3}, func(r *rig) {
		time.Sleep(30 * time.Minute)
		at := map[float64]int{}
		for _, q := range backgroundOf(r.server.Truth()) {
			at[q.Received]++
		}
		if len(at) < 8 || len(at) > 30 {
			t.Errorf("%d bursts in half an hour at 18", len(at))
		}
		for when, n := range at {
			if n != 5 {
				t.Errorf("%d requests at %v", n, when)
			}
		}
	})
}

// Prompts that share a beginning find it in the cache, unless a long prompt has pushed it out; both are told.
func TestSharedPrefixesAreEvicted(t *testing.T) {
	load := Background{Rate: 0.05, PromptTokens: [2]int{200, 400}, OutputTokens: [2]int{1, 20}, Prefixes: 3, PrefixTokens: [2]int{20_000, 30_000}}
	p := profile(t, "fast-8b")
	p.PoolTokens = 218_484
	inBubble(t, Config{Shape: "sglang", Profile: p, Background: load}, func(r *rig) {
		time.Sleep(5 * time.Minute)
		all := backgroundOf(r.server.Truth())
		if last := all[len(all)-1]; last.CachedTokens < 20_000 || last.RecomputedTokens > 400 {
			t.Errorf("the last one found %d tokens and computed %d", last.CachedTokens, last.RecomputedTokens)
		}
		r.post("/generate", native(prompt(190_000, 1), 1, false))
		var probe TruthRequest
		for _, q := range r.server.Truth() {
			if !q.Background {
				probe = q
			}
		}
		if probe.EvictedBackground < 30_000 || probe.EvictedForeground != 0 {
			t.Errorf("the long prompt pushed out %d and %d tokens", probe.EvictedBackground, probe.EvictedForeground)
		}
		time.Sleep(2 * time.Minute)
		again, own := 0, 0
		for _, q := range backgroundOf(r.server.Truth()) {
			if q.Received > probe.Received && q.RecomputedTokens > 20_000 {
				again++
			}
			own += q.EvictedForeground
		}
		if again == 0 || own == 0 {
			t.Errorf("%d prefixes were computed again, %d tokens of the long prompt went for them", again, own)
		}
	})
}

// What the background feels tells a long prefill apart from quiet times.
func TestBackgroundFelt(t *testing.T) {
	load := Background{Standing: 1, PromptTokens: [2]int{1000, 1000}, OutputTokens: [2]int{20_000, 20_000}}
	inBubble(t, Config{Shape: "sglang", Profile: noiseless(profile(t, "fast-8b")), Background: load}, func(r *rig) {
		time.Sleep(time.Minute)
		quiet := r.server.BackgroundFelt(10*time.Second, 0)
		r.post("/generate", native(prompt(131_072, 1), 1, false))
		probed := r.server.BackgroundFelt(time.Minute, 0)
		if quiet.Gap.N < 1000 || quiet.Gap.Max > 0.02 || quiet.TTFT.N != 0 {
			t.Errorf("quiet: %+v", quiet)
		}
		if probed.Gap.Max < 0.5 || probed.Gap.P50 < 3*quiet.Gap.P50 { // each step waits for a chunk
			t.Errorf("under a prefill: %+v", probed)
		}
		if first := r.server.BackgroundFelt(0, 10*time.Second).TTFT; first.N != 1 || first.Mean < 0.07 || first.Mean > 0.08 {
			t.Errorf("first token: %+v", first)
		}
	})
}

// The books of the pool: what is held, can be evicted and is free make up the whole.
func TestPoolBooks(t *testing.T) {
	load := Background{Rate: 0.1, PromptTokens: [2]int{2000, 20_000}, OutputTokens: [2]int{1, 300}, AbortShare: 0.3, AbortAnywhere: true}
	inBubble(t, Config{Shape: "sglang", Profile: profile(t, "fast-8b"), Traffic: []Background{load, load}}, func(r *rig) {
		for range 300 {
			time.Sleep(1700 * time.Millisecond)
			e := r.server.live().engine
			e.mu.Lock()
			p, want := e.pool(), 0
			for _, j := range e.running {
				want += e.computedTokens(j)
			}
			total := p.held + p.evictable + p.available
			e.mu.Unlock()
			if total != e.cache.capacity || p.held > want || want > 0 && p.held < want*8/10 {
				t.Fatalf("%+v of %d, running requests have %d", p, e.cache.capacity, want)
			}
		}
	})
}
