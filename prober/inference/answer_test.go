package inference

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// readAnswer interprets a body that comes in the reads that r gives.
func readAnswer(t testing.TB, r io.Reader, maxTokens int) (Response, *Error) {
	t.Helper()
	resp := Response{HTTPStatus: 200}
	b := bodyReader{answer: newAnswer(&resp, maxTokens), start: time.Now(), done: func() {}}
	_, failed := b.verdict(t.Context(), &exchange{connected: true}, b.read(r, make([]byte, 64<<10)))
	return resp, failed
}

// facts are a Response without its clock.
func facts(r Response) Response {
	r.TTFT, r.LastToken, r.Total, r.Reads = 0, 0, 0, 0
	for i := range r.Chunks {
		r.Chunks[i].At = 0
	}
	return r
}

func ptr(n int) *int { return &n }

// answers are bodies, and what they mean.
var answers = map[string]struct {
	body string
	max  int // max_tokens, 17 by default
	want Response
	fail Class
}{
	"continuous usage gives the tokens of each chunk, a role chunk before the first has none": {
		body: `data: {"choices":[{"delta":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":9,"completion_tokens":0}}

data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}

data: {"choices":[{"delta":{"content":"b c"}}],"usage":{"prompt_tokens":9,"completion_tokens":4}}

data: {"choices":[{"delta":{},"finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":4}}

data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":3}}}

data: [DONE]

`,
		want: Response{Chunks: []Chunk{{Tokens: 1}, {Tokens: 3}}, Text: "ab c", PromptTokens: ptr(9), CompletionTokens: ptr(4), CachedTokens: ptr(3), FinishReason: "length", Done: true},
	},
	"a counted role chunk is the first token, and its text comes later": {
		body: `data: {"choices":[{"delta":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}

data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}

data: {"choices":[{"delta":{"content":"b"},"finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}

data: [DONE]

`,
		want: Response{Chunks: []Chunk{{Tokens: 1}, {Tokens: 1}}, Text: "ab", PromptTokens: ptr(9), CompletionTokens: ptr(2), FinishReason: "length", Done: true},
	},
	"a count that skipped a chunk is not blamed on the next": {
		body: `data: {"choices":[{"text":"a"}]}

data: {"choices":[{"text":"b"}],"usage":{"prompt_tokens":9,"completion_tokens":7}}

data: {"choices":[{"text":"c","finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":9}}

data: [DONE]

`,
		want: Response{Chunks: []Chunk{{}, {}, {Tokens: 2}}, Text: "abc", PromptTokens: ptr(9), CompletionTokens: ptr(9), FinishReason: "stop", Done: true},
	},
	"a last chunk without a count has the rest of the final one": {
		body: `data: {"choices":[{"text":"a"}],"usage":{"prompt_tokens":9,"completion_tokens":1}}

data: {"choices":[{"text":"b","finish_reason":"length"}],"usage":null}

data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}

data: [DONE]

`,
		want: Response{Chunks: []Chunk{{Tokens: 1}, {Tokens: 3}}, Text: "ab", PromptTokens: ptr(9), CompletionTokens: ptr(4), FinishReason: "length", Done: true},
	},
	"vllm token ids and per-request metrics": {
		body: `data: {"choices":[{"text":"","token_ids":[7]}],"usage":null}

data: {"choices":[{"text":"x","token_ids":[7, 8,9]}],"usage":null}

data: {"choices":[{"text":"","token_ids":[],"finish_reason":"length"}],"usage":null}

data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":54,"prompt_tokens_details":null},"metrics":{"time_to_first_token_ms":1500.5,"queue_time_ms":2,"speculative_decoding":{"mean_acceptance_length":1.23,"acceptance_histogram":[39,1,0,3],"num_spec_steps":43,"num_accepted_draft_tokens":10}}}

data: [DONE]

`,
		want: Response{
			Chunks: []Chunk{{Tokens: 1}, {Tokens: 3}}, Text: "x", PromptTokens: ptr(9), CompletionTokens: ptr(54), FinishReason: "length", Done: true,
			Queued: 2 * time.Millisecond, Prefill: 1500500 * time.Microsecond,
			Spec: &Spec{Steps: 43, Drafts: 10, Histogram: []int{39, 1, 0, 3}, Source: "metrics"},
		},
	},
	"trtllm's mean per iteration counts the prefill, and as many chunks as passes confirm it": {
		body: `data: {"choices":[{"index":0,"text":"a","token_ids":null,"avg_decoded_tokens_per_iter":1.0,"finish_reason":null}],"usage":{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0}}} 

data: {"choices":[{"index":0,"text":"b c","avg_decoded_tokens_per_iter":2.0,"finish_reason":null}],"usage":{"prompt_tokens":9,"completion_tokens":4}}

data: {"choices":[{"index":0,"text":"d","avg_decoded_tokens_per_iter":1.6666666269302368,"finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":5}}

data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":0}}}

data: [DONE]

event: trtllm.perf_metrics
data: {"x":1}

`,
		want: Response{
			Chunks: []Chunk{{Tokens: 1}, {Tokens: 3}, {Tokens: 1}}, Text: "ab cd", PromptTokens: ptr(9), CompletionTokens: ptr(5), CachedTokens: ptr(0), FinishReason: "length", Done: true,
			Spec: &Spec{Steps: 2, Drafts: -1, Source: "iterations"},
		},
	},
	"trtllm's mean without the chunks to confirm it": {
		body: `data: {"choices":[{"text":"a b c","avg_decoded_tokens_per_iter":2.5,"finish_reason":"length"}]}

data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5}}

data: [DONE]

`,
		want: Response{
			Chunks: []Chunk{{}}, Text: "a b c", PromptTokens: ptr(9), CompletionTokens: ptr(5), FinishReason: "length", Done: true,
			Spec: &Spec{Steps: 1, Drafts: -1, Source: "iterations", AtLeast: true},
		},
	},
	"a mean that fits no number of iterations tells nothing": {
		body: `data: {"choices":[{"text":"a","avg_decoded_tokens_per_iter":1.7,"finish_reason":"length"}]}

data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5}}

data: [DONE]

`,
		want: Response{Chunks: []Chunk{{}}, Text: "a", PromptTokens: ptr(9), CompletionTokens: ptr(5), FinishReason: "length", Done: true},
	},
	"lmdeploy's own API streams increments beside a running count": {
		body: `data: {"text":" The","output_ids":[1],"meta_info":{"prompt_tokens":9,"completion_tokens":1,"finish_reason":null,"output_token_logprobs":null}}

data: {"text":" quick fox","output_ids":[2,3],"meta_info":{"prompt_tokens":9,"completion_tokens":3,"finish_reason":null}}

data: {"text":"","output_ids":[],"meta_info":{"prompt_tokens":9,"completion_tokens":3,"finish_reason":{"type":"length"}}}

data: [DONE]

`,
		want: Response{Chunks: []Chunk{{Tokens: 1}, {Tokens: 2}}, Text: " The quick fox", PromptTokens: ptr(9), CompletionTokens: ptr(3), FinishReason: "length", Done: true},
	},
	"ollama puts zeros into every usage but the last": {
		body: `data: {"choices":[{"text":"a","index":0,"finish_reason":null}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}

data: {"choices":[{"text":"b","index":0,"finish_reason":null}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}

data: {"choices":[{"text":"","index":0,"finish_reason":"length"}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}

data: {"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":2,"total_tokens":32}}

data: [DONE]

`,
		want: Response{Chunks: []Chunk{{}, {}}, Text: "ab", PromptTokens: ptr(30), CompletionTokens: ptr(2), FinishReason: "length", Done: true},
	},
	"llama.cpp timings ride in the finish chunk; progress and empty chunks are no tokens": {
		body: `data: {"choices":[{"text":"","index":0,"finish_reason":null}],"prompt_progress":{"total":5000,"cache":0,"processed":2048,"time_ms":101}}

data: {"choices":[{"text":"yml","index":0,"finish_reason":null}]}

data: {"choices":[{"text":"x","index":0,"finish_reason":null}]}

data: {"choices":[{"text":"","finish_reason":"length"}],"id_slot":2,"usage":{"completion_tokens":108,"prompt_tokens":8,"prompt_tokens_details":{"cached_tokens":0}},"timings":{"cache_n":0,"prompt_n":8,"prompt_ms":250.5,"predicted_n":108,"predicted_ms":0.92,"draft_n":59,"draft_n_accepted":48}}

data: [DONE]

`,
		want: Response{
			Chunks: []Chunk{{}, {}}, Text: "ymlx", PromptTokens: ptr(8), CompletionTokens: ptr(108), CachedTokens: ptr(0), FinishReason: "length", Done: true,
			Prefill: 250500 * time.Microsecond, Replica: "2", Spec: &Spec{Steps: 59, Drafts: 48, Source: "timings", AtLeast: true},
		},
	},
	"sglang native objects are cumulative and the last tells all": {
		body: `data: {"text":" The","output_ids":[1],"meta_info":{"id":"p","finish_reason":null,"prompt_tokens":9,"completion_tokens":1,"cached_tokens":0}}

data: {"text":" The quick fox","output_ids":[1,2,3],"meta_info":{"id":"p","finish_reason":null,"prompt_tokens":9,"completion_tokens":3,"cached_tokens":0}}

data: {"text":" The quick fox.","output_ids":[1,2,3,4],"meta_info":{"id":"p","finish_reason":{"type":"length","length":4},"prompt_tokens":9,"forward_entry_time":1784548800.5,"prefill_finished_time":1784548810.75,"queue_time":0.25,"completion_tokens":4,"cached_tokens":2,"dp_rank":3,"spec_num_correct_drafts":3,"spec_verify_ct":2,"spec_correct_drafts_histogram":[0,1,1],"spec_accept_length":2.0}}

data: [DONE]

`,
		want: Response{
			Chunks: []Chunk{{Tokens: 1}, {Tokens: 2}, {Tokens: 1}}, Text: " The quick fox.", PromptTokens: ptr(9), CompletionTokens: ptr(4), CachedTokens: ptr(2), FinishReason: "length", Done: true,
			Queued: 250 * time.Millisecond, Prefill: 10250 * time.Millisecond, Replica: "3",
			Spec: &Spec{Steps: 2, Drafts: 3, Histogram: []int{0, 1, 1}, Source: "meta_info"},
		},
	},
	"sglang increments, old names": {
		body: `data: {"text":"a","output_ids":[1],"meta_info":{"finish_reason":null,"prompt_tokens":9,"completion_tokens":1,"cached_tokens":0}}

data: {"text":"bc","output_ids":[2,3],"meta_info":{"finish_reason":{"type":"length"},"prompt_tokens":9,"completion_tokens":3,"cached_tokens":0,"spec_accept_token_num":1,"spec_verify_ct":1,"spec_accept_histogram":[0,1]}}

`,
		want: Response{
			Chunks: []Chunk{{Tokens: 1}, {Tokens: 2}}, Text: "abc", PromptTokens: ptr(9), CompletionTokens: ptr(3), CachedTokens: ptr(0), FinishReason: "length",
			Spec: &Spec{Steps: 1, Drafts: 1, Histogram: []int{0, 1}, Source: "meta_info"},
		},
	},
	"a build that counts passes only, and a histogram that does not add up": {
		body: `{"text":"abc","meta_info":{"finish_reason":{"type":"length"},"prompt_tokens":9,"completion_tokens":65,"cached_tokens":0,"spec_verify_ct":19,"spec_accept_histogram":[1,2]}}`,
		want: Response{
			Text: "abc", PromptTokens: ptr(9), CompletionTokens: ptr(65), CachedTokens: ptr(0), FinishReason: "length",
			Spec: &Spec{Steps: 19, Drafts: -1, Source: "meta_info"}, Clash: "meta_info counts 19 verify passes, its histogram 3",
		},
	},
	"no verify pass, no speculation facts": {
		body: `{"text":"a","meta_info":{"finish_reason":{"type":"length"},"prompt_tokens":9,"completion_tokens":1,"cached_tokens":0,"spec_verify_ct":0,"spec_accept_rate":0.0}}`,
		max:  1,
		want: Response{Text: "a", PromptTokens: ptr(9), CompletionTokens: ptr(1), CachedTokens: ptr(0), FinishReason: "length"},
	},
	"sglext before the usage chunk": {
		body: `data: {"choices":[{"text":"a b","finish_reason":"length"}]}

data: {"choices":[],"sglext":{"spec_tokens_details":{"spec_num_correct_drafts":63,"spec_verify_ct":43,"spec_correct_drafts_histogram":[11,14,11,4,0,3]}}}

data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":106}}

data: [DONE]

`,
		want: Response{
			Chunks: []Chunk{{}}, Text: "a b", PromptTokens: ptr(9), CompletionTokens: ptr(106), FinishReason: "length", Done: true,
			Spec: &Spec{Steps: 43, Drafts: 63, Histogram: []int{11, 14, 11, 4, 0, 3}, Source: "sglext"},
		},
	},
	"chat meta_info in an answer that is no stream": {
		body: `{"choices":[{"message":{"reasoning":"r","reasoning_content":"r","content":"c"},"finish_reason":"length","meta_info":{"prompt_tokens":9,"completion_tokens":4,"finish_reason":{"type":"length"},"spec_verify_ct":2,"spec_num_correct_drafts":1}}],"usage":{"prompt_tokens":9,"completion_tokens":4}}`,
		want: Response{Text: "rc", PromptTokens: ptr(9), CompletionTokens: ptr(4), FinishReason: "length", Spec: &Spec{Steps: 2, Drafts: 1, Source: "meta_info"}},
	},
	"tool calls are tokens": {
		body: `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}}]}

data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}

`,
		want: Response{Chunks: []Chunk{{}}, FinishReason: "tool_calls"},
	},
	"pretty-printed JSON": {
		body: "\ufeff\n{\n  \"choices\": [\n    {\"text\": \"a\", \"finish_reason\": \"length\"}\n  ]\n}\n",
		want: Response{Text: "a", FinishReason: "length"},
	},
	"JSON lines are a stream": {
		body: `{"choices":[{"text":"a"}]}` + "\r\n" + `{"choices":[{"text":"b","finish_reason":"length"}]}` + "\n",
		want: Response{Chunks: []Chunk{{}, {}}, Text: "ab", FinishReason: "length"},
	},
	"events after [DONE] and named events are not part of the answer": {
		body: "event: message\nid: 1\nretry: 5\ndata: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"length\"}]} \t\n\nevent: sglext_ids\ndata: {\"ids\":[1,2]}\n\ndata: [DONE]\n\nevent: trtllm.perf_metrics\ndata: {\"choices\":[{\"text\":\"z\"}]}\n\n",
		want: Response{Chunks: []Chunk{{}}, Text: "a", FinishReason: "length", Done: true},
	},
	"data over several lines, and no blank line at the end": {
		body: "data: {\"choices\":\ndata: [{\"text\":\"a\",\"finish_reason\":\"stop\"}]}",
		want: Response{Chunks: []Chunk{{}}, Text: "a", FinishReason: "stop"},
	},
	"empty data says nothing": {
		body: "data:\n\ndata: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
		want: Response{Chunks: []Chunk{{}}, Text: "a", FinishReason: "stop", Done: true},
	},
	"running usage is no end": {
		body: `data: {"choices":[{"text":"a"}],"usage":{"prompt_tokens":9,"completion_tokens":1}}` + "\n\n",
		want: Response{Chunks: []Chunk{{Tokens: 1}}, Text: "a", PromptTokens: ptr(9), CompletionTokens: ptr(1)},
		fail: StreamTruncated,
	},
	"an error after tokens": {
		body: "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"error\":{\"object\":\"error\",\"message\":\"The request queue is full.\",\"code\":503}}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n",
		want: Response{Chunks: []Chunk{{Tokens: 1}}, Text: "a", PromptTokens: ptr(9), CompletionTokens: ptr(1), Done: true},
		fail: StreamError,
	},
	"the same error before any token": {
		body: "data: {\"error\":{\"object\":\"error\",\"message\":\"The request queue is full.\",\"code\":503}}\n\ndata: [DONE]\n\n",
		want: Response{Done: true},
		fail: Overloaded,
	},
	"a flat error": {
		body: "data: {\"object\":\"error\",\"message\":\"Internal server error: x\",\"code\":500}\n\n",
		fail: StreamError,
	},
	"an error under status 200 that is no stream": {
		body: `{"error":{"message":"The input (61709 tokens) is longer than the model's context length (40960 tokens).","code":400}}`,
		fail: ContextOverflow,
	},
	"an abort that says that the prompt is too long": {
		body: `data: {"text":"","meta_info":{"finish_reason":{"type":"abort","message":"Input length (150000 tokens) exceeds the maximum allowed length (101128 tokens).","status_code":400},"prompt_tokens":9,"completion_tokens":0}}` + "\n\n",
		want: Response{PromptTokens: ptr(9), CompletionTokens: ptr(0), FinishReason: "abort"},
		fail: ContextOverflow,
	},
	"HTML":             {body: "<!DOCTYPE html><html>\n<body>hello</body></html>\n", fail: Protocol},
	"other text":       {body: "hello there\n\n", fail: Protocol},
	"half a document":  {body: `{"choices":[{"text":"a"`, want: Response{Malformed: 1}, fail: Protocol},
	"an empty body":    {body: "", fail: StreamTruncated},
	"only comments":    {body: ":\n\n: ping\n\n", fail: StreamTruncated},
	"JSON of no known": {body: `{"hello":1}`, fail: StreamTruncated},
}

func TestAnswers(t *testing.T) {
	for name, test := range answers {
		t.Run(name, func(t *testing.T) {
			asked := test.max
			if asked == 0 {
				asked = 17
			}
			test.want.HTTPStatus = 200
			test.want.Streamed = !strings.HasPrefix(strings.TrimLeft(test.body, "\ufeff \n"), "{") || strings.Count(test.body, "\n") == 2
			whole, failed := readAnswer(t, strings.NewReader(test.body), asked)
			class := Class("")
			if failed != nil {
				class = failed.Class
			}
			if class != test.fail {
				t.Errorf("failed with %v, want %q", failed, test.fail)
			}
			if diff := cmp.Diff(test.want, facts(whole)); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
			bytewise, _ := readAnswer(t, iotest.OneByteReader(strings.NewReader(test.body)), asked)
			if diff := cmp.Diff(facts(whole), facts(bytewise)); diff != "" {
				t.Errorf("cut into bytes it reads otherwise:\n%s", diff)
			}
		})
	}
}

func TestAnswerBounds(t *testing.T) {
	long := `data: {"choices":[{"text":"` + strings.Repeat("é", maxText) + `","finish_reason":"length"}],"token_ids":[` + strings.Repeat("163583,", 200_000) + "1]}\n\n"
	if len(long) < 1<<20 {
		t.Fatal("the line is not longer than 1 MiB")
	}
	r, failed := readAnswer(t, strings.NewReader(long), 17)
	if failed != nil || len(r.Text) != maxText || len(r.Chunks) != 1 {
		t.Errorf("%v, %d bytes of text, %d chunks", failed, len(r.Text), len(r.Chunks))
	}
	endless := io.MultiReader(strings.NewReader("data: "), io.LimitReader(neverEnding('x'), 64<<20))
	if _, failed = readAnswer(t, endless, 17); failed == nil || failed.Class != Protocol {
		t.Errorf("an endless line: %v", failed)
	}
}

// neverEnding reads as one byte repeated.
type neverEnding byte

func (b neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}

// TestPassesOf finds every number of passes behind a mean in 32 bits, whether the prefill is among its iterations or not,
// and never another one.
func TestPassesOf(t *testing.T) {
	for generated := 2; generated <= 300; generated++ {
		for passes := 1; passes < generated; passes++ {
			for _, mean := range []float32{float32(generated) / float32(passes+1), float32(generated-1) / float32(passes)} {
				if got, ok := passesOf(generated, float64(mean)); ok && got != passes {
					t.Fatalf("%d tokens, mean %v: %d passes, want %d", generated, mean, got, passes)
				} else if !ok && mean > 1.02 && mean < 90 {
					t.Fatalf("%d tokens, mean %v: %d passes are not found", generated, mean, passes)
				}
			}
		}
	}
	for _, mean := range []float64{1e-300, 1e300, 0.3} {
		if got, ok := passesOf(17, mean); ok {
			t.Errorf("mean %v: %d passes", mean, got)
		}
	}
}
