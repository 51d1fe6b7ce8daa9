package serverlog

import (
	"bytes"
	"math"
)

func vllmReaders() []reader {
	return []reader{
		{"SpecDecoding metrics:", (*Parser).specDecoding},
		{"Draft acceptance rate:", (*Parser).specDecodingRate},
		{"Speculative metrics:", (*Parser).speculative},
		{"Avg prompt throughput:", (*Parser).engine},
		{"Avg thr (in/out):", (*Parser).lmdeploy},
	}
}

// specDecoding reads the acceptance of an interval.
func (p *Parser) specDecoding(rest []byte) Outcome {
	r := p.add(Interval)
	s := specLine{record: r}
	if !fields(rest, s.take) || r.known == 0 && !s.empty {
		return Unparsed
	}
	s.settle()
	return Matched
}

// specDecodingRate reads the same where it begins a line of its own.
func (p *Parser) specDecodingRate(rest []byte) Outcome {
	r := p.add(Interval)
	s := specLine{record: r}
	if !s.take([]byte("Draft acceptance rate"), bytes.SplitN(rest, []byte(","), 2)[0], false) {
		return Unparsed
	}
	if _, more, found := bytes.Cut(rest, []byte(",")); !found || !fields(more, s.take) {
		return Unparsed
	}
	s.settle()
	return Matched
}

// specLine is an interval line as it is read.
type specLine struct {
	record    *Record
	rateFirst bool    // as the versions did of which some leave the bonus token out of the mean
	positions bool    // the parts without a key are rates by position
	sum       float64 // of the rates by position: accepted drafts per pass
	n         int
	empty     bool // there was a value, but it was none
}

func (s *specLine) take(key, value []byte, last bool) bool {
	if len(key) == 0 && s.positions {
		return s.position(value)
	}
	s.positions = false
	v, ok := number(value)
	f := AcceptLength
	switch string(key) {
	case "Mean acceptance length":
		if last {
			return false // every version has more behind it
		}
	case "Draft acceptance rate":
		f, s.rateFirst = AcceptRate, !s.record.has(AcceptLength)
	case "Avg Draft acceptance rate":
		f = AcceptRate
	case "Accepted":
		f = Accepted
	case "Drafted":
		f = Drafted
	case "Per-position acceptance rate":
		s.positions = true
		return s.position(value)
	default:
		return true
	}
	s.empty = s.empty || math.IsNaN(v)
	s.record.set(f, v)
	return ok
}

func (s *specLine) position(value []byte) bool {
	v, ok := number(bytes.Trim(value, " []"))
	s.sum += v
	s.n++
	return ok
}

// settle makes the mean one that counts the bonus token. vLLM 0.8.5 left it out, 0.9 to 0.10.1 print the same line with it:
// the rates by position add up to the accepted drafts per pass, and tell which it is. Without them it is not known.
func (s *specLine) settle() {
	mean, known := s.record.Value(AcceptLength)
	switch {
	case !known || !s.rateFirst:
	case s.n == 0 || math.IsNaN(s.sum):
		s.record.forget(AcceptLength)
	case math.Abs(mean-s.sum) < math.Abs(mean-s.sum-1):
		s.record.set(AcceptLength, mean+1)
	}
	s.record.settleAcceptance()
}

// speculativeTotals are the counters since the start of the server, as the line before told them.
type speculativeTotals struct {
	drafted, emitted float64
	known            bool
}

// speculative reads the line of the first vLLM engine, whose numbers count since the start: the mean is that between two lines.
func (p *Parser) speculative(rest []byte) Outcome {
	r := p.add(Interval)
	drafts, emitted := math.NaN(), math.NaN()
	whole := fields(rest, func(key, value []byte, _ bool) bool {
		v, ok := number(bytes.TrimRight(value, ". "))
		switch string(key) {
		case "Draft acceptance rate":
			r.set(AcceptRate, v)
		case "Number of speculative tokens":
			drafts = v
		case "Number of accepted tokens":
			r.set(Accepted, v)
		case "Number of draft tokens":
			r.set(Drafted, v)
		case "Number of emitted tokens":
			emitted = v
		default:
			return true
		}
		return ok
	})
	if !whole || r.known == 0 {
		return Unparsed
	}
	last := p.totals
	drafted, known := r.Value(Drafted)
	p.totals = speculativeTotals{drafted, emitted, known && emitted >= 0 && drafts > 0}
	if passes := (drafted - last.drafted) / drafts; p.totals.known && last.known && passes > 0 && emitted >= last.emitted {
		r.set(AcceptLength, (emitted-last.emitted)/passes)
		r.settleAcceptance()
	}
	return Matched
}

// engine reads the load and speed of an interval.
func (p *Parser) engine(rest []byte) Outcome {
	r := p.add(Engine)
	value, more, _ := bytes.Cut(rest, []byte(","))
	v, ok := number(value)
	r.set(InputThroughput, v)
	if !ok || !fields(more, r.engineField) {
		return Unparsed
	}
	return Matched
}

func (r *Record) engineField(key, value []byte, _ bool) bool {
	var f Field
	switch string(key) {
	case "Avg generation throughput":
		f = GenThroughput
	case "Running":
		f = Running
	case "Waiting", "Pending":
		f = Queued
	case "GPU KV cache usage":
		f = TokenUsage
	case "Prefix cache hit rate":
		f = CacheHitRate
	default:
		return true
	}
	v, ok := number(bytes.TrimRight(value, ". "))
	r.set(f, v)
	return ok
}

// lmdeploy reads LMDeploy's line, which has the acceptance of the interval at its end where it speculates.
func (p *Parser) lmdeploy(rest []byte) Outcome {
	const acceptance = "SpecDecoding metrics:"
	if i := bytes.Index(rest, []byte(acceptance)); i >= 0 {
		return p.specDecoding(rest[i+len(acceptance):])
	}
	in, more, _ := bytes.Cut(rest, []byte("/"))
	out, _, _ := bytes.Cut(more, []byte(","))
	input, ok1 := number(in)
	output, ok2 := number(out)
	if !ok1 || !ok2 {
		return Unparsed
	}
	r := p.add(Engine)
	r.set(InputThroughput, input)
	r.set(GenThroughput, output)
	return Matched
}
