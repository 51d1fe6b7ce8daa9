package prober

import (
	"time"

	"longctx_exporter/prober/inference"
)

// Status is how a run ended.
type Status string

// The four ends of a run.
const (
	Accepted Status = "accepted" // a measurement
	Rejected Status = "rejected" // answered, but not a measurement
	Failed   Status = "failed"   // the server did not answer the question
	Skipped  Status = "skipped"  // not sent
)

// Reason says why a run was not accepted. It is a label: a closed set. Failures use the classes of package inference.
type Reason string

// The rejections.
const (
	CacheHit         Reason = "cache_hit"
	CacheMiss        Reason = "cache_miss"
	ShortOutput      Reason = "short_output"
	PromptMismatch   Reason = "prompt_mismatch"
	NonpositiveDelta Reason = "nonpositive_delta"
	Implausible      Reason = "implausible"
	Contended        Reason = "contended"
	Queued           Reason = "queued"
	ColdStart        Reason = "cold_start"
	ReplicaMismatch  Reason = "replica_mismatch"
	NoUsage          Reason = "no_usage"
	Inconsistent     Reason = "inconsistent"
	Degenerate       Reason = "degenerate"
	Yielded          Reason = "yielded"
	Interrupted      Reason = "interrupted"
)

// The skips.
const (
	ExceedsContext  Reason = "exceeds_context"
	ExceedsPool     Reason = "exceeds_pool"
	PoolFull        Reason = "pool_full"
	Busy            Reason = "busy"
	OverBudget      Reason = "budget"
	Cooldown        Reason = "cooldown"
	PreviousRunning Reason = "previous_running"
	ShuttingDown    Reason = "shutting_down"
)

// Reasons lists the closed set of reasons for one status; nil for Accepted.
func Reasons(s Status) []Reason {
	switch s {
	case Rejected:
		return []Reason{
			CacheHit, CacheMiss, ShortOutput, PromptMismatch, NonpositiveDelta, Implausible, Contended, Queued,
			ColdStart, ReplicaMismatch, NoUsage, Inconsistent, Degenerate, Yielded, Interrupted,
		}
	case Failed:
		var reasons []Reason
		for _, c := range inference.Classes() {
			reasons = append(reasons, Reason(c))
		}
		return reasons
	case Skipped:
		return []Reason{
			ExceedsContext, ExceedsPool, PoolFull, Busy, OverBudget, Cooldown, PreviousRunning, ShuttingDown,
		}
	}
	return nil
}

// Plan is how a rung is measured.
type Plan string

// The plans.
const (
	AutoPlan Plan = "auto"
	Pair     Plan = "pair"   // cold(1), cold(1+M)
	Triple   Plan = "triple" // cold(1), then pairs warm(1), warm(1+M) on the same prompt
	Warm     Plan = "warm"   // pairs warm(1), warm(1+M) on the prompt of a triple before; of confirmations alone, and never configured
)

// Isolation says what is known of other requests during a run.
type Isolation string

// The grades of the isolation certificate.
const (
	Proved      Isolation = "proved"    // the server's counters grew by exactly our tokens and nobody else was seen
	Quiet       Isolation = "quiet"     // nobody else was seen; counters not conclusive
	IsContended Isolation = "contended" // somebody else was there
	NotKnown    Isolation = "unknown"   // the server tells nothing, or our own legs do not show in its counters
)

// Run is one execution of a rung. It is complete when Runner.Run returns it.
type Run struct {
	ID       string // unique in this process and across restarts
	Target   string
	Model    string // the configured name, "default" where none is configured
	Rung     Rung
	Started  time.Time     // its first request; its beginning where it sent none
	Duration time.Duration // spent on the server since then; waiting for others to end and for counters to move is left out
	Status   Status
	Reason   Reason // set unless accepted
	Message  string // one sentence for people, bounded, free of secrets
	Deploy   string // short hash of what the server says that it runs, "" where it does not tell
	Plan     Plan   // the plan that was carried out
	Sample   Sample
	// Contended is what a run felt that was rejected for other people's requests; nil of any other run.
	Contended *Contention
	Legs      []Leg // every request of the run in order of sending, the pre-roll left out

	Evicted *float64 // cached tokens, of whoever, that the server's KV pool gave up for the run before; nil is not known

	// Self is what this process suffered meanwhile.
	Self Self
	// Needle is the answer to the question for what was planted in the prompt; nil where it was not asked or not answered.
	Needle *Needle
	// FirstTokens compares the first tokens of the answers to one prompt, which are the same at temperature 0.
	FirstTokens FirstTokens

	Confirmation bool // asked for beside the schedule, to confirm what was seen
}

// Sample is the measurement that a run yields. A zero field is not known or was not measured. A run that is not accepted
// keeps TTFT and Prefill where its cold leg was sound, and neither steps nor decode rates.
type Sample struct {
	PromptTokens    int        // as the server counted them
	TTFT            float64    // seconds, cold prefill, mean over the cold legs; like Prefill not measured by a warm run
	Prefill         float64    // computed prompt tokens per second
	Pairs           int        // pairs that the step time rests on
	Step            float64    // seconds per verify pass
	StepStream      float64    // the same from gaps between chunks
	StepCI          [2]float64 // 95 % interval of Step
	StepError       float64    // relative standard error of Step
	Method          string     // "two_point" or "stream": where Step comes from
	Steps           int        // verify passes in the differenced part of the long legs
	StepsSource     string     // "response", "counters", "chunks" or "tokens"
	StepTimes       []float64  // single steps in seconds, from gaps between chunks
	DecodeTokens    float64    // mean number of tokens decoded per long leg, for the fit's x = context + DecodeTokens/2
	DecodeRate      float64    // tokens per second
	AcceptLength    float64    // tokens committed per step, bonus token included
	AcceptHistogram []int      // [i] counts steps that committed exactly i+1 tokens; those of "chunks" leave out each leg's last
	BlockSize       int        // largest number of tokens that a step can commit
	Isolation       Isolation
	Buffered        bool // the answer came in one burst: chunk stamps and TTFT mean nothing
}

// Needle is what became of the question for a planted fact, which is asked when an accepted run is over.
type Needle struct {
	Found bool // the answer holds the fact
	Leg   Leg
}

// FirstTokens are the answers to a cached prompt that were held against that to the same prompt before it was cached.
type FirstTokens struct {
	Compared  int
	Different int // of those: single ones are usual where numerics depend on the batch
}

// Leg is one request as it went, for people and for the JSON of a sweep.
type Leg struct {
	Run        int    // 1, 2, …: which pair of the run it belongs to
	Kind       string // "cold" or "warm"; "recall" for the question after the run
	MaxTokens  int
	Response   inference.Response
	ErrorClass inference.Class
	Error      string
	Discarded  bool // not part of the sample of an accepted run: it stood apart from its like, or its pair was sent again

	index int       // in Run.Legs
	began time.Time // of the request on the wire
}

// RunObserver is told of every run that ended, skipped ones included.
type RunObserver interface {
	ObserveRun(Run)
}
