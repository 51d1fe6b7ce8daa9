package servermetrics

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// packed compresses a page.
func packed(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestEngines(t *testing.T) {
	vllmPage := Snapshot{Up: true, Running: n(1), KVUsed: f(0.25), KVFree: f(1200), GeneratedTokens: f(110)}
	trt := Snapshot{
		Up: true, Running: n(2), Queued: n(1), KVUsed: f(0.6), KVFree: f(25600), PromptTokens: f(90000), CachedTokens: f(1024),
		GeneratedTokens: f(4000), VerifySteps: f(1000), AcceptedDrafts: f(1300), FinishedRequests: f(12),
	}
	lm := Snapshot{
		Up: true, Running: n(3), Queued: n(3), KVUsed: f(0.5), PromptTokens: f(1000), GeneratedTokens: f(110), VerifySteps: f(50),
		AcceptedDrafts: f(100), FinishedRequests: f(8),
	}
	lmOld := lm
	lmOld.GeneratedTokens, lmOld.FinishedRequests = nil, nil
	open := file(t, "vllm-openmetrics.prom")
	for _, tt := range []struct {
		name    string
		dialect inference.Dialect
		path    string
		body    string
		want    Snapshot
	}{
		{"OpenMetrics", inference.VLLM, "/metrics", open, vllmPage},
		{"compressed", inference.VLLM, "/metrics", packed(t, open), vllmPage},
		{"TensorRT-LLM", inference.TRTLLM, "/prometheus/metrics", file(t, "trtllm.prom"), trt},
		{"TensorRT-LLM under Dynamo", inference.TRTLLM, "/prometheus/metrics", strings.ReplaceAll(file(t, "trtllm.prom"), "trtllm_", "trtllm:"), trt},
		{"TensorRT-LLM of old, no prefix", inference.TRTLLM, "/prometheus/metrics", "# TYPE request_success_total counter\nrequest_success_total{finished_reason=\"stop\"} 3.0\n", Snapshot{Up: true, FinishedRequests: f(3)}},
		{"LMDeploy", inference.LMDeploy, "/metrics", file(t, "lmdeploy.prom"), lm},
		{"LMDeploy of old counts tokens twice", inference.LMDeploy, "/metrics", strings.ReplaceAll(file(t, "lmdeploy.prom"), "request_success", "x"), lmOld},
		{"the last line is cut off", inference.VLLM, "/metrics", "vllm:num_requests_running 1\nvllm:generation_tokens_total 12", Snapshot{Up: true, Running: n(1)}},
		{"a counter on a worker of its own", inference.VLLM, "/metrics", "vllm:generation_tokens_total{pid=\"1\"} 5\nvllm:generation_tokens_total{pid=\"2\"} 6\nvllm:kv_cache_usage_perc{pid=\"1\"} 0.1\nvllm:kv_cache_usage_perc{pid=\"2\"} 0.2\n", Snapshot{Up: true, GeneratedTokens: f(11)}},
		{"a share in percent", inference.VLLM, "/metrics", "vllm:kv_cache_usage_perc 73.4\n", Snapshot{Up: true}},
		{"cached prompts by source", inference.VLLM, "/metrics", file(t, "vllm-by-source.prom"), Snapshot{
			Up: true, Running: n(3), Queued: n(4), PromptTokens: f(1010), CachedTokens: f(410), GeneratedTokens: f(110), VerifySteps: f(50),
			AcceptedDrafts: f(100), FinishedRequests: f(10), AbortedRequests: f(2),
		}},
		{"cached prompts of old", inference.VLLM, "/metrics", "vllm:prompt_tokens_total 100\nvllm:prefix_cache_hits_total 48\n", Snapshot{Up: true, PromptTokens: f(100), CachedTokens: f(48)}},
		{"llama.cpp", inference.LlamaCpp, "/metrics", file(t, "llamacpp.prom"), Snapshot{
			Up: true, Running: n(1), Queued: n(2), PromptTokens: f(19000), CachedTokens: f(658), GeneratedTokens: f(961), VerifySteps: f(300), AcceptedDrafts: f(640),
		}},
		{"SGLang", inference.SGLang, "/metrics", file(t, "sglang-ddtree-tp8.prom"), Snapshot{
			Up: true, Running: n(1), Queued: n(3), PromptTokens: f(9441280), CachedTokens: f(4096), GeneratedTokens: f(159400), VerifySteps: f(48213),
			AcceptedDrafts: f(159400 - 72 - 48213), FinishedRequests: f(72), AbortedRequests: f(1),
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, logged := polls(t, prober.Target{Dialect: tt.dialect}, []map[string]answer{{tt.path: {body: tt.body}}})
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
				t.Errorf("snapshot (-want +got):\n%s%s", diff, logged)
			}
		})
	}
}

func TestPool(t *testing.T) {
	const two = `sglang:max_total_num_tokens{dp_rank="0",tp_rank="0"} 1000
sglang:max_total_num_tokens{dp_rank="0",tp_rank="1"} 1000
sglang:max_total_num_tokens{dp_rank="1",tp_rank="2"} 900
`
	slots := func(busy string) string {
		return `[{"id":0,"n_ctx":8192,"is_processing":` + busy + `,"n_prompt_tokens":4000,"next_token":[{"n_decoded":96}]}]`
	}
	for _, tt := range []struct {
		name           string
		dialect        inference.Dialect
		answers        map[string]answer
		capacity, free *float64
	}{
		{"SGLang by used tokens", inference.SGLang, map[string]answer{"/metrics": {body: two + `sglang:num_used_tokens{dp_rank="0",tp_rank="0"} 300
sglang:num_used_tokens{dp_rank="1",tp_rank="2"} 100
`}}, f(900), f(700)},
		{"SGLang by share, several pools", inference.SGLang, map[string]answer{"/metrics": {body: two + `sglang:num_used_tokens{dp_rank="0",tp_rank="0"} 300
sglang:token_usage{dp_rank="0",tp_rank="0"} 0.75
`}}, f(900), f(250)},
		{"SGLang by what is free and evictable", inference.SGLang, map[string]answer{"/metrics": {body: two + `sglang:kv_available_tokens{dp_rank="0",tp_rank="0"} 100
sglang:kv_evictable_tokens{dp_rank="0",tp_rank="0"} 550
sglang:num_used_tokens{dp_rank="0",tp_rank="0"} 900
`}}, f(900), f(650)},
		{"SGLang by its load", inference.SGLang, map[string]answer{
			"/metrics": {body: two}, loadsPath: {body: `{"loads":[{"num_running_reqs":1,"num_waiting_reqs":0,"num_used_tokens":131198,"max_total_num_tokens":1638400,"token_usage":0.0801}]}`},
		}, f(1638400), f(1638400 * (1 - 0.0801))},
		{"SGLang tells no capacity", inference.SGLang, map[string]answer{"/metrics": {body: "sglang:num_used_tokens 10\nsglang:token_usage 0.5\n"}}, nil, nil},
		{"vLLM by blocks", inference.VLLM, map[string]answer{"/metrics": {body: file(t, "vllm-openmetrics.prom")}}, f(1600), f(1200)},
		{"vLLM in tokens, of the smaller engine", inference.VLLM, map[string]answer{"/metrics": {body: `vllm:cache_config_info{engine="0",block_size="8",num_gpu_blocks="320",kv_cache_size_tokens="463459",mamba_block_size="8"} 1
vllm:cache_config_info{engine="1",block_size="8",num_gpu_blocks="320",kv_cache_size_tokens="400000",mamba_block_size="8"} 1
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 0.25
`}}, f(400000), f(200000)},
		{"vLLM with several kinds of layers", inference.VLLM, map[string]answer{"/metrics": {body: `vllm:cache_config_info{block_size="16",num_gpu_blocks="320",mamba_block_size="528"} 1
vllm:kv_cache_usage_perc 0.5
`}}, nil, nil},
		{"vLLM without blocks", inference.VLLM, map[string]answer{"/metrics": {body: "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\"} 1\n"}}, nil, nil},
		{"llama.cpp idle", inference.LlamaCpp, map[string]answer{"/slots": {body: slots("false")}}, f(8192), f(8192)},
		{"llama.cpp at work", inference.LlamaCpp, map[string]answer{"/slots": {body: slots("true")}}, f(8192), f(4096)},
		{"llama.cpp, one of two slots at work", inference.LlamaCpp, map[string]answer{"/slots": {body: `[{"n_ctx":8192,"is_processing":true,"n_prompt_tokens":10},{"n_ctx":8192,"is_processing":false}]`}}, f(8192), nil},
		{"llama.cpp does not tell a context", inference.LlamaCpp, map[string]answer{"/slots": {body: `[{"is_processing":false}]`}}, nil, nil},
		{"llama.cpp without slots", inference.LlamaCpp, map[string]answer{"/slots": {body: `[]`}}, nil, nil},
		{"llama.cpp, odd slots beside a page", inference.LlamaCpp, map[string]answer{"/metrics": {body: file(t, "llamacpp.prom")}, "/slots": {body: `<html>`}}, nil, nil},
		{"TensorRT-LLM", inference.TRTLLM, map[string]answer{"/prometheus/metrics": {body: file(t, "trtllm.prom")}}, f(64000), f(25600)},
		{"LMDeploy does not tell", inference.LMDeploy, map[string]answer{"/metrics": {body: file(t, "lmdeploy.prom")}}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.answers)
			got, err := read(t, prober.Target{URL: s.URL}, tt.dialect)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]*float64{tt.capacity, tt.free}, []*float64{got.PoolTokens, got.PoolFree}, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
				t.Errorf("capacity, free (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSmallestPoolOfSeveralPagesCounts(t *testing.T) {
	const page = "sglang:max_total_num_tokens %\nsglang:num_used_tokens 100\nsglang:num_running_reqs 1\nsglang:prompt_tokens_total 10\n"
	prefill := serve(t, map[string]answer{"/metrics": {body: strings.Replace(page, "%", "5000", 1)}})
	decode := serve(t, map[string]answer{"/metrics": {body: strings.Replace(page, "%", "3000", 1)}})
	target := prober.Target{URL: prefill.URL, MetricsURLs: []string{prefill.URL + "/metrics", decode.URL + "/metrics"}}
	got, err := read(t, target, inference.SGLang)
	if err != nil || got.PoolTokens == nil || *got.PoolTokens != 3000 || *got.PoolFree != 2900 || *got.PromptTokens != 20 || *got.Running != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}
