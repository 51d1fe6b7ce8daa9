package serverlog

import (
	"bytes"
	"time"
)

// Lines counts what was read since the call before.
type Lines struct {
	Read, Matched, Unparsed int
	Rotations, Truncations  int
	// Last is when the latest line was read; zero where none was.
	Last time.Time
	// Kept are a few of the unparsed lines, bounded and without what users wrote, to be shown to a person.
	Kept []string
}

// Sink takes what a log tells. Its methods are not called at once for one log, but may be for several.
type Sink interface {
	// ObserveRecord takes what a line tells. The record is valid during the call.
	ObserveRecord(r *Record)
	// ObserveLines takes the counts since the call before.
	ObserveLines(l Lines)
	// SetReading tells when a log can be read, and when it cannot any more.
	SetReading(reading bool)
}

// keptAtOnce is how many unparsed lines of one chunk are kept for people.
const keptAtOnce = 2

// lineLog is one log: lines go in, records and counts come out.
type lineLog struct {
	parser *Parser
	sink   Sink
	lines  Lines
}

func newLineLog(format string, sink Sink) *lineLog {
	return &lineLog{parser: NewParser(format), sink: sink}
}

// feed takes what was read of a file into its lines, and tells the sink.
func (l *lineLog) feed(buffer *lineBuffer, u *unwrapper, chunk []byte) {
	buffer.feed(chunk, func(line []byte) { l.line(u, line) }, l.over)
	l.flush()
}

// flush tells the sink what was counted.
func (l *lineLog) flush() {
	if l.lines.Read == 0 && l.lines.Rotations == 0 && l.lines.Truncations == 0 {
		return
	}
	if l.lines.Read > 0 {
		l.lines.Last = time.Now()
	}
	l.sink.ObserveLines(l.lines)
	l.lines = Lines{}
}

// over counts a line that is too long.
func (l *lineLog) over() {
	l.lines.Read++
	l.tooLong()
}

func (l *lineLog) line(u *unwrapper, line []byte) {
	l.lines.Read++
	text, v := u.unwrap(line)
	switch v {
	case pending:
		return
	case overlong:
		l.tooLong()
		return
	case broken:
		l.unparsed(line)
		return
	}
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		l.count(l.parse(text), text)
		return
	}
	outcome, of := Other, text
	// An entry may have several lines, and a progress bar goes back to the beginning of its own until a line follows.
	for part := range bytes.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if o := l.parse(part); o > outcome {
			outcome, of = o, part
		}
	}
	l.count(outcome, of)
}

func (l *lineLog) parse(text []byte) Outcome {
	records, outcome := l.parser.Parse(text)
	for i := range records {
		l.sink.ObserveRecord(&records[i])
	}
	return outcome
}

func (l *lineLog) count(outcome Outcome, text []byte) {
	switch outcome {
	case Matched:
		l.lines.Matched++
	case Unparsed:
		l.unparsed(text)
	}
}

func (l *lineLog) unparsed(text []byte) {
	l.lines.Unparsed++
	if len(l.lines.Kept) < keptAtOnce {
		l.lines.Kept = append(l.lines.Kept, forPeople(text))
	}
}

// tooLong counts a line of which nothing is kept.
func (l *lineLog) tooLong() {
	l.lines.Unparsed++
	if len(l.lines.Kept) < keptAtOnce {
		l.lines.Kept = append(l.lines.Kept, "(a line of more than 4 MiB)")
	}
}
