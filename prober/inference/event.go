package inference

import (
	"encoding/json"
	"errors"
	"strconv"
)

// event is what any known server says in one event of a stream, or in a whole answer that is not streamed.
type event struct {
	choices int    // choices that it carries
	text    string // generated text of all channels; SGLang's own API repeats it from the start
	tokens  int    // token ids of this event
	calls   int    // pieces of tool calls
	finish  finish
	usage   *usage
	failed  bool // it is an error
	slot    *int
	info    *metaInfo // of SGLang's or LMDeploy's own API
	infos   []*metaInfo
	timings *timings
	spec    *specDetails
	metrics *serverMetrics
	counts  *specCounts // of TensorRT-LLM's choice
	perPass float64     // TensorRT-LLM's mean of tokens per iteration so far
}

// usage counts tokens; nil is not told.
type usage struct{ prompt, completion, cached *int }

// empty says that a usage tells nothing: some servers put zeros into every chunk.
func (u usage) empty() bool { return value(u.prompt) == 0 && value(u.completion) == 0 }

// finish is why a request ended; a type "" means that it has not.
type finish struct{ kind, message, status string }

// timings are llama.cpp's, in milliseconds.
type timings struct {
	CacheN        *int    `json:"cache_n"`
	PromptMS      float64 `json:"prompt_ms"`
	PredictedN    int     `json:"predicted_n"`
	DraftN        int     `json:"draft_n"`
	DraftAccepted int     `json:"draft_n_accepted"`
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

// metaInfo is what SGLang tells of a request. Stamps are seconds of the server's clock.
type metaInfo struct {
	usage
	specDetails
	QueueTime       float64 `json:"queue_time"`
	ForwardEntry    float64 `json:"forward_entry_time"`
	PrefillFinished float64 `json:"prefill_finished_time"`
	Rank            *int    `json:"dp_rank"`
}

// serverMetrics are vLLM's per-request metrics, in milliseconds.
type serverMetrics struct {
	TTFT  float64     `json:"time_to_first_token_ms"` // from scheduling, so without the queue
	Queue float64     `json:"queue_time_ms"`
	Spec  *specCounts `json:"speculative_decoding"`
}

// specCounts are vLLM's and TensorRT-LLM's counts of speculation, which differ in the name of one.
type specCounts struct {
	Steps     int   `json:"num_spec_steps"`
	Accepted  *int  `json:"num_accepted_draft_tokens"`
	Total     *int  `json:"total_accepted_draft_tokens"`
	Histogram []int `json:"acceptance_histogram"` // index = accepted drafts
	PerStep   []int `json:"per_step_accepted"`    // vLLM, where it tells details
	Depth     int   `json:"num_spec_tokens"`
}

var errNotJSON = errors.New("the event is not JSON")

// parseEvent decodes one event. A member of an unexpected kind counts as absent; only what is no JSON at all is an error.
func parseEvent(data []byte) (e event, err error) {
	if !json.Valid(data) {
		return e, errNotJSON
	}
	var whole string // beside meta_info only
	var ids []byte
	for key, v := range members(data) {
		switch key {
		case "choices":
			for c := range elements(v) {
				e.choice(c)
			}
		case "usage":
			e.usage = parseUsage(v)
		case "error":
			e.failed = e.failed || !nothing(v)
		case "object":
			e.failed = e.failed || string(v) == `"error"`
		case "timings":
			e.timings = decode[timings](v)
		case "sglext":
			for key, v := range members(v) {
				if key == "spec_tokens_details" {
					e.spec = only[specDetails](v)
				}
			}
		case "metrics":
			e.metrics = decode[serverMetrics](v)
		case "id_slot":
			e.slot = count(v)
		case "meta_info":
			e.info, e.finish = parseInfo(v)
		case "text":
			whole = text(v)
		case "output_ids":
			ids = v
		}
	}
	if e.info != nil {
		e.text, e.calls = whole, length(ids)
	}
	return e, nil
}

func (e *event) choice(c []byte) {
	e.choices++
	for key, v := range members(c) {
		switch key {
		case "text":
			e.text += text(v)
		case "delta", "message":
			e.delta(v)
		case "token_ids":
			e.tokens += length(v)
		case "finish_reason":
			if f := parseFinish(v); f.kind != "" {
				e.finish = f
			}
		case "avg_decoded_tokens_per_iter":
			if mean, err := strconv.ParseFloat(string(v), 64); err == nil {
				e.perPass = mean
			}
		case "speculative_decoding":
			e.counts = decode[specCounts](v)
		case "meta_info":
			if info, _ := parseInfo(v); info != nil {
				e.infos = append(e.infos, info)
			}
		}
	}
}

// delta adds the channels of a chat message. Some servers write the reasoning twice, under its old and its new name.
func (e *event) delta(d []byte) {
	var reasoning, old, rest string
	details := 0
	for key, v := range members(d) {
		switch key {
		case "content", "refusal":
			rest += text(v)
		case "reasoning":
			reasoning = text(v)
		case "reasoning_content", "thinking":
			old = text(v)
		case "reasoning_details":
			details = length(v)
		case "tool_calls":
			e.calls += length(v)
		case "function_call":
			for range members(v) {
				e.calls++
			}
		}
	}
	if reasoning == "" {
		reasoning = old
	}
	if reasoning == "" {
		e.calls += details
	}
	e.text += reasoning + rest
}

func parseUsage(v []byte) *usage {
	if null(v) {
		return nil
	}
	u := &usage{}
	for key, v := range members(v) {
		switch key {
		case "prompt_tokens":
			u.prompt = count(v)
		case "completion_tokens":
			u.completion = count(v)
		case "prompt_tokens_details":
			for key, v := range members(v) {
				if key == "cached_tokens" {
					u.cached = count(v)
				}
			}
		}
	}
	return u
}

// parseInfo reads the counts of a meta_info, and the rest of the last one: the others have none.
func parseInfo(v []byte) (*metaInfo, finish) {
	if null(v) {
		return nil, finish{}
	}
	info, f := &metaInfo{}, finish{}
	for key, v := range members(v) {
		if key == "finish_reason" {
			f = parseFinish(v)
		}
	}
	if f.kind != "" {
		info = decode[metaInfo](v)
	}
	for key, v := range members(v) {
		switch key {
		case "prompt_tokens":
			info.prompt = count(v)
		case "completion_tokens":
			info.completion = count(v)
		case "cached_tokens":
			info.cached = count(v)
		}
	}
	return info, f
}

// parseFinish reads a finish reason: a string, or SGLang's object.
func parseFinish(v []byte) (f finish) {
	if null(v) {
		return f
	}
	if v[0] == '"' {
		f.kind = text(v)
		return f
	}
	for key, v := range members(v) {
		switch key {
		case "type":
			f.kind = text(v)
		case "message":
			f.message = text(v)
		case "status_code":
			f.status = text(v)
		}
	}
	return f
}

// only decodes an object, or the single element of a list: of several, which belongs to an answer is not told.
func only[T any](v []byte) *T {
	if v[0] != '[' {
		return decode[T](v)
	}
	if length(v) != 1 {
		return nil
	}
	for element := range elements(v) {
		v = element
	}
	return decode[T](v)
}

// decode is for what comes once in an answer. Members of an unexpected kind are left out.
func decode[T any](v []byte) *T {
	var t T
	if err := json.Unmarshal(v, &t); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
			return nil
		}
	}
	return &t
}
