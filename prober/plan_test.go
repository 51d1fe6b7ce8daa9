package prober

import (
	"testing"

	"longctx_exporter/prober/inference"
)

func TestFit(t *testing.T) {
	for name, c := range map[string]struct {
		facts  inference.Facts
		rung   Rung
		m      int
		length int
		reason Reason
	}{
		"nothing told":                      {inference.Facts{}, 131072, 64, 131072, ""},
		"fits":                              {inference.Facts{ContextLimit: 200000, BlockSize: 16}, 196608, 64, 196608, ""},
		"a 128k model runs its 128k rung":   {inference.Facts{ContextLimit: 131072, BlockSize: 8}, 131072, 64, 130999, ""},
		"two percent over":                  {inference.Facts{ContextLimit: 1100, BlockSize: 1}, 1024, 64, 1024, ""},
		"more than two percent over":        {inference.Facts{ContextLimit: 1069, BlockSize: 1}, 1024, 64, 0, ExceedsContext},
		"longest prompt":                    {inference.Facts{ContextLimit: 200000, MaxPrompt: 101128}, 131072, 64, 0, ExceedsContext},
		"longest prompt, nearly":            {inference.Facts{MaxPrompt: 131066}, 131072, 64, 131066, ""},
		"the pool is smaller":               {inference.Facts{ContextLimit: 200000, KVPoolTokens: 101134}, 131072, 64, 0, ExceedsPool},
		"the pool and the limit, shortened": {inference.Facts{ContextLimit: 131072, KVPoolTokens: 130000, BlockSize: 1}, 131072, 64, 129934, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := &execution{Runner: &Runner{facts: c.facts}, rung: c.rung}
			err := e.fit(c.m)
			if reasonOf(err) != c.reason || c.reason == "" && e.length != c.length {
				t.Errorf("length %d, %v; want %d, %s", e.length, err, c.length, c.reason)
			}
		})
	}
}

func TestEveryTenthRunIsAColdPair(t *testing.T) {
	e := &execution{Runner: &Runner{target: Target{Plan: AutoPlan}, memory: newMemory()}, rung: 1024}
	for i := 1; i <= 30; i++ {
		want := Triple
		if i%10 == 0 {
			want = Pair
		}
		if got := e.plan(); got != want {
			t.Errorf("run %d: %s, want %s", i, got, want)
		}
	}
}

func TestDecodeTokens(t *testing.T) {
	for name, c := range map[string]struct {
		configured int
		rung       Rung
		seen       rungMemory
		least      int
		most       int
	}{
		"configured":                  {16, 1024, rungMemory{step: 1, tau: 2, jitter: 9}, 16, 16},
		"never measured":              {0, 196608, rungMemory{}, 64, 64},
		"slow and steady":             {0, 196608, rungMemory{step: 3, tau: 2, jitter: 0.005}, 48, 48},
		"fast and noisy":              {0, 131072, rungMemory{step: 0.012, tau: 1, jitter: 0.005}, 58, 60},
		"very noisy":                  {0, 131072, rungMemory{step: 0.001, tau: 4, jitter: 0.5}, 512, 512},
		"a short prompt stays short":  {0, 512, rungMemory{step: 0.001, tau: 4, jitter: 0.5}, 128, 128},
		"no fewer than steps to pool": {0, 8192, rungMemory{step: 1, tau: 1, jitter: 0}, 32, 32},
	} {
		t.Run(name, func(t *testing.T) {
			e := &execution{Runner: &Runner{target: Target{Precision: 0.03, DecodeTokens: PerRung[int]{Default: c.configured}}}, rung: c.rung}
			if m := e.decodeTokens(c.seen); m < c.least || m > c.most {
				t.Errorf("M = %d, want %d to %d", m, c.least, c.most)
			}
		})
	}
}
