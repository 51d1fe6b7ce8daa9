package inference

import (
	"bytes"
	"encoding/json"
	"errors"
)

// event is everything that any known server says in one event of a stream or in a whole answer.
type event struct {
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Object  string          `json:"object"`
	Timings *timings        `json:"timings"`
	Ext     *extension      `json:"sglext"`
	Metrics *serverMetrics  `json:"metrics"`
	Slot    *int            `json:"id_slot"`

	// SGLang's /generate: text and output_ids are cumulative unless the server streams increments.
	Text      string    `json:"text"`
	OutputIDs length    `json:"output_ids"`
	MetaInfo  *metaInfo `json:"meta_info"`
}

type choice struct {
	Text         string    `json:"text"`
	Delta        *delta    `json:"delta"`
	Message      *delta    `json:"message"`
	TokenIDs     length    `json:"token_ids"`
	FinishReason finish    `json:"finish_reason"`
	MetaInfo     *metaInfo `json:"meta_info"`
}

type delta struct {
	Content          looseString `json:"content"`
	Reasoning        looseString `json:"reasoning"`
	ReasoningContent looseString `json:"reasoning_content"`
	ToolCalls        length      `json:"tool_calls"`
}

type usage struct {
	PromptTokens     *int `json:"prompt_tokens"`
	CompletionTokens *int `json:"completion_tokens"`
	PromptDetails    *struct {
		CachedTokens *int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// timings are llama.cpp's, in milliseconds.
type timings struct {
	CacheN        *int    `json:"cache_n"`
	PromptMS      float64 `json:"prompt_ms"`
	PredictedN    int     `json:"predicted_n"`
	DraftN        int     `json:"draft_n"`
	DraftAccepted int     `json:"draft_n_accepted"`
}

type extension struct {
	Spec *specDetails `json:"spec_tokens_details"`
}

// specDetails are SGLang's; each count has had several names.
type specDetails struct {
	Verified         int   `json:"spec_verify_ct"`
	CorrectDrafts    *int  `json:"spec_num_correct_drafts"`
	AcceptedDrafts   *int  `json:"spec_accepted_drafts"`
	AcceptedTokens   *int  `json:"spec_accept_token_num"`
	CorrectHistogram []int `json:"spec_correct_drafts_histogram"`
	AcceptHistogram  []int `json:"spec_accept_histogram"`
}

// metaInfo is what SGLang tells of a request on its own API. Stamps are seconds of the server's clock.
type metaInfo struct {
	specDetails
	FinishReason     finish      `json:"finish_reason"`
	PromptTokens     *int        `json:"prompt_tokens"`
	CompletionTokens *int        `json:"completion_tokens"`
	CachedTokens     *int        `json:"cached_tokens"`
	QueueTime        float64     `json:"queue_time"`
	ForwardEntry     float64     `json:"forward_entry_time"`
	PrefillFinished  float64     `json:"prefill_finished_time"`
	Rank             looseString `json:"dp_rank"`
}

// serverMetrics are vLLM's per-request metrics, in milliseconds.
type serverMetrics struct {
	TTFT  float64   `json:"time_to_first_token_ms"` // from scheduling, so without the queue
	Queue float64   `json:"queue_time_ms"`
	Spec  *vllmSpec `json:"speculative_decoding"`
}

type vllmSpec struct {
	Steps     int   `json:"num_spec_steps"`
	Accepted  int   `json:"num_accepted_draft_tokens"`
	Histogram []int `json:"acceptance_histogram"` // index = accepted drafts
}

// parseEvent decodes one event. A member of an unexpected type is skipped; only what is no JSON at all is an error.
func parseEvent(data []byte) (event, error) {
	var e event
	err := json.Unmarshal(data, &e)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = nil
	}
	return e, err
}

// length is the number of elements of a JSON list of numbers or objects: no more of it is wanted.
type length int

func (l *length) UnmarshalJSON(b []byte) error {
	*l = 0
	if len(b) < 3 || b[0] != '[' {
		return nil
	}
	depth, n, quoted := 0, 0, false
	for i := 1; i < len(b)-1; i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth == 0:
			n++
		}
	}
	if len(bytes.TrimSpace(b[1:len(b)-1])) > 0 {
		*l = length(n + 1)
	}
	return nil
}

// looseString is a string, or the text of whatever else stands in its place; "" for null.
type looseString string

func (s *looseString) UnmarshalJSON(b []byte) error {
	*s = ""
	switch {
	case string(b) == "null":
	case b[0] == '"':
		return json.Unmarshal(b, (*string)(s))
	default:
		*s = looseString(b)
	}
	return nil
}

// finish is a finish reason: a string, or SGLang's object.
type finish struct {
	Type    string      `json:"type"`
	Message string      `json:"message"`
	Status  looseString `json:"status_code"`
}

func (f *finish) UnmarshalJSON(b []byte) error {
	*f = finish{}
	switch b[0] {
	case '"':
		return json.Unmarshal(b, &f.Type)
	case '{':
		type plain finish
		return json.Unmarshal(b, (*plain)(f))
	}
	return nil
}
