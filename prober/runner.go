package prober

import (
	"context"
	"errors"
	"time"

	"github.com/go-kit/log"

	"longctx_exporter/prober/inference"
)

// LoadReaderFor makes the load reader of a target once its server is identified; nil where the server offers none.
type LoadReaderFor func(Target, inference.Facts) (LoadReader, error)

// Progress tells of the leg that is running.
type Progress struct {
	Rung      Rung
	Run       int    // 1, 2, …: which pair of the run
	Kind      string // "pre-roll", "cold" or "warm"
	MaxTokens int
	Started   time.Time
	Expected  time.Duration // 0 not known
	Chunks    int           // content chunks so far
	Ended     bool
}

// Runner measures the rungs of one target. It keeps what is learnt of the target between runs. Its methods are not safe
// for concurrent use: one server is never probed twice at once.
type Runner struct{}

// NewRunner makes the runner of a target; it sends nothing.
func NewRunner(t Target, load LoadReaderFor, logger log.Logger) (*Runner, error) {
	return nil, errors.New("under construction")
}

// Identify asks the server what it is. Run does so itself when that has not been done; calling it again looks anew.
func (r *Runner) Identify(ctx context.Context) (inference.Facts, error) {
	return inference.Facts{}, errors.New("under construction")
}

// Facts are what Identify last learnt; zero before.
func (r *Runner) Facts() inference.Facts { return inference.Facts{} }

// Run measures one rung. It always returns a complete Run; cancelling ctx ends the running request on the wire and gives
// a run that is rejected as interrupted. progress may be nil.
func (r *Runner) Run(ctx context.Context, rung Rung, progress func(Progress)) Run { return Run{} }

// Close releases connections. No run may be going on.
func (r *Runner) Close() {}
