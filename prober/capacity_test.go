package prober

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-kit/log"

	"longctx_exporter/prober/inference"
)

// pool makes a reading of a KV pool of 200,000 tokens; a negative number is not told.
func pool(free, unused, served float64) Load {
	told := func(v float64) *float64 {
		if v < 0 {
			return nil
		}
		return &v
	}
	return Load{
		PoolTokens: told(200_000), PoolFree: told(free), PoolUnused: told(unused), PromptTokens: told(served), GeneratedTokens: told(0),
	}
}

func TestCheckPool(t *testing.T) {
	one := &poolMemory{}
	before := pool(200_000, 200_000, 0)
	afterOurs := poolMemory{left: 65_600, before: &before, added: 65_600, sent: 65_600, exact: true}
	for name, test := range map[string]struct {
		load   Load
		memory poolMemory
		allow  bool
		colds  int
		reason Reason
	}{
		"empty":                         {pool(200_000, 200_000, 0), *one, false, 1, ""},
		"empty, more than fits at once": {pool(200_000, 200_000, 0), *one, false, 4, ""}, // pushes out its own
		"told only a total":             {pool(-1, -1, 0), *one, false, 1, ""},
		"told no cached tokens":         {pool(150_000, -1, 0), *one, false, 1, ""},
		"running requests hold it":      {pool(60_000, 60_000, 0), *one, true, 1, PoolFull},
		"full of others' prefixes":      {pool(200_000, 1_000, 0), *one, false, 1, PoolFull},
		"the same, allowed":             {pool(200_000, 1_000, 0), *one, true, 1, ""},
		"room for one prompt of two":    {pool(200_000, 100_000, 0), *one, false, 2, PoolFull},
		"room beside others":            {pool(200_000, 100_000, 0), *one, false, 1, ""},
		"room but for a little":         {pool(200_000, 56_000, 0), *one, false, 1, ""},
		"ours":                          {pool(200_000, 134_400, 65_600), afterOurs, false, 3, ""},
		"ours, and little of others":    {pool(200_000, 84_400, 115_600), afterOurs, false, 2, ""},
		"ours, long pushed out":         {pool(200_000, 400, 465_600), afterOurs, false, 1, PoolFull},
		"ours, counters not told":       {pool(200_000, 134_400, -1), afterOurs, false, 3, ""},
		"others, counters not told":     {pool(200_000, 34_400, -1), afterOurs, false, 1, PoolFull},
	} {
		t.Run(name, func(t *testing.T) {
			runner := &Runner{memory: newMemory(), target: Target{AllowEviction: test.allow}, facts: inference.Facts{BlockSize: 16}}
			runner.memory.pool = test.memory
			runner.memory.coldLegs[65536] = test.colds
			e := &execution{Runner: runner, rung: 65536, length: 65536, before: &test.load}
			err := e.checkPool(64)
			if reasonOf(err) != test.reason {
				t.Errorf("%v, want reason %q", err, test.reason)
			}
			if err != nil && !strings.Contains(err.Error(), "200000") {
				t.Errorf("the message lacks the pool's size: %v", err)
			}
		})
	}
}

func TestEvicted(t *testing.T) {
	before := pool(200_000, 50_000, 0)
	p := poolMemory{before: &before, added: 65_600, sent: 65_600, exact: true}
	for name, test := range map[string]struct {
		now  Load
		want float64 // -1 not known
	}{
		"some":              {pool(200_000, 400, 65_600), 16_000},
		"pool not told":     {pool(200_000, -1, 65_600), -1},
		"somebody came":     {pool(200_000, 400, 65_700), -1},
		"counters not told": {pool(200_000, 400, -1), -1},
	} {
		got := p.evicted(test.now)
		if (got == nil) != (test.want < 0) || got != nil && *got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestShrunkenLimits tells once of a limit that shrank.
func TestShrunkenLimits(t *testing.T) {
	var out bytes.Buffer
	r := &Runner{logger: log.NewLogfmtLogger(&out), target: Target{Name: "a"}}
	for _, limit := range []int{0, 131072, 131072, 65536, 65536, 0, 65536} {
		now := inference.Facts{ContextLimit: limit, KVPoolTokens: 218_484}
		r.noteLimits(now)
		r.facts = now
	}
	if n := strings.Count(out.String(), `msg="the server's limit shrank" target=a limit="context limit" was=131072 is=65536`); n != 1 || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("told %d times:\n%s", n, out.String())
	}
}
