package prober

import (
	"context"
	"errors"
	"strings"
	"time"

	"longctx_exporter/prober/inference"
)

// conclude writes the end of the run into it and remembers what it taught.
func (e *execution) conclude(ctx context.Context, err error) {
	s := &e.run.Sample
	if err == nil {
		e.remember()
		e.noteTaken()
		return
	}
	v := verdictOf(ctx, err)
	if v.status == Failed && v.reason != Reason(inference.ContextOverflow) {
		e.identified = time.Time{} // it may come back as another
		e.lost = e.lost || loses(err)
	}
	if v.reason == Yielded {
		s.Isolation = IsContended
	}
	if v.status == Rejected && v.reason != Interrupted && e.before != nil && s.Isolation == "" {
		_ = errors.As(e.certify(ctx), &v) // another's request explains more than what it led to
	}
	if v.reason == Contended {
		e.run.Contended = e.felt()
	}
	kept := Sample{PromptTokens: s.PromptTokens, TTFT: s.TTFT, Prefill: s.Prefill, Isolation: s.Isolation, Buffered: s.Buffered}
	if doubtsPrefill(v.reason) {
		kept.TTFT, kept.Prefill = 0, 0
	}
	e.run.Sample = kept
	e.run.Status, e.run.Reason, e.run.Message = v.status, v.reason, bounded(v.message)
}

// doubtsPrefill says whether what went wrong may have slowed or sped up the cold leg too.
func doubtsPrefill(r Reason) bool {
	switch r {
	case Contended, Yielded, NonpositiveDelta, Inconsistent, ColdStart, Queued, PromptMismatch, ReplicaMismatch:
		return true
	}
	return false
}

// remember keeps what an accepted run says about the next.
func (e *execution) remember() {
	s := e.run.Sample
	if s.TTFT > 0 {
		e.memory.cold[e.rung] = time.Duration(s.TTFT * float64(time.Second))
	}
	if e.learnt.step > 0 {
		e.memory.rungs[e.rung] = e.learnt
	}
}

// bounded cuts a message for people to a length that fits a log line.
func bounded(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
