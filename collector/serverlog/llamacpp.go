package serverlog

import (
	"bytes"
	"math"
)

func llamaReaders() []reader {
	return []reader{
		{"draft acceptance", (*Parser).draftAcceptance},
		{"prompt eval time =", (*Parser).promptTime},
		{"eval time =", (*Parser).decodeTime},
		{"slot ", (*Parser).slot},
		{"[spec-decode] ", (*Parser).lucebox},
	}
}

// draftAcceptance reads the acceptance of one request. Versions before June 2026 do not tell its mean length.
func (p *Parser) draftAcceptance(rest []byte) Outcome {
	label, rest, found := bytes.Cut(rest, []byte("="))
	if label = bytes.TrimSpace(label); !found || len(label) > 0 && string(label) != "rate" {
		return Other
	}
	rate, rest, found := bytes.Cut(rest, []byte("("))
	v, ok := number(rate)
	counts, rest, closed := bytes.Cut(rest, []byte(")"))
	accepted, drafted, both := bytes.Cut(counts, []byte("/"))
	a, ok1 := number(accepted)
	d, ok2 := number(drafted)
	if !found || !closed || !both || !ok || !ok1 || !ok2 {
		return Unparsed
	}
	r := p.add(Timing)
	r.set(AcceptRate, v)
	r.set(Accepted, a)
	r.set(Drafted, d)
	return r.meanLength(rest)
}

// meanLength reads ", mean len = 2.92", which may be the end of the line: one without two decimals was cut off.
func (r *Record) meanLength(rest []byte) Outcome {
	label, value, found := bytes.Cut(bytes.TrimLeft(rest, ", "), []byte("="))
	if label = bytes.TrimSpace(label); !found || string(label) != "mean len" && string(label) != "mean acceptance length" {
		return Matched
	}
	value, _, _ = bytes.Cut(value, []byte(","))
	v, ok := number(value)
	_, decimals, _ := bytes.Cut(bytes.TrimSpace(value), []byte("."))
	if !ok || len(decimals) < len("92") && !math.IsNaN(v) {
		return Unparsed
	}
	r.set(AcceptLength, v)
	r.settleAcceptance()
	return Matched
}

func (p *Parser) promptTime(rest []byte) Outcome {
	return p.timing(rest, PromptSeconds, NewTokens, InputThroughput)
}

func (p *Parser) decodeTime(rest []byte) Outcome {
	return p.timing(rest, DecodeSeconds, CompletionTokens, GenThroughput)
}

// timing reads "300.11 ms / 20 tokens ( 15.01 ms per token, 66.64 tokens per second)".
func (p *Parser) timing(rest []byte, seconds, tokens, rate Field) Outcome {
	ms, rest, found := bytes.Cut(rest, []byte("/"))
	n, rest, more := bytes.Cut(rest, []byte("("))
	milliseconds, ok1 := number(ms)
	generated, ok2 := number(n)
	if !found || !ok1 || !ok2 {
		return Unparsed
	}
	r := p.add(Timing)
	r.set(seconds, milliseconds/1000)
	r.set(tokens, generated)
	if _, perSecond, both := bytes.Cut(rest, []byte(",")); more && both {
		if v, ok := number(perSecond); ok {
			r.set(rate, v)
		}
	}
	return Matched
}

// slot reads what a slot tells of its request: "print_timing: id  0 | task 908 | eval time = ..." and "release: ...".
func (p *Parser) slot(rest []byte) Outcome {
	name, message, _ := bytes.Cut(rest, []byte(":"))
	switch string(trim(name)) {
	case "print_timing":
		return p.slotTiming(afterTask(message))
	case "release":
		return p.release(message)
	}
	return Other
}

// afterTask takes off "id  0 | task 908 |"; it is nil where that is not there.
func afterTask(message []byte) []byte {
	for _, name := range [...]string{"id ", "task "} {
		part, rest, found := bytes.Cut(message, []byte("|"))
		digits, named := bytes.CutPrefix(trim(part), []byte(name))
		if _, number := count(trim(digits)); !found || !named || !number {
			return nil
		}
		message = rest
	}
	return trim(message)
}

// slotTiming reads a line of timing. Versions that end the line behind the task have them on the lines that follow.
func (p *Parser) slotTiming(message []byte) Outcome {
	if rest, ok := bytes.CutPrefix(message, []byte("draft acceptance")); ok {
		return p.draftAcceptance(rest)
	}
	if rest, ok := bytes.CutPrefix(message, []byte("prompt eval time =")); ok {
		return p.promptTime(rest)
	}
	if rest, ok := bytes.CutPrefix(message, []byte("eval time =")); ok {
		return p.decodeTime(rest)
	}
	return Other
}

// release reads that a request ended because its context was full.
func (p *Parser) release(message []byte) Outcome {
	const key = "truncated = "
	i := bytes.LastIndex(message, []byte(key))
	if i < 0 {
		return Other
	}
	flag, ok := count(bytes.TrimSpace(message[i+len(key):]))
	if !ok || flag > 1 {
		return Unparsed
	}
	r := p.add(Timing)
	if flag == 1 {
		r.Kind, r.Event = Event, ContextFull
	}
	return Matched
}

// lucebox reads the line of a request of lucebox: commits per step count the bonus token.
func (p *Parser) lucebox(rest []byte) Outcome {
	r := p.add(Timing)
	for pair := range bytes.FieldsSeq(rest) {
		key, value, found := bytes.Cut(pair, []byte("="))
		if !found {
			continue
		}
		ok := true
		switch string(key) {
		case "tokens":
			ok = r.setNumber(CompletionTokens, value)
		case "steps":
			ok = r.setNumber(VerifySteps, value)
		case "avg_commit":
			ok = r.setNumber(AcceptLength, value)
		case "accepted":
			accepted, drafted, _ := bytes.Cut(value, []byte("/"))
			ok = r.setNumber(Accepted, accepted) && r.setNumber(Drafted, drafted)
		}
		if !ok {
			return Unparsed
		}
	}
	if r.known == 0 {
		return Unparsed
	}
	r.settleAcceptance()
	return Matched
}

func (r *Record) setNumber(f Field, b []byte) bool {
	v, ok := number(b)
	r.set(f, v)
	return ok
}
