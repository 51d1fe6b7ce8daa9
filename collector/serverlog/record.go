package serverlog

import "math"

// Kind is what a line tells of.
type Kind uint8

// The kinds of lines that are read.
const (
	PrefillBatch Kind = iota + 1 // SGLang: one prefill forward
	DecodeBatch                  // SGLang: the decode forwards since the line before
	Interval                     // acceptance over an interval: vLLM, LMDeploy, DDTree's profiler
	Engine                       // vLLM: load of the engine
	Request                      // one finished request
	Timing                       // llama.cpp: timing of one request
	Event                        // something went wrong; see Record.Event
)

// EventKind is what went wrong.
type EventKind uint8

// The events that are counted.
const (
	NoEvent         EventKind = iota
	Retraction                // requests lost their KV cache and start again, because the pool is full
	PromptTruncated           // a prompt was cut to fit
	ContextFull               // a request ended because its context was full
)

// Field is a value that a line may tell.
type Field uint8

// The fields. Shares are from 0 to 1, times in seconds; numbers of tokens and requests are as the server counts them.
const (
	Running         Field = iota // requests
	Queued                       // requests
	TokensInUse                  // of the KV pool
	TokenUsage                   // share of the KV pool
	AcceptLength                 // mean tokens per verify pass, bonus token included
	AcceptRate                   // share of drafted tokens that were accepted, as the server defines it
	GenThroughput                // tokens/s over the interval since the line before, idle time included
	InputThroughput              // the same of prompt tokens
	NewSequences
	NewTokens
	CachedTokens
	PendingTokens
	CacheHitRate
	Accepted // drafted tokens, over the interval
	Drafted  // tokens, over the interval
	PromptTokens
	CompletionTokens
	VerifySteps
	CorrectDrafts
	Retracted   // requests
	PromptLimit // tokens
	PromptSeconds
	DecodeSeconds
	numFields
)

// Record is what one line tells. A value that it does not tell, or not as a finite number, is not known.
type Record struct {
	Kind  Kind
	Event EventKind
	// Rank is the tag of the process that wrote the line, such as "DP1 TP4". It is valid until the next line.
	Rank []byte
	// Steps[i] counts verify passes that committed i+1 tokens, of a Request. It is valid until the next line.
	Steps []int
	// Repeated tells that another rank of the same group wrote the same line before: its values count once.
	Repeated bool

	known  uint32
	values [numFields]float64
}

// Value gives a value, and whether it is known.
func (r *Record) Value(f Field) (float64, bool) { return r.values[f], r.known&(1<<f) != 0 }

func (r *Record) has(f Field) bool { return r.known&(1<<f) != 0 }

// set keeps a value that is a finite number and not below 0; others are not known.
func (r *Record) set(f Field, v float64) {
	if v >= 0 && !math.IsInf(v, 0) {
		r.values[f] = v
		r.known |= 1 << f
	}
}

func (r *Record) forget(f Field) { r.known &^= 1 << f }

// An acceptance length counts the bonus token, so that it is never below 1, and no block is longer than mostAccepted.
const mostAccepted = 4096

// settleAcceptance forgets an acceptance length that cannot be one, such as the 0.00 of an interval without drafts.
func (r *Record) settleAcceptance() {
	if v, known := r.Value(AcceptLength); known && (v < 1 || v > mostAccepted) {
		r.forget(AcceptLength)
	}
}
