package simserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// bodyLimit bounds a request body.
const bodyLimit = 64 << 20

// body is a request as it stands on the wire: the union of what the shapes read.
type body struct {
	Model               string          `json:"model"`
	Prompt              json.RawMessage `json:"prompt"`
	Messages            []message       `json:"messages"`
	InputIDs            json.RawMessage `json:"input_ids"`
	Text                *string         `json:"text"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	NPredict            *int            `json:"n_predict"`
	Sampling            struct {
		MaxNewTokens *int `json:"max_new_tokens"`
		IgnoreEOS    bool `json:"ignore_eos"`
	} `json:"sampling_params"`
	IgnoreEOS     bool   `json:"ignore_eos"`
	MinTokens     int    `json:"min_tokens"`
	Stream        bool   `json:"stream"`
	CacheSalt     string `json:"cache_salt"`
	ExtraKey      string `json:"extra_key"`
	RID           string `json:"rid"`
	RequestID     string `json:"request_id"`
	LogMetrics    *bool  `json:"log_metrics"`
	CachePrompt   *bool  `json:"cache_prompt"`
	StreamOptions *struct {
		IncludeUsage    bool `json:"include_usage"`
		ContinuousUsage bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	ReturnTokenIDs  bool `json:"return_token_ids"`
	ReturnMeta      bool `json:"return_meta_info"`
	ReturnSpec      bool `json:"return_spec_tokens_details"`
	ReturnTokens    bool `json:"return_tokens"`
	TimingsPerToken bool `json:"timings_per_token"`
	ReturnProgress  bool `json:"return_progress"`

	lifted []int32 // a prompt of ids, taken out before the rest is decoded
	raw    []byte  // the rest
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// problem is a refusal, in words that each shape puts in its own form.
type problem struct {
	status  int
	kind    string // "BadRequestError", "exceed_context_size_error", …
	message string
	extra   map[string]any
}

func (p *problem) Error() string { return p.message }

func badRequest(format string, args ...any) *problem {
	return &problem{status: http.StatusBadRequest, kind: "BadRequestError", message: fmt.Sprintf(format, args...)}
}

// readBody decodes a request. Long lists of ids are read by a scanner of their own: a general decoder would take longer
// for 200,000 of them than a fast server's prefill of a cached prompt.
func readBody(r *http.Request) (*body, *problem) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, badRequest("the body cannot be read: %v", err)
	}
	b := &body{}
	b.lifted, b.raw = liftIDs(raw)
	if err := json.Unmarshal(b.raw, b); err != nil {
		return nil, badRequest("the body is not valid: %v", err)
	}
	return b, nil
}

// liftIDs takes the first list of ids under "prompt", "input_ids" or "tokens" out of a body and leaves null there.
func liftIDs(raw []byte) (ids []int32, rest []byte) {
	for _, key := range []string{`"prompt"`, `"input_ids"`, `"tokens"`} {
		at := bytes.Index(raw, []byte(key))
		if at < 0 {
			continue
		}
		start := skipSpace(raw, at+len(key))
		if start >= len(raw) || raw[start] != ':' {
			continue
		}
		start = skipSpace(raw, start+1)
		if start >= len(raw) || raw[start] != '[' {
			continue
		}
		if ids, end := scanIDs(raw, start); end > 0 {
			rest = append(append(append([]byte{}, raw[:start]...), "null"...), raw[end:]...)
			return ids, rest
		}
	}
	return nil, raw
}

// scanIDs reads a flat list of integers that opens at start; end is 0 if it is anything else.
func scanIDs(raw []byte, start int) (ids []int32, end int) {
	ids = make([]int32, 0, (len(raw)-start)/6+1)
	i := skipSpace(raw, start+1)
	if i < len(raw) && raw[i] == ']' {
		return nil, 0
	}
	for i < len(raw) {
		n, digits, negative := int64(0), 0, false
		if raw[i] == '-' {
			negative = true
			i++
		}
		for i < len(raw) && raw[i] >= '0' && raw[i] <= '9' && digits < 10 {
			n = n*10 + int64(raw[i]-'0')
			i++
			digits++
		}
		if digits == 0 {
			return nil, 0
		}
		if negative {
			n = -n
		}
		ids = append(ids, int32(max(-1, min(n, 1<<31-1))))
		if i = skipSpace(raw, i); i >= len(raw) {
			return nil, 0
		}
		switch raw[i] {
		case ']':
			return ids, i + 1
		case ',':
			i = skipSpace(raw, i+1)
		default:
			return nil, 0
		}
	}
	return nil, 0
}

func skipSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
		i++
	}
	return i
}

// text is a prompt that is a string, or a list of one string.
func (b *body) text() (string, bool) {
	if b.Text != nil {
		return *b.Text, true
	}
	var one string
	if json.Unmarshal(b.Prompt, &one) == nil && len(b.Prompt) > 0 && string(b.Prompt) != "null" {
		return one, true
	}
	var many []string
	if json.Unmarshal(b.Prompt, &many) == nil && len(many) == 1 {
		return many[0], true
	}
	return "", false
}

// holds tells whether the body has a field at its top level.
func (b *body) holds(field string) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(b.raw, &fields) != nil {
		return false
	}
	_, ok := fields[field]
	return ok
}

// words is the text of a message, given as a string or as parts.
func (m message) words() string {
	var one string
	if json.Unmarshal(m.Content, &one) == nil {
		return one
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return ""
	}
	text := ""
	for _, p := range parts {
		text += p.Text
	}
	return text
}

// promptIDs is the prompt as the model reads it.
func (s *instance) promptIDs(b *body) ([]int32, *problem) {
	if b.lifted != nil {
		return b.lifted, s.checkIDs(b.lifted)
	}
	text, ok := b.text()
	if !ok {
		return nil, badRequest("prompt must be a string or a list of token ids")
	}
	ids := s.tok.encode(text)
	if bos := s.config.Profile.BOS; bos > 0 {
		ids = append([]int32{int32(bos)}, ids...)
	}
	if len(ids) == 0 {
		return nil, badRequest("the prompt is empty")
	}
	return ids, nil
}

func (s *instance) checkIDs(ids []int32) *problem {
	p := s.config.Profile
	for _, id := range ids {
		if id < 0 || int(id) >= p.Vocab-p.Specials {
			return badRequest("Token id %d is out of vocabulary", id)
		}
	}
	return nil
}

// chatIDs puts messages into the chat template, whose marks are special ids.
func (s *instance) chatIDs(b *body) ([]int32, *problem) {
	if b.lifted != nil && len(b.Messages) > 0 {
		return b.lifted, s.checkIDs(b.lifted)
	}
	if len(b.Messages) == 0 {
		return nil, badRequest("messages must not be empty")
	}
	special := int32(s.config.Profile.Vocab - s.config.Profile.Specials)
	var ids []int32
	if bos := s.config.Profile.BOS; bos > 0 {
		ids = append(ids, int32(bos))
	}
	for _, m := range b.Messages {
		ids = append(ids, special)
		ids = append(ids, s.tok.encode(m.Role)...)
		ids = append(ids, special+1)
		ids = append(ids, s.tok.encode(m.words())...)
		ids = append(ids, special+2)
	}
	ids = append(ids, special)
	ids = append(ids, s.tok.encode("assistant")...)
	return append(ids, special+1), nil
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // the client's going away is no concern of ours
}
