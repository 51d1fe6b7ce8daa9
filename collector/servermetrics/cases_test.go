package servermetrics

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-kit/log"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// pageCase is what a server answers, once or several times after each other, and what is exported in the end.
type pageCase struct {
	name    string
	dialect inference.Dialect
	answers []map[string]answer
	want    Snapshot
	reason  Reason // why the page could not be read
	logged  string // in the log; "" for nothing at all
}

// pages are single pages of metrics after each other.
func pages(t testing.TB, names ...string) []map[string]answer {
	var all []map[string]answer
	for _, name := range names {
		all = append(all, pageOf(t, name))
	}
	return all
}

func counterCases(t testing.TB) []pageCase {
	return []pageCase{
		{
			name: "135 SGLang ranks", dialect: inference.SGLang, answers: pages(t, "135-sglang-rank-series.prom"),
			want: Snapshot{Up: true, Running: n(3), KVUsed: f(0.41), AcceptLength: f(3.42)},
		},
		{
			name: "137 old names of vLLM", dialect: inference.VLLM, answers: pages(t, "137-vllm-renamed-metrics.old.prom"),
			want: Snapshot{Up: true, Running: n(5), Queued: n(2), KVUsed: f(0.734)},
		},
		{
			name: "137 new names of vLLM", dialect: inference.VLLM, answers: pages(t, "137-vllm-renamed-metrics.new.prom"),
			want: Snapshot{Up: true, Running: n(5), Queued: n(2), KVUsed: f(0.734)},
		},
		{
			name: "139 speculation of two engines", dialect: inference.VLLM,
			answers: append([]map[string]answer{{"/metrics": {body: `
vllm:spec_decode_num_drafts_total{engine="0",model_name="probe-model"} 0
vllm:spec_decode_num_drafts_total{engine="1",model_name="probe-model"} 0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="probe-model"} 0
vllm:spec_decode_num_accepted_tokens_total{engine="1",model_name="probe-model"} 0
`}}}, pages(t, "139-vllm-spec-counters-dp-created.prom")...),
			want: Snapshot{Up: true, VerifySteps: f(1100), AcceptedDrafts: f(2510), AcceptLength: f(1 + 2510.0/1100)},
		},
		{
			name: "141 idle", dialect: inference.VLLM, answers: pages(t, "141-idle-zero-over-zero.prom", "141-idle-zero-over-zero.prom"),
			want: Snapshot{Up: true, Running: n(0), VerifySteps: f(0), AcceptedDrafts: f(0)},
		},
		{
			name: "149 odd labels", dialect: inference.VLLM, answers: pages(t, "149-label-values-odd-characters.prom"),
			want: Snapshot{Up: true, Running: n(4), Queued: n(2), KVUsed: f(0.15)},
		},
		{
			name: "152 repeated headers", dialect: inference.VLLM, answers: pages(t, "152-duplicate-help-type.prom"),
			want: Snapshot{Up: true, Running: n(5)},
		},
		{
			name: "153 stale gauges", dialect: inference.SGLang, answers: pages(t, "153-gen-throughput-gauge-stale.prom", "153-gen-throughput-gauge-stale.prom"),
			want: Snapshot{Up: true, Running: n(0), Queued: n(0)},
		},
		{
			name: "156 speed from counters", dialect: inference.LlamaCpp, answers: pages(t, "156-llamacpp-zero-speed-gauges.old.prom", "156-llamacpp-zero-speed-gauges.new.prom"),
			want: Snapshot{Up: true, GeneratedTokens: f(1121), DecodeRate: f(160.0 / 12)},
		},
		{
			name: "158 several processes", dialect: inference.VLLM, answers: pages(t, "158-multiprocess-pid-series.prom"),
			want: Snapshot{Up: true, GeneratedTokens: f(91000)},
		},
		{
			name: "159 partly missing", dialect: inference.VLLM, answers: pages(t, "159-metrics-partly-missing.prom"),
			want: Snapshot{Up: true, Running: n(2)},
		},
	}
}

func oddCases(t testing.TB) []pageCase {
	llama := Snapshot{Up: true, Running: n(1), PromptTokens: f(18342), GeneratedTokens: f(961)}
	return []pageCase{
		{
			name: "177 vLLM's KV cache is no number", dialect: inference.VLLM,
			answers: []map[string]answer{{"/metrics": {body: "vllm:kv_cache_usage_perc NaN\nvllm:num_requests_running 1\n"}}},
			want:    Snapshot{Up: true, Running: n(1)},
		},
		{
			name: "177 SGLang's speed is infinite", dialect: inference.SGLang,
			answers: []map[string]answer{{"/metrics": {body: "sglang:gen_throughput +Inf\nsglang:num_running_reqs 1\nsglang:token_usage -Inf\n"}}},
			want:    Snapshot{Up: true, Running: n(1)},
		},
		{
			name: "177 llama.cpp's KV cache is no number", dialect: inference.LlamaCpp,
			answers: []map[string]answer{{"/metrics": {body: "llamacpp:kv_cache_usage_ratio -nan\nllamacpp:requests_processing 1\n"}}},
			want:    Snapshot{Up: true, Running: n(1)},
		},
		{
			name: "179 four engines, each with as much in its KV cache", dialect: inference.VLLM,
			answers: []map[string]answer{{"/metrics": {body: `
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.78
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.78
vllm:kv_cache_usage_perc{engine="2",model_name="m"} 0.78
vllm:kv_cache_usage_perc{engine="3",model_name="m"} 0.78
`}}},
			want: Snapshot{Up: true, KVUsed: f(0.78)},
		},
		{
			name: "145 SGLang without metrics", dialect: inference.SGLang,
			answers: []map[string]answer{{"/metrics": {status: 404, kind: "application/json", body: file(t, "145-sglang-metrics-disabled-404.json")}}},
			reason:  NotFound, logged: "hint=\"start SGLang with --enable-metrics\"",
		},
		{
			name: "146 llama.cpp without metrics", dialect: inference.LlamaCpp,
			answers: []map[string]answer{{"/metrics": {status: 501, kind: "application/json", body: file(t, "146-llamacpp-metrics-501.json")}}},
			reason:  Disabled, logged: "hint=\"start llama-server with --metrics\"",
		},
		{
			name: "147 TensorRT-LLM", dialect: inference.TRTLLM,
			answers: []map[string]answer{{"/prometheus/metrics": {body: file(t, "147-trtllm-prometheus-elsewhere.prom")}}},
			want:    Snapshot{Up: true, FinishedRequests: f(12)},
		},
		{
			name: "151 HTML", dialect: inference.VLLM,
			answers: []map[string]answer{{"/metrics": {kind: "text/html; charset=utf-8", body: file(t, "151-html-200-instead-of-metrics.txt")}}},
			reason:  NotPrometheus, logged: "reason=not_prometheus",
		},
		{
			name: "161 a page in a JSON string", dialect: inference.LlamaCpp, want: llama, logged: "declared as JSON",
			answers: []map[string]answer{{"/metrics": {kind: "application/json; charset=utf-8", body: file(t, "161-metrics-json-escaped.json")}}},
		},
		{
			name: "162 a page declared as JSON", dialect: inference.LlamaCpp, want: llama, logged: "declared as JSON",
			answers: []map[string]answer{{"/metrics": {kind: "application/json; charset=utf-8", body: file(t, "162-metrics-valid-text-json-content-type.prom")}}},
		},
	}
}

// polls polls a server once for each set of answers and gives the last snapshot and the log.
func polls(t *testing.T, target prober.Target, answers []map[string]answer) (Snapshot, string) {
	t.Helper()
	var at atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := answers[at.Load()][r.URL.RequestURI()]
		if !ok {
			a = answer{status: http.StatusNotFound, body: `{"detail":"Not Found"}`}
		}
		if a.kind != "" {
			w.Header().Set("Content-Type", a.kind)
		}
		if a.status != 0 {
			w.WriteHeader(a.status)
		}
		_, _ = io.WriteString(w, a.body)
	}))
	defer s.Close()
	target.Name, target.URL = "ct200", s.URL
	for i, u := range target.MetricsURLs {
		target.MetricsURLs[i] = s.URL + u
	}
	var last Snapshot
	var logged strings.Builder
	p, err := NewPoller(target, func(s Snapshot) { last = s }, log.NewLogfmtLogger(&logged))
	if err != nil {
		t.Fatal(err)
	}
	for i := range answers {
		at.Store(int32(i))
		p.poll(t.Context(), pollEvery)
	}
	return last, logged.String()
}

func TestCases(t *testing.T) {
	for _, tt := range append(counterCases(t), oddCases(t)...) {
		t.Run(tt.name, func(t *testing.T) {
			for _, again := range []int{0, 1} { // a poll more logs nothing more
				answers := tt.answers
				if again == 1 && tt.logged != "" {
					answers = append(answers[:len(answers):len(answers)], answers[len(answers)-1])
				}
				got, logged := polls(t, prober.Target{Dialect: tt.dialect}, answers)
				if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
					t.Errorf("snapshot (-want +got):\n%s", diff)
				}
				if lines := strings.Count(logged, "\n"); lines > 1 || (lines == 1) != (tt.logged != "") || !strings.Contains(logged, tt.logged) {
					t.Errorf("logged %q, want one line with %q", logged, tt.logged)
				}
				if tt.reason != "" && !strings.Contains(logged, "reason="+string(tt.reason)) {
					t.Errorf("logged %q, want reason %s", logged, tt.reason)
				}
			}
		})
	}
}

// TestTRTLLMDrain holds that the page which gives everything only once is never asked for unless it is configured, and then once.
func TestTRTLLMDrain(t *testing.T) {
	answers := map[string]answer{
		"/metrics":            {kind: "application/json", body: file(t, "147-trtllm-prometheus-elsewhere.json")},
		"/prometheus/metrics": {body: file(t, "147-trtllm-prometheus-elsewhere.prom")},
	}
	for _, tt := range []struct {
		urls  []string
		asked int32
	}{{nil, 0}, {[]string{"/metrics"}, 1}} {
		var asked atomic.Int32
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				asked.Add(1)
			}
			_, _ = io.WriteString(w, answers[r.URL.Path].body)
		}))
		target := prober.Target{URL: s.URL, Dialect: inference.TRTLLM}
		for _, u := range tt.urls {
			target.MetricsURLs = append(target.MetricsURLs, s.URL+u)
		}
		var last Snapshot
		p, err := NewPoller(target, func(s Snapshot) { last = s }, log.NewNopLogger())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			p.poll(t.Context(), pollEvery)
		}
		s.Close()
		if !last.Up || last.FinishedRequests == nil || *last.FinishedRequests != 12 {
			t.Errorf("pages %v: %+v", tt.urls, last)
		}
		if asked.Load() != tt.asked {
			t.Errorf("pages %v: asked for /metrics %d times, want %d", tt.urls, asked.Load(), tt.asked)
		}
	}
}
