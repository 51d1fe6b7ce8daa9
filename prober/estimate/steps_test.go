package estimate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestGaps(t *testing.T) {
	for _, test := range []struct{ stamps, want []float64 }{
		{nil, nil},
		{[]float64{1}, nil},
		{[]float64{1, 2}, nil},
		{[]float64{1, 9, 9.5, 10.5}, []float64{0.5, 1}},
		{[]float64{1, 2, 1.5, 3}, nil},
		{[]float64{1, 2, math.NaN(), 3}, nil},
		{[]float64{-math.MaxFloat64, 0, math.MaxFloat64, math.MaxFloat64}, []float64{math.MaxFloat64, 0}},
	} {
		if got := Gaps(test.stamps); !slices.Equal(got, test.want) {
			t.Errorf("%v: %v, want %v", test.stamps, got, test.want)
		}
	}
}

func TestCheckSteps(t *testing.T) {
	for name, test := range map[string]struct {
		steps, drafts, decoded, block int
		want                          bool
	}{
		"overshoot 6 of 8":             {19, 51, 64, 8, true},
		"exact":                        {16, 48, 64, 8, true},
		"overshoot 7 of 8":             {20, 51, 64, 8, true},
		"overshoot a block":            {21, 51, 64, 8, false},
		"too few commits":              {12, 51, 64, 8, false},
		"unknown block":                {40, 51, 64, 0, true},
		"unknown block, too few":       {12, 51, 64, 0, false},
		"unknown block, corrupt":       {1_000_000_000, 51, 64, 0, false},
		"unknown block, many drafts":   {19, 1_000_000_000, 64, 0, false},
		"more passes than tokens":      {66, 0, 64, 8, false},
		"a pass too many":              {65, 0, 64, 8, true},
		"no speculation":               {64, 0, 64, 1, true},
		"no speculation, wrong":        {63, 0, 64, 1, false},
		"unknown drafts":               {19, -1, 64, 8, true},
		"unknown drafts, too many":     {65, -1, 64, 8, false},
		"unknown drafts, too few":      {7, -1, 64, 8, false},
		"unknown drafts, least":        {8, -1, 64, 8, true},
		"all unknown":                  {19, -1, 64, 0, true},
		"all unknown, no step":         {0, -1, 64, 0, false},
		"unknown steps":                {-1, 51, 64, 8, false},
		"nothing decoded":              {0, 0, 0, 8, true},
		"nothing decoded, unknown":     {0, -1, 0, 0, true},
		"drafts without a step":        {0, 3, 0, 8, false},
		"corrupt":                      {math.MaxInt, math.MaxInt, 64, 8, false},
		"corrupt, unknown drafts":      {3, -1, math.MaxInt, 8, false},
		"corrupt block":                {3, 5, 8, -1, false},
		"corrupt steps, huge block":    {2, -1, 64, math.MaxInt, true},
		"completion tokens taken as D": {16, 48, 65, 8, false},
	} {
		if got := CheckSteps(test.steps, test.drafts, test.decoded, test.block); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// stream is a simulated answer: stamps and token deltas of its chunks, and the number of passes behind them.
type stream struct {
	stamps []float64
	tokens []int
	steps  int
}

func (s *stream) chunk(at float64, tokens int) {
	s.stamps = append(s.stamps, at)
	s.tokens = append(s.tokens, tokens)
}

// sender puts the tokens of a pass on the wire.
type sender func(s *stream, at float64, tokens int, last bool)

// simulate runs passes of 50 ms until decoded tokens are out, the first one slower by half; as the sender puts them
// on the wire.
func simulate(r *rand.Rand, block, decoded int, jitter float64, send sender) stream {
	var s stream
	now := 5.0
	s.chunk(now, 1)
	for left := decoded; left > 0; s.steps++ {
		step := 0.05 * (1 + jitter*r.NormFloat64())
		if s.steps == 0 {
			step *= 1.5
		}
		now += step
		n := 1
		for n < block && r.Float64() < 0.6 {
			n++
		}
		n = min(n, left)
		left -= n
		send(&s, now, n, left == 0)
	}
	return s
}

func whole(s *stream, at float64, tokens int, _ bool) { s.chunk(at, tokens) }

// burst sends each token of a pass as its own chunk, as llama.cpp does.
func burst(s *stream, at float64, tokens int, _ bool) {
	for i := range tokens {
		s.chunk(at+float64(i)*30e-6, 1)
	}
}

// every sends the tokens of k passes in one chunk.
func every(k int) sender {
	pending, passes := 0, 0
	return func(s *stream, at float64, tokens int, last bool) {
		pending += tokens
		passes++
		if last || passes%k == 0 {
			s.chunk(at, pending)
			pending = 0
		}
	}
}

// merging lumps about one pass in ten with the next, as a busy event loop does.
func merging(r *rand.Rand) sender {
	pending := 0
	return func(s *stream, at float64, tokens int, last bool) {
		pending += tokens
		if last || r.Float64() > 0.1 {
			s.chunk(at, pending)
			pending = 0
		}
	}
}

// buffered delivers everything at the end, chunk by chunk.
func buffered(s *stream, _ float64, tokens int, _ bool) {
	for range tokens {
		s.chunk(9+float64(len(s.tokens))*10e-6, 1)
	}
}

func TestStepsFromChunks(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for name, test := range map[string]struct {
		block  int
		jitter float64
		send   func() sender
		least  float64 // share of answers that must be proven
		most   float64 // and may be
	}{
		"speculation":             {8, 0.05, func() sender { return whole }, 0.99, 1},
		"no speculation":          {1, 0.05, func() sender { return whole }, 1, 1},
		"noisy speculation":       {8, 0.1, func() sender { return whole }, 0.95, 1},
		"merged chunks":           {8, 0.05, func() sender { return merging(r) }, 0, 1},
		"bursts":                  {8, 0.05, func() sender { return burst }, 0, 0},
		"two passes a chunk":      {1, 0.05, func() sender { return every(2) }, 0, 0},
		"two spec passes a chunk": {8, 0.05, func() sender { return every(2) }, 0, 0},
		"buffered":                {8, 0.05, func() sender { return buffered }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			const answers = 2000
			proven := 0
			for range answers {
				s := simulate(r, test.block, 64, test.jitter, test.send())
				steps, ok := StepsFromChunks(s.stamps, s.tokens)
				if ok {
					proven++
				}
				if ok && steps != s.steps || !ok && steps != 0 {
					t.Fatalf("%d steps proven where %d were", steps, s.steps)
				}
			}
			share := float64(proven) / answers
			t.Logf("%.1f %% proven", 100*share)
			if share < test.least || share > test.most {
				t.Errorf("%.1f %% proven", 100*share)
			}
		})
	}
}

func TestStepsFromChunksRefuses(t *testing.T) {
	good := stream{stamps: []float64{1, 1.15, 1.25, 1.35, 1.45, 1.55}, tokens: []int{1, 2, 1, 1, 1, 3}}
	if steps, ok := StepsFromChunks(good.stamps, good.tokens); !ok || steps != 5 {
		t.Fatalf("%d %v for the good one", steps, ok)
	}
	if steps, ok := StepsFromChunks([]float64{1, 1.24, 1.34, 1.44, 1.54}, []int{1, 1, 1, 1, 1}); !ok || steps != 4 {
		t.Errorf("%d %v for a slow first step of one token", steps, ok)
	}
	for name, test := range map[string]stream{
		"nothing":              {},
		"one chunk":            {[]float64{1}, []int{1}, 0},
		"tokens missing":       {good.stamps, []int{1, 2, 1, 1, 1}, 0},
		"tokens unknown":       {good.stamps, []int{1, 2, 1, 0, 1, 3}, 0},
		"first unknown":        {good.stamps, []int{0, 2, 1, 1, 1, 3}, 0},
		"first not alone":      {good.stamps, []int{3, 2, 1, 1, 1, 3}, 0},
		"too few singles":      {good.stamps, []int{1, 1, 1, 1, 2, 3}, 0},
		"late chunk":           {[]float64{1, 1.15, 1.25, 1.35, 1.45, 1.65}, good.tokens, 0},
		"splinter":             {[]float64{1, 1.15, 1.25, 1.35, 1.45, 1.5}, good.tokens, 0},
		"first of two passes":  {[]float64{1, 1.2, 1.3, 1.4, 1.5, 1.6}, good.tokens, 0},
		"slow first":           {[]float64{1, 1.3, 1.4, 1.5, 1.6, 1.7}, []int{1, 1, 1, 1, 1, 3}, 0},
		"backwards":            {[]float64{1, 1.2, 1.3, 1.4, 1.35, 1.6}, good.tokens, 0},
		"not a number":         {[]float64{1, 1.2, 1.3, math.NaN(), 1.5, 1.6}, good.tokens, 0},
		"all at once":          {[]float64{1, 1, 1, 1, 1, 1}, good.tokens, 0},
		"even but from buffer": {[]float64{1, 1.00001, 1.00002, 1.00003, 1.00004, 1.00005}, good.tokens, 0},
	} {
		if steps, ok := StepsFromChunks(test.stamps, test.tokens); ok || steps != 0 {
			t.Errorf("%s: %d steps proven", name, steps)
		}
	}
}
