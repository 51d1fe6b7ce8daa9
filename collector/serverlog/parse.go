package serverlog

import "bytes"

// Outcome is what became of a line.
type Outcome uint8

// What can become of a line.
const (
	Other    Outcome = iota // not one of those that are read
	Matched                 // it gave at least one value
	Unparsed                // it begins like one of ours and is broken
)

// Parser reads the lines of one log. Values are found by key, never by position, for every version has its own order. A Parser
// is not safe for concurrent use.
type Parser struct {
	readers [256][]reader // by the first byte of a message
	records []Record
	steps   []int // of the records

	batches recentBatches
	totals  speculativeTotals
}

// reader reads the lines of which the message begins in one way. read gets what stands behind the beginning.
type reader struct {
	begin string
	read  func(p *Parser, rest []byte) Outcome
}

// NewParser makes a parser for one format: sglang, vllm (with LMDeploy's lines), llamacpp, ollama, or auto for all of them.
func NewParser(format string) *Parser {
	all := map[string][]reader{
		"sglang": sglangReaders(), "vllm": vllmReaders(), "llamacpp": llamaReaders(), "ollama": ollamaReaders(),
	}
	p := &Parser{}
	for name, readers := range all {
		if all[format] != nil && name != format {
			continue
		}
		for _, r := range readers {
			p.readers[r.begin[0]] = append(p.readers[r.begin[0]], r)
		}
	}
	return p
}

// Parse reads one line without its line feed, which it does not keep. The records are valid until the next call.
func (p *Parser) Parse(line []byte) ([]Record, Outcome) {
	p.records, p.steps = p.records[:0], p.steps[:0]
	walk := prefix{rest: line}
	walk.take(0)
	for range mostParts {
		if len(walk.rest) == 0 {
			return nil, Other
		}
		if r, rest := p.reader(walk.rest); r != nil {
			if walk.open {
				return nil, Other
			}
			outcome := r.read(p, rest)
			if outcome != Matched {
				p.records = p.records[:0]
			}
			for i := range p.records {
				p.records[i].Rank = walk.rank
			}
			p.batches.mark(p.records)
			return p.records, outcome
		}
		if !walk.next() {
			return nil, Other
		}
	}
	return nil, Other
}

// reader finds how to read a message, and what of it is left to read.
func (p *Parser) reader(message []byte) (*reader, []byte) {
	if c := message[0]; c == 'E' || c >= '0' && c <= '9' {
		message = afterEngine(message)
	}
	readers := p.readers[message[0]]
	for i := range readers {
		r := &readers[i]
		if len(message) >= len(r.begin) && string(message[:len(r.begin)]) == r.begin {
			return r, message[len(r.begin):]
		}
	}
	return nil, nil
}

// afterEngine takes off "Engine 000: " or "2 Engines Aggregated: ", which vLLM puts before its lines.
func afterEngine(message []byte) []byte {
	if rest, ok := bytes.CutPrefix(message, []byte("Engine ")); ok {
		digits, rest, found := bytes.Cut(rest, []byte(": "))
		if _, number := count(digits); found && number && len(rest) > 0 {
			return rest
		}
		return message
	}
	digits := 0
	for digits < len(message) && message[digits] >= '0' && message[digits] <= '9' {
		digits++
	}
	if rest, ok := bytes.CutPrefix(message[digits:], []byte(" Engines Aggregated: ")); ok && digits > 0 && len(rest) > 0 {
		return rest
	}
	return message
}

// add makes a record to fill.
func (p *Parser) add(kind Kind) *Record {
	p.records = append(p.records, Record{Kind: kind})
	return &p.records[len(p.records)-1]
}

// fields walks over "key: value, key: value". A part without a colon is given with an empty key. last tells that no comma follows:
// the value may be cut off. It ends when take refuses.
func fields(b []byte, take func(key, value []byte, last bool) bool) bool {
	for len(b) > 0 {
		part, last := b, true
		if i := bytes.IndexByte(b, ','); i >= 0 {
			part, b, last = b[:i], b[i+1:], false
		} else {
			b = nil
		}
		key, value := []byte(nil), part
		if i := bytes.IndexByte(part, ':'); i >= 0 {
			key, value = trim(part[:i]), part[i+1:]
		}
		if len(part) > 0 && !take(key, value, last) {
			return false
		}
	}
	return true
}

// trim takes blanks off.
func trim(b []byte) []byte {
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isBlank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
