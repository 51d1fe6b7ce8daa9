package serverlog

import (
	"bytes"
	"math"
)

func sglangReaders() []reader {
	return []reader{
		{"Decode batch", (*Parser).decodeBatch},
		{"Prefill batch", (*Parser).prefillBatch},
		{"Decode out of memory happened", (*Parser).retraction},
		{"KV cache pool is full. Retract requests", (*Parser).retraction},
		{`{`, (*Parser).jsonLine},
		{"Finish: obj=", (*Parser).finishLine},
		{"ddtree_v2 profile ", (*Parser).profileLine},
	}
}

func (p *Parser) decodeBatch(rest []byte) Outcome {
	r, outcome := p.batch(DecodeBatch, rest)
	if outcome == Matched && !r.has(Running) {
		return Unparsed
	}
	return outcome
}

func (p *Parser) prefillBatch(rest []byte) Outcome {
	r, outcome := p.batch(PrefillBatch, rest)
	if outcome == Matched && !r.has(NewSequences) && !r.has(NewTokens) {
		return Unparsed
	}
	return outcome
}

// batch reads the fields of a batch line, behind its first words. Two records that were written into one line are none.
func (p *Parser) batch(kind Kind, rest []byte) (*Record, Outcome) {
	body, ok := afterIteration(rest)
	if !ok {
		return nil, Other
	}
	if bytes.Contains(body, []byte("batch")) {
		return nil, Unparsed
	}
	r := p.add(kind)
	whole := fields(body, func(key, value []byte, last bool) bool {
		f, known := batchField(key)
		if !known {
			return true
		}
		v, ok := number(value)
		if f == AcceptLength && last {
			return false // every version has more behind it: the line is cut off, and perhaps the number
		}
		r.set(f, v)
		return ok
	})
	if !whole || r.known == 0 {
		return r, Unparsed
	}
	r.settleAcceptance()
	return r, Matched
}

// afterIteration takes off the number of the forward, [18231], and the stop or comma of the first words.
func afterIteration(rest []byte) ([]byte, bool) {
	if inner, ok := bytes.CutPrefix(rest, []byte(" [")); ok {
		digits, behind, closed := bytes.Cut(inner, []byte("]"))
		if _, number := count(digits); !closed || !number {
			return nil, false
		}
		rest = behind
	}
	if len(rest) == 0 || rest[0] != '.' && rest[0] != ',' {
		return nil, false
	}
	return rest[1:], true
}

// batchField names the value of a key. Hybrid models have a pool for full attention, which stands for all.
func batchField(key []byte) (f Field, known bool) {
	switch string(key) {
	case "#running-req":
		return Running, true
	case "#queue-req":
		return Queued, true
	case "#token", "#full token":
		return TokensInUse, true
	case "token usage", "full token usage":
		return TokenUsage, true
	case "accept len":
		return AcceptLength, true
	case "accept rate":
		return AcceptRate, true
	case "gen throughput (token/s)":
		return GenThroughput, true
	case "input throughput (token/s)":
		return InputThroughput, true
	case "#new-seq":
		return NewSequences, true
	case "#new-token":
		return NewTokens, true
	case "#cached-token":
		return CachedTokens, true
	case "#pending-token":
		return PendingTokens, true
	case "cache hit rate":
		return CacheHitRate, true
	}
	return 0, false
}

// retraction reads that requests were thrown out of the full KV pool.
func (p *Parser) retraction(rest []byte) Outcome {
	r := p.add(Event)
	r.Event = Retraction
	if i := bytes.Index(rest, []byte("#retracted_reqs: ")); i >= 0 {
		digits, _, _ := bytes.Cut(rest[i+len("#retracted_reqs: "):], []byte(","))
		if n, ok := count(digits); ok {
			r.set(Retracted, float64(n))
		}
	}
	return Matched
}

// profileLine reads the text line of the profiler of DDTree on the second generation of workers. Its mean counts what each
// verify pass commits, bonus token included.
func (p *Parser) profileLine(rest []byte) Outcome {
	const key = "mean_accept_len="
	i := bytes.Index(rest, []byte(key))
	if i < 0 {
		return Other
	}
	value := rest[i+len(key):]
	end := bytes.IndexByte(value, ' ')
	if end < 0 {
		return Unparsed // cut off
	}
	v, ok := number(value[:end])
	if !ok {
		return Unparsed
	}
	r := p.add(Interval)
	r.set(AcceptLength, v)
	r.settleAcceptance()
	return Matched
}

// recentBatches finds batch lines that several ranks of one group wrote: where every scheduler has its metrics on, each
// tensor-parallel rank prints the same line.
type recentBatches struct {
	lines [16]struct{ content, rank uint64 }
	next  int
}

// mark marks those records that another rank has written before.
func (b *recentBatches) mark(records []Record) {
	if len(records) != 1 || len(records[0].Rank) == 0 || records[0].Kind != DecodeBatch && records[0].Kind != PrefillBatch {
		return
	}
	r := &records[0]
	content := mix(mix(digestSeed, uint64(r.Kind)), uint64(groupOf(r.Rank)+1))
	for _, f := range [...]Field{Running, Queued, TokensInUse, TokenUsage, AcceptLength, NewSequences, NewTokens, CachedTokens} {
		content = mix(content, math.Float64bits(r.values[f]))
	}
	rank := uint64(digestSeed)
	for _, c := range r.Rank {
		rank = mix(rank, uint64(c))
	}
	for i := range b.lines {
		if b.lines[i].content == content {
			if r.Repeated = b.lines[i].rank != rank; r.Repeated {
				return
			}
		}
	}
	b.lines[b.next] = struct{ content, rank uint64 }{content, rank}
	b.next = (b.next + 1) % len(b.lines)
}

// digestSeed begins a digest of a few numbers, and mix goes on with one more.
const digestSeed = 14695981039346656037

func mix(digest, v uint64) uint64 {
	digest = (digest ^ v) * 0x9e3779b97f4a7c15
	return digest ^ digest>>32
}
