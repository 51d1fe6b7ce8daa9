package serverlog

import (
	"bytes"
	"math"
)

// jsonLine reads the three kinds of SGLang's JSON lines: finished requests of the log (--log-requests-format json), finished
// requests of --export-metrics-to-file, and DDTree's profiler.
func (p *Parser) jsonLine(rest []byte) Outcome {
	if !bytes.Contains(rest, []byte("request.finished")) && !bytes.Contains(rest, []byte(`"request_parameters"`)) &&
		!bytes.Contains(rest, []byte("sglang_speculative_tree_profile")) {
		return Other
	}
	var event, kind, out, meta, rank, parameters []byte
	flat := newRequest()
	s := scanner{b: rest, quotes: jsonQuotes}
	whole := s.members(func(key, value []byte) {
		switch string(key) {
		case "event":
			event = value
		case "type":
			kind = value
		case "out":
			out = value
		case "meta":
			meta = value
		case "rank":
			rank = value
		case "request_parameters":
			parameters = value
		}
		flat.take(key, value)
	})
	switch {
	case !whole:
		return Unparsed
	case string(event) == `"request.finished"`:
		return p.outcome(out, jsonQuotes)
	case string(kind) == `"sglang_speculative_tree_profile"`:
		return p.profile(meta, rank)
	case event == nil && parameters != nil:
		return p.finished(flat)
	}
	return Other
}

// finishLine reads a finished request as Python prints it.
func (p *Parser) finishLine(rest []byte) Outcome {
	s := scanner{b: rest, quotes: pythonQuotes}
	if _, ok := s.value(); !ok {
		return Unparsed
	}
	for s.take(',') {
		s.space()
		name, _, found := bytes.Cut(s.b[s.at:min(len(s.b), s.at+longestPart)], []byte("="))
		if !found {
			return Unparsed
		}
		s.at += len(name) + 1
		if string(name) != "out" {
			if _, ok := s.value(); !ok {
				return Unparsed
			}
			continue
		}
		return p.outcome(s.b[s.at:], pythonQuotes)
	}
	return Unparsed
}

// outcome reads what came of a request: an object, or a list of them where there were several choices.
func (p *Parser) outcome(out []byte, quotes string) Outcome {
	s := scanner{b: out, quotes: quotes}
	switch {
	case s.take('{'):
		return p.choice(&s)
	case s.take('['):
		outcome := Other
		whole := s.elements(func(value []byte) {
			one := scanner{b: value, quotes: quotes}
			if outcome == Unparsed || !one.take('{') {
				outcome = Unparsed
				return
			}
			outcome = max(outcome, p.choice(&one))
		})
		if whole {
			return outcome
		}
	}
	return Unparsed
}

// choice reads one outcome that has been opened.
func (p *Parser) choice(s *scanner) Outcome {
	request, told, sound := newRequest(), false, true
	whole := s.members(func(key, value []byte) {
		if string(key) != "meta_info" {
			return
		}
		told = true
		meta := scanner{b: value, quotes: s.quotes}
		sound = meta.take('{') && meta.members(request.take)
	})
	if !whole || !told || !sound {
		return Unparsed
	}
	return p.finished(request)
}

// request is what a finished request tells. What is NaN is not known.
type request struct {
	id                                                 []byte
	prompt, completion, cached, passes, correct, share float64
	histogram                                          []byte
	broken                                             bool // a value is there that is no number
}

func newRequest() request {
	none := math.NaN()
	return request{prompt: none, completion: none, cached: none, passes: none, correct: none, share: none}
}

func (q *request) take(key, value []byte) {
	var to *float64
	switch string(key) {
	case "id":
		q.id = value
		return
	case "spec_correct_drafts_histogram", "spec_accept_histogram": // the second is the older name
		if len(value) > len("[]") {
			q.histogram = value
		}
		return
	case "prompt_tokens":
		to = &q.prompt
	case "completion_tokens":
		to = &q.completion
	case "cached_tokens":
		to = &q.cached
	case "spec_verify_ct":
		to = &q.passes
	case "spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num": // newest name first
		to = &q.correct
	case "spec_accept_rate":
		to = &q.share
	default:
		return
	}
	v, ok := number(value)
	*to = v
	q.broken = q.broken || !ok
}

// finished makes the record of a request. The mean that the server gives is not taken: it counts the first token, which comes
// from prefill.
func (p *Parser) finished(q request) Outcome {
	if id := bytes.Trim(q.id, pythonQuotes); bytes.HasPrefix(id, []byte("HEALTH_CHECK")) {
		return Other
	}
	r := p.add(Request)
	for _, v := range []struct {
		field Field
		value float64
	}{
		{PromptTokens, q.prompt},
		{CompletionTokens, q.completion},
		{CachedTokens, q.cached},
		{VerifySteps, q.passes},
		{CorrectDrafts, q.correct},
		{AcceptRate, q.share},
	} {
		r.set(v.field, v.value)
	}
	if q.broken || !r.has(PromptTokens) {
		return Unparsed
	}
	from := len(p.steps)
	if !p.readSteps(q.histogram) || !consistent(p.steps[from:], q) {
		return Unparsed
	}
	r.Steps = p.steps[from:len(p.steps):len(p.steps)]
	return Matched
}

// readSteps appends the numbers of a list such as [3, 4, 2] to the parser's steps.
func (p *Parser) readSteps(list []byte) bool {
	if list == nil || list[0] != '[' {
		return list == nil || string(list) == "None" || string(list) == "null"
	}
	s := scanner{b: list[1:], quotes: jsonQuotes}
	sound := true
	from := len(p.steps)
	whole := s.elements(func(value []byte) {
		n, ok := count(value)
		sound = sound && ok && len(p.steps)-from < mostAccepted
		if sound {
			p.steps = append(p.steps, n)
		}
	})
	return whole && sound
}

// mostPasses bounds the verify passes of one request, and with them what one line may add to a histogram.
const mostPasses = 1 << 20

// consistent tells whether passes and correct drafts are what the histogram adds up to, as far as they are known, and no more
// than a request with so many tokens can have: the last block alone may go beyond its end.
func consistent(steps []int, q request) bool {
	passes, correct, longest := 0, 0, 0
	for drafts, n := range steps {
		passes += n
		correct += drafts * n
		if n > 0 {
			longest = drafts + 1
		}
	}
	told := func(v float64, n int) bool { return math.IsNaN(v) || v == float64(n) }
	fits := math.IsNaN(q.completion) ||
		float64(passes) <= q.completion && float64(passes+correct) <= q.completion+float64(longest)
	return len(steps) == 0 || passes <= mostPasses && fits && told(q.passes, passes) && told(q.correct, correct)
}

// profile reads an interval of DDTree's profiler. Its mean counts what each verify pass commits, bonus token included.
func (p *Parser) profile(meta, rank []byte) Outcome {
	var mean []byte
	s := scanner{b: meta, quotes: jsonQuotes}
	whole := s.take('{') && s.members(func(key, value []byte) {
		if string(key) == "mean_accept_len" {
			mean = value
		}
	})
	r, sound := p.add(Interval), true
	s = scanner{b: mean, quotes: jsonQuotes}
	told := s.take('{') && s.members(func(key, value []byte) {
		if string(key) == "avg" {
			sound = r.setNumber(AcceptLength, value)
		}
	})
	if !whole || !told || !sound || !r.has(AcceptLength) {
		return Unparsed
	}
	r.Repeated = len(rank) > 0 && string(rank) != "0" // every rank profiles the same rounds
	r.settleAcceptance()
	return Matched
}
