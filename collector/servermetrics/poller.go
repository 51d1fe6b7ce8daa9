package servermetrics

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

const (
	pollEvery = 15 * time.Second
	pollMost  = 2 * time.Minute // between polls of a server that does not answer
	letPoll   = time.Second     // how long a run waits for a poll that is going on
)

// Poller reads one target's server every 15 s, and when it is nudged, and tells an observer what it found. Runs read the same
// server through the reader that it makes: there is one reading at a time, and a run goes first. Its methods are safe for
// concurrent use.
type Poller struct {
	target  prober.Target
	observe func(Snapshot)
	logger  log.Logger

	stop  context.CancelFunc // nil until started
	done  chan struct{}
	nudge chan struct{} // holds one
	turn  chan struct{} // holds one: whoever reads

	mu     sync.Mutex
	reader *reader            // nil where there is nothing to read, or nobody knows yet
	abort  context.CancelFunc // of the poll that is going on; nil without one

	tracker tracker // these belong to the poll
	told    Reason  // what was logged last: "" for a page that is read
	oddTold bool
}

// NewPoller makes the poller of a target; it sends nothing. Where the configuration names the dialect, it knows what to read;
// else from when NewReader is called. observe is called by one goroutine.
func NewPoller(t prober.Target, observe func(Snapshot), logger log.Logger) (*Poller, error) {
	p := &Poller{
		target: t, observe: observe, logger: logger,
		done: make(chan struct{}), nudge: make(chan struct{}, 1), turn: make(chan struct{}, 1),
	}
	var err error
	p.reader, err = open(t, "")
	return p, err
}

// NewReader makes the reader of the target's load now that its server is identified, as prober.LoadReaderFor. The poller goes on
// with it.
func (p *Poller) NewReader(t prober.Target, f inference.Facts) (prober.LoadReader, error) {
	r, err := open(t, f.Dialect)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.reader = r
	p.mu.Unlock()
	if r == nil {
		return nil, nil
	}
	p.Nudge()
	return &firstReader{poller: p, reader: r}, nil
}

// Start begins polling. Close must be called after it.
func (p *Poller) Start() {
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() {
		defer close(p.done)
		p.run(ctx)
	}()
}

// Close ends polling and waits for its end; nothing is observed after it. It may be called more than once, but not beside Start.
func (p *Poller) Close() {
	if p.stop != nil {
		p.stop()
		<-p.done
	}
}

// Nudge asks for a poll now: something happened.
func (p *Poller) Nudge() {
	select {
	case p.nudge <- struct{}{}:
	default: // one is due anyway
	}
}

// run polls until ctx ends, at a moment of each interval that depends on the target's name, so that not all servers are asked at
// once.
func (p *Poller) run(ctx context.Context) {
	timer := time.NewTimer(p.untilNext(pollEvery))
	defer timer.Stop()
	pause := pollEvery
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.nudge:
		}
		pause = p.poll(ctx, pause)
		timer.Reset(p.untilNext(pause))
	}
}

// untilNext is how long it is until the target's next moment, at least an interval less pollEvery away.
func (p *Poller) untilNext(pause time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(p.target.Name)) // never fails
	phase := time.Duration(h.Sum64() % uint64(pollEvery))
	since := time.Duration(time.Now().UnixNano()) - phase
	return pause - since%pollEvery
}

// poll takes one reading and says how long to wait for the next.
func (p *Poller) poll(ctx context.Context, pause time.Duration) time.Duration {
	p.mu.Lock()
	reader := p.reader
	p.mu.Unlock()
	if reader == nil {
		return pollEvery
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return pollEvery
	}
	reading, aborted, err := p.read(ctx, reader)
	<-p.turn
	switch {
	case ctx.Err() != nil:
		return pollEvery
	case aborted:
		p.Nudge() // as soon as the run has read
		return pollEvery
	}
	p.tell(reader, reading, err)
	if err != nil {
		p.observe(Snapshot{})
		return min(2*pause, pollMost)
	}
	p.observe(p.tracker.take(reading))
	return pollEvery
}

// read reads unless a run wants to.
func (p *Poller) read(ctx context.Context, from *reader) (r reading, aborted bool, err error) {
	polling, abort := context.WithCancel(ctx)
	defer abort()
	p.setAbort(abort)
	defer p.setAbort(nil)
	r, err = from.read(polling)
	return r, err != nil && polling.Err() != nil, err
}

func (p *Poller) setAbort(abort context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abort = abort
}

// tell logs when the page cannot be read any more, and when it can again.
func (p *Poller) tell(from *reader, r reading, err error) {
	if err == nil {
		err = r.missing
	}
	if r.odd != "" && !p.oddTold {
		p.oddTold = true
		level.Warn(p.logger).Log("msg", "the server's page of metrics is odd, and is read all the same", "target", p.target.Name, "what", r.odd)
	}
	if err == nil {
		if p.told != "" {
			level.Info(p.logger).Log("msg", "the server's own metrics can be read again", "target", p.target.Name)
		}
		p.told = ""
		return
	}
	if p.told != "" {
		return
	}
	p.told = reasonOf(err)
	values := []any{
		"msg", "the server's own metrics cannot be read; probing goes on without them", "target", p.target.Name, "reason", p.told, "err", err,
	}
	if notOffered(err) {
		values = append(values, "hint", from.hint)
	}
	level.Warn(p.logger).Log(values...)
}

// firstReader is the reader of a run, which goes before a poll.
type firstReader struct {
	poller *Poller
	reader *reader
}

// ReadLoad waits for a poll that is going on, and breaks it off where that takes long.
func (f *firstReader) ReadLoad(ctx context.Context) (prober.Load, error) {
	p := f.poller
	patience := time.NewTimer(letPoll)
	defer patience.Stop()
	for {
		select {
		case p.turn <- struct{}{}:
			defer func() { <-p.turn }()
			return f.reader.ReadLoad(ctx)
		case <-patience.C:
			p.mu.Lock()
			if p.abort != nil {
				p.abort()
			}
			p.mu.Unlock()
		case <-ctx.Done():
			return prober.Load{}, ctx.Err()
		}
	}
}
