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
	cr    bool   // the last line ended with a CR, so that a LF right after it belongs to that
	fault bool   // the unfinished event is named error
}

// emitter takes the data of an event, valid during the call; fault says that the event is an error by its name.
type emitter func(data []byte, fault bool)

// feed takes the next bytes and hands the data of each event that they complete to emit.
func (s *splitter) feed(p []byte, emit emitter) error {
	for len(p) > 0 {
		if s.cr && p[0] == '\n' {
			s.cr, p = false, p[1:]
			continue
		}
		i := lineEnd(p)
		switch {
		case i < 0:
			s.line = append(s.line, p...)
			s.cr, p = false, nil
		case len(s.line) == 0:
			s.endLine(p[:i], emit)
			s.cr, p = p[i] == '\r', p[i+1:]
		default:
			s.line = append(s.line, p[:i]...)
			s.endLine(s.line, emit)
			s.line, s.cr, p = s.line[:0], p[i] == '\r', p[i+1:]
		}
		if len(s.line)+len(s.data) > maxEvent {
			return errEventTooLong
		}
	}
	return nil
}

// lineEnd is the place of the first LF or CR, each of which ends a line, as both together do.
func lineEnd(p []byte) int {
	lf := bytes.IndexByte(p, '\n')
	if lf < 0 {
		return bytes.IndexByte(p, '\r')
	}
	if cr := bytes.IndexByte(p[:lf], '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// end is the clean end of the body: what no blank line ended is an event all the same.
func (s *splitter) end(emit emitter) {
	if len(s.line) > 0 {
		s.endLine(s.line, emit)
		s.line = nil
	}
	s.dispatch(emit)
}

func (s *splitter) endLine(line []byte, emit emitter) {
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
		s.dataLine(value, emit)
	case "event":
		s.fault = string(bytes.TrimSpace(value)) == "error"
	case "error": // of early builds of llama-server
		s.fault = true
		s.add(value)
	case "", "id", "retry": // comments, and fields that say nothing about tokens
	default:
		s.other = true
	}
}

// dataLine emits a line that is an event of its own at once: some servers leave out the blank line behind it.
func (s *splitter) dataLine(data []byte, emit emitter) {
	data = bytes.TrimSpace(data)
	if !s.has && (string(data) == "[DONE]" || closed(data)) {
		emit(data, s.fault)
		s.fault = false
		return
	}
	s.add(data)
}

// jsonLine emits a line that is a document of its own; a document over several lines is emitted at the end of the body.
func (s *splitter) jsonLine(line []byte, emit emitter) {
	if !s.has && (len(line) == 0 || json.Valid(line)) {
		if len(line) > 0 {
			emit(line, false)
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

func (s *splitter) dispatch(emit emitter) {
	if data := bytes.TrimSpace(s.data); len(data) > 0 {
		emit(data, s.fault)
	}
	s.data, s.has, s.fault = s.data[:0], false, false
}
