package serverlog

import "bytes"

const (
	maxLine   = 4 << 20   // bytes; a request line with the ids of a long prompt has about half as many
	usualLine = 256 << 10 // bytes that a buffer keeps for the next line
)

// lineBuffer cuts what is read into lines. A line is kept until its line feed comes. Its zero value is ready.
type lineBuffer struct {
	pending  []byte
	skipping bool // up to the next line feed
}

// skip passes over the rest of a line of which the beginning is not known.
func (l *lineBuffer) skip() { l.skipping, l.pending = true, nil }

// feed gives the lines that end within the chunk, without their line feeds; they are valid during the call. over is called for
// a line that is too long.
func (l *lineBuffer) feed(chunk []byte, line func([]byte), over func()) {
	for len(chunk) > 0 {
		end := bytes.IndexByte(chunk, '\n')
		part := chunk
		if end >= 0 {
			part, chunk = chunk[:end], chunk[end+1:]
		} else {
			chunk = nil
		}
		switch {
		case l.skipping:
			l.skipping = end < 0
		case len(l.pending)+len(part) > maxLine:
			over()
			l.pending, l.skipping = nil, end < 0
		case end < 0:
			if len(l.pending) == 0 {
				part = bytes.TrimLeft(part, "\x00") // of a file that was cut under a writer who did not notice
			}
			l.pending = append(l.pending, part...)
		case len(l.pending) == 0:
			line(bytes.TrimLeft(part, "\x00"))
		default:
			l.pending = append(l.pending, part...)
			line(l.pending)
			l.pending = l.pending[:0]
			if cap(l.pending) > usualLine {
				l.pending = nil
			}
		}
	}
}
