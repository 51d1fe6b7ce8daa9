package servermetrics

import (
	"math"
	"path/filepath"
	"testing"

	"longctx_exporter/prober"
)

// sound holds what is exported against what can be.
func sound(t *testing.T, s Snapshot) {
	t.Helper()
	for name, v := range map[string]*float64{
		"KVFree": s.KVFree, "DecodeRate": s.DecodeRate, "PromptTokens": s.PromptTokens, "CachedTokens": s.CachedTokens,
		"GeneratedTokens": s.GeneratedTokens, "VerifySteps": s.VerifySteps, "AcceptedDrafts": s.AcceptedDrafts,
		"FinishedRequests": s.FinishedRequests, "AbortedRequests": s.AbortedRequests,
	} {
		if v != nil && !(*v >= 0 && *v <= math.MaxFloat64) {
			t.Errorf("%s is %v", name, *v)
		}
	}
	if v := s.KVUsed; v != nil && !(*v >= 0 && *v <= 1) {
		t.Errorf("KVUsed is %v", *v)
	}
	if v := s.AcceptLength; v != nil && !(*v >= 1 && *v <= math.MaxFloat64) {
		t.Errorf("AcceptLength is %v", *v)
	}
	for _, n := range []*int{s.Running, s.Queued} {
		if n != nil && *n < 0 {
			t.Errorf("%d requests", *n)
		}
	}
}

// soundPool holds what capacity checks rely on against what can be.
func soundPool(t *testing.T, l prober.Load) {
	t.Helper()
	for _, v := range []*float64{l.PoolTokens, l.PoolFree} {
		if v != nil && !(*v >= 0 && *v <= math.MaxFloat64) {
			t.Errorf("pool of %v tokens", *v)
		}
	}
}

// FuzzPage reads two pages of one server after each other, as each engine would.
func FuzzPage(fz *testing.F) {
	names, _ := filepath.Glob("testdata/*.prom")
	for _, name := range names {
		text := []byte(file(fz, filepath.Base(name)))
		fz.Add(text, text)
	}
	fz.Add([]byte(`"vllm:num_requests_running 1\n"`), []byte("vllm:num_requests_running{a=\"\\\n"))
	fz.Add([]byte("vllm:spec_decode_num_drafts_total 10\nvllm:spec_decode_num_accepted_tokens_total 20\n"),
		[]byte("vllm:spec_decode_num_drafts_total 12\nvllm:spec_decode_num_accepted_tokens_total 30\n"))
	fz.Add([]byte("llamacpp:tokens_predicted_total 961\nllamacpp:tokens_predicted_seconds_total 70\n"),
		[]byte("llamacpp:tokens_predicted_total 1.7e308\nllamacpp:tokens_predicted_seconds_total 70.1\n"))
	var rank sglang
	engines := []struct {
		prefix string
		names  map[string]bool
		from   func(page) reading
	}{
		{"sglang", sglangNames(), rank.fromPage},
		{"vllm", vllmNames(), fromVLLM},
		{"llamacpp", llamaCppNames(), fromLlamaCpp},
		{"trtllm", trtllmNames(), fromTRTLLM},
		{"lmdeploy", lmDeployNames(), fromLMDeploy},
		{"", trtllmNames(), fromTRTLLM},
	}
	fz.Fuzz(func(t *testing.T, first, second []byte) {
		for _, e := range engines {
			var tr tracker
			for _, body := range [][]byte{first, second} {
				p, err := parsePage(body, e.prefix, e.names)
				if err != nil {
					continue
				}
				r := e.from(p)
				believe(&r, pulse{})
				soundPool(t, r.load)
				sound(t, tr.take(r))
			}
		}
	})
}

// FuzzLoads reads the answer of a load endpoint.
func FuzzLoads(fz *testing.F) {
	for _, text := range []string{
		`{"loads":[{"dp_rank":0,"num_running_reqs":1,"num_waiting_reqs":2,"num_used_tokens":131198,"max_total_num_tokens":1638400,"token_usage":0.0801,"queues":{"grammar":1,"paused":0,"retracted":1}}]}`,
		`{"loads":[{"num_running_reqs":1,"num_waiting_reqs":2,"max_total_num_tokens":-1e300,"token_usage":7}]}`,
		`{"loads":[]}`, `[]`, `{}`, `<html>`,
		`[{"id":0,"n_ctx":65536,"is_processing":true,"n_prompt_tokens":14336,"next_token":[{"n_decoded":12}]}]`,
		`[{"is_processing":false,"n_ctx":1e308},{"is_processing":true}]`,
	} {
		fz.Add([]byte(text))
	}
	fz.Fuzz(func(t *testing.T, body []byte) {
		if answer, err := parseLoads(body); err == nil {
			var r reading
			answer.replace(&r)
			soundPool(t, r.load)
			var tr tracker
			sound(t, tr.take(r))
		}
		if slots, err := parseSlots(body); err == nil {
			var l prober.Load
			l.PoolTokens, l.PoolFree = slots.pool()
			soundPool(t, l)
			if n := slots.busy(); n < 0 || n > len(slots) {
				t.Errorf("%d of %d slots work", n, len(slots))
			}
		}
	})
}
