package inference

import (
	"bytes"
	"encoding/json"
	"errors"
)

// maxEvent bounds a line and an event of a stream, in bytes. A server that echoes 192k token ids needs 1.3 MB.
const maxEvent = 16 << 20

var errEventTooLong = errors.New("an event is longer than 16 MiB")

// splitter cuts a body into events, however the bytes are cut into reads: server-sent events, JSON lines or one JSON
// document. It finds out which by the first line that is not blank, since content types lie.
type splitter struct {
	line  []byte // an unfinished line
	data  []byte // the data of an unfinished event
	has   bool   // the unfinished event has a data line
	known bool   // a line that is not blank was seen
	plain bool   // that line began a JSON document
	other bool   // a line belongs to neither kind of body
}

// feed takes the next bytes and hands the data of each event that they complete to emit. The data is valid during the call.
func (s *splitter) feed(p []byte, emit func(data []byte)) error {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		switch {
		case i < 0:
			s.line = append(s.line, p...)
			p = nil
		case len(s.line) == 0:
			s.endLine(p[:i], emit)
			p = p[i+1:]
		default:
			s.line = append(s.line, p[:i]...)
			s.endLine(s.line, emit)
			s.line, p = s.line[:0], p[i+1:]
		}
		if len(s.line)+len(s.data) > maxEvent {
			return errEventTooLong
		}
	}
	return nil
}

// end is the clean end of the body: what no blank line ended is an event all the same.
func (s *splitter) end(emit func(data []byte)) {
	if len(s.line) > 0 {
		s.endLine(s.line, emit)
		s.line = nil
	}
	s.dispatch(emit)
}

func (s *splitter) endLine(line []byte, emit func(data []byte)) {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if !s.known {
		line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
		if len(line) == 0 {
			return
		}
		s.known, s.plain = true, line[0] == '{' || line[0] == '['
	}
	if s.plain {
		s.jsonLine(line, emit)
		return
	}
	if len(line) == 0 {
		s.dispatch(emit)
		return
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	switch string(name) {
	case "data":
		s.add(bytes.TrimPrefix(value, []byte(" ")))
	case "", "event", "id", "retry": // comments, and fields that say nothing about tokens
	default:
		s.other = true
	}
}

// jsonLine emits a line that is a document of its own; a document over several lines is emitted at the end of the body.
func (s *splitter) jsonLine(line []byte, emit func(data []byte)) {
	if !s.has && (len(line) == 0 || json.Valid(line)) {
		if len(line) > 0 {
			emit(line)
		}
		return
	}
	s.add(line)
}

func (s *splitter) add(data []byte) {
	if s.has {
		s.data = append(s.data, '\n')
	}
	s.data, s.has = append(s.data, data...), true
}

func (s *splitter) dispatch(emit func(data []byte)) {
	if data := bytes.TrimSpace(s.data); len(data) > 0 {
		emit(data)
	}
	s.data, s.has = s.data[:0], false
}
