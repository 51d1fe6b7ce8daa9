package simserver

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestCacheMatchesWholePages(t *testing.T) {
	for _, c := range []struct{ page, same, want int }{
		{1, 50, 50}, {16, 50, 48}, {16, 15, 0}, {64, 64, 64}, {1, 0, 0},
	} {
		k := newCache(c.page, 10_000)
		k.insert("", prompt(100, 1), false)
		other := prompt(100, 1)
		for i := c.same; i < len(other); i++ {
			other[i] = firstWordID + 95_000
		}
		if got, _ := k.match("", other); got != c.want {
			t.Errorf("page %d, %d tokens alike: matched %d, want %d", c.page, c.same, got, c.want)
		}
		if got, _ := k.match("salt", other); got != 0 {
			t.Errorf("page %d: matched %d in another namespace", c.page, got)
		}
	}
}

func TestCacheEvictsTheOldest(t *testing.T) {
	k := newCache(1, 300)
	a, b, c := prompt(100, 1), prompt(100, 2), prompt(100, 3)
	k.insert("", a, false)
	k.insert("", b, false)
	k.insert("", c, false)
	k.match("", a) // used again: b is the oldest now
	k.insert("", prompt(60, 4), false)
	for _, x := range []struct {
		name string
		ids  []int32
		want int
	}{{"a", a, 100}, {"b", b, 40}, {"c", c, 100}} {
		if got, _ := k.match("", x.ids); got != x.want {
			t.Errorf("%s: matched %d, want %d", x.name, got, x.want)
		}
	}
}

// Whatever is inserted, locked and evicted: what the tree holds is what is counted, and locked prefixes stay.
func TestCacheBooksBalance(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	k := newCache(4, 500)
	held, at := prompt(40, 0), (*node)(nil)
	at = k.insert("", held, false)
	k.lock(at, 1)
	for range 2000 {
		ids := prompt(1+rng.IntN(200), rng.Int32N(4))
		cut := rng.IntN(len(ids))
		for i := cut; i < len(ids); i++ {
			ids[i] = firstWordID + rng.Int32N(3)
		}
		salt := []string{"", "a"}[rng.IntN(2)]
		k.insert(salt, ids, false)
		if rng.IntN(20) == 0 {
			k.evict(rng.IntN(600))
		}
		sum := 0
		k.walk(func(n *node) {
			sum += len(n.key)
			if len(n.key) == 0 || len(n.key)%k.page != 0 || n.parent.children[k.pageKey(n.key)] != n {
				t.Fatalf("a node of %d tokens hangs wrong", len(n.key))
			}
		})
		if sum != k.used || k.free() < 0 {
			t.Fatalf("the tree holds %d tokens, counted are %d of %d", sum, k.used, k.capacity)
		}
		if got, _ := k.match("", held); got != len(held) {
			t.Fatalf("a locked prefix of %d tokens fell to %d", len(held), got)
		}
	}
	k.lock(at, -1)
	k.drop()
	if k.used != 0 || len(k.roots) != 0 {
		t.Errorf("%d tokens and %d namespaces are left", k.used, len(k.roots))
	}
}

// A warm prompt costs the residual and its last token; with pages, the tokens of the last page; a salt makes it cold again.
func TestWarmPromptIsCheap(t *testing.T) {
	for _, c := range []struct {
		shape, path string
		page        int
		recomputed  int
	}{
		{"sglang", "/generate", 1, 1},
		{"sglang", "/generate", 64, 64},
		{"vllm", "/v1/completions", 1, 16},
		{"llamacpp", "/v1/completions", 1, 1},
	} {
		p := noiseless(profile(t, ""))
		p.PageSize = c.page
		inBubble(t, Config{Shape: c.shape, Profile: p}, func(r *rig) {
			ids := prompt(32_000, 1)
			ask := native(ids, 1, true)
			if c.shape != "sglang" {
				ask = object{"prompt": ids, "max_tokens": 1, "ignore_eos": true, "stream": true}
			}
			r.post(c.path, ask)
			cold := r.lastTruth()
			start := time.Now()
			r.post(c.path, ask)
			warm := r.lastTruth()
			if cold.CachedTokens != 0 || warm.CachedTokens != 32_000-c.recomputed || warm.RecomputedTokens != c.recomputed {
				t.Errorf("%s page %d: cold %d cached, warm %d cached and %d computed", c.shape, c.page, cold.CachedTokens,
					warm.CachedTokens, warm.RecomputedTokens)
			}
			want := 0.050 + p.PrefillSeconds(32_000) - p.PrefillSeconds(32_000-c.recomputed)
			near(t, c.shape+" warm", time.Since(start).Seconds(), want, 0.01)
			if c.shape == "llamacpp" {
				return
			}
			ask["cache_salt"], ask["extra_key"] = "other", "other"
			r.post(c.path, ask)
			if got := r.lastTruth().CachedTokens; got != 0 {
				t.Errorf("%s: a new salt found %d tokens", c.shape, got)
			}
		})
	}
}

// The answer of one request is cached for the next: a conversation goes on.
func TestOutputIsCached(t *testing.T) {
	inBubble(t, Config{Shape: "sglang"}, func(r *rig) {
		a := r.post("/generate", native(prompt(1000, 1), 50, false))
		ids := prompt(1000, 1)
		for _, id := range a.json(t, 0)["output_ids"].([]any) {
			ids = append(ids, int32(id.(float64)))
		}
		r.post("/generate", native(append(ids, firstWordID), 1, false))
		if got := r.lastTruth().CachedTokens; got != 1049 {
			t.Errorf("%d cached, want prompt and answer but its last token: 1049", got)
		}
	})
}

// One slot keeps only its last sequence.
func TestOneSlotForgets(t *testing.T) {
	inBubble(t, Config{Shape: "llamacpp"}, func(r *rig) {
		ask := func(salt int32) int {
			r.post("/v1/completions", object{"prompt": prompt(5000, salt), "max_tokens": 1})
			return r.lastTruth().CachedTokens
		}
		if a, b, again := ask(1), ask(2), ask(1); a != 0 || b != 0 || again != 0 {
			t.Errorf("cached %d, %d, %d", a, b, again)
		}
		off := object{"prompt": prompt(5000, 1), "max_tokens": 1, "cache_prompt": false}
		r.post("/v1/completions", off)
		if got := r.lastTruth().CachedTokens; got != 0 {
			t.Errorf("cache_prompt false found %d tokens", got)
		}
	})
}

// A pool that a long prompt fills loses the older one.
func TestPoolEvictsBetweenRuns(t *testing.T) {
	inBubble(t, Config{Shape: "sglang"}, func(r *rig) {
		for i, want := range []int{0, 0, 0} {
			r.post("/generate", native(prompt(131_072, int32(i%2)), 1, false))
			// 218,484 tokens hold one such prompt and two thirds of the other.
			if got := r.lastTruth().CachedTokens; i < 2 && got != want {
				t.Errorf("request %d: %d cached", i, got)
			} else if i == 2 && (got < 80_000 || got > 90_000) {
				t.Errorf("the first prompt kept %d tokens of what the pool leaves", got)
			}
		}
	})
}
