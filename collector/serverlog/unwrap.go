package serverlog

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// verdict is what became of a line of a file when what a transport had put around it was taken off.
type verdict uint8

const (
	whole    verdict = iota // text is there
	pending                 // the line goes on in the next entry
	overlong                // the line is longer than maxLine, and skipped
	broken                  // it begins like an entry of a transport and is none
)

// unwrapper takes off what docker, Kubernetes and journald put around lines, and joins lines that they split. It is for one
// file. Its zero value is ready.
type unwrapper struct {
	parts   [2]joint // of stdout and of stderr
	scratch []byte
}

// joint is a line that goes on.
type joint struct {
	text []byte
	over bool // it grew longer than maxLine
}

// unwrap takes a line of a file, which it may change. The text is valid until the next call; it may have several lines.
func (u *unwrapper) unwrap(line []byte) ([]byte, verdict) {
	line = bytes.TrimSuffix(line, []byte("\r"))
	text, v := line, whole
	if len(line) > 0 && line[0] == '{' {
		text, v = u.envelope(line)
	} else if stream, rest, final, ok := criEntry(line); ok {
		text, v = u.join(stream, rest, final)
	}
	if v == whole {
		text = withoutColours(text)
	}
	return text, v
}

// envelope takes the message out of an entry in JSON, of docker's json-file, of journald, or of a logger that writes JSON. Any
// other JSON is left as it is.
func (u *unwrapper) envelope(line []byte) ([]byte, verdict) {
	var docker, journal, other, partial, stream []byte
	s := scanner{b: line[1:], quotes: jsonQuotes}
	sound := s.members(func(key, value []byte) {
		switch string(key) {
		case "log":
			docker = value
		case "MESSAGE":
			journal = value
		case "message", "msg":
			other = value
		case "CONTAINER_PARTIAL_MESSAGE":
			partial = value
		case "stream":
			stream = value
		}
	})
	switch {
	case !sound && bytes.HasPrefix(line, []byte(`{"log":"`)):
		return nil, broken
	case !sound:
		return line, whole
	case docker != nil:
		text, ok := u.message(docker)
		if !ok {
			return nil, broken
		}
		text, final := bytes.CutSuffix(text, []byte("\n"))
		return u.join(stream, text, final)
	case journal != nil:
		text, ok := u.message(journal)
		if !ok {
			return nil, broken
		}
		return u.join(stream, text, string(partial) != `"true"`)
	case len(other) > 0 && other[0] == '"':
		if text, ok := u.message(other); ok {
			return text, whole
		}
	}
	return line, whole
}

// message decodes a text, or the list of bytes that journald gives for what is no printable text. The absence of one is empty.
func (u *unwrapper) message(value []byte) ([]byte, bool) {
	switch {
	case string(value) == "null":
		return nil, true
	case len(value) > 0 && value[0] == '[':
		u.scratch = u.scratch[:0]
		s := scanner{b: value[1:], quotes: jsonQuotes}
		sound := true
		whole := s.elements(func(value []byte) {
			n, ok := count(value)
			sound = sound && ok && n < 256
			u.scratch = append(u.scratch, byte(n))
		})
		return u.scratch, whole && sound
	case len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"':
		return nil, false
	}
	var ok bool
	u.scratch, ok = appendDecoded(u.scratch[:0], value[1:len(value)-1])
	return u.scratch, ok
}

// appendDecoded appends a JSON text without its quotes. Halves of characters come as U+FFFD.
func appendDecoded(to, text []byte) ([]byte, bool) {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return append(to, text...), true
		}
		to = append(to, text[:i]...)
		if i+1 == len(text) {
			return to, false
		}
		c := text[i+1]
		text = text[i+2:]
		switch c {
		case '"', '\\', '/':
			to = append(to, c)
		case 'n':
			to = append(to, '\n')
		case 'r':
			to = append(to, '\r')
		case 't':
			to = append(to, '\t')
		case 'b':
			to = append(to, '\b')
		case 'f':
			to = append(to, '\f')
		case 'u':
			r, rest, ok := codeUnit(text)
			if !ok {
				return to, false
			}
			text = rest
			if utf16.IsSurrogate(r) {
				low := rune(0)
				if tail, is := bytes.CutPrefix(text, []byte(`\u`)); is {
					if next, rest, ok := codeUnit(tail); ok && utf16.DecodeRune(r, next) != utf8.RuneError {
						low, text = next, rest
					}
				}
				r = utf16.DecodeRune(r, low)
			}
			to = utf8.AppendRune(to, r)
		default:
			return to, false
		}
	}
}

// codeUnit reads four hexadecimal digits.
func codeUnit(b []byte) (r rune, rest []byte, ok bool) {
	if len(b) < 4 {
		return 0, nil, false
	}
	for _, c := range b[:4] {
		r <<= 4
		switch {
		case c >= '0' && c <= '9':
			r |= rune(c - '0')
		case c >= 'a' && c <= 'f':
			r |= rune(c - 'a' + 10)
		case c >= 'A' && c <= 'F':
			r |= rune(c - 'A' + 10)
		default:
			return 0, nil, false
		}
	}
	return r, b[4:], true
}

// criEntry reads "2026-06-03T08:00:01.1Z stdout F text" of Kubernetes' container runtimes; P marks a part that goes on.
func criEntry(line []byte) (stream, text []byte, final, ok bool) {
	if len(line) < len("2006-01-02T15:04:05Z stdout F") || line[4] != '-' || line[10] != 'T' {
		return nil, nil, false, false
	}
	stamp, rest, _ := bytes.Cut(line[:min(len(line), longestPart)], []byte(" "))
	stream, rest, _ = bytes.Cut(rest, []byte(" "))
	if string(stream) != "stdout" && string(stream) != "stderr" {
		return nil, nil, false, false
	}
	tag, _, _ := bytes.Cut(rest, []byte(" "))
	if len(tag) == 0 || tag[0] != 'F' && tag[0] != 'P' || len(tag) > 1 && tag[1] != ':' {
		return nil, nil, false, false
	}
	from := len(stamp) + 1 + len(stream) + 1 + len(tag)
	return stream, bytes.TrimPrefix(line[from:], []byte(" ")), tag[0] == 'F', true
}

// join puts the parts of a line together.
func (u *unwrapper) join(stream, text []byte, final bool) ([]byte, verdict) {
	j := &u.parts[0]
	if bytes.Contains(stream, []byte("stderr")) {
		j = &u.parts[1]
	}
	if final && len(j.text) == 0 && !j.over {
		return text, whole
	}
	if len(j.text)+len(text) > maxLine {
		j.over, j.text = true, nil
	}
	if !j.over {
		j.text = append(j.text, text...)
	}
	if !final {
		return nil, pending
	}
	line, over := j.text, j.over
	j.text, j.over = j.text[:0], false
	if cap(j.text) > usualLine {
		j.text = nil
	}
	if over {
		return nil, overlong
	}
	return line, whole
}

// withoutColours takes out the sequences by which terminals change colours, in place.
func withoutColours(line []byte) []byte {
	i := bytes.IndexByte(line, '\x1b')
	if i < 0 {
		return line
	}
	out := line[:i]
	for rest := line[i:]; len(rest) > 0; {
		if rest[0] != '\x1b' {
			next := bytes.IndexByte(rest, '\x1b')
			if next < 0 {
				next = len(rest)
			}
			out = append(out, rest[:next]...)
			rest = rest[next:]
			continue
		}
		rest = rest[sequence(rest):]
	}
	return out
}

// sequence is the length of the sequence that b begins with.
func sequence(b []byte) int {
	if len(b) < 2 {
		return len(b)
	}
	switch b[1] {
	case '[':
		for i := 2; i < len(b); i++ {
			if b[i] >= 0x40 && b[i] <= 0x7e {
				return i + 1
			}
		}
		return len(b)
	case ']':
		if i := bytes.IndexByte(b, '\a'); i >= 0 {
			return i + 1
		}
		return len(b)
	}
	return 2
}
