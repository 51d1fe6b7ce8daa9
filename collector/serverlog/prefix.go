package serverlog

import "bytes"

// What may stand before a message is bounded: parts, words among them, and the length of one part.
const (
	mostParts    = 16
	mostWords    = 4
	longestPart  = 256
	longestDigit = 40
)

// prefix walks over what loggers and transports put before a message: time stamps, levels, ranks and places in brackets, process
// names, host names. Text that only quotes a message stands behind other words and is not reached.
type prefix struct {
	rest []byte
	rank []byte

	words   int  // plain words so far, such as a host name
	open    bool // words that nothing has shown to be part of a prefix
	stamped bool // a time stamp has come
	program bool // the server's own part of the prefix has begun: no words of transports any more
}

// next walks over one part.
func (p *prefix) next() bool {
	switch c := p.rest[0]; {
	case c == '[':
		return p.bracket()
	case c == '(':
		_, ok := p.enclosed(')')
		return ok
	case c == '<':
		_, ok := p.enclosed('>')
		return ok
	case c >= '0' && c <= '9':
		return p.stamp()
	}
	return p.word()
}

// enclosed takes a part up to its closing byte, and gives what is within.
func (p *prefix) enclosed(end byte) (inner []byte, ok bool) {
	for i := 1; i < min(len(p.rest), longestPart); i++ {
		switch c := p.rest[i]; c {
		case end:
			inner = p.rest[1:i]
			p.take(i + 1)
			if len(p.rest) > 0 && p.rest[0] == ':' {
				p.take(1)
			}
			return inner, true
		case '"', '\'', '{':
			return nil, false
		}
	}
	return nil, false
}

// bracket takes [2026-07-20 12:00:31 DP1 TP4], [metrics.py:96], [pod/name/container] and the like.
func (p *prefix) bracket() bool {
	inner, ok := p.enclosed(']')
	if !ok {
		return false
	}
	if startsWithTime(inner) {
		p.open, p.stamped, p.program = false, true, true
	}
	if rank := rankOf(inner); rank != nil {
		p.rank, p.program = rank, true
	}
	if bytes.Contains(inner, []byte(".py:")) {
		p.program = true
	}
	return true
}

// startsWithTime tells 2026-07-20 12:00:31 and 12:00:31 from names and numbers.
func startsWithTime(b []byte) bool {
	return len(b) >= 8 && b[0] >= '0' && b[0] <= '9' && (b[2] == ':' && b[5] == ':' || b[4] == '-' && b[7] == '-')
}

// stamp takes a number, a date, a time or both: digits and what separates them.
func (p *prefix) stamp() bool {
	separators := 0
	i := 0
	for ; i < len(p.rest) && p.rest[i] != ' ' && p.rest[i] != '\t'; i++ {
		switch c := p.rest[i]; {
		case c >= '0' && c <= '9':
		case c == ':' || c == '-' || c == '.' || c == '/' || c == ',' || c == 'T' || c == 'Z' || c == '+':
			separators++
		default:
			return p.word() // a name that begins with a digit
		}
		if i > longestDigit {
			return false
		}
	}
	p.stamped = p.stamped || separators > 0
	p.take(i)
	return true
}

// word takes a level, a separator, a place in the source, or a name that a transport puts before the line.
func (p *prefix) word() bool {
	i := bytes.IndexAny(p.rest[:min(len(p.rest), longestPart)], " \t")
	if i < 0 {
		return false
	}
	word := p.rest[:i]
	switch string(word) {
	case "-", "|", "::":
		p.open = p.open && word[0] != '|'
		p.take(i)
		return true
	case "INFO", "WARNING", "WARN", "ERROR", "DEBUG", "CRITICAL", "INFO:", "WARNING:", "WARN:", "ERROR:", "DEBUG:", "I", "W", "E", "D":
		p.program = true
		p.take(i)
		return true
	}
	return p.name(word)
}

// name takes metrics.py:396], sglang[28517]:, llama-server: after a time stamp, scheduler.log_decode_stats: after a level, and
// words before any of these or before a time stamp in brackets.
func (p *prefix) name(word []byte) bool {
	plain, closed := bytes.CutSuffix(word, []byte(":"))
	pid := false
	if i := bytes.IndexByte(plain, '['); i > 0 && plain[len(plain)-1] == ']' {
		_, pid = count(plain[i+1 : len(plain)-1])
		plain = plain[:i]
	}
	switch {
	case isPlace(word):
		p.open, p.program = false, true
		plain = word[:len(word)-1]
	case p.program && (!closed || bytes.IndexByte(plain, '.') < 0):
		return false
	case closed && (pid || p.stamped || p.program):
		p.open = false
	case p.words == mostWords:
		return false
	default:
		p.open = true
		p.words++
	}
	for _, c := range plain {
		if !isWord(c) {
			return false
		}
	}
	p.take(len(word))
	return true
}

// isPlace tells a line of the source, such as metrics.py:396], of which the bracket was opened long before or never.
func isPlace(word []byte) bool {
	colon := bytes.LastIndexByte(word, ':')
	if colon < 1 || word[len(word)-1] != ']' {
		return false
	}
	_, number := count(word[colon+1 : len(word)-1])
	return number
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c == '/' || c == '@' || c == ':'
}

// take goes on after n bytes and the blanks behind them.
func (p *prefix) take(n int) {
	p.rest = p.rest[n:]
	for len(p.rest) > 0 && (p.rest[0] == ' ' || p.rest[0] == '\t') {
		p.rest = p.rest[1:]
	}
}

// rankOf finds the tags at the end of or amid what stands in brackets: a free list of capitals and a number, in any order, or
// gpu=0 of the first versions; nil where there are none.
func rankOf(inner []byte) []byte {
	if bytes.HasPrefix(inner, []byte("gpu=")) {
		return inner
	}
	first, last := -1, -1
	for i := 0; i < len(inner); {
		end := i
		for end < len(inner) && inner[end] != ' ' {
			end++
		}
		if isRank(inner[i:end]) {
			if first < 0 {
				first = i
			}
			last = end
		}
		i = end + 1
	}
	if first < 0 {
		return nil
	}
	return inner[first:last]
}

func isRank(b []byte) bool {
	letters := 0
	for letters < len(b) && (b[letters] >= 'A' && b[letters] <= 'Z' || b[letters] == '_') {
		letters++
	}
	_, number := count(b[letters:])
	return letters >= 2 && number
}

// groupOf is the data-parallel rank in a tag: its processes work on one batch. It is -1 where there is none.
func groupOf(rank []byte) int {
	i := bytes.Index(rank, []byte("DP"))
	if i < 0 || i > 0 && rank[i-1] != ' ' {
		return -1
	}
	digits := rank[i+2:]
	if j := bytes.IndexByte(digits, ' '); j >= 0 {
		digits = digits[:j]
	}
	if n, ok := count(digits); ok {
		return n
	}
	return -1
}
