package servermetrics

import (
	"strings"
	"testing"

	"github.com/go-kit/log"
	"github.com/google/go-cmp/cmp"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

func TestKindsHaveHints(t *testing.T) {
	for d, k := range kinds() {
		if k.hint == "" || !strings.HasSuffix(k.path, "/metrics") || k.open == nil {
			t.Errorf("%s: %+v", d, k)
		}
	}
	if _, ok := kinds()[inference.OpenAI]; ok {
		t.Error("a server of which nothing is known is read")
	}
}

// TestGateway reads the engines' own pages, which are configured for a target that is a gateway.
func TestGateway(t *testing.T) {
	for _, tt := range []struct {
		name   string
		page   answer
		want   Snapshot
		logged string
	}{
		{"vLLM", answer{body: "# HELP a b\n# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 2\n"}, Snapshot{Up: true, Running: n(2)}, ""},
		{"SGLang", answer{body: "# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs 1\n"}, Snapshot{Up: true, Running: n(1)}, ""},
		{"TensorRT-LLM", answer{body: "trtllm_num_requests_running 1\n"}, Snapshot{Up: true, Running: n(1)}, ""},
		{"the gateway's own", answer{body: "# TYPE litellm_in_flight_requests gauge\nlitellm_in_flight_requests 2\n"}, Snapshot{}, "reason=not_prometheus"},
		{"iteration statistics that are gone once read", answer{kind: "application/json", body: "[]"}, Snapshot{}, "reason=not_prometheus"},
		{"no page", answer{status: 404}, Snapshot{}, "hint=\"set metrics.urls"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			page := map[string]answer{"/metrics": tt.page}
			target := prober.Target{Dialect: inference.OpenAI, MetricsURLs: []string{"/metrics"}}
			s := serve(t, page)
			target.URL, target.MetricsURLs[0] = "http://127.0.0.1:1", s.URL+"/metrics"
			var got Snapshot
			var logged strings.Builder
			p, err := NewPoller(target, func(s Snapshot) { got = s }, log.NewLogfmtLogger(&logged))
			if err != nil {
				t.Fatal(err)
			}
			p.poll(t.Context(), pollEvery)
			p.poll(t.Context(), pollEvery)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("snapshot (-want +got):\n%s", diff)
			}
			if !strings.Contains(logged.String(), tt.logged) || (tt.logged == "") != (logged.String() == "") {
				t.Errorf("logged %q, want %q", logged.String(), tt.logged)
			}
		})
	}
}
