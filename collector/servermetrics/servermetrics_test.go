package servermetrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/config"
	"go.uber.org/goleak"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func n(v int) *int { return &v }

func f(v float64) *float64 { return &v }

func file(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// server answers each path with a status, a content type and a body.
type answer struct {
	status int
	kind   string
	body   string
}

func serve(t *testing.T, answers map[string]answer) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := answers[r.URL.RequestURI()]
		if !ok {
			a = answer{status: http.StatusNotFound, kind: "application/json", body: `{"detail":"Not Found"}`}
		}
		if a.kind == "" {
			a.kind = "text/plain; version=0.0.4; charset=utf-8"
		}
		w.Header().Set("Content-Type", a.kind)
		if a.status != 0 {
			w.WriteHeader(a.status)
		}
		_, _ = io.WriteString(w, a.body)
	}))
	t.Cleanup(s.Close)
	return s
}

func read(t *testing.T, target prober.Target, dialect inference.Dialect) (prober.Load, error) {
	t.Helper()
	r, err := New(target, inference.Facts{Dialect: dialect})
	if err != nil {
		t.Fatal(err)
	}
	if r == nil {
		t.Fatal("no reader")
	}
	return r.ReadLoad(context.Background())
}

const loadsPath = "/v1/loads?include=core,queues"

func TestReadLoad(t *testing.T) {
	ddtree := prober.Load{
		Running: n(1), Queued: n(3), Lagging: true, PromptTokens: f(9441280), ComputedTokens: f(9437184), GeneratedTokens: f(159400),
		ForwardTokens: f(159344), Steps: f(48213), FinishedRequests: f(72), AbortedRequests: f(1),
	}
	fresh := ddtree
	fresh.Running, fresh.Queued, fresh.Lagging = n(2), n(5), false
	vllmLoad := prober.Load{
		Running: n(3), Queued: n(4), PromptTokens: f(1000), GeneratedTokens: f(110), Steps: f(50), CorrectDrafts: f(100),
		FinishedRequests: f(10), AbortedRequests: f(2),
	}
	bySource := vllmLoad
	bySource.PromptTokens, bySource.ComputedTokens = f(1010), f(600)
	llama := prober.Load{
		Running: n(1), Queued: n(2), PromptTokens: f(19000), ComputedTokens: f(18342), GeneratedTokens: f(961), Steps: f(300),
		CorrectDrafts: f(640),
	}
	page := func(name string) map[string]answer { return map[string]answer{"/metrics": {body: file(t, name)}} }
	twoRanks := `{"loads":[{"dp_rank":0,"num_running_reqs":1,"num_waiting_reqs":2,"queues":{"waiting":2,"grammar":1,"paused":0,"retracted":1}},` +
		`{"dp_rank":1,"num_running_reqs":1,"num_waiting_reqs":1}]}`

	tests := []struct {
		name    string
		dialect inference.Dialect
		answers map[string]answer
		want    prober.Load
		err     string // part of the error
	}{
		{name: "sglang", dialect: inference.SGLang, answers: page("sglang-ddtree-tp8.prom"), want: ddtree},
		{name: "sglang underscore, no _total", dialect: inference.SGLang, answers: page("sglang-underscore-no-total.prom"), want: ddtree},
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
		{name: "sglang tp ranks and dp ranks", dialect: inference.SGLang, answers: page("135-sglang-rank-series.prom"), want: prober.Load{Running: n(3), Lagging: true}},
		{name: "sglang counters per rank, priorities", dialect: inference.SGLang, answers: page("sglang-dp2.prom"),
			want: prober.Load{Running: n(3), Lagging: true, ForwardTokens: f(1500)}},
		{name: "sglang loading", dialect: inference.SGLang, answers: map[string]answer{"/metrics": {status: 503}}, err: "503"},

		{name: "vllm", dialect: inference.VLLM, answers: page("vllm.prom"), want: vllmLoad},
		{name: "vllm tokens by source", dialect: inference.VLLM, answers: page("vllm-by-source.prom"), want: bySource},
		{name: "vllm renamed, old", dialect: inference.VLLM, answers: page("137-vllm-renamed-metrics.old.prom"), want: prober.Load{Running: n(5), Queued: n(2)}},
		{name: "vllm renamed, new", dialect: inference.VLLM, answers: page("137-vllm-renamed-metrics.new.prom"), want: prober.Load{Running: n(5), Queued: n(2)}},
		{name: "vllm engines, _created, exponents", dialect: inference.VLLM, answers: page("139-vllm-spec-counters-dp-created.prom"),
			want: prober.Load{Steps: f(1100), CorrectDrafts: f(2510)}},
		{name: "vllm idle", dialect: inference.VLLM, answers: page("141-idle-zero-over-zero.prom"),
			want: prober.Load{Running: n(0), Steps: f(0), CorrectDrafts: f(0)}},
		{name: "vllm odd labels", dialect: inference.VLLM, answers: page("149-label-values-odd-characters.prom"), want: prober.Load{Running: n(4), Queued: n(2)}},
		{name: "vllm repeated headers and series", dialect: inference.VLLM, answers: page("152-duplicate-help-type.prom"), want: prober.Load{Running: n(5)}},
		{name: "vllm gauges of several processes", dialect: inference.VLLM, answers: page("158-multiprocess-pid-series.prom"),
			want: prober.Load{GeneratedTokens: f(91000)}},
		{name: "vllm partly missing", dialect: inference.VLLM, answers: page("159-metrics-partly-missing.prom"), want: prober.Load{Running: n(2)}},
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
		{name: "vllm stats switched off", dialect: inference.VLLM, answers: map[string]answer{"/metrics": {body: "# TYPE python_gc_objects_collected_total counter\npython_gc_objects_collected_total 1\n"}}},
		{name: "vllm HTML under 200", dialect: inference.VLLM, answers: map[string]answer{
			"/metrics": {kind: "text/html; charset=utf-8", body: file(t, "151-html-200-instead-of-metrics.txt")},
		}, err: "not a page of Prometheus metrics"},
		{name: "vllm JSON under 200", dialect: inference.VLLM, answers: map[string]answer{"/metrics": {kind: "application/json", body: `[]`}}, err: "not a page"},
		{name: "vllm empty page", dialect: inference.VLLM, answers: map[string]answer{"/metrics": {}}, err: "not a page"},
		{name: "vllm page too large", dialect: inference.VLLM, answers: map[string]answer{"/metrics": {body: strings.Repeat("# x\n", maxBody/4+1)}}, err: "more than"},

		{name: "llamacpp", dialect: inference.LlamaCpp, answers: page("llamacpp.prom"), want: llama},
		{name: "llamacpp page in a JSON string", dialect: inference.LlamaCpp, answers: map[string]answer{
			"/metrics": {kind: "application/json; charset=utf-8", body: file(t, "161-metrics-json-escaped.json")},
		}, want: prober.Load{Running: n(1), ComputedTokens: f(18342), GeneratedTokens: f(961)}},
		{name: "llamacpp wrong content type", dialect: inference.LlamaCpp, answers: map[string]answer{
			"/metrics": {kind: "application/json", body: file(t, "162-metrics-valid-text-json-content-type.prom")},
		}, want: prober.Load{Running: n(1), ComputedTokens: f(18342), GeneratedTokens: f(961)}},
		{name: "llamacpp without speculation", dialect: inference.LlamaCpp, answers: map[string]answer{"/metrics": {
			body: "llamacpp:spec_decode_num_drafts_total 0\nllamacpp:spec_decode_num_accepted_tokens_total 0\nllamacpp:requests_processing 0\n",
		}}, want: prober.Load{Running: n(0)}},
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

func TestNew(t *testing.T) {
	for _, d := range []inference.Dialect{inference.OpenAI, inference.Auto, "", "trtllm"} {
		if r, err := New(prober.Target{URL: "http://localhost:1"}, inference.Facts{Dialect: d}); r != nil || err != nil {
			t.Errorf("dialect %q: %v, %v, want nil, nil", d, r, err)
		}
	}
	if r, err := New(prober.Target{URL: "http://localhost:1", Dialect: inference.VLLM}, inference.Facts{}); r == nil || err != nil {
		t.Errorf("the configured dialect does not serve where the facts name none: %v, %v", r, err)
	}
	for _, bad := range []string{"auto", "ftp://x/metrics", "http://", "http://user:secret@x/metrics"} {
		_, err := New(prober.Target{Name: "t", URL: "http://localhost:1", MetricsURLs: []string{bad}}, inference.Facts{Dialect: inference.VLLM})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("metrics URL %q: error %v", bad, err)
		}
	}
}

func TestBaseURLWithV1(t *testing.T) {
	s := serve(t, map[string]answer{"/metrics": {body: "vllm:num_requests_running 1\n"}})
	got, err := read(t, prober.Target{URL: s.URL + "/v1"}, inference.VLLM)
	if err != nil || got.Running == nil || *got.Running != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestSeveralPagesAddUp(t *testing.T) {
	prefill := serve(t, map[string]answer{"/metrics": {body: "vllm:num_requests_running 1\nvllm:prompt_tokens_total 100\n"}})
	decode := serve(t, map[string]answer{"/metrics": {body: "vllm:num_requests_running 2\nvllm:generation_tokens_total 7\n"}})
	target := prober.Target{URL: prefill.URL, MetricsURLs: []string{prefill.URL + "/metrics", decode.URL + "/metrics"}}
	got, err := read(t, target, inference.VLLM)
	if err != nil {
		t.Fatal(err)
	}
	want := prober.Load{Running: n(3), PromptTokens: f(100), GeneratedTokens: f(7)}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(prober.Load{}, "At")); diff != "" {
		t.Errorf("load (-want +got):\n%s", diff)
	}
}

func TestPageAtAnAddressOfItsOwn(t *testing.T) {
	s := serve(t, map[string]answer{
		"/prom":   {body: "sglang:num_running_reqs 1\nsglang:num_queue_reqs 0\n"},
		loadsPath: {body: `{"loads":[{"num_running_reqs":9,"num_waiting_reqs":9}]}`},
	})
	got, err := read(t, prober.Target{URL: s.URL, MetricsURLs: []string{s.URL + "/prom"}}, inference.SGLang)
	if err != nil || got.Running == nil || *got.Running != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestNotOfferedIsRememberedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var metrics, loads atomic.Int32
		dial := pipeServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				metrics.Add(1)
			} else {
				loads.Add(1)
			}
			w.WriteHeader(http.StatusNotFound)
		}))
		r, err := newReader(prober.Target{URL: "http://server"}, inference.Facts{Dialect: inference.SGLang}, dial)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := r.ReadLoad(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if m, l := metrics.Load(), loads.Load(); m != 1 || l != 1 {
			t.Errorf("asked %d and %d times, want once each", m, l)
		}
		time.Sleep(askAgain)
		if _, err := r.ReadLoad(t.Context()); err != nil {
			t.Fatal(err)
		}
		if m, l := metrics.Load(), loads.Load(); m != 2 || l != 2 {
			t.Errorf("after a while asked %d and %d times, want twice each", m, l)
		}
	})
}

func TestHang(t *testing.T) {
	half := file(t, "155-metrics-endpoint-hangs.prom")
	synctest.Test(t, func(t *testing.T) {
		dial := pipeServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, half)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
		r, err := newReader(prober.Target{URL: "http://server"}, inference.Facts{Dialect: inference.VLLM}, dial)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		got, err := r.ReadLoad(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want a deadline", err)
		}
		if diff := cmp.Diff(prober.Load{}, got); diff != "" {
			t.Errorf("half a page was used:\n%s", diff)
		}
		if took := time.Since(began); took != readTimeout {
			t.Errorf("gave up after %v, want %v", took, readTimeout)
		}
	})
}

// pipeServer serves over pipes, so that time can be virtual.
func pipeServer(t *testing.T, h http.Handler) config.HTTPClientOption {
	t.Helper()
	conns := make(chan net.Conn)
	closed := make(chan struct{})
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(&pipeListener{conns: conns, closed: closed})
	}()
	t.Cleanup(func() {
		close(closed)
		_ = s.Close()
		<-done
	})
	return config.WithDialContextFunc(func(ctx context.Context, _, _ string) (net.Conn, error) {
		client, server := net.Pipe()
		select {
		case conns <- server:
			return client, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error { return nil }

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func TestRedirects(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("another host was asked, with Authorization %q", r.Header.Get("Authorization"))
	}))
	defer other.Close()
	var requests atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if got := r.Header.Get("Authorization"); got != "Bearer test-key" {
			t.Errorf("GET %s with Authorization %q", r.URL.Path, got)
		}
		switch r.URL.Path {
		case "/metrics":
			w.Header().Set("Location", "/metrics/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		case "/metrics/":
			_, _ = io.WriteString(w, file(t, "143-metrics-redirect-307.prom"))
		case "/away":
			http.Redirect(w, r, other.URL+"/metrics", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		}
	}))
	defer s.Close()
	target := prober.Target{URL: s.URL, HTTP: config.HTTPClientConfig{
		Authorization: &config.Authorization{Type: "Bearer", Credentials: "test-key"},
	}}
	got, err := read(t, target, inference.VLLM)
	if err != nil || got.Running == nil || *got.Running != 1 || requests.Load() != 2 {
		t.Errorf("%+v, %v after %d requests, want running 1 after 2", got, err, requests.Load())
	}
	for path, want := range map[string]string{"/away": "another host", "/round": "redirects"} {
		target.MetricsURLs = []string{s.URL + path}
		if _, err := read(t, target, inference.VLLM); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", path, err, want)
		}
	}
}

func TestCredentialsStayWithTheHost(t *testing.T) {
	var got atomic.Value
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("Authorization") + r.Header.Get("X-Api-Key"))
		_, _ = io.WriteString(w, "vllm:num_requests_running 1\n")
	}))
	defer elsewhere.Close()
	secret := config.HTTPClientConfig{
		Authorization: &config.Authorization{Type: "Bearer", Credentials: "test-key"},
		HTTPHeaders:   &config.Headers{Headers: map[string]config.Header{"X-Api-Key": {Secrets: []config.Secret{"key"}}}},
	}
	target := prober.Target{URL: "http://127.0.0.1:1", HTTP: secret, MetricsURLs: []string{elsewhere.URL + "/metrics"}}
	if _, err := read(t, target, inference.VLLM); err != nil {
		t.Fatal(err)
	}
	if got.Load() != "" {
		t.Errorf("another host got %q", got.Load())
	}
	target.MetricsHTTP = &config.HTTPClientConfig{Authorization: &config.Authorization{Type: "Bearer", Credentials: "theirs"}}
	if _, err := read(t, target, inference.VLLM); err != nil {
		t.Fatal(err)
	}
	if got.Load() != "Bearer theirs" {
		t.Errorf("the credentials meant for the metrics did not arrive: %q", got.Load())
	}
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, err = read(t, prober.Target{URL: "http://" + address}, inference.VLLM)
	var urlError *url.Error
	if !errors.As(err, &urlError) {
		t.Errorf("error %v, want the cause kept", err)
	}
}

func FuzzParsePage(fz *testing.F) {
	pages, _ := filepath.Glob("testdata/*.prom")
	for _, p := range pages {
		fz.Add([]byte(file(fz, filepath.Base(p))))
	}
	fz.Add([]byte(`"vllm:num_requests_running 1\n"`))
	fz.Add([]byte("vllm:num_requests_running{a=\"\\\n"))
	wanted := names("num_requests_running", "generation_tokens", "realtime_tokens")
	fz.Fuzz(func(t *testing.T, body []byte) {
		for _, prefix := range []string{"vllm", "sglang"} {
			p, err := parsePage(body, prefix, wanted)
			if err != nil {
				continue
			}
			for name := range wanted {
				if v := p.sum(name); v != nil && !(*v >= 0 && *v <= math.MaxFloat64) {
					t.Errorf("%s sums to %v", name, *v)
				}
				if v := p.gauge(name); v != nil && *v < 0 {
					t.Errorf("%s is %d", name, *v)
				}
			}
		}
	})
}

func BenchmarkParsePage(b *testing.B) {
	var page strings.Builder
	page.WriteString(file(b, "sglang-ddtree-tp8.prom"))
	for i := range 5000 {
		fmt.Fprintf(&page, "sglang:time_to_first_token_seconds_bucket{le=\"%d\",model_name=\"m\"} 12.0\n", i)
	}
	body := []byte(page.String())
	wanted := names("num_running_reqs", "num_queue_reqs", "realtime_tokens", "prompt_tokens")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parsePage(body, "sglang", wanted); err != nil {
			b.Fatal(err)
		}
	}
}
