package inference

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// maxText bounds the generated text that a Response keeps, in bytes.
const maxText = 64 << 10

// answer builds a Response out of the events of one body.
type answer struct {
	resp      *Response
	maxTokens int
	text      []byte

	events    int  // events that were JSON
	arrivals  int  // reads that had to wait for the server
	lastSeen  int  // the arrival of the last chunk
	counted   int  // completion tokens so far, as the server counts them in the stream
	trusted   bool // counted covers every chunk so far
	running   bool // the server counts while it streams, not only at the end
	tail      bool // usage came in an event of its own
	full      string
	finishAt  time.Duration
	finish    finish
	wireError *serverError // an error inside the body
}

func newAnswer(resp *Response, maxTokens int) *answer {
	return &answer{resp: resp, maxTokens: maxTokens, trusted: true}
}

// event takes the data of one event that the read at the given time completed.
func (a *answer) event(data []byte, at time.Duration) {
	if a.resp.Done {
		return // what follows [DONE] is not part of the answer
	}
	if string(data) == "[DONE]" {
		a.resp.Done = true
		return
	}
	e, err := parseEvent(data)
	if err != nil {
		a.resp.Malformed++
		return
	}
	a.events++
	if a.errorIn(e, data) {
		return
	}
	text, ids := a.content(e)
	a.usage(e)
	a.details(e)
	a.evidence(e, text, ids, at)
}

// errorIn notes an error inside the body, flat, nested or a bare string.
func (a *answer) errorIn(e event, data []byte) bool {
	present := len(e.Error) > 0 && !bytes.Equal(e.Error, []byte("null"))
	if !present && e.Object != "error" {
		return false
	}
	if a.wireError == nil {
		refused := classify(0, data)
		a.wireError = &refused
	}
	return true
}

// content is the text of all channels and the number of token ids in an event.
func (a *answer) content(e event) (text string, ids int) {
	if e.MetaInfo != nil {
		ids = int(e.OutputIDs)
		text = a.increment(e.Text)
		a.finished(e.MetaInfo.FinishReason)
	}
	for _, c := range e.Choices {
		ids += int(c.TokenIDs)
		text += c.Text
		for _, d := range []*delta{c.Delta, c.Message} {
			if d == nil {
				continue
			}
			reasoning := d.Reasoning
			if reasoning == "" {
				reasoning = d.ReasoningContent
			}
			text += string(reasoning) + string(d.Content)
			ids += int(d.ToolCalls)
		}
		a.finished(c.FinishReason)
	}
	if room := maxText - len(a.text); room > 0 {
		a.text = append(a.text, clip(text, room)...)
	}
	return text, ids
}

// increment is the new part of a text that the server repeats from its start, or the whole of it where it streams increments.
func (a *answer) increment(text string) string {
	if rest, ok := strings.CutPrefix(text, a.full); ok {
		a.full = text
		return rest
	}
	a.full += text
	return text
}

func (a *answer) finished(f finish) {
	if f.Type != "" {
		a.finish = f
		a.resp.FinishReason = f.Type
	}
}

// usage keeps the last usage that is not empty; usages are never summed. Zeros in every chunk mean nothing.
func (a *answer) usage(e event) {
	if m := e.MetaInfo; m != nil {
		a.counts(m.PromptTokens, m.CompletionTokens, m.CachedTokens)
	}
	u := e.Usage
	if u == nil || value(u.PromptTokens) <= 0 && value(u.CompletionTokens) <= 0 {
		return
	}
	var cached *int
	if u.PromptDetails != nil {
		cached = u.PromptDetails.CachedTokens
	}
	a.counts(u.PromptTokens, u.CompletionTokens, cached)
	a.tail = a.tail || len(e.Choices) == 0
}

func (a *answer) counts(prompt, completion, cached *int) {
	keep(&a.resp.PromptTokens, prompt)
	keep(&a.resp.CompletionTokens, completion)
	keep(&a.resp.CachedTokens, cached)
}

// evidence decides whether an event brought a token, and how many. Counted usage is evidence where the server counts while
// it streams: a count that first shows up with the finish reason or in an event of its own sums up the past.
func (a *answer) evidence(e event, text string, ids int, at time.Duration) {
	if e.MetaInfo == nil && len(e.Choices) == 0 {
		return
	}
	ended := a.finishAt != 0
	if a.finish.Type != "" && !ended {
		a.finishAt = at
	}
	tokens, known := a.growth(e, ended || a.finishAt != 0)
	if n := chunkIDs(e); n > 0 && !known {
		tokens, known = n, true
	}
	if text == "" && ids == 0 && tokens == 0 {
		return
	}
	a.resp.LastToken = at
	if known && tokens == 0 && len(a.resp.Chunks) > 0 {
		return // text of tokens that were counted before
	}
	if !known {
		tokens, a.trusted = 0, false
	}
	a.chunk(at, tokens)
}

// growth is the number of tokens that an event adds to the server's running count; known is false where the server does
// not keep one, or where it skipped a chunk.
func (a *answer) growth(e event, finished bool) (tokens int, known bool) {
	now := 0
	switch {
	case e.MetaInfo != nil && e.MetaInfo.CompletionTokens != nil:
		now, a.running = *e.MetaInfo.CompletionTokens, true
	case e.Usage != nil && e.Usage.CompletionTokens != nil && value(e.Usage.PromptTokens)+*e.Usage.CompletionTokens > 0:
		now = *e.Usage.CompletionTokens
		a.running = a.running || !finished
	default:
		return 0, false
	}
	if !a.running || now < a.counted {
		return 0, false
	}
	tokens, known = now-a.counted, a.trusted
	a.counted, a.trusted = now, true
	return tokens, known
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

// close ends the answer: clean says that the body ended as HTTP wants it, streamed that it came in events.
func (a *answer) close(streamed bool, total time.Duration) {
	r := a.resp
	r.Text, r.Total, r.Streamed = string(a.text), total, streamed
	if !streamed {
		r.TTFT, r.LastToken, r.Chunks, r.Reads = 0, total, nil, 0
		return
	}
	// The token of a leg with max_tokens 1 can be one that has no text, such as the end of a sequence: then the finish
	// reason is all that tells of it.
	silent := len(r.Chunks) == 0 && a.maxTokens == 1 && a.finishAt != 0
	if silent && (value(r.CompletionTokens) == 1 || r.CompletionTokens == nil && a.finish.Type == "length") {
		r.LastToken = a.finishAt
		a.chunk(a.finishAt, value(r.CompletionTokens))
	}
}

// complete says whether the body, which ended cleanly unless broken, holds a whole answer.
func (a *answer) complete(broken bool) bool {
	counted := a.resp.CompletionTokens != nil
	if a.resp.Done {
		return a.finish.Type != "" || counted
	}
	return !broken && (a.finish.Type != "" || counted && (a.tail || !a.resp.Streamed))
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
	switch a.finish.Type {
	case "abort", "error":
		e := serverError{class: Aborted, text: "the server ended the request with finish reason " + a.finish.Type}
		if a.finish.Type == "error" {
			e.class = StreamError
		}
		if a.finish.Message != "" {
			said, _ := json.Marshal(map[string]string{"message": a.finish.Message, "code": string(a.finish.Status)})
			if told := classify(0, said); told.class == ContextOverflow || told.class == Overloaded {
				e.class, e.limit = told.class, told.limit
			}
			e.text = a.finish.Message
		}
		return &e
	}
	return nil
}

// chunkIDs is the number of token ids that the choices of an event carry: ids of increments, so tokens of this event.
func chunkIDs(e event) int {
	n := 0
	for _, c := range e.Choices {
		n += int(c.TokenIDs)
	}
	return n
}

// keep replaces a count by a later one that makes sense.
func keep(to **int, n *int) {
	if n != nil && *n >= 0 {
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
