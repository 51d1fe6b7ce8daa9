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
	"longctx_exporter/prober/prompt"
)

// LoadReaderFor makes the load reader of a target once its server is identified; nil where the server offers none.
type LoadReaderFor func(Target, inference.Facts) (LoadReader, error)

// Progress tells of the leg that is running.
type Progress struct {
	Rung      Rung
	Run       int    // 1, 2, …: which pair of the run
	Kind      string // "pre-roll", "cold", "warm" or "recall"
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
	prose   *prompt.Prose

	facts      inference.Facts // zero until identified
	identified time.Time       // zero when the server must be asked
	load       LoadReader      // nil where the server offers none
	prompts    *promptSource   // nil until the first run
	memory     memory

	deploy    Deploy
	signs     lifeSigns // as last told by the server's pages
	lastSigns lifeSigns // at the end of the last run
	lost      bool      // the last runs failed as if there were no server
	unsettled bool      // the server is not warm yet
	shortTTFT float64   // seconds; of a short prompt in the last run while it is not
	settling  int       // runs since then
}

// NewRunner makes the runner of a target; it sends nothing. load may be nil.
func NewRunner(t Target, load LoadReaderFor, logger log.Logger) (*Runner, error) {
	client, err := inference.New(inference.Options{
		URL: t.URL, Dialect: t.Dialect, API: t.API, Model: t.Model, Replica: t.Replica, HTTP: t.HTTP, Dial: t.Dial,
	})
	if err != nil {
		return nil, fmt.Errorf("target %q: %w", t.Name, err)
	}
	return &Runner{target: t, client: client, newLoad: load, logger: logger, prose: NewProse(), memory: newMemory()}, nil
}

// ShareProse makes the prompts of the runner of prose that other runners use too. It must come before the first run.
func (r *Runner) ShareProse(p *prompt.Prose) { r.prose = p }

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
	r.forgetRefusal(facts)
	r.takeSettings(facts)
	if facts.TokenIDs != r.facts.TokenIDs {
		r.prompts = nil
		clear(r.memory.sent)
	}
	r.facts, r.identified = facts, time.Now()
	return facts, nil
}

// takeSettings sees whether the server runs something else than before: another tokenizer perhaps, another speed for sure.
func (r *Runner) takeSettings(facts inference.Facts) {
	deploy, changed := r.deploy.next(facts.Settings, time.Now())
	another := r.facts.Model != "" && (facts.Model != r.facts.Model || facts.ServerVersion != r.facts.ServerVersion)
	if len(changed) > 0 {
		level.Info(r.logger).Log("msg", "the server runs something else", "target", r.target.Name, "deploy", deploy.ID,
			"previous_deploy", r.deploy.ID, "changed", listing(changed))
	}
	if another || len(changed) > 0 {
		r.prompts, r.memory = nil, newMemory()
		r.unsettle()
	}
	r.deploy, r.signs.started = deploy, facts.Started
}

// identifyAgain is how long the server is believed to be what it was, unless it fails.
const identifyAgain = time.Hour

// isIdentified says whether the server need not be asked what it is.
func (r *Runner) isIdentified() bool {
	return !r.identified.IsZero() && time.Since(r.identified) < identifyAgain
}

// Deploy is what the target was last seen to run.
func (r *Runner) Deploy() Deploy { return r.deploy }

// Facts are what Identify last learnt; zero before.
func (r *Runner) Facts() inference.Facts { return r.facts }

// Run measures one rung. It always returns a complete Run; cancelling ctx ends the running request on the wire and gives
// a run that is rejected as interrupted. progress may be nil.
func (r *Runner) Run(ctx context.Context, rung Rung, progress func(Progress)) Run {
	return r.Confirm(ctx, rung, "", progress)
}

// Confirm measures decode alone, on the prompt of an earlier run of the rung, where the server still has it in its cache. Where it
// has not, where the server was restarted or changed since, or where that run had no such prompt, it is as good as Run.
func (r *Runner) Confirm(ctx context.Context, rung Rung, earlier string, progress func(Progress)) Run {
	if progress == nil {
		progress = func(Progress) {}
	}
	e := &execution{
		Runner:   r,
		rung:     rung,
		earlier:  earlier,
		progress: progress,
		run: Run{
			ID:      strconv.FormatUint(rand.Uint64(), 36),
			Target:  r.target.Name,
			Model:   r.target.ModelLabel(),
			Rung:    rung,
			Started: time.Now(),
			Status:  Accepted,
		},
	}
	e.self = watchSelf()
	e.conclude(ctx, e.measure(ctx))
	e.self.stop()
	e.run.Self = e.self.suffered()
	e.notePool()
	e.run.Deploy = r.deploy.ID
	if e.after != nil {
		r.lastSigns.counters = countersOf(*e.after)
	}
	e.run.Duration = time.Since(e.run.Started) - e.waited
	level.Debug(r.logger).Log("msg", "run ended", "target", r.target.Name, "rung", rung, "run", e.run.ID,
		"status", e.run.Status, "reason", e.run.Reason, "detail", e.run.Message, "duration", e.run.Duration)
	return e.run
}

// Close releases connections. No run may be going on.
func (r *Runner) Close() { r.client.Close() }
