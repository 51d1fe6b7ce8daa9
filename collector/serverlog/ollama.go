package serverlog

import "bytes"

func ollamaReaders() []reader {
	return []reader{{"time=", (*Parser).logfmt}}
}

// logfmt reads the warning that a prompt was cut, which its answer does not tell.
func (p *Parser) logfmt(rest []byte) Outcome {
	const message = `"truncating input prompt"`
	if !bytes.Contains(rest, []byte(message)) {
		return Other
	}
	r := Record{Kind: Event, Event: PromptTruncated}
	found := false
	for len(rest) > 0 {
		key, value, more := logfmtPair(rest)
		ok := true
		switch string(key) {
		case "msg":
			found = string(value) == message
		case "limit":
			ok = r.setNumber(PromptLimit, value)
		case "prompt":
			ok = r.setNumber(PromptTokens, value)
		}
		if !ok {
			return Unparsed
		}
		rest = more
	}
	if !found {
		return Other
	}
	p.records = append(p.records, r)
	return Matched
}

// logfmtPair takes the first pair off; a value in quotes keeps them.
func logfmtPair(b []byte) (key, value, rest []byte) {
	b = bytes.TrimLeft(b, " ")
	end := bytes.IndexAny(b, " =")
	if end < 0 || b[end] == ' ' {
		_, rest, _ = bytes.Cut(b, []byte(" "))
		return nil, nil, rest
	}
	key, b = b[:end], b[end+1:]
	if len(b) > 0 && b[0] == '"' {
		for i := 1; i < len(b); i++ {
			switch b[i] {
			case '\\':
				i++
			case '"':
				return key, b[:i+1], b[i+1:]
			}
		}
		return key, b, nil
	}
	value, rest, _ = bytes.Cut(b, []byte(" "))
	return key, value, rest
}
