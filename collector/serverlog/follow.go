package serverlog

import (
	"cmp"
	"context"
	"time"

	"github.com/go-kit/log"

	"longctx_exporter/prober"
)

// Options say how logs are followed. The zero value is right outside of tests.
type Options struct {
	Wake       func() <-chan time.Time // when to look at a file again; a few times a second by default
	Journalctl string                  // the program that reads the journal
}

// Follower follows one log until it is closed.
type Follower struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Follow begins to follow a log. The sink is told from a goroutine of the follower's own, which ends with Close.
func Follow(source prober.LogSource, sink Sink, logger log.Logger, o Options) *Follower {
	if o.Wake == nil {
		o.Wake = func() <-chan time.Time { return time.After(lookEvery) }
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &Follower{cancel: cancel, done: make(chan struct{})}
	l := newLineLog(source.Format, sink)
	go func() {
		defer close(f.done)
		if source.Unit != "" {
			newJournalLog(source.Unit, cmp.Or(o.Journalctl, "journalctl"), l, logger).run(ctx)
			return
		}
		newFileLog(source.Path, l, logger).run(ctx, o.Wake)
	}()
	return f
}

// Close ends the follower, and its child process where it has one.
func (f *Follower) Close() {
	f.cancel()
	<-f.done
}
