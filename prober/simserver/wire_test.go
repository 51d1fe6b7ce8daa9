package simserver

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// dig follows a path of keys and indices.
func dig(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				t.Fatalf("no object at %v of %v", s, path)
			}
			v = m[s]
		case int:
			l, ok := v.([]any)
			if !ok || s >= len(l) {
				t.Fatalf("no list with %d at %v", s, path)
			}
			v = l[s]
		}
	}
	return v
}

func (r *rig) completion(extra object) answer {
	ask := object{"model": r.server.live().config.Profile.Model, "prompt": prompt(3000, 1), "max_tokens": 40, "ignore_eos": true}
	for k, v := range extra {
		ask[k] = v
	}
	return r.post("/v1/completions", ask)
}

var streamed = object{"stream": true, "stream_options": object{"include_usage": true, "continuous_usage_stats": true}}

func TestSGLangNativeStreamIsCumulative(t *testing.T) {
	inBubble(t, Config{Shape: "sglang"}, func(r *rig) {
		ask := native(prompt(3000, 1), 40, true)
		ask["rid"] = "probe-1"
		a := r.post("/generate", ask)
		truth := r.lastTruth()
		if a.headAt.After(a.at[0].Add(-time.Second)) {
			t.Error("the head did not come at once")
		}
		total := 0
		for i := range a.events[:len(a.events)-1] {
			e := a.json(t, i)
			n := int(dig(t, e, "meta_info", "completion_tokens").(float64))
			step := 1
			if i > 0 {
				step = truth.Accepted[i-1]
			}
			if total = min(40, total+step); n != total || len(dig(t, e, "output_ids").([]any)) != total {
				t.Fatalf("event %d: %d tokens, want %d", i, n, total)
			}
			if spec := dig(t, e, "meta_info", "spec_verify_ct"); (spec != nil) != (i == len(a.events)-2) {
				t.Errorf("event %d tells spec_verify_ct %v", i, spec)
			}
		}
		meta := dig(t, a.json(t, -2), "meta_info")
		correct, weighted, sum := 0, 0, 0
		for _, k := range truth.Accepted {
			correct += k - 1
		}
		for i, h := range dig(t, meta, "spec_correct_drafts_histogram").([]any) {
			sum, weighted = sum+int(h.(float64)), weighted+i*int(h.(float64))
		}
		for name, want := range map[string]any{
			"id": "probe-1", "spec_verify_ct": float64(len(truth.Accepted)), "spec_num_correct_drafts": float64(correct),
			"cached_tokens": 0.0, "prompt_tokens": 3000.0, "spec_num_proposed_drafts": float64(15 * len(truth.Accepted)),
			"spec_accept_length": 40 / float64(len(truth.Accepted)),
		} {
			if got := dig(t, meta, name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if sum != len(truth.Accepted) || weighted != correct || dig(t, meta, "finish_reason", "type") != "length" {
			t.Errorf("histogram %v", meta)
		}
		if a.events[len(a.events)-1] != "[DONE]" {
			t.Error("no [DONE]")
		}
		span := dig(t, meta, "prefill_finished_time").(float64) - dig(t, meta, "forward_entry_time").(float64)
		near(t, "prefill as told", span, truth.PrefillSeconds, 1e-4)
	})
}

func TestSGLangOpenAIStream(t *testing.T) {
	for _, report := range []bool{false, true} {
		options := Options{CacheReport: report, SpecMetrics: report}
		inBubble(t, Config{Shape: "sglang", Options: options}, func(r *rig) {
			r.completion(nil)
			a := r.completion(object{"return_spec_tokens_details": true, "stream": true, "stream_options": streamed["stream_options"]})
			if a.headAt.Before(a.at[0].Add(-time.Millisecond)) {
				t.Error("the head came before the first token")
			}
			usage := dig(t, a.json(t, -2), "usage")
			if dig(t, usage, "prompt_tokens") != 3000.0 || dig(t, usage, "completion_tokens") != 40.0 {
				t.Errorf("%v", usage)
			}
			details := dig(t, usage, "prompt_tokens_details")
			if report && dig(t, details, "cached_tokens") != 2999.0 || !report && details != nil {
				t.Errorf("details %v", details)
			}
			if ext := a.json(t, -3)["sglext"]; (ext != nil) != report {
				t.Errorf("sglext %v", ext)
			} else if report && dig(t, ext, "spec_tokens_details", "spec_verify_ct") != float64(len(r.lastTruth().Accepted)) {
				t.Errorf("%v", ext)
			}
			if n := dig(t, a.json(t, 0), "usage", "completion_tokens"); n != 1.0 {
				t.Errorf("the first chunk counts %v", n)
			}
		})
	}
}

// What a client can tell a server by, and its limits.
func TestIdentity(t *testing.T) {
	for _, c := range []struct {
		shape, path string
		want        object
	}{
		{"sglang", "/v1/models", object{"data.0.owned_by": "sglang", "data.0.max_model_len": 200000.0, "data.0.id": "kimi-k2.6"}},
		{"sglang", "/server_info", object{
			"version": "0.5.15.post1", "max_total_num_tokens": 218484.0, "max_req_input_len": 199994.0, "page_size": 1.0,
			"stream_interval": 1.0, "dp_size": 1.0, "speculative_algorithm": "DDTREE", "speculative_num_draft_tokens": 16.0,
			"api_key": "sk-never-show-this-secret", "context_length": nil, "internal_states.0.memory_usage.token_capacity": 218484.0,
		}},
		{"sglang", "/get_server_info", object{"status": "ready"}},
		{"sglang", "/v1/loads", object{"loads.0.num_running_reqs": 0.0, "loads.0.max_total_num_tokens": 218484.0}},
		{"vllm", "/v1/models", object{"data.0.owned_by": "vllm", "data.0.max_model_len": 200000.0}},
		{"vllm", "/version", object{"version": "0.32.0"}},
		{"llamacpp", "/v1/models", object{"data.0.owned_by": "llamacpp", "data.0.meta.n_ctx": 200000.0}},
		{"llamacpp", "/props", object{"default_generation_settings.n_ctx": 200000.0, "total_slots": 1.0, "build_info": llamaBuild}},
		{"llamacpp", "/slots", object{"0.is_processing": false, "0.n_ctx": 200000.0}},
		{"llamacpp", "/health", object{"status": "ok"}},
		{"openai", "/v1/models", object{"data.0.owned_by": "organization"}},
	} {
		inBubble(t, Config{Shape: c.shape}, func(r *rig) {
			a := r.get(c.path)
			var v any
			if err := json.Unmarshal([]byte(a.events[0]), &v); err != nil || a.status != 200 {
				t.Fatalf("%s %s: %d %v", c.shape, c.path, a.status, err)
			}
			for path, want := range c.want {
				var steps []any
				for _, s := range strings.Split(path, ".") {
					if s == "0" {
						steps = append(steps, 0)
						continue
					}
					steps = append(steps, s)
				}
				if got := dig(t, v, steps...); got != want {
					t.Errorf("%s %s: %s is %v, want %v", c.shape, c.path, path, got, want)
				}
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	long, tooMany := prompt(200_001, 1), prompt(199_990, 1)
	for _, c := range []struct {
		name, shape, path string
		ask               object
		status            int
		body              string // pattern
	}{
		{"over the context", "sglang", "/v1/completions", object{"prompt": long, "max_tokens": 1}, 400, `"message":"The input \(200001 tokens\) is longer than the model's context length \(200000 tokens\)\."`},
		{"with the output", "sglang", "/v1/completions", object{"prompt": tooMany, "max_tokens": 100}, 400, `maximum context length of 200000 tokens\. You requested a total of 200090`},
		{"over the scheduler's", "sglang", "/v1/completions", object{"prompt": prompt(199_995, 1), "max_tokens": 1}, 400, `Input length \(199995 tokens\) exceeds the maximum allowed length \(199994 tokens\)`},
		{"the same on a stream", "sglang", "/v1/completions", object{"prompt": prompt(199_995, 1), "max_tokens": 1, "stream": true}, 200, `^\{"error":\{"code":400.*"type":"BAD_REQUEST"`},
		{"native stream", "sglang", "/generate", native(long, 1, true), 200, `^\{"error":\{.*longer than the model's`},
		{"native", "sglang", "/generate", native(long, 1, false), 400, `^\{"error":\{.*longer than the model's`},
		{"bad id", "sglang", "/v1/completions", object{"prompt": []int{163_839}, "max_tokens": 1}, 400, `out of vocabulary`},
		{"no max_tokens", "sglang", "/v1/completions", object{"prompt": "a", "max_tokens": 0}, 400, `"type":"Bad Request"`},
		{"unknown path", "sglang", "/nothing", object{}, 404, `\{"detail":"Not Found"\}`},
		{"over the context", "vllm", "/v1/completions", object{"prompt": tooMany, "max_tokens": 100}, 400, `^\{"error":\{"code":400,"message":"This model's maximum context length is 200000 tokens\. However, you requested 100 output tokens`},
		{"model", "vllm", "/v1/completions", object{"model": "x", "prompt": "a"}, 404, "The model `x` does not exist"},
		{"bad id", "vllm", "/v1/completions", object{"prompt": []int{1 << 20}}, 400, `Token id 1048576 is out of vocabulary`},
		{"stream options", "vllm", "/v1/completions", object{"prompt": "a", "stream_options": object{}}, 400, `only be defined when`},
		{"over the context", "llamacpp", "/v1/completions", object{"prompt": long}, 400, `"n_ctx":200000,"n_prompt_tokens":200001,"type":"exceed_context_size_error"`},
		{"bad id", "llamacpp", "/completion", object{"prompt": []int{-1}}, 400, `Prompt contains invalid tokens`},
		{"ids", "openai", "/v1/completions", object{"model": "kimi-k2.6", "prompt": []int{5000}}, 400, `cannot unmarshal array`},
		{"model", "openai", "/v1/chat/completions", object{"model": "x"}, 404, `model_not_found`},
		{"no tokenizer", "openai", "/tokenize", object{"prompt": "a"}, 404, `not found`},
	} {
		inBubble(t, Config{Shape: c.shape}, func(r *rig) {
			a := r.post(c.path, c.ask)
			if a.status != c.status || !regexp.MustCompile(c.body).MatchString(a.events[0]) {
				t.Errorf("%s, %s: %d %s", c.shape, c.name, a.status, a.events[0])
			}
		})
	}
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		shape, open, closed, body string
	}{
		{"sglang", "/metrics", "/v1/models", `{"error":"Unauthorized"}`},
		{"vllm", "/metrics", "/v1/models", `{"error":"Unauthorized"}`},
		{"llamacpp", "/health", "/metrics", `{"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}}`},
		{"openai", "/truth", "/v1/models", `{"error":{"code":"invalid_api_key"`},
	} {
		inBubble(t, Config{Shape: c.shape, APIKey: "k"}, func(r *rig) {
			if a := r.get(c.open); a.status != 200 {
				t.Errorf("%s %s: %d", c.shape, c.open, a.status)
			}
			if a := r.get(c.closed); a.status != 401 || !strings.HasPrefix(a.events[0], c.body) {
				t.Errorf("%s %s: %d %s", c.shape, c.closed, a.status, a.events[0])
			}
			req, _ := http.NewRequest(http.MethodGet, "http://sim"+c.closed, nil)
			req.Header.Set("Authorization", "Bearer k")
			resp, err := r.client.Do(req)
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%s with the key: %v %v", c.shape, resp, err)
			}
			resp.Body.Close()
		})
	}
}

func TestVLLMStream(t *testing.T) {
	for _, on := range []bool{false, true} {
		inBubble(t, Config{Shape: "vllm", Options: Options{CacheReport: on, SpecMetrics: on}}, func(r *rig) {
			a := r.completion(object{"stream": true, "stream_options": streamed["stream_options"], "return_token_ids": true})
			truth := r.lastTruth()
			if len(a.events) != len(truth.Accepted)+3 {
				t.Fatalf("%d events for %d steps", len(a.events), len(truth.Accepted))
			}
			for i, k := range truth.Accepted[:len(truth.Accepted)-1] {
				if n := len(dig(t, a.json(t, i+1), "choices", 0, "token_ids").([]any)); n != k {
					t.Errorf("chunk %d holds %d ids, the step committed %d", i+1, n, k)
				}
			}
			last := a.json(t, -2)
			if d := dig(t, last, "usage", "prompt_tokens_details"); (d != nil) != on {
				t.Errorf("details %v", d)
			}
			if m := last["metrics"]; (m != nil) != on {
				t.Errorf("metrics %v", m)
			} else if on && dig(t, m, "speculative_decoding", "num_spec_steps") != float64(len(truth.Accepted)) {
				t.Errorf("metrics %v", m)
			}
		})
	}
}

// One chunk a token, also where a step commits several; headers when the slot is taken; usage and timings at the end.
func TestLlamaStream(t *testing.T) {
	inBubble(t, Config{Shape: "llamacpp"}, func(r *rig) {
		start := time.Now()
		a := r.completion(object{"stream": true, "prompt": prompt(60_010, 1)})
		truth := r.lastTruth()
		if a.headAt.Sub(start) > time.Second || len(a.events) != 42 {
			t.Fatalf("head after %v, %d events", a.headAt.Sub(start), len(a.events))
		}
		last, drafts := a.json(t, -2), 0
		for _, k := range truth.Accepted {
			drafts += k - 1
		}
		timings := dig(t, last, "timings")
		if dig(t, timings, "draft_n_accepted") != float64(drafts) || dig(t, timings, "prompt_n") != 60_010.0 ||
			dig(t, last, "usage", "prompt_tokens_details", "cached_tokens") != 0.0 {
			t.Errorf("%v", last)
		}
		near(t, "prompt_ms", dig(t, timings, "prompt_ms").(float64)/1000, truth.PrefillSeconds, 1e-6)
		sum := 0.0
		for _, s := range truth.StepSeconds {
			sum += s
		}
		near(t, "predicted_ms", dig(t, timings, "predicted_ms").(float64)/1000, sum, 1e-6)
		again := r.completion(object{"stream": true, "prompt": prompt(60_010, 1), "return_progress": true})
		if p := dig(t, again.json(t, 0), "prompt_progress", "cache"); p != 60_009.0 {
			t.Errorf("progress tells %v cached", p)
		}
		native := r.post("/completion", object{"prompt": "Hello world", "n_predict": 4, "stream": true})
		if end := native.json(t, -1); end["stop"] != true || end["tokens_evaluated"] != 3.0 {
			t.Errorf("native end %v", end)
		}
	})
}

// A long prefill meets comments that keep the connection open.
func TestLlamaPings(t *testing.T) {
	inBubble(t, Config{Shape: "llamacpp"}, func(r *rig) {
		data, _ := json.Marshal(object{"prompt": prompt(131_072, 1), "max_tokens": 1, "stream": true})
		resp, err := r.client.Post("http://sim/v1/completions", "application/json", bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		all, err := io.ReadAll(resp.Body)
		if n := bytes.Count(all, []byte(":\n\n")); err != nil || n != 4 { // 138 s of prefill, one each 30 s
			t.Errorf("%d comments, %v", n, err)
		}
	})
}

// A server that is closed cuts off what it was answering.
func TestCloseCutsOff(t *testing.T) {
	for _, stream := range []bool{true, false} {
		inBubble(t, Config{Shape: "vllm"}, func(r *rig) {
			done := make(chan answer)
			go func() { done <- r.completion(object{"prompt": prompt(60_010, 1), "stream": stream}) }()
			time.Sleep(10 * time.Second)
			r.server.live().engine.abortMatching(func(string) bool { return false }) // wakes the engine for nothing
			go r.server.Close()
			if a := <-done; a.err == nil {
				t.Errorf("stream %v: the answer ended well: %+v", stream, a)
			}
		})
	}
}

func TestChatStreams(t *testing.T) {
	for _, shape := range []string{"sglang", "vllm", "llamacpp", "openai"} {
		inBubble(t, Config{Shape: shape}, func(r *rig) {
			a := r.post("/v1/chat/completions", object{
				"model": "kimi-k2.6", "stream": true, "stream_options": object{"include_usage": true}, "max_tokens": 20,
				"ignore_eos": true, "messages": []object{{"role": "user", "content": strings.Repeat(" word", 3000)}},
			})
			if a.events[len(a.events)-1] != "[DONE]" {
				t.Fatalf("%s: %v", shape, a.events)
			}
			if role := dig(t, a.json(t, 0), "choices", 0, "delta", "role"); role != "assistant" || a.at[1].Sub(a.at[0]) > time.Millisecond {
				t.Errorf("%s: first role %v, %v before the first text", shape, role, a.at[1].Sub(a.at[0]))
			}
			usage := a.json(t, -2)
			if len(dig(t, usage, "choices").([]any)) != 0 || dig(t, usage, "usage", "completion_tokens") != 20.0 {
				t.Errorf("%s: %v", shape, usage)
			}
			text, finish := "", any(nil)
			for i := range a.events[:len(a.events)-2] {
				c := dig(t, a.json(t, i), "choices", 0)
				s, _ := dig(t, c, "delta", "content").(string)
				text += s
				if f := dig(t, c, "finish_reason"); f != nil {
					finish = f
				}
			}
			if n := len(r.server.live().tok.encode(text)); n != 20 || finish != "length" {
				t.Errorf("%s: %d tokens of text, finish %v", shape, n, finish)
			}
		})
	}
}

// An answer that is not streamed tells the same.
func TestWholeAnswers(t *testing.T) {
	for _, shape := range []string{"sglang", "vllm", "llamacpp", "openai"} {
		inBubble(t, Config{Shape: shape}, func(r *rig) {
			ask := object{}
			if shape == "openai" {
				ask["prompt"] = strings.Repeat(" word", 3000)
			}
			start := time.Now()
			v := r.completion(ask).json(t, 0)
			truth := r.lastTruth()
			if dig(t, v, "usage", "completion_tokens") != 40.0 || dig(t, v, "choices", 0, "finish_reason") != "length" ||
				dig(t, v, "object") != "text_completion" {
				t.Errorf("%s: %v", shape, v)
			}
			near(t, shape, time.Since(start).Seconds(), truth.TotalSeconds, 1e-6)
		})
	}
}

// Other servers' fields never show: no API answer names the simulator or its truth.
func TestNothingTellsTheSimulator(t *testing.T) {
	for _, shape := range []string{"sglang", "vllm", "llamacpp", "openai"} {
		inBubble(t, Config{Shape: shape}, func(r *rig) {
			seen := ""
			for _, path := range []string{"/v1/models", "/server_info", "/props", "/version", "/metrics", "/slots", "/v1/loads"} {
				a := r.get(path)
				for k, v := range a.header {
					seen += k + strings.Join(v, " ")
				}
				seen += strings.Join(a.events, " ")
			}
			for _, word := range []string{"simserver", "time_scale", "truth", "recomputed", "step_seconds"} {
				if strings.Contains(strings.ToLower(seen), word) {
					t.Errorf("%s shows %q", shape, word)
				}
			}
		})
	}
}
