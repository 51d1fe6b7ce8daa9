package simserver

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Profile is the physics of one model on one machine. Seconds are unscaled.
type Profile struct {
	Name  string
	Model string // served name

	ContextLimit int // tokens, prompt plus output
	PoolTokens   int // KV cache capacity
	PageSize     int // tokens; granularity of the prefix cache
	ChunkTokens  int // prefill chunk
	MaxRunning   int // requests in a batch
	Vocab        int // ids from 0 to Vocab-1
	Specials     int // the last so many ids are special and refused in prompts
	BOS          int // id put before text prompts; 0 none

	PrefillLinear    float64 // seconds per token
	PrefillQuadratic float64 // seconds per token squared
	PrefillSD        float64 // relative, one draw per request
	ResidualSeconds  float64 // what a fully cached prompt costs besides its recomputed tokens
	ResidualSD       float64 // seconds

	StepBase       float64 // seconds
	StepSlope      float64 // seconds per token of context, summed over the batch
	StepSD         float64 // relative, one draw per step
	FirstStepExtra float64 // how much longer a request's first decode step takes: 0.5 is half as long again
	DriftPerHour   float64 // relative growth of the step time
	SlowShare      float64 // probability that a request runs in the slow mode
	SlowFactor     float64 // by which its decode steps are slower

	RecallShort float64 // probability of answering a question for a fact in the prompt rightly, at context 0
	RecallLong  float64 // the same at 192k and above; between, the two are mixed linearly

	Algorithm   string    // speculation as the server names it, "" none
	AcceptShort []float64 // probability of committing exactly i+1 tokens in a step, at context 0
	AcceptLong  []float64 // the same at AcceptRange tokens and above; between, the two are mixed linearly
	AcceptRange int
}

// longest is the context that the named profiles are calibrated at: 192k.
const longest = 196_608

// Profiles lists the names that ProfileByName knows, the default first.
func Profiles() []string {
	var names []string
	for _, p := range profiles() {
		names = append(names, p.Name)
	}
	return names
}

// ProfileByName gives a profile; the empty name gives the default.
func ProfileByName(name string) (Profile, error) {
	for _, p := range profiles() {
		if name == p.Name || name == "" {
			return p, nil
		}
	}
	return Profile{}, fmt.Errorf("no profile is called %q; there are %q", name, Profiles())
}

func profiles() []Profile {
	kimi := Profile{
		Name: "kimi-k2.6-ddtree", Model: "kimi-k2.6",
		ContextLimit: 200_000, PoolTokens: 218_484, PageSize: 1, ChunkTokens: 8192, MaxRunning: 8,
		Vocab: 163_840, Specials: 256,
		// 60,010 tokens in 46 s and 196,608 in 260 s.
		PrefillLinear: 5.223266e-4, PrefillQuadratic: 4.069531e-9, PrefillSD: 0.01,
		ResidualSeconds: 0.050, ResidualSD: 0.005,
		// 144 ms at 5,500 tokens (with the mean length of a short answer) and 3.0 s at 196,608.
		StepBase: 0.0598, StepSlope: 1.4955e-5, StepSD: 0.05, FirstStepExtra: 0.5,
		RecallShort: 1, RecallLong: 1,
		Algorithm:   "DDTREE",
		AcceptShort: spikedGeometric(16, 0.724, 0.03), // mean 3.9
		AcceptLong:  spikedGeometric(16, 0.515, 0.01), // mean 2.2
		AcceptRange: longest,
	}
	fast := kimi
	fast.Name, fast.Model = "fast-8b", "qwen3-8b"
	fast.PoolTokens, fast.Vocab, fast.Specials = 400_000, 151_936, 293
	fast.ChunkTokens, fast.MaxRunning = 8192, 16
	// 8,192 tokens in 0.6 s and 196,608 in 28 s; 12 ms a step when short and 30 ms at 196,608.
	fast.PrefillLinear, fast.PrefillQuadratic = 7.02344e-5, 3.671276e-10
	fast.StepBase, fast.StepSlope = 0.012, 0.018/longest
	fast.Algorithm = "DFLASH"
	fast.AcceptShort, fast.AcceptLong = spikedGeometric(8, 0.75, 0.05), spikedGeometric(8, 0.5, 0.02)

	dense := kimi
	dense.Name, dense.Model = "dense-nospec", "dense-70b"
	dense.Vocab, dense.Specials, dense.BOS = 152_064, 400, 1
	dense.StepBase, dense.StepSlope = 0.035, 4e-7
	dense.PrefillLinear, dense.PrefillQuadratic = 2e-4, 1.2e-9
	dense.Algorithm, dense.AcceptShort, dense.AcceptLong, dense.AcceptRange = "", nil, nil, 0
	return []Profile{kimi, fast, dense}
}

// spikedGeometric is a geometric law cut at block with some more weight on the cap: drafters that are right once are
// often right to the end.
func spikedGeometric(block int, ratio, spike float64) []float64 {
	law := make([]float64, block)
	sum, p := 0.0, 1.0
	for i := range law {
		law[i] = p
		sum += p
		p *= ratio
	}
	for i := range law {
		law[i] *= (1 - spike) / sum
	}
	law[block-1] += spike
	return law
}

// BlockSize is the largest number of tokens that one step can commit; 1 without speculation.
func (p Profile) BlockSize() int { return max(1, len(p.AcceptShort)) }

// AcceptLaw gives the probability that a step at a context length commits exactly i+1 tokens.
func (p Profile) AcceptLaw(context int) []float64 {
	if len(p.AcceptShort) == 0 {
		return []float64{1}
	}
	long := 0.0
	if p.AcceptRange > 0 {
		long = math.Min(1, float64(context)/float64(p.AcceptRange))
	}
	law := make([]float64, len(p.AcceptShort))
	for i := range law {
		law[i] = (1-long)*p.AcceptShort[i] + long*p.AcceptLong[i]
	}
	return law
}

// AcceptMean is the mean of AcceptLaw: the acceptance length, bonus token included.
func (p Profile) AcceptMean(context int) float64 {
	mean := 0.0
	for i, w := range p.AcceptLaw(context) {
		mean += w * float64(i+1)
	}
	return mean
}

// PrefillSeconds is the mean time of a cold prefill.
func (p Profile) PrefillSeconds(tokens int) float64 {
	n := float64(tokens)
	return p.PrefillLinear*n + p.PrefillQuadratic*n*n
}

// StepSeconds is the mean time of one decode step of a batch whose context lengths sum to tokens.
func (p Profile) StepSeconds(tokens int) float64 { return p.StepBase + p.StepSlope*float64(tokens) }

func (p Profile) validate() error {
	for _, n := range []int{p.ContextLimit, p.PoolTokens, p.PageSize, p.ChunkTokens, p.MaxRunning} {
		if n < 1 {
			return fmt.Errorf("profile %q: limits, page, chunk and batch must be at least 1", p.Name)
		}
	}
	if p.Vocab-p.Specials <= lastWordID {
		return fmt.Errorf("profile %q: the vocabulary needs more than %d ordinary ids", p.Name, lastWordID)
	}
	if p.StepBase <= 0 || p.StepSlope < 0 || p.PrefillLinear <= 0 || p.PrefillQuadratic < 0 {
		return fmt.Errorf("profile %q: times must be positive", p.Name)
	}
	if len(p.AcceptShort) != len(p.AcceptLong) {
		return fmt.Errorf("profile %q: the two acceptance laws differ in block size", p.Name)
	}
	if !(p.RecallShort >= 0 && p.RecallShort <= 1 && p.RecallLong >= 0 && p.RecallLong <= 1) {
		return fmt.Errorf("profile %q: probabilities of recall must be from 0 to 1", p.Name)
	}
	for _, law := range [][]float64{p.AcceptShort, p.AcceptLong} {
		if err := checkLaw(law); err != nil {
			return fmt.Errorf("profile %q: %w", p.Name, err)
		}
	}
	return nil
}

func checkLaw(law []float64) error {
	if len(law) == 0 {
		return nil
	}
	sum := 0.0
	for _, w := range law {
		sum += w
	}
	if slices.Min(law) < 0 || math.Abs(sum-1) > 1e-9 {
		return errors.New("an acceptance law must be probabilities that sum to 1")
	}
	return nil
}
