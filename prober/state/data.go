// Package state keeps what the exporter has learnt where a restart finds it again. It knows plain data, files and clocks, and
// nothing of servers, runs or metrics: those who know turn what they know into its types and back.
//
// Two files lie in the directory of a store. The daemon alone writes `state`; the commands that pin baselines write `pinned`,
// which the daemon only reads. Each has one writer at a time and changes at once, by renaming, so neither is ever seen half
// written. Neither holds anything secret.
package state

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// Bounds of what is kept.
const (
	KeptSamples = 10                  // clean samples of a rung
	keptDeploys = 2                   // of a rung: the present one, and the latest before it that was measured
	forgetAfter = 30 * 24 * time.Hour // a target that is not configured any more
)

// Key is what the state of a target is found by: its name and everything that says what is measured. A target that changes in
// one of these begins anew.
func Key(name string, measured ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{name}, measured...), "\x00")))
	return hex.EncodeToString(sum[:12])
}

// Target is what is kept of one target.
type Target struct {
	Name   string       `json:"name"`
	Seen   time.Time    `json:"seen"` // when it was last configured
	Server Server       `json:"server"`
	Rungs  map[int]Rung `json:"rungs,omitempty"` // by prompt tokens
}

// Server is what the prober has learnt of a server. Zero values are not known.
type Server struct {
	Deploy    Deploy         `json:"deploy"`
	Started   float64        `json:"started,omitempty"`   // Unix seconds at which it says that it was started
	Counters  []float64      `json:"counters,omitempty"`  // as last read, in an order of the prober's
	Unsettled bool           `json:"unsettled,omitempty"` // not yet as fast as it will be, after a start
	ShortTTFT float64        `json:"short_ttft,omitempty"`
	Short     int            `json:"short,omitempty"` // max_tokens of short legs
	Counts    bool           `json:"counts,omitempty"`
	NoCache   time.Time      `json:"no_cache,omitzero"` // when it last showed that it caches no prefix
	Learnt    map[int]Learnt `json:"learnt,omitempty"`  // by prompt tokens
}

// Learnt is what earlier runs of a rung say about the next. Seconds; 0 is not known.
type Learnt struct {
	Cold   float64   `json:"cold,omitempty"` // to the first token of an uncached prompt
	Step   float64   `json:"step,omitempty"`
	Tau    float64   `json:"tau,omitempty"`
	Jitter float64   `json:"jitter,omitempty"`
	Runs   int       `json:"runs,omitempty"`
	NoWarm time.Time `json:"no_warm,omitzero"`
}

// Deploy is what a server says that it runs.
type Deploy struct {
	ID       string            `json:"id,omitempty"`   // short hash of the settings; "" where the server tells none
	Since    time.Time         `json:"since,omitzero"` // when it was first seen
	Settings map[string]string `json:"settings,omitempty"`
}

// Rung is what the outcome of the runs of one rung leaves behind. Zero values are not known.
type Rung struct {
	Attempted time.Time `json:"attempted,omitzero"`
	Duration  float64   `json:"duration,omitempty"` // seconds
	Succeeded time.Time `json:"succeeded,omitzero"`
	Failing   int       `json:"failing,omitempty"`   // runs in a row
	Rejecting int       `json:"rejecting,omitempty"` // runs in a row
	Reachable *bool     `json:"reachable,omitempty"`
	Samples   []Sample  `json:"samples,omitempty"`  // the latest clean ones, oldest first, KeptSamples at most
	Unbroken  int       `json:"unbroken,omitempty"` // how many of them, from the latest back, came without a gap
	// UnbrokenWhole counts those that are not of warm runs.
	UnbrokenWhole int        `json:"unbroken_whole,omitempty"`
	Plans         *Plans     `json:"plans,omitempty"`
	Needle        *Needle    `json:"needle,omitempty"`
	Deploys       []Baseline `json:"deploys,omitempty"` // the present one last
}

// Sample is a clean measurement. Zero values are not known.
type Sample struct {
	At           time.Time `json:"at"` // its end
	Deploy       string    `json:"deploy,omitempty"`
	PromptTokens int       `json:"prompt_tokens,omitempty"`
	TTFT         float64   `json:"ttft,omitempty"`    // seconds
	Prefill      float64   `json:"prefill,omitempty"` // tokens per second
	Step         float64   `json:"step,omitempty"`    // seconds
	StepStream   float64   `json:"step_stream,omitempty"`
	StepError    float64   `json:"step_error,omitempty"` // relative
	Spread       *float64  `json:"spread,omitempty"`     // relative
	AcceptOne    *float64  `json:"accept_one,omitempty"` // share of steps that committed one token
	AcceptCap    *float64  `json:"accept_cap,omitempty"` // share of steps that committed all that they can
	TimedSteps   int       `json:"timed_steps,omitempty"`
	StepP99      float64   `json:"step_p99,omitempty"` // seconds
	StepMax      float64   `json:"step_max,omitempty"` // seconds
	AcceptLength float64   `json:"accept_length,omitempty"`
	DecodeTokens float64   `json:"decode_tokens,omitempty"`
	DecodeRate   float64   `json:"decode_rate,omitempty"` // tokens per second
	Method       string    `json:"method,omitempty"`
	Plan         string    `json:"plan,omitempty"`
	Isolation    string    `json:"isolation,omitempty"`
	Buffered     bool      `json:"buffered,omitempty"`
}

// Needle is the latest answer to the question for the planted fact.
type Needle struct {
	At      time.Time `json:"at,omitzero"`
	Found   bool      `json:"found"`
	Missing int       `json:"missing,omitempty"` // answers in a row without it
}

// Plans is how the plans of measuring a rung compare; a ratio of 0 is not known.
type Plans struct {
	At     time.Time `json:"at"`
	Step   float64   `json:"step,omitempty"`
	Accept float64   `json:"accept,omitempty"`
}
