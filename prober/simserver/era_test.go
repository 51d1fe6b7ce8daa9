package simserver

import (
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// What SGLang told of one request's speculation, version by version.
func TestSGLangSpeculationByEra(t *testing.T) {
	for era, want := range map[string]string{
		"0.4.1":   "",
		"0.4.6":   "spec_verify_ct",
		"0.5.3":   "spec_verify_ct",
		"0.5.4":   "spec_accept_length spec_accept_rate spec_verify_ct",
		"0.5.6":   "spec_accept_length spec_accept_rate spec_accept_token_num spec_draft_token_num spec_verify_ct",
		"0.5.10":  "spec_accept_histogram spec_accept_length spec_accept_rate spec_accept_token_num spec_draft_token_num spec_verify_ct",
		"0.5.12":  "spec_accept_histogram spec_accept_length spec_accept_rate spec_accepted_drafts spec_correct_drafts_histogram spec_num_correct_drafts spec_num_proposed_drafts spec_proposed_drafts spec_verify_ct",
		"present": "spec_accept_histogram spec_accept_length spec_accept_rate spec_accepted_drafts spec_correct_drafts_histogram spec_num_correct_drafts spec_num_proposed_drafts spec_proposed_drafts spec_verify_ct",
	} {
		inBubble(t, Config{Shape: "sglang", Era: era, Options: Options{SpecMetrics: true}}, func(r *rig) {
			a := r.post("/generate", native(prompt(3000, 1), 40, true))
			var got []string
			for name := range dig(t, a.json(t, -2), "meta_info").(map[string]any) {
				if strings.HasPrefix(name, "spec_") {
					got = append(got, name)
				}
			}
			slices.Sort(got)
			if strings.Join(got, " ") != want {
				t.Errorf("%s tells %q, want %q", era, got, want)
			}
			chat := object{"max_tokens": 20, "return_meta_info": true, "return_spec_tokens_details": true, "messages": []object{{"role": "user", "content": "a"}}}
			v := r.post("/v1/chat/completions", chat).json(t, 0)
			_, meta := dig(t, v, "choices", 0).(map[string]any)["meta_info"]
			if meta != (era == "present") || (v["sglext"] != nil) != (era == "present") {
				t.Errorf("%s: meta_info %v, sglext %v", era, meta, v["sglext"])
			}
		})
	}
}

// Streams of the OpenAI endpoints: where usage stands, and when the head came.
func TestSGLangStreamsByEra(t *testing.T) {
	for era, c := range map[string]struct{ apart, late, steady bool }{
		"0.4.6": {false, false, false}, "0.5.3": {true, false, false}, "0.5.8": {true, false, true}, "0.5.12": {true, true, true},
	} {
		inBubble(t, Config{Shape: "sglang", Era: era, Options: Options{CacheReport: true}}, func(r *rig) {
			a := r.completion(object{"stream": true, "stream_options": streamed["stream_options"]})
			last := a.json(t, -2)
			if apart := len(dig(t, last, "choices").([]any)) == 0; apart != c.apart || dig(t, last, "usage", "completion_tokens").(float64) < 40 {
				t.Errorf("%s: the last chunk is %v", era, last)
			}
			if late := a.at[0].Sub(a.headAt).Seconds() < 0.01; late != c.late {
				t.Errorf("%s: head %v before the first chunk", era, a.at[0].Sub(a.headAt))
			}
			if steady := a.json(t, 0)["usage"] != nil; steady != c.steady {
				t.Errorf("%s: usage in the first chunk: %v", era, steady)
			}
		})
	}
}

// Before outputs were cut at the limit the last verify pass came whole.
func TestSGLangOvershootByEra(t *testing.T) {
	for era, most := range map[string]int{"0.5.3": 55, "0.5.4": 40} {
		inBubble(t, Config{Shape: "sglang", Era: era}, func(r *rig) {
			longest := 0
			for i := range int32(10) {
				r.post("/generate", native(prompt(2000, i), 40, false))
				longest = max(longest, r.lastTruth().CompletionTokens)
				r.post("/generate", native(prompt(2000, i), 1, false))
				if n := r.lastTruth().CompletionTokens; n != 1 {
					t.Errorf("%s: %d tokens for 1", era, n)
				}
			}
			if longest > most || most > 40 && longest == 40 {
				t.Errorf("%s: %d tokens", era, longest)
			}
		})
	}
}

// Series that came and went.
func TestMetricsByEra(t *testing.T) {
	for _, c := range []struct{ shape, era, path, has, lacks string }{
		{"sglang", "0.4.6", "/metrics", `sglang:num_running_reqs{model_name="kimi-k2.6"} 0.0|sglang:avg_request_queue_latency|sglang:cached_tokens_total{model_name="kimi-k2.6"}`, "num_aborted|realtime|verify|spec_accept_rate|cuda_graph|kv_used|page_size"},
		{"sglang", "0.5.3", "/metrics", `sglang:num_running_reqs{engine_type="unified",model_name="kimi-k2.6",pp_rank="0",tp_rank="0"} 0.0|sglang:num_aborted_requests_total{model_name="kimi-k2.6"} 0.0|sglang:queue_time_seconds_count`, "realtime|spec_accept_rate"},
		{"sglang", "0.5.8", "/metrics", `sglang:realtime_tokens_total{engine_type="unified",mode="decode",model_name="kimi-k2.6",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 0.0|mode="decode_cuda_graph",model_name="kimi-k2.6",moe_ep_rank="0",pp_rank="0",tp_rank="3"`, "verify_calls|kv_used"},
		{"sglang", "0.5.12", "/metrics", `sglang:kv_used_tokens|sglang:kv_evictable_tokens|sglang:page_size|sglang:num_requests_total{engine_type="unified",model_name="kimi-k2.6"} 0.0`, "verify_calls|spec_num_steps"},
		{"sglang", "present", "/metrics", `sglang:spec_verify_calls_total|sglang:spec_num_steps|sglang:max_total_num_tokens{engine_type="unified",model_name="kimi-k2.6",moe_ep_rank="0",pp_rank="0",tp_rank="7"} 218484.0`, "avg_request_queue|time_per_output"},
		{"sglang", "present", "/v1/loads?format=prometheus", `sglang_num_running_reqs{dp_rank="0"} 0.0|sglang_memory_token_capacity{dp_rank="0"} 218484.0`, "sglang:"},
		{"vllm", "v0", "/metrics", `vllm:gpu_cache_usage_perc{model_name="kimi-k2.6"} 0.0|vllm:spec_decode_draft_acceptance_rate|vllm:time_per_output_token_seconds_bucket{model_name="kimi-k2.6",le="0.1"} 0.0|vllm:num_requests_swapped`, "kv_cache_usage|num_drafts|inter_token|engine="},
		{"vllm", "0.8.3", "/metrics", "vllm:spec_decode_num_accepted_tokens_total|vllm:spec_decode_num_draft_tokens_total", "num_drafts|per_pos"},
		{"vllm", "0.10.1", "/metrics", "vllm:gpu_cache_usage_perc|vllm:kv_cache_usage_perc|vllm:gpu_prefix_cache_hits_total|vllm:prefix_cache_hits_total|vllm:spec_decode_num_accepted_tokens_per_pos_total", "by_source|swapped"},
		{"vllm", "0.32.0", "/metrics", `vllm:kv_cache_usage_perc{engine="0",model_name="kimi-k2.6"} 0.0|vllm:num_requests_waiting_by_reason{engine="0",model_name="kimi-k2.6",reason="capacity"} 0.0|vllm:inter_token_latency_seconds_count`, "gpu_cache|per_output"},
		{"llamacpp", "b9820", "/metrics", "llamacpp:tokens_predicted_total 0", "spec_decode|cached_total"},
		{"llamacpp", "b10290", "/metrics", "llamacpp:spec_decode_num_drafts_total 0|llamacpp:prompt_tokens_cached_total 0", "per_pos"},
		{"trtllm", "1.0", "/prometheus/metrics", "\ntime_to_first_token_seconds_count{", "trtllm_"},
		{"trtllm", "1.2", "/prometheus/metrics", `trtllm_num_requests_running{engine_type="undefined",model_name="undefined"} 0.0|trtllm_spec_decode_drafted_tokens_total`, "\ntime_to"},
		{"trtllm", "1.2", "/metrics", "[]", "#"},
		{"lmdeploy", "", "/metrics", `lmdeploy:spec_decode_num_drafts_total{engine="0",model_name="kimi-k2.6"} 0.0|lmdeploy:num_requests_running`, "sglang"},
	} {
		inBubble(t, Config{Shape: c.shape, Era: c.era}, func(r *rig) {
			text := r.get(c.path).events[0]
			for _, want := range strings.Split(c.has, "|") {
				if !strings.Contains(text, want) {
					t.Errorf("%s %s: no %s in\n%s", c.shape, c.era, want, text)
				}
			}
			for _, none := range strings.Split(c.lacks, "|") {
				if strings.Contains(text, none) {
					t.Errorf("%s %s has %s", c.shape, c.era, none)
				}
			}
		})
	}
}

// Python's servers give OpenMetrics and compression to those who ask; llama-server does not.
func TestPageNegotiation(t *testing.T) {
	for _, shape := range []string{"sglang", "vllm", "llamacpp"} {
		inBubble(t, Config{Shape: shape}, func(r *rig) {
			req, _ := http.NewRequest(http.MethodGet, "http://sim/metrics", nil)
			req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
			req.Header.Set("Accept-Encoding", "gzip")
			resp, err := r.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body := io.Reader(resp.Body)
			if resp.Header.Get("Content-Encoding") == "gzip" {
				if body, err = gzip.NewReader(resp.Body); err != nil {
					t.Fatal(err)
				}
			}
			data, err := io.ReadAll(body)
			if err != nil {
				t.Fatal(err)
			}
			text, negotiates := string(data), shape != "llamacpp"
			if open := strings.HasPrefix(resp.Header.Get("Content-Type"), "application/openmetrics-text"); open != negotiates {
				t.Errorf("%s: %v", shape, resp.Header)
			}
			if strings.HasSuffix(text, "# EOF\n") != negotiates || strings.Contains(text, "_total counter") == negotiates {
				t.Errorf("%s:\n%s", shape, text)
			}
		})
	}
	inBubble(t, Config{Shape: "sglang", Options: Options{FlatNames: true}}, func(r *rig) {
		if text := r.get("/metrics").events[0]; !strings.Contains(text, "sglang_num_running_reqs{") || strings.Contains(text, "sglang:") {
			t.Error(text)
		}
	})
}

func TestVLLMAnswersByEra(t *testing.T) {
	for era, c := range map[string]struct{ flat, ids, zero, spec bool }{
		"0.8.5": {true, false, false, false}, "0.11.0": {false, true, false, false}, "0.32.0": {false, true, true, true},
	} {
		inBubble(t, Config{Shape: "vllm", Era: era, Options: Options{CacheReport: true, SpecMetrics: true}}, func(r *rig) {
			v := r.completion(object{"return_token_ids": true}).json(t, 0)
			if ids := dig(t, v, "choices", 0).(map[string]any)["token_ids"]; (ids != nil) != c.ids {
				t.Errorf("%s: ids %v", era, ids)
			}
			if details := dig(t, v, "usage").(map[string]any)["prompt_tokens_details"]; (details != nil) != c.zero || (v["metrics"] != nil) != c.spec {
				t.Errorf("%s: %v", era, v)
			}
			if refusal := r.post("/v1/completions", object{"model": "x", "prompt": "a"}).json(t, 0); (refusal["object"] == "error") != c.flat {
				t.Errorf("%s: %v", era, refusal)
			}
		})
	}
}
