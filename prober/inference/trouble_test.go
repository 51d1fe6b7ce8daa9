package inference

import (
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// Pieces of streams.
const (
	roleEvent   = `data: {"choices":[{"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	alphaEvent  = `data: {"choices":[{"delta":{"content":"alpha"}}]}` + "\n\n"
	betaEvent   = `data: {"choices":[{"delta":{"content":" beta"}}]}` + "\n\n"
	finishEvent = `data: {"choices":[{"delta":{},"finish_reason":"length"}]}` + "\n\n"
	usageEvent  = `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}` + "\n\n"
	doneEvent   = "data: [DONE]\n\n"
	goodStream  = roleEvent + alphaEvent + betaEvent + finishEvent + usageEvent + doneEvent
)

// TestSameAnswer: streams that differ in how they are written say the same.
func TestSameAnswer(t *testing.T) {
	each := func(from, to string) string { return strings.ReplaceAll(goodStream, from, to) }
	for name, body := range map[string]string{
		"as it should be":                    goodStream,
		"lines end with CR":                  each("\n", "\r"),
		"lines end with CRLF":                each("\n", "\r\n"),
		"CR, then CRLF, then LF":             strings.Replace(strings.Replace(goodStream, "\n\n", "\r\r", 2), "\n\n", "\r\n\r\n", 1),
		"no blank line between events":       each("\n\n", "\n"),
		"a tab after the colon":              each("data: ", "data:\t"),
		"a name behind the data":             each("}\n\n", "}\nevent: chunk\n\n"),
		"usage before the finish reason":     roleEvent + alphaEvent + betaEvent + usageEvent + finishEvent + doneEvent,
		"usage behind [DONE]":                roleEvent + alphaEvent + betaEvent + finishEvent + doneEvent + usageEvent,
		"counts with a decimal point":        strings.Replace(strings.Replace(goodStream, `":9`, `":9.0`, 1), `":2`, `":2e0`, 1),
		"an empty error in each event":       each(`{"choices"`, `{"error":"","choices"`),
		"an error without members in each":   each(`{"choices"`, `{"error":{},"choices"`),
		"an error that is false in each":     each(`{"choices"`, `{"error":false,"choices"`),
		"an error behind [DONE]":             goodStream + "data: {\"error\":\"late\"}\n\n",
		"text as a refusal":                  each(`"content"`, `"refusal"`),
		"JSON over lines that end in braces": each(`,"finish_reason"`, "\ndata: ,\"finish_reason\""),
		"text as thinking":                   each(`"content"`, `"thinking"`),
	} {
		t.Run(name, func(t *testing.T) {
			for _, reader := range []func() (Response, *Error){
				func() (Response, *Error) { return readAnswer(t, strings.NewReader(body), 17) },
				func() (Response, *Error) { return readAnswer(t, iotest.OneByteReader(strings.NewReader(body)), 17) },
			} {
				r, failed := reader()
				if failed != nil || r.Text != "alpha beta" || len(r.Chunks) != 2 || value(r.CompletionTokens) != 2 || value(r.PromptTokens) != 9 ||
					r.FinishReason != "length" || !r.Done || r.Malformed != 0 {
					t.Errorf("%+v, %v", r, failed)
				}
			}
		})
	}
}

// TestTokensWithoutText: what a model generates beside text is generated all the same.
func TestTokensWithoutText(t *testing.T) {
	for name, delta := range map[string]string{
		"function call":     `{"function_call":{"arguments":"{"}}`,
		"reasoning details": `{"content":"","reasoning_details":[{"type":"reasoning.text","text":"alpha"}]}`,
	} {
		r, failed := readAnswer(t, strings.NewReader(roleEvent+`data: {"choices":[{"delta":`+delta+"}]}\n\n"+finishEvent+usageEvent+doneEvent), 17)
		if failed != nil || len(r.Chunks) != 1 {
			t.Errorf("%s: %+v, %v", name, r, failed)
		}
	}
}

// TestFaultsInside: a stream under status 200 that says that it failed.
func TestFaultsInside(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		want Class
	}{
		"an event named error":               {"event: error\ndata: {\"message\":\"boom\"}\n\n", StreamError},
		"one of text":                        {"event: error\ndata: upstream broke\n\n", StreamError},
		"one behind tokens":                  {roleEvent + alphaEvent + "event: error\ndata: {\"message\":\"boom\"}\n\n" + doneEvent, StreamError},
		"one that says why":                  {"event: error\ndata: {\"message\":\"This model's maximum context length is 4096 tokens.\"}\n\n", ContextOverflow},
		"a field named error":                {roleEvent + alphaEvent + "error: {\"code\":500,\"message\":\"boom\"}\n\n", StreamError},
		"an error, then a good end":          {roleEvent + alphaEvent + "data: {\"error\":{\"message\":\"boom\"}}\n\n" + finishEvent + usageEvent + doneEvent, StreamError},
		"a name that is over with its event": {"event: error\n\n" + goodStream, ""},
		"cancelled":                          {roleEvent + alphaEvent + strings.Replace(finishEvent, "length", "cancelled", 1) + usageEvent + doneEvent, Aborted},
		"timeout":                            {roleEvent + alphaEvent + strings.Replace(finishEvent, "length", "timeout", 1) + usageEvent + doneEvent, Aborted},
	} {
		if _, failed := readAnswer(t, strings.NewReader(test.body), 17); class(failed) != test.want {
			t.Errorf("%s: %v, want %q", name, failed, test.want)
		}
	}
}

// TestWhole: an answer that has its finish reason and its usage is not held up by what does not follow, nor spoilt by it.
func TestWhole(t *testing.T) {
	send := func(events string) string { return "send text " + strings.ReplaceAll(events, "\n", `\n`) + "\n" }
	for name, test := range map[string]struct {
		events, end string
		want        Class
	}{
		"left open":                           {alphaEvent + finishEvent + usageEvent, "hang", ""},
		"left open, the finish reason last":   {alphaEvent + usageEvent + finishEvent, "hang", ""},
		"reset":                               {alphaEvent + finishEvent + usageEvent, "reset", ""},
		"reset before the usage":              {alphaEvent + finishEvent, "reset", ConnReset},
		"reset before the finish reason":      {alphaEvent + usageEvent, "reset", ConnReset},
		"left open before the finish reason":  {alphaEvent + usageEvent, "hang", Timeout},
		"reset behind [DONE]":                 {alphaEvent + finishEvent + usageEvent + doneEvent, "reset", ""},
		"left open with nothing but [DONE]":   {doneEvent, "hang", StreamTruncated},
		"closed with nothing but a role":      {roleEvent + doneEvent, "end", StreamTruncated},
		"closed inside an event":              {alphaEvent + `data: {"choi`, "end", StreamTruncated},
		"the connection ends inside an event": {alphaEvent + `data: {"choi`, "end-without-response", ConnReset},
	} {
		t.Run(name, func(t *testing.T) {
			script := "exchange POST /v1/completions\nstatus 200\nat 1 " + send(test.events) + "at 1 " + test.end + "\n"
			scripted(t, script, Options{Dialect: OpenAI, API: Completions, Model: "m"}, func(t *testing.T, c *Client, s *wireServer) {
				got := once(t, c, s, Request{Prompt: TextPrompt("p"), MaxTokens: 17})
				if class(got.err) != test.want {
					t.Errorf("%v, want %q", got.err, test.want)
				}
				if test.want == "" && (got.resp.Total != time.Second || got.elapsed > 4*time.Second) {
					t.Errorf("the answer took %v, the leg %v", got.resp.Total, got.elapsed)
				}
			})
		})
	}
}

// TestTellingTexts: what a refusal means stands in its text, whatever the server and, mostly, the status.
func TestTellingTexts(t *testing.T) {
	for _, test := range []struct {
		status int
		said   string
		class  Class
		limit  int
	}{
		{400, "The prompt (total length 5000) is too long to fit into the model (maximum length 4096). Make sure that x.", ContextOverflow, 4096},
		{400, "You passed 5000 input tokens and requested 17 output tokens. However, the model's context length is only 4096 tokens.", ContextOverflow, 4096},
		{400, "Prompt length (5000) exceeds the model's maximum context length (4096)", ContextOverflow, 4096},
		{400, "The prompt length 5000 exceeds the engine's max_seq_len 4096", ContextOverflow, 4096},
		{400, "input_tokens 5000 exceeds max_model_len 4096", ContextOverflow, 4096},
		{400, "input length 5000 must be smaller than the model context length 4096", ContextOverflow, 4096},
		{400, "Input tokens exceeds the session length 4096", ContextOverflow, 4096},
		{400, "prompt too long; exceeded max context length by 100 tokens", ContextOverflow, 0},
		{400, "the model is loaded with context length of only 4096 tokens, which is not enough", ContextOverflow, 4096},
		{400, "The number of tokens to keep is greater than the context length (n_keep: 5000>= n_ctx: 4096)", ContextOverflow, 4096},
		{400, "Prompt exceeds the context limit of 4096", ContextOverflow, 4096},
		{400, "max_new_tokens must be at least 0, got -1", ContextOverflow, 0},
		{429, "This request would exceed your organization's rate limit of 40000 input tokens per minute", RateLimited, 0},
		{400, "max_tokens must be at least 1, got 0", BadRequest, 0},
		{503, "the model is being loaded, please wait", Loading, 0},
		{503, "Warmup in progress", Loading, 0},
		{425, "model is loading", Loading, 0},
		{500, "llm server loading model", Loading, 0},
		{409, "Model qwen is still loading", Loading, 0},
		{500, "error loading model: no such file", ServerError, 0},
		{503, "The server is overloading", Overloaded, 0},
		{530, "error code: 1033", GatewayError, 0},
		{403, "reset reason: connection termination", GatewayError, 0},
		{400, "model not found: x", ModelNotFound, 0},
		{400, "The model x does not exist", ModelNotFound, 0},
		{400, "model 'x' not found", ModelNotFound, 0},
		{500, "could not find real modelID for x", ModelNotFound, 0},
		{400, "The model has no chat template: the file was not found", BadRequest, 0},
	} {
		body := []byte(`{"error":{"message":` + strconv.Quote(test.said) + `}}`)
		if got := classify(test.status, body); got.class != test.class || got.limit != test.limit {
			t.Errorf("%d %q: %s %d, want %s %d", test.status, test.said, got.class, got.limit, test.class, test.limit)
		}
	}
	key := []byte(`{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`)
	if got := classify(400, key); got.class != Auth {
		t.Errorf("a wrong key: %s", got.class)
	}
}

// TestRefusalOfStreaming: a server that does not stream is asked for its answer in one piece, once and from then on.
func TestRefusalOfStreaming(t *testing.T) {
	const x = "exchange POST /v1/completions\n"
	const whole = `at 2 send text {"choices":[{"text":"a","finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":17}}` + "\nat 2 end\n"
	for said, asksAgain := range map[string]bool{
		`{"error":{"message":"Streaming is not supported by this model"}}`:               true,
		`{"error":{"message":"Invalid value","param":"stream"}}`:                         true,
		`{"error":{"message":"'stream' must be false"}}`:                                 true,
		`{"error":{"message":"could not read the request: the stream ended too early"}}`: false,
	} {
		script := x + "status 400\nat 0 send text " + said + "\nat 0 end\n" + x + "status 200\n" + whole
		scripted(t, script, Options{Dialect: VLLM, API: Completions, Model: "m"}, func(t *testing.T, c *Client, s *wireServer) {
			for range 2 {
				r, err := c.Complete(t.Context(), Request{Prompt: TextPrompt("p"), MaxTokens: 17})
				if !asksAgain {
					if len(s.bodies) != 1 || failure(t, err).Class != BadRequest {
						t.Errorf("%s: %v after %d requests", said, err, len(s.bodies))
					}
					return
				}
				if err != nil || r.Streamed || r.Total != 2*time.Second || value(r.CompletionTokens) != 17 {
					t.Errorf("%s: %+v, %v", said, r, err)
				}
			}
			if len(s.bodies) != 3 || strings.Contains(s.bodies[1]+s.bodies[2], "stream") || !strings.Contains(s.bodies[2], "ignore_eos") {
				t.Errorf("%s: bodies %v", said, s.bodies)
			}
		})
	}
}

// TestNoListOfModels: a server without a list is spoken to all the same where the model is configured.
func TestNoListOfModels(t *testing.T) {
	script := "exchange POST /v1/completions\nstatus 200\nat 1 " + oneToken + "\nat 1 end\n"
	for _, model := range []string{"m", ""} {
		scripted(t, script, Options{Model: model}, func(t *testing.T, c *Client, _ *wireServer) {
			facts, err := c.Identify(t.Context())
			if model == "" {
				if failure(t, err).Class != Protocol {
					t.Errorf("without a model: %v", err)
				}
				return
			}
			if err != nil || facts.Dialect != OpenAI || facts.Model != model {
				t.Fatalf("%+v, %v", facts, err)
			}
			if _, err := c.Complete(t.Context(), Request{Prompt: TextPrompt("p"), MaxTokens: 1}); err != nil {
				t.Error(err)
			}
		})
	}
}
