package simserver

import (
	"net/http"
	"strings"
	"testing"
)

func TestTRTLLMTellsItsMean(t *testing.T) {
	inBubble(t, Config{Shape: "trtllm"}, func(r *rig) {
		a := r.completion(streamed)
		truth := r.lastTruth()
		for i := range a.events[:len(a.events)-2] {
			e := a.json(t, i)
			n := dig(t, e, "usage", "completion_tokens").(float64)
			near(t, "mean", dig(t, e, "choices", 0, "avg_decoded_tokens_per_iter").(float64), n/float64(i+1), 1e-6)
		}
		if len(a.events) != len(truth.Accepted)+3 {
			t.Errorf("%d events after %d passes", len(a.events), len(truth.Accepted))
		}
		last := dig(t, a.json(t, -2), "usage")
		if dig(t, last, "completion_tokens") != 40.0 || dig(t, last, "prompt_tokens_details", "cached_tokens") != 0.0 {
			t.Errorf("usage %v", last)
		}
	})
}

func TestTRTLLMForbids(t *testing.T) {
	inBubble(t, Config{Shape: "trtllm"}, func(r *rig) {
		for field, want := range map[string]string{
			"cache_salt": "'loc': ('body', 'cache_salt')", "return_routed_experts": "extra_forbidden",
		} {
			if a := r.completion(object{field: "x"}); a.status != http.StatusBadRequest || !strings.Contains(a.events[0], want) {
				t.Errorf("%s: %d %s", field, a.status, a.events[0])
			}
		}
		if a := r.completion(object{"max_tokens": 300_000}); a.status != http.StatusBadRequest || !strings.Contains(a.events[0], "should not exceed max_seq_len (200000)") {
			t.Errorf("%d %s", a.status, a.events[0])
		}
		models := r.get("/v1/models").events[0]
		if !strings.Contains(models, `"owned_by":"tensorrt_llm"`) || strings.Contains(models, "max_model_len") {
			t.Error(models)
		}
		if a := r.post("/_internal/tokenize", object{"prompt": "a", "add_special_tokens": false}); a.status != http.StatusBadRequest {
			t.Errorf("%d %s", a.status, a.events[0])
		}
	})
}

func TestLMDeployGenerates(t *testing.T) {
	inBubble(t, Config{Shape: "lmdeploy"}, func(r *rig) {
		a := r.post("/generate", object{"input_ids": prompt(3000, 1), "max_tokens": 40, "ignore_eos": true, "stream": true})
		truth := r.lastTruth()
		total, text := 0, ""
		for i := range a.events[:len(a.events)-1] {
			e := a.json(t, i)
			total += len(dig(t, e, "output_ids").([]any))
			text += dig(t, e, "text").(string)
			if n := dig(t, e, "meta_info", "completion_tokens"); n != float64(total) {
				t.Errorf("event %d counts %v of %d tokens", i, n, total)
			}
		}
		meta := dig(t, a.json(t, -2), "meta_info")
		if total != 40 || text == "" || dig(t, meta, "finish_reason", "type") != "length" || dig(t, meta, "cached_tokens") != nil {
			t.Errorf("%d tokens, %v", total, meta)
		}
		if len(a.events) != len(truth.Accepted)+2 || a.events[len(a.events)-1] != "[DONE]" {
			t.Errorf("%d events after %d passes", len(a.events), len(truth.Accepted))
		}
	})
}

func TestLMDeployRefuses(t *testing.T) {
	inBubble(t, Config{Shape: "lmdeploy"}, func(r *rig) {
		if a := r.completion(nil); a.status != http.StatusBadRequest {
			t.Errorf("ids on completions: %d %s", a.status, a.events[0])
		}
		a := r.post("/generate", object{"input_ids": prompt(200_000, 1), "max_tokens": 1})
		if want := "Input length (200000) must be smaller than the model context length (200000)."; a.status != http.StatusBadRequest || !strings.Contains(a.events[0], want) {
			t.Errorf("%d %s", a.status, a.events[0])
		}
		if a := r.completion(object{"model": "x", "prompt": "a"}); a.status != http.StatusNotFound {
			t.Errorf("%d %s", a.status, a.events[0])
		}
		if ids := dig(t, r.post("/v1/encode", object{"input": "a day"}).json(t, 0), "input_ids").([]any); len(ids) < 2 {
			t.Errorf("ids %v", ids)
		}
	})
}

func TestOllamaCountsAtTheEndAndCutsSilently(t *testing.T) {
	inBubble(t, Config{Shape: "ollama"}, func(r *rig) {
		a := r.completion(object{"prompt": "a day", "max_tokens": 5, "stream": true, "stream_options": object{"include_usage": true}})
		for i := range a.events[:len(a.events)-2] {
			if n := dig(t, a.json(t, i), "usage", "prompt_tokens"); n != 0.0 {
				t.Errorf("event %d counts %v", i, n)
			}
		}
		last := a.json(t, -2)
		if u := dig(t, last, "usage"); dig(t, u, "completion_tokens") != 5.0 || dig(t, u, "prompt_tokens").(float64) <= 5 || len(dig(t, last, "choices").([]any)) != 0 {
			t.Errorf("last %v", last)
		}
		long := r.completion(object{"prompt": strings.Repeat("the day ", 150_000), "max_tokens": 1})
		if n := dig(t, long.json(t, 0), "usage", "prompt_tokens"); long.status != http.StatusOK || n != 100_000.0 {
			t.Errorf("%d, %v prompt tokens", long.status, n)
		}
		if a := r.completion(nil); a.status != http.StatusBadRequest || !strings.Contains(a.events[0], "cannot unmarshal array") {
			t.Errorf("ids: %d %s", a.status, a.events[0])
		}
	})
}
