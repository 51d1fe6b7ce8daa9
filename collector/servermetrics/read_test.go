package servermetrics

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// readCase is what a server answers and what is to be read from it.
type readCase struct {
	name    string
	dialect inference.Dialect
	answers map[string]answer
	want    prober.Load
	err     string // part of the error
}

// pageOf is a server with nothing but a page of metrics.
func pageOf(t testing.TB, name string) map[string]answer {
	t.Helper()
	return map[string]answer{"/metrics": {body: file(t, name)}}
}

func sglangCases(t testing.TB) []readCase {
	ddtree := prober.Load{
		Running: n(1), Queued: n(3), PromptTokens: f(9441280), ComputedTokens: f(9437184), GeneratedTokens: f(159400),
		ForwardTokens: f(159344), Steps: f(48213), FinishedRequests: f(72), AbortedRequests: f(1), SeesBroken: true,
	}
	fresh := ddtree
	fresh.Running, fresh.Queued = n(2), n(5)
	twoRanks := `{"loads":[{"dp_rank":0,"num_running_reqs":1,"num_waiting_reqs":2,"queues":{"waiting":2,"grammar":1,"paused":0,"retracted":1}},` +
		`{"dp_rank":1,"num_running_reqs":1,"num_waiting_reqs":1}]}`
	return []readCase{
		{name: "sglang", dialect: inference.SGLang, answers: pageOf(t, "sglang-ddtree-tp8.prom"), want: ddtree},
		{name: "sglang underscore, no _total", dialect: inference.SGLang, answers: pageOf(t, "sglang-underscore-no-total.prom"), want: ddtree},
		{name: "sglang fresh load first", dialect: inference.SGLang, answers: map[string]answer{
			"/metrics": {body: file(t, "sglang-ddtree-tp8.prom")}, loadsPath: {kind: "application/json", body: twoRanks},
		}, want: fresh},
		{name: "sglang load without metrics", dialect: inference.SGLang, answers: map[string]answer{
			loadsPath: {kind: "application/json", body: twoRanks},
		}, want: prober.Load{Running: n(2), Queued: n(5)}},
		{name: "sglang load guarded by the admin key", dialect: inference.SGLang, answers: map[string]answer{
			"/metrics": {body: file(t, "sglang-ddtree-tp8.prom")}, loadsPath: {status: 401, kind: "application/json", body: `{"error":"Unauthorized"}`},
		}, want: ddtree},
		{name: "sglang load lacks a number", dialect: inference.SGLang, answers: map[string]answer{
			loadsPath: {kind: "application/json", body: `{"loads":[{"dp_rank":0,"num_running_reqs":1}]}`},
		}, err: "lacks its number"},
		{name: "sglang load without ranks", dialect: inference.SGLang, answers: map[string]answer{loadsPath: {body: `{}`}}, err: "no rank"},
		{name: "sglang load not JSON", dialect: inference.SGLang, answers: map[string]answer{loadsPath: {body: `<html>`}}, err: "reading the load"},
		{name: "sglang nothing offered", dialect: inference.SGLang},
		{name: "sglang tp ranks and dp ranks", dialect: inference.SGLang, answers: pageOf(t, "135-sglang-rank-series.prom"), want: prober.Load{Running: n(3)}},
		{
			name: "sglang counters per rank, priorities", dialect: inference.SGLang, answers: pageOf(t, "sglang-dp2.prom"),
			want: prober.Load{Running: n(3), ForwardTokens: f(1500), SeesBroken: true},
		},
		{name: "sglang loading", dialect: inference.SGLang, answers: map[string]answer{"/metrics": {status: 503}}, err: "503"},
	}
}

func vllmCases(t testing.TB) []readCase {
	vllmLoad := prober.Load{
		Running: n(3), Queued: n(4), PromptTokens: f(1000), GeneratedTokens: f(110), Steps: f(50), CorrectDrafts: f(100),
		FinishedRequests: f(10), AbortedRequests: f(2),
	}
	bySource := vllmLoad
	bySource.PromptTokens, bySource.ComputedTokens = f(1010), f(600)
	return []readCase{
		{name: "vllm", dialect: inference.VLLM, answers: pageOf(t, "vllm.prom"), want: vllmLoad},
		{name: "vllm tokens by source", dialect: inference.VLLM, answers: pageOf(t, "vllm-by-source.prom"), want: bySource},
		{name: "vllm renamed, old", dialect: inference.VLLM, answers: pageOf(t, "137-vllm-renamed-metrics.old.prom"), want: prober.Load{Running: n(5), Queued: n(2)}},
		{name: "vllm renamed, new", dialect: inference.VLLM, answers: pageOf(t, "137-vllm-renamed-metrics.new.prom"), want: prober.Load{Running: n(5), Queued: n(2)}},
		{
			name: "vllm engines, _created, exponents", dialect: inference.VLLM, answers: pageOf(t, "139-vllm-spec-counters-dp-created.prom"),
			want: prober.Load{Steps: f(1100), CorrectDrafts: f(2510)},
		},
		{
			name: "vllm idle", dialect: inference.VLLM, answers: pageOf(t, "141-idle-zero-over-zero.prom"),
			want: prober.Load{Running: n(0), Steps: f(0), CorrectDrafts: f(0)},
		},
		{name: "vllm odd labels", dialect: inference.VLLM, answers: pageOf(t, "149-label-values-odd-characters.prom"), want: prober.Load{Running: n(4), Queued: n(2)}},
		{name: "vllm repeated headers and series", dialect: inference.VLLM, answers: pageOf(t, "152-duplicate-help-type.prom"), want: prober.Load{Running: n(5)}},
		{
			name: "vllm gauges of several processes", dialect: inference.VLLM, answers: pageOf(t, "158-multiprocess-pid-series.prom"),
			want: prober.Load{GeneratedTokens: f(91000)},
		},
		{name: "vllm partly missing", dialect: inference.VLLM, answers: pageOf(t, "159-metrics-partly-missing.prom"), want: prober.Load{Running: n(2)}},
		{name: "vllm broken line costs its metric", dialect: inference.VLLM, answers: map[string]answer{"/metrics": {body: strings.Replace(
			file(t, "vllm.prom"), `vllm:generation_tokens_total{engine="1",model_name="m"} 60.0`, `vllm:generation_tokens_total{engine="1",mod`, 1,
		)}}, want: func() prober.Load { l := vllmLoad; l.GeneratedTokens = nil; return l }()},
		{name: "vllm NaN, Inf and negative values", dialect: inference.VLLM, answers: map[string]answer{"/metrics": {body: `
vllm:num_requests_running{engine="0"} NaN
vllm:num_requests_running{engine="1"} 1
vllm:num_requests_waiting -1
vllm:generation_tokens_total +Inf
vllm:prompt_tokens_total 5
`}}, want: prober.Load{PromptTokens: f(5)}},
	}
}

// vllmFaults are pages that are no pages.
func vllmFaults(t testing.TB) []readCase {
	return []readCase{
		{name: "vllm stats switched off", dialect: inference.VLLM, answers: map[string]answer{"/metrics": {body: "# TYPE python_gc_objects_collected_total counter\npython_gc_objects_collected_total 1\n"}}},
		{name: "vllm HTML under 200", dialect: inference.VLLM, answers: map[string]answer{
			"/metrics": {kind: "text/html; charset=utf-8", body: file(t, "151-html-200-instead-of-metrics.txt")},
		}, err: "not a page of Prometheus metrics"},
		{name: "vllm JSON under 200", dialect: inference.VLLM, answers: map[string]answer{"/metrics": {kind: "application/json", body: `[]`}}, err: "not a page"},
		{name: "vllm empty page", dialect: inference.VLLM, answers: map[string]answer{"/metrics": {}}, err: "not a page"},
		{name: "vllm page too large", dialect: inference.VLLM, answers: map[string]answer{"/metrics": {body: strings.Repeat("# x\n", maxBody/4+1)}}, err: "more than"},
	}
}

func llamaCppCases(t testing.TB) []readCase {
	llama := prober.Load{
		Digits:  6,
		Running: n(1), Queued: n(2), PromptTokens: f(19000), ComputedTokens: f(18342), GeneratedTokens: f(961), Steps: f(300),
		CorrectDrafts: f(640),
	}
	return []readCase{
		{name: "llamacpp", dialect: inference.LlamaCpp, answers: pageOf(t, "llamacpp.prom"), want: llama},
		{name: "llamacpp page in a JSON string", dialect: inference.LlamaCpp, answers: map[string]answer{
			"/metrics": {kind: "application/json; charset=utf-8", body: file(t, "161-metrics-json-escaped.json")},
		}, want: prober.Load{Digits: 6, Running: n(1), ComputedTokens: f(18342), GeneratedTokens: f(961)}},
		{name: "llamacpp wrong content type", dialect: inference.LlamaCpp, answers: map[string]answer{
			"/metrics": {kind: "application/json", body: file(t, "162-metrics-valid-text-json-content-type.prom")},
		}, want: prober.Load{Digits: 6, Running: n(1), ComputedTokens: f(18342), GeneratedTokens: f(961)}},
		{name: "llamacpp without speculation", dialect: inference.LlamaCpp, answers: map[string]answer{"/metrics": {
			body: "llamacpp:spec_decode_num_drafts_total 0\nllamacpp:spec_decode_num_accepted_tokens_total 0\nllamacpp:requests_processing 0\n",
		}}, want: prober.Load{Digits: 6, Running: n(0)}},
		{name: "llamacpp metrics off, slots on", dialect: inference.LlamaCpp, answers: map[string]answer{
			"/metrics": {status: 501, kind: "application/json", body: file(t, "146-llamacpp-metrics-501.json")},
			"/slots":   {kind: "application/json", body: `[{"id":0,"is_processing":true},{"id":1,"is_processing":false}]`},
		}, want: prober.Load{Running: n(1)}},
		{name: "llamacpp both off", dialect: inference.LlamaCpp, answers: map[string]answer{
			"/metrics": {status: 501}, "/slots": {status: 501},
		}},
		{name: "llamacpp slots without the word", dialect: inference.LlamaCpp, answers: map[string]answer{"/slots": {body: `[{"id":0}]`}}, err: "a slot does not tell"},
		{name: "llamacpp loading", dialect: inference.LlamaCpp, answers: map[string]answer{"/metrics": {status: 503}}, err: "503"},
	}
}

// TestRanksAndStarts: gauges that do not show every data-parallel rank show nobody, and a start is told where it stands.
func TestRanksAndStarts(t *testing.T) {
	one := `{"loads":[{"dp_rank":0,"num_running_reqs":1,"num_waiting_reqs":0}]}`
	overwritten := "sglang:num_running_reqs{model_name=\"m\"} 0\nsglang:num_queue_reqs{model_name=\"m\"} 0\nsglang:num_aborted_requests_total{model_name=\"m\"} 4\n"
	started := "vllm:generation_tokens_total{engine=\"0\"} 5\nvllm:generation_tokens_created{engine=\"0\"} 1.7e+09\nvllm:generation_tokens_created{engine=\"1\"} 1.8e+09\n" +
		"vllm:prefix_cache_queries_total{engine=\"0\"} 12\n"
	for name, c := range map[string]struct {
		facts   inference.Facts
		answers map[string]answer
		want    prober.Load
	}{
		"one of one rank":      {inference.Facts{Dialect: inference.SGLang, Replicas: 1}, map[string]answer{loadsPath: {body: one}}, prober.Load{Running: n(1), Queued: n(0)}},
		"one of two ranks":     {inference.Facts{Dialect: inference.SGLang, Replicas: 2}, map[string]answer{loadsPath: {body: one}}, prober.Load{}},
		"gauges overwritten":   {inference.Facts{Dialect: inference.SGLang, Replicas: 2}, map[string]answer{"/metrics": {body: overwritten}}, prober.Load{AbortedRequests: f(4), SeesBroken: true}},
		"gauges of both ranks": {inference.Facts{Dialect: inference.SGLang, Replicas: 2}, pageOf(t, "sglang-dp2.prom"), prober.Load{Running: n(3), ForwardTokens: f(1500), SeesBroken: true}},
		"the latest start":     {inference.Facts{Dialect: inference.VLLM}, map[string]answer{"/metrics": {body: started}}, prober.Load{GeneratedTokens: f(5), ScheduledTokens: f(12), Since: f(1.8e9)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, c.answers)
			r, err := New(prober.Target{Name: "t", URL: s.URL}, c.facts)
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.ReadLoad(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(prober.Load{}, "At")); diff != "" {
				t.Errorf("load (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadLoad(t *testing.T) {
	tests := slices.Concat(sglangCases(t), vllmCases(t), vllmFaults(t), llamaCppCases(t))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.answers)
			got, err := read(t, prober.Target{Name: "t", URL: s.URL}, tt.dialect)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want one with %q", err, tt.err)
				}
				if diff := cmp.Diff(prober.Load{}, got); diff != "" {
					t.Fatalf("an error came with half a reading:\n%s", diff)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.At.IsZero() {
				t.Error("the reading has no time")
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(prober.Load{}, "At")); diff != "" {
				t.Errorf("load (-want +got):\n%s", diff)
			}
		})
	}
}
