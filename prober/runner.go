package prober

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

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
type Runner struct {
	target  Target
	client  *inference.Client
	newLoad LoadReaderFor
	logger  log.Logger

	facts      inference.Facts // zero until identified
	identified time.Time       // zero when the server must be asked
	load       LoadReader      // nil where the server offers none
	prompts    *promptSource   // nil until the first run
	memory     memory
}

// NewRunner makes the runner of a target; it sends nothing. load may be nil.
func NewRunner(t Target, load LoadReaderFor, logger log.Logger) (*Runner, error) {
	client, err := inference.New(inference.Options{
		URL: t.URL, Dialect: t.Dialect, API: t.API, Model: t.Model, Replica: t.Replica, HTTP: t.HTTP, Dial: t.Dial,
	})
	if err != nil {
		return nil, fmt.Errorf("target %q: %w", t.Name, err)
	}
	return &Runner{target: t, client: client, newLoad: load, logger: logger, memory: newMemory()}, nil
}

// Identify asks the server what it is. Run does so itself when that has not been done; calling it again looks anew.
func (r *Runner) Identify(ctx context.Context) (inference.Facts, error) {
	facts, err := r.client.Identify(ctx)
	if err != nil {
		return inference.Facts{}, err
	}
	if limit := r.target.ContextLimit; limit > 0 && (facts.ContextLimit == 0 || facts.ContextLimit > limit) {
		facts.ContextLimit = limit
	}
	if r.newLoad != nil {
		if r.load, err = r.newLoad(r.target, facts); err != nil {
			return inference.Facts{}, fmt.Errorf("reading the load of target %q: %w", r.target.Name, err)
		}
	}
	r.noteLimits(facts)
	if facts.Model != r.facts.Model || facts.ServerVersion != r.facts.ServerVersion {
		r.prompts, r.memory = nil, newMemory() // another tokenizer, another speed
	}
	if facts.TokenIDs != r.facts.TokenIDs {
		r.prompts = nil
	}
	r.facts, r.identified = facts, time.Now()
	return facts, nil
}

// identifyAgain is how long the server is believed to be what it was, unless it fails.
const identifyAgain = time.Hour

// isIdentified says whether the server need not be asked what it is.
func (r *Runner) isIdentified() bool {
	return !r.identified.IsZero() && time.Since(r.identified) < identifyAgain
}

// Facts are what Identify last learnt; zero before.
func (r *Runner) Facts() inference.Facts { return r.facts }

// Run measures one rung. It always returns a complete Run; cancelling ctx ends the running request on the wire and gives
// a run that is rejected as interrupted. progress may be nil.
func (r *Runner) Run(ctx context.Context, rung Rung, progress func(Progress)) Run {
	if progress == nil {
		progress = func(Progress) {}
	}
	started := time.Now()
	e := &execution{
		Runner:   r,
		rung:     rung,
		progress: progress,
		run: Run{
			ID:      strconv.FormatUint(rand.Uint64(), 36),
			Target:  r.target.Name,
			Model:   r.target.ModelLabel(),
			Rung:    rung,
			Started: started,
			Status:  Accepted,
		},
	}
	e.conclude(ctx, e.measure(ctx))
	e.notePool()
	e.run.Duration = time.Since(started) - e.waited
	level.Debug(r.logger).Log("msg", "run ended", "target", r.target.Name, "rung", rung, "run", e.run.ID,
		"status", e.run.Status, "reason", e.run.Reason, "detail", e.run.Message, "duration", e.run.Duration)
	return e.run
}

// Close releases connections. No run may be going on.
func (r *Runner) Close() { r.client.Close() }
