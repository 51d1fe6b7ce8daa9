package collector

import (
	"slices"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"

	"longctx_exporter/collector/serverlog"
	"longctx_exporter/prober"
)

// keptLines is how many unparsed lines of a target are kept for the status page.
const keptLines = 5

// logs are the series of what the logs of a target tell. They are never mixed with those of its runs.
type logs struct {
	labels []*dto.LabelPair

	mu                                               sync.Mutex
	reading                                          []bool // by log
	lines, matched, unparsed, rotations, truncations float64
	last                                             time.Time
	events                                           []*count // by serverlog.EventKind, less one
	accept                                           histogram
	buckets                                          []*logBucket
	kept                                             []string
}

// logBucket is the requests with prompts of similar length.
type logBucket struct {
	upTo     prober.Rung // 0 for any length
	requests count
	steps    passHistogram
}

// logEventNames are the values of the label event.
func logEventNames() []string { return []string{"retraction", "prompt_truncated", "context_full"} }

// newLogs is nil for a target without logs.
func (t *target) newLogs(sources int) *logs {
	if sources == 0 {
		return nil
	}
	l := &logs{labels: t.labels, reading: make([]bool, sources), accept: newHistogram(t.metrics[logAccept], t.labels)}
	for _, name := range logEventNames() {
		l.events = append(l.events, &count{labels: t.pairs(logEvents, name)})
	}
	for _, bound := range contextBuckets() {
		l.buckets = append(l.buckets, &logBucket{
			upTo: bound, requests: count{labels: t.pairs(logRequests, contextBucket(bound))},
			steps: newPassHistogram(t.metrics[logStepAccept], t.pairs(logStepAccept, contextBucket(bound))),
		})
	}
	return l
}

// LogSink takes what one of a target's logs tells into the target's series. It is nil for a log that is not configured.
func (c *Collector) LogSink(name string, source int) serverlog.Sink {
	t := c.target(name)
	if t == nil || t.logs == nil || source >= len(t.logs.reading) {
		return nil
	}
	return logSink{t.logs, source}
}

// UnparsedLines are the latest lines of a target's logs that could not be read, oldest first, fit to be shown.
func (c *Collector) UnparsedLines(name string) []string {
	t := c.target(name)
	if t == nil || t.logs == nil {
		return nil
	}
	t.logs.mu.Lock()
	defer t.logs.mu.Unlock()
	return slices.Clone(t.logs.kept)
}

// logSink is one log.
type logSink struct {
	*logs
	source int
}

// ObserveRecord takes what a line tells. A line that another rank has written before counts once.
func (s logSink) ObserveRecord(r *serverlog.Record) {
	if r.Repeated {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if event := int(r.Event) - 1; event >= 0 && event < len(s.events) {
		s.events[event].n++
	}
	if v, known := r.Value(serverlog.AcceptLength); known {
		s.accept.observe("", v)
	}
	prompt, known := r.Value(serverlog.PromptTokens)
	if r.Kind != serverlog.Request || !known {
		return
	}
	i := slices.IndexFunc(s.buckets, func(b *logBucket) bool { return b.upTo == 0 || prompt <= float64(b.upTo) })
	s.buckets[i].requests.n++
	s.buckets[i].steps.observe(r.Steps)
}

// ObserveLines takes what was counted.
func (s logSink) ObserveLines(l serverlog.Lines) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines += float64(l.Read)
	s.matched += float64(l.Matched)
	s.unparsed += float64(l.Unparsed)
	s.rotations += float64(l.Rotations)
	s.truncations += float64(l.Truncations)
	if l.Last.After(s.last) {
		s.last = l.Last
	}
	s.kept = append(s.kept, l.Kept...)
	s.kept = s.kept[max(0, len(s.kept)-keptLines):]
}

// SetReading tells whether the log can be read.
func (s logSink) SetReading(reading bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading[s.source] = reading
}

// logs adds what the logs of a target tell.
func (p page) logs(l *logs) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p.gauge(logUp, truth(!slices.Contains(l.reading, false)), l.labels)
	p.counter(logLines, l.lines, l.labels)
	p.counter(logMatched, l.matched, l.labels)
	p.counter(logUnparsed, l.unparsed, l.labels)
	p.counter(logRotations, l.rotations, l.labels)
	p.counter(logTruncations, l.truncations, l.labels)
	p.time(logLastLine, l.last, l.labels)
	for _, event := range l.events {
		p.counter(logEvents, event.n, event.labels)
	}
	p.add(logAccept, l.accept.show())
	for _, b := range l.buckets {
		p.counter(logRequests, b.requests.n, b.requests.labels)
		p.add(logStepAccept, b.steps.show())
	}
}
