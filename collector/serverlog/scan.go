package serverlog

import "bytes"

// scanner walks over JSON, or over what Python prints of its objects, without decoding what nobody asks for.
type scanner struct {
	b      []byte
	at     int
	quotes string // those that enclose text
}

const (
	jsonQuotes   = `"`
	pythonQuotes = `'"`
)

// members gives the members of an object that has been opened, up to its end. Keys come without quotes and as they are
// written, values as they are written. It is false where the object is broken or cut off.
func (s *scanner) members(visit func(key, value []byte)) bool {
	for {
		s.space()
		if s.take('}') {
			return true
		}
		from := s.at
		if !s.text() {
			return false
		}
		key := s.b[from+1 : s.at-1]
		s.space()
		if !s.take(':') {
			return false
		}
		value, ok := s.value()
		if !ok {
			return false
		}
		visit(key, value)
		if !s.take(',') && !s.peek('}') {
			return false
		}
	}
}

// elements gives the elements of a list that has been opened, up to its end.
func (s *scanner) elements(visit func(value []byte)) bool {
	for {
		s.space()
		if s.take(']') {
			return true
		}
		value, ok := s.value()
		if !ok {
			return false
		}
		visit(value)
		if !s.take(',') && !s.peek(']') {
			return false
		}
	}
}

// value takes everything up to the comma or the bracket that ends it.
func (s *scanner) value() ([]byte, bool) {
	s.space()
	from, depth := s.at, 0
	for s.at < len(s.b) {
		switch c := s.b[s.at]; c {
		case '{', '[', '(':
			depth++
		case '}', ']', ')':
			if depth == 0 {
				return bytes.TrimRight(s.b[from:s.at], " \t"), true
			}
			depth--
		case ',':
			if depth == 0 {
				return bytes.TrimRight(s.b[from:s.at], " \t"), true
			}
		case '"', '\'':
			if c == '"' || s.quotes == pythonQuotes {
				if !s.text() {
					return nil, false
				}
				continue
			}
		}
		s.at++
	}
	return nil, false
}

// text takes a text in quotes.
func (s *scanner) text() bool {
	if s.at >= len(s.b) || bytes.IndexByte([]byte(s.quotes), s.b[s.at]) < 0 {
		return false
	}
	quote := s.b[s.at]
	s.at++
	for {
		i := bytes.IndexByte(s.b[s.at:], quote)
		if i < 0 {
			return false
		}
		end := s.at + i
		escapes := 0
		for end-1-escapes >= s.at && s.b[end-1-escapes] == '\\' {
			escapes++
		}
		s.at = end + 1
		if escapes%2 == 0 {
			return true
		}
	}
}

func (s *scanner) space() {
	for s.at < len(s.b) && (s.b[s.at] == ' ' || s.b[s.at] == '\t') {
		s.at++
	}
}

func (s *scanner) peek(c byte) bool { return s.at < len(s.b) && s.b[s.at] == c }

func (s *scanner) take(c byte) bool {
	if !s.peek(c) {
		return false
	}
	s.at++
	return true
}
