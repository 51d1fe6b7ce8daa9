package servermetrics

import (
	"context"
	"errors"
	"fmt"
	"io"
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

func TestNew(t *testing.T) {
	for _, d := range []inference.Dialect{inference.OpenAI, inference.Auto, "", inference.Ollama} {
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
		r, err := openReader(prober.Target{URL: "http://server"}, inference.SGLang, dial)
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
		r, err := openReader(prober.Target{URL: "http://server"}, inference.VLLM, dial)
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
	return config.WithDialContextFunc(pipe(t, h))
}

// pipe is pipeServer as a target's Dial.
func pipe(t *testing.T, h http.Handler) func(ctx context.Context, network, address string) (net.Conn, error) {
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
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		client, server := net.Pipe()
		select {
		case conns <- server:
			return client, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
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
