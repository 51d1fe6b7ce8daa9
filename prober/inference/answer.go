package inference

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"
)

// maxText bounds the generated text that a Response keeps, maxIncrements what is gathered to tell a text that is repeated
// from its start from increments, both in bytes. mostChunks bounds the chunks of an answer beyond those that its tokens
// could have come in.
const (
	maxText       = 64 << 10
	maxIncrements = 1 << 20
	mostChunks    = 1 << 16
)

var errEndless = errors.New("it goes on far beyond the tokens that were asked for")

// answer builds a Response out of the events of one body.
type answer struct {
	resp      *Response
	maxTokens int
	text      []byte

	events    int  // events that were JSON
	arrivals  int  // reads that had to wait for the server
	lastSeen  int  // the arrival of the last chunk
	counted   int  // completion tokens so far, as the server counts them in the stream
	uncounted int  // chunks since the last count
	running   bool // the server counts while it streams, not only at the end
	tail      bool // usage came in an event of its own
	full      string
	finishAt  time.Duration // when the finish reason came
	finish    finish
	perPass   float64      // TensorRT-LLM's mean of tokens per iteration
	wireError *serverError // an error inside the body
}

func newAnswer(resp *Response, maxTokens int) *answer {
	return &answer{resp: resp, maxTokens: maxTokens}
}

// event takes the data of one event that the read at the given time completed. fault says that its name is error.
func (a *answer) event(data []byte, fault bool, at time.Duration) {
	if a.resp.Done {
		a.afterDone(data)
		return
	}
	if string(data) == "[DONE]" {
		a.resp.Done = true
		return
	}
	e, err := parseEvent(data)
	if err != nil && !fault {
		a.resp.Malformed++
		return
	}
	a.events++
	if e.failed || fault {
		if a.wireError == nil {
			refused := classify(0, data)
			a.wireError = &refused
		}
		return
	}
	if e.info != nil {
		e.text = a.increment(e.text)
	}
	if room := maxText - len(a.text); room > 0 {
		a.text = append(a.text, clip(e.text, room)...)
	}
	if e.finish.kind != "" {
		a.finish = e.finish
		a.resp.FinishReason = e.finish.kind
	}
	a.usage(e)
	a.details(e)
	a.evidence(e, at)
}

// afterDone takes what follows [DONE]: it is not part of the answer, but for a usage that has not come before.
func (a *answer) afterDone(data []byte) {
	if a.resp.CompletionTokens != nil {
		return
	}
	if e, err := parseEvent(data); err == nil && !e.failed && e.choices == 0 {
		a.usage(e)
	}
}

// increment is the new part of a text that the server repeats from its start, or the whole of it where it streams increments.
func (a *answer) increment(text string) string {
	if rest, ok := strings.CutPrefix(text, a.full); ok {
		a.full = text
		return rest
	}
	if len(a.full) < maxIncrements { // a server that streams increments does so from the start
		a.full += text
	}
	return text
}

// usage keeps the last usage that is not empty; usages are never summed.
func (a *answer) usage(e event) {
	if e.info != nil {
		a.counts(e.info.usage)
	}
	if e.usage != nil && !e.usage.empty() {
		a.counts(*e.usage)
		a.tail = a.tail || e.choices == 0
	}
}

func (a *answer) counts(u usage) {
	keep(&a.resp.PromptTokens, u.prompt)
	keep(&a.resp.CompletionTokens, u.completion)
	keep(&a.resp.CachedTokens, u.cached)
}

// evidence decides whether an event brought a token, and how many. Counted usage is evidence where the server counts while
// it streams: a count that first shows up with the finish reason or in an event of its own sums up the past.
func (a *answer) evidence(e event, at time.Duration) {
	if e.info == nil && e.choices == 0 {
		return
	}
	if a.finish.kind != "" && a.finishAt == 0 {
		a.finishAt = at
	}
	tokens, known, told := a.growth(e)
	if e.tokens > 0 && !known {
		tokens, known = e.tokens, true
	}
	if e.text == "" && e.calls == 0 && tokens == 0 {
		return
	}
	a.resp.LastToken = at
	if known && tokens == 0 && len(a.resp.Chunks) > 0 {
		return // text of tokens that were counted before
	}
	switch {
	case !known:
		tokens = 0
		if !told {
			a.uncounted++
		}
	case !told:
		a.counted += tokens
	}
	a.chunk(at, tokens)
}

// growth is the number of tokens that an event adds to the server's running count: told says that the event has one, known
// that every chunk before had.
func (a *answer) growth(e event) (tokens int, known, told bool) {
	now := 0
	switch {
	case e.info != nil && e.info.completion != nil:
		now, a.running = *e.info.completion, true
	case e.usage != nil && e.usage.completion != nil && !e.usage.empty():
		now = *e.usage.completion
		a.running = a.running || a.finish.kind == ""
	default:
		return 0, false, false
	}
	if !a.running || now < a.counted {
		return 0, false, false
	}
	tokens, known = now-a.counted, a.uncounted == 0
	a.counted, a.uncounted = now, 0
	return tokens, known, true
}

func (a *answer) chunk(at time.Duration, tokens int) {
	if len(a.resp.Chunks) == 0 {
		a.resp.TTFT = at
	}
	if a.resp.Reads == 0 || a.lastSeen != a.arrivals {
		a.resp.Reads++
		a.lastSeen = a.arrivals
	}
	a.resp.Chunks = append(a.resp.Chunks, Chunk{At: at, Tokens: tokens})
}

// endless says whether more came than the request can have asked for.
func (a *answer) endless() bool { return len(a.resp.Chunks) > mostChunks+a.maxTokens }

// close ends the answer: clean says that the body ended as HTTP wants it, streamed that it came in events.
func (a *answer) close(streamed bool, total time.Duration) {
	r := a.resp
	r.Text, r.Total, r.Streamed = string(a.text), total, streamed
	a.passes()
	if r.Spec != nil && r.CompletionTokens != nil && !r.Spec.possible(*r.CompletionTokens-1) {
		r.Spec = nil
	}
	if !streamed {
		r.TTFT, r.LastToken, r.Chunks, r.Reads = 0, total, nil, 0
		return
	}
	// Where one chunk alone has no count of its own, it has the rest of the final one: it is the last.
	only := len(r.Chunks) == 1 && value(r.CompletionTokens) == 1
	if last := len(r.Chunks) - 1; (a.running || only) && a.uncounted == 1 && value(r.CompletionTokens) > a.counted {
		r.Chunks[last].Tokens = *r.CompletionTokens - a.counted
	}
	// The token of a leg with max_tokens 1 can be one that has no text, such as the end of a sequence: then the finish
	// reason is all that tells of it.
	silent := len(r.Chunks) == 0 && a.maxTokens == 1 && a.finishAt != 0
	if silent && (value(r.CompletionTokens) == 1 || r.CompletionTokens == nil && a.finish.kind == "length") {
		r.LastToken = a.finishAt
		a.chunk(a.finishAt, value(r.CompletionTokens))
	}
}

// whole says whether nothing that matters can follow: [DONE] was seen, or a finish reason and the usage behind it.
func (a *answer) whole() bool { return a.resp.Done || a.finish.kind != "" && a.tail }

// complete says whether the body, which ended cleanly unless broken, holds a whole answer.
func (a *answer) complete(broken bool) bool {
	counted := a.resp.CompletionTokens != nil
	switch {
	case a.resp.Done:
		return a.finish.kind != "" || counted
	case broken:
		return a.whole()
	}
	return a.finish.kind != "" || counted && (a.tail || !a.resp.Streamed)
}

// fault is the error that the body itself carries, nil where it carries none.
func (a *answer) fault() *serverError {
	if e := a.wireError; e != nil {
		inside := *e
		if len(a.resp.Chunks) > 0 || e.class == ServerError || e.class == Protocol {
			inside.class, inside.limit = StreamError, 0
		}
		return &inside
	}
	switch a.finish.kind {
	case "abort", "error", "cancelled", "canceled", "timeout":
		e := serverError{class: Aborted, text: "the server ended the request with finish reason " + a.finish.kind}
		if a.finish.kind == "error" {
			e.class = StreamError
		}
		if a.finish.message != "" {
			said, _ := json.Marshal(map[string]string{"message": a.finish.message, "code": a.finish.status})
			if told := classify(0, said); told.class == ContextOverflow || told.class == Overloaded {
				e.class, e.limit = told.class, told.limit
			}
			e.text = a.finish.message
		}
		return &e
	}
	return nil
}

// keep replaces a count by a later one.
func keep(to **int, n *int) {
	if n != nil {
		*to = n
	}
}

func value(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// clip cuts text to at most n bytes of whole characters.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
