package serverlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// notebook is a sink that writes down what it is told.
type notebook struct {
	mu      sync.Mutex
	records []string
	accept  []float64 // of records that are not repeated
	sum     Lines
	reading []bool
}

func (n *notebook) ObserveRecord(r *Record) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.records = append(n.records, describe(r))
	if v, known := r.Value(AcceptLength); known && !r.Repeated {
		n.accept = append(n.accept, v)
	}
}

func (n *notebook) ObserveLines(l Lines) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sum.Read += l.Read
	n.sum.Matched += l.Matched
	n.sum.Unparsed += l.Unparsed
	n.sum.Rotations += l.Rotations
	n.sum.Truncations += l.Truncations
	n.sum.Kept = append(n.sum.Kept, l.Kept...)
	if !l.Last.IsZero() {
		n.sum.Last = l.Last
	}
}

func (n *notebook) SetReading(reading bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reading = append(n.reading, reading)
}

func (n *notebook) lines() Lines {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sum
}

func (n *notebook) lengths() []float64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]float64(nil), n.accept...)
}

func kindName(k Kind) string {
	return map[Kind]string{
		PrefillBatch: "prefill", DecodeBatch: "decode", Interval: "interval", Engine: "engine", Request: "request", Timing: "timing",
		Event: "event",
	}[k]
}

func fieldName(f Field) string {
	return map[Field]string{
		Running: "running", Queued: "queue", TokensInUse: "tokens", TokenUsage: "token_usage", AcceptLength: "accept_len",
		AcceptRate: "accept_rate", GenThroughput: "gen_tps", InputThroughput: "prompt_tps", NewSequences: "new_seq", NewTokens: "new_token",
		CachedTokens: "cached_token", PendingTokens: "pending_token", CacheHitRate: "cache_hit_rate", Accepted: "accepted", Drafted: "drafted",
		PromptTokens: "prompt", CompletionTokens: "completion", VerifySteps: "steps", CorrectDrafts: "correct_drafts",
		Retracted: "retracted", PromptLimit: "limit", PromptSeconds: "prompt_seconds", DecodeSeconds: "decode_seconds",
	}[f]
}

// describe writes a record on a line, its known values in the order of the fields.
func describe(r *Record) string {
	var b strings.Builder
	b.WriteString(kindName(r.Kind))
	if r.Event != NoEvent {
		b.WriteString(map[EventKind]string{Retraction: " retraction", PromptTruncated: " prompt_truncated", ContextFull: " context_full"}[r.Event])
	}
	for f := range numFields {
		if v, known := r.Value(f); known {
			fmt.Fprintf(&b, " %s=%.6g", fieldName(f), v)
		}
	}
	if len(r.Steps) > 0 {
		fmt.Fprintf(&b, " histogram=%v", r.Steps)
	}
	if len(r.Rank) > 0 {
		fmt.Fprintf(&b, " rank=%s", r.Rank)
	}
	if r.Repeated {
		b.WriteString(" repeated")
	}
	return b.String()
}

// readAll feeds a whole file line by line to a log, as the follower of a file does, and tells what became of each.
func readAll(format string, content []byte) (byLine []string, n *notebook) {
	n = &notebook{}
	l := newLineLog(format, n)
	var buffer lineBuffer
	var u unwrapper
	for i, line := range strings.SplitAfter(string(content), "\n") {
		before, unparsed := len(n.records), n.sum.Unparsed
		l.feed(&buffer, &u, []byte(line))
		for _, r := range n.records[before:] {
			byLine = append(byLine, fmt.Sprintf("line %d: %s", i+1, r))
		}
		if n.sum.Unparsed > unparsed {
			byLine = append(byLine, fmt.Sprintf("line %d: unparsed", i+1))
		}
	}
	return byLine, n
}

// expand replaces @@PAD:n@@ by n times the letter x.
func expand(t testing.TB, content []byte) []byte {
	t.Helper()
	for {
		before, after, found := strings.Cut(string(content), "@@PAD:")
		if !found {
			return content
		}
		digits, rest, _ := strings.Cut(after, "@@")
		var n int
		if _, err := fmt.Sscan(digits, &n); err != nil {
			t.Fatal(err)
		}
		content = []byte(before + strings.Repeat("x", n) + rest)
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wait asks again until something holds.
func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 3000 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("it does not come to this: %s", what)
}
