package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/promslog"
	"go.uber.org/goleak"

	"longctx_exporter/prober"
	"longctx_exporter/prober/simserver"
)

// TestMain also watches over leaks: kingpin, signal handling and idle connections of the test's own client aside.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("os/signal.loop"), goleak.IgnoreTopFunction("os/signal.signal_recv"),
		goleak.Cleanup(func(code int) { os.Exit(code) }))
}

// lockedBuffer is a standard stream that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// exec runs the program and gives back what a shell would see.
func exec(args ...string) (code int, stdout, stderr string) {
	var out, err lockedBuffer
	code = run(context.Background(), args, &out, &err)
	return code, out.String(), err.String()
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "longctx.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// freePort is a loopback address where nobody listens.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// simulated starts a simulated server, fast, on a free port.
func simulated(t *testing.T, c simserver.Config) *simulation {
	t.Helper()
	profile, err := simserver.ProfileByName("")
	if err != nil {
		t.Fatal(err)
	}
	c.Profile = profile
	if c.Shape == "" {
		c.Shape = "sglang"
	}
	if c.TimeScale == 0 {
		c.TimeScale = 200
	}
	sim, err := startSimulation(c, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.close)
	return sim
}

func answering(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}

func TestBadInput(t *testing.T) {
	html := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><html><body>It works!</body></html>")
	})
	sim := simulated(t, simserver.Config{})
	keyed := simulated(t, simserver.Config{APIKey: "hunter2"})
	config := file(t, "targets: [{name: a, url: 'http://127.0.0.1:1'}, {name: b, url: 'http://127.0.0.1:2'}]\n")
	unknown := file(t, "targets:\n  - name: a\n    url: http://127.0.0.1:1\n    lader: [1k]\n")
	twice := file(t, "targets: [{name: a, url: 'http://127.0.0.1:1'}, {name: a, url: 'http://127.0.0.1:2'}]\n")
	empty := file(t, "ladder: []\ntargets: [{name: a, url: 'http://127.0.0.1:1'}]\n")
	wrongKey := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(wrongKey, []byte("not the key"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		want string // part of the only line on standard error
	}{
		{"no server", []string{"sweep", "--url=http://" + freePort(t)}, "connect"},
		{"host and port of no server", []string{"sweep", "--host", "127.0.0.1", "--port", "1", "--ctx", "64", "1024"}, "http://127.0.0.1:1"},
		{"TLS to a plain port", []string{"sweep", "--url=" + strings.Replace(sim.url, "http", "https", 1)}, "tls"},
		{"no key", []string{"sweep", "--url=" + keyed.url}, "auth"},
		{"wrong key", []string{"sweep", "--url=" + keyed.url, "--http.credentials-file=" + wrongKey}, "auth"},
		{"unknown model", []string{"sweep", "--url=" + sim.url, "--model=no-such-model"}, "no-such-model"},
		{"HTML answer", []string{"sweep", "--url=" + html}, "protocol"},
		{"ladder 1x", []string{"sweep", "--url=" + sim.url, "--ladder=1x"}, `--ladder: context length "1x" is neither a number of tokens nor like 8k`},
		{"ctx 1x", []string{"sweep", "--url=" + sim.url, "--ctx", "64", "1x"}, `--ctx: context length "1x"`},
		{"negative ctx", []string{"sweep", "--url=" + sim.url, "--ctx", "-5"}, `--ctx: context length "-5"`},
		{"empty ladder flag", []string{"sweep", "--url=" + sim.url, "--ladder=,"}, "--ladder: the ladder is empty"},
		{"negative M", []string{"sweep", "--url=" + sim.url, "--decode-tokens=-5"}, `--decode-tokens: decode_tokens "-5" is neither auto nor a number from 1 up`},
		{"negative M apart", []string{"sweep", "--url=" + sim.url, "--decode-tokens", "-5"}, `decode_tokens "-5"`},
		{"bad precision", []string{"sweep", "--url=" + sim.url, "--precision=0"}, `--precision: "0" is not a share`},
		{"bad timeout", []string{"sweep", "--url=" + sim.url, "--timeout=soon"}, `--timeout: "soon" is not a time`},
		{"bad dialect", []string{"sweep", "--url=" + sim.url, "--dialect=x"}, `dialect "x" is none of`},
		{"bad output", []string{"sweep", "--url=" + sim.url, "--output=xml"}, `output "xml" is none of`},
		{"missing key file", []string{"sweep", "--url=" + sim.url, "--http.credentials-file=no-such-file"}, "no-such-file"},
		{"no url", []string{"sweep"}, "no server is named"},
		{"url without scheme", []string{"sweep", "--url=localhost:30000"}, "is not a URL like http://host:30000"},
		{"url and host", []string{"sweep", "--url=http://localhost", "--host=h"}, "--url and --host"},
		{"secret in url", []string{"sweep", "--url=http://u:hunter2@localhost"}, `url has credentials in it; put them under "http"`},
		{"several targets", []string{"sweep", "--config.file=" + config}, "choose with --target: a, b"},
		{"unknown target", []string{"sweep", "--config.file=" + config, "--target=c"}, `has no target "c"; it has a, b`},
		{"unknown key", []string{"check", "--config.file=" + unknown}, `line 4: unknown key "lader"`},
		{"unknown key, serve", []string{"--config.file=" + unknown}, `line 4: unknown key "lader"`},
		{"unknown key, flag", []string{"--config.file=" + unknown, "--config.check"}, `line 4: unknown key "lader"`},
		{"duplicate target", []string{"check", "--config.file=" + twice}, `targets[1].name "a" is already used by targets[0]`},
		{"empty ladder", []string{"serve", "--config.file=" + empty}, "line 1: the ladder is empty"},
		{"no configuration", []string{"--config.file=no-such-file.yml"}, "no-such-file.yml: no such file or directory"},
		{"no web configuration", []string{"--config.file=" + config, "--web.config.file=none.yml"}, "none.yml"},
		{"bad path", []string{"--config.file=" + config, "--web.telemetry-path=metrics"}, `--web.telemetry-path="metrics" is not a path`},
		{"pattern for a path", []string{"--config.file=" + config, "--web.telemetry-path=/{"}, "is not a path"},
		{"method in a path", []string{"--config.file=" + config, "--web.telemetry-path=/m m"}, "is not a path"},
		{"path that is never asked for", []string{"--config.file=" + config, "--web.telemetry-path=/a/.."}, "is not a path"},
		{"path of the health check", []string{"--config.file=" + config, "--web.telemetry-path=/-/healthy"}, "is the path of another page"},
		{"path of the icon", []string{"--config.file=" + config, "--web.telemetry-path=/favicon.ico"}, "--web.telemetry-path=/favicon.ico is the path of another page; choose another"},
		{"external URL without a scheme", []string{"--config.file=" + config, "--web.external-url=host/longctx"}, "--web.external-url=host/longctx is not a URL like"},
		{"external URL with a query", []string{"--config.file=" + config, "--web.external-url=http://host/?a"}, "is not a URL like"},
		{"external URL with a password", []string{"--config.file=" + config, "--web.external-url=http://u:hunter2@host/"}, "is not a URL like"},
		{"external URL that is none", []string{"--config.file=" + config, "--web.external-url=http://u:hunter2@host:x/"}, "--web.external-url is not a URL like"},
		{"external URL with a space", []string{"--config.file=" + config, "--web.external-url=http://host/a b"}, `has no path like /longctx`},
		{"pattern for a prefix", []string{"--config.file=" + config, "--web.route-prefix=/{a}"}, `--web.route-prefix="/{a}" has no path like /longctx`},
		{"prefix that is never asked for", []string{"--config.file=" + config, "--web.route-prefix=/a/../b"}, "--web.route-prefix="},
		{"url and target", []string{"sweep", "--config.file=" + config, "--target=a", "--url=http://127.0.0.1:3"}, "give one"},
		{"host and target", []string{"sweep", "--target=a", "--host=127.0.0.1"}, "give one"},
		{"ladder beyond memory", []string{"sweep", "--url=" + sim.url, "--ladder=9223372036854775807"}, `--ladder: context length "9223372036854775807" is longer than 16384k tokens`},
		{"unknown flag", []string{"sweep", "--laddr=1k"}, "--laddr"},
		{"unknown command", []string{"sweeep"}, "sweeep"},
		{"unknown profile", []string{"simulate", "--profile=x"}, `no profile is called "x"`},
		{"unknown shape", []string{"simulate", "--shape=x", "--listen=127.0.0.1:0"}, `shape "x"`},
		{"no configuration here", []string{"check"}, "serve --demo"},
		{"no time scale", []string{"simulate", "--time-scale=0", "--listen=127.0.0.1:0"}, "time scale"},
		{"bad time scale", []string{"simulate", "--time-scale=-1", "--listen=127.0.0.1:0"}, "time scale"},
		{"taken port", []string{"simulate", "--listen=" + strings.TrimPrefix(sim.url, "http://")}, "address already in use"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := exec(tt.args...)
			if code != 1 || stdout != "" {
				t.Errorf("exit code %d, standard output %q", code, stdout)
			}
			if !strings.HasPrefix(stderr, "longctx_exporter: ") || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tt.want) {
				t.Errorf("standard error is not one sentence with %q:\n%s", tt.want, stderr)
			}
			if strings.Contains(stderr, "hunter2") {
				t.Error("a secret is shown")
			}
		})
	}
}

func TestGoodInput(t *testing.T) {
	config := file(t, "targets: [{name: a, url: 'http://127.0.0.1:1', decode_tokens: 4}]\n")
	warning := config + ": warning: targets[0].decode_tokens 4 for 1k is below 8: the step time rests on few steps\n"
	for _, args := range [][]string{{"check", "--config.file=" + config}, {"--config.check", "--config.file=" + config}} {
		code, stdout, stderr := exec(args...)
		if code != 0 || stdout != config+" is valid: targets: 1, rungs: 9\n" || stderr != warning {
			t.Errorf("%v: %d, %q, %q", args, code, stdout, stderr)
		}
	}
	for _, args := range [][]string{{"--version"}, {"--help"}, {"sweep", "-h"}} {
		if code, stdout, stderr := exec(args...); code != 0 || !strings.Contains(stdout, program) || stderr != "" {
			t.Errorf("%v: %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

// TestCheckOfLogs: a log that cannot be read may be there later, and is told.
func TestCheckOfLogs(t *testing.T) {
	dir := t.TempDir()
	config := file(t, "ladder: [1k]\ntargets: [{name: a, url: 'http://127.0.0.1:1', logs: [{path: "+dir+"/absent.log}, {path: "+dir+"}, {unit: sglang}]}]\n")
	const advice = "; correct its path, or let the exporter's user read it\n"
	warnings := config + `: warning: target "a" cannot read logs[0]: open ` + dir + "/absent.log: no such file or directory" + advice +
		config + `: warning: target "a" cannot read logs[1]: ` + dir + " is not a regular file" + advice
	if code, _, stderr := exec("check", "--config.file="+config); code != 0 || stderr != warnings {
		t.Errorf("%d, %q", code, stderr)
	}
	readable := file(t, "targets: [{name: a, url: 'http://127.0.0.1:1', logs: [{path: "+config+"}]}]\n")
	if code, _, stderr := exec("check", "--config.file="+readable); code != 0 || stderr != "" {
		t.Errorf("%d, %q", code, stderr)
	}
}

func TestJoinArgs(t *testing.T) {
	for in, want := range map[string]string{
		"sweep --host H --ctx 64 1024 3072 --model M": "sweep --host H --ctx=64 --ctx=1024 --ctx=3072 --model M",
		"sweep --ctx=64 1024 -h":                      "sweep --ctx=64 --ctx=1024 -h",
		"sweep --decode-tokens -5 --ctx -1 2":         "sweep --decode-tokens=-5 --ctx=-1 --ctx=2",
		"sweep --ctx --url x":                         "sweep --ctx --url x",
		"--config.file x":                             "--config.file x",
	} {
		if d := cmp.Diff(strings.Fields(want), joinArgs(strings.Fields(in))); d != "" {
			t.Errorf("%s: %s", in, d)
		}
	}
}

func TestSweep(t *testing.T) {
	sim := simulated(t, simserver.Config{APIKey: "hunter2", Options: simserver.Options{CacheReport: true, SpecMetrics: true}})
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(strings.TrimPrefix(sim.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := exec("sweep", "--host", host, "--port", port, "--model", "kimi-k2.6", "--ctx", "512", "1024",
		"--output=json", "--http.credentials-file="+key, "--precision=20%")
	if strings.Contains(stdout+stderr, "hunter2") {
		t.Error("a secret is shown")
	}
	var result struct {
		Schema string
		Rungs  []struct{ Rung, Status, Reason, Message string }
	}
	if err := json.Unmarshal([]byte(stdout), &result); err != nil {
		t.Fatalf("exit code %d, %v:\n%s\n%s", code, err, stdout, stderr)
	}
	// Which rungs are accepted depends on how quiet this machine is; that they were tried does not.
	if code == 1 || result.Schema != "longctx/sweep/v1" || len(result.Rungs) != 2 || result.Rungs[1].Rung != "1k" {
		t.Errorf("exit code %d: %s\n%s", code, stdout, stderr)
	}
	for _, r := range result.Rungs {
		if r.Status == "failed" {
			t.Errorf("%+v", r)
		}
	}
}

// daemon is the program serving in the background.
type daemon struct {
	url    string
	stderr *lockedBuffer
	code   chan int
}

func startDaemon(t *testing.T, args ...string) daemon {
	t.Helper()
	return startDaemonAt(t, "", args...)
}

// startDaemonAt starts a daemon whose pages are under a prefix.
func startDaemonAt(t *testing.T, prefix string, args ...string) daemon {
	t.Helper()
	address := freePort(t)
	d := daemon{url: "http://" + address, stderr: &lockedBuffer{}, code: make(chan int, 1)}
	go func() {
		d.code <- run(context.Background(), append(args, "--web.listen-address="+address), io.Discard, d.stderr)
	}()
	d.awaitHealth(t, prefix)
	return d
}

func (d daemon) awaitHealth(t *testing.T, prefix string) {
	t.Helper()
	for range 3000 {
		if r, err := http.Get(d.url + prefix + "/-/healthy"); err == nil {
			r.Body.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the daemon does not come up:\n%s", d.stderr)
}

func (d daemon) get(t *testing.T, path, accept string) (contentType, body string) {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, d.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", path, response.Status, err)
	}
	return response.Header.Get("Content-Type"), string(b)
}

// TestServe probes a server that never answers, and is told to end.
func TestServe(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	asked, gone := make(chan struct{}, 100), make(chan struct{}, 100)
	hanging := answering(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that the client leaves
		asked <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	})
	config := file(t, fmt.Sprintf("ladder: [1k]\nintervals: 1s\ntargets: [{name: slow, url: '%s'}]\n", hanging))
	d := startDaemon(t, "--config.file="+config, "--log.format=json")
	<-asked

	contentType, body := d.get(t, "/metrics", "application/openmetrics-text;version=1.0.0")
	for _, want := range []string{
		`longctx_probe_runs_total{context="1024"`, `longctx_probes_in_flight{model="default",target="slow"} 1`,
		"longctx_probe_next_due_timestamp_seconds{", "longctx_config_last_reload_successful 1", "longctx_exporter_build_info{", "go_goroutines ", "promhttp_metric_handler_requests_total{", "# EOF",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is not in /metrics", want)
		}
	}
	if !strings.HasPrefix(contentType, "application/openmetrics-text") {
		t.Errorf("/metrics is %s", contentType)
	}
	if _, body := d.get(t, "/", ""); !strings.Contains(body, `href="/metrics"`) && !strings.Contains(body, `href="metrics"`) {
		t.Errorf("the landing page does not lead to the metrics:\n%s", body)
	}

	asking := time.Now()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := <-d.code; code != 0 {
		t.Errorf("exit code %d:\n%s", code, d.stderr)
	}
	if took := time.Since(asking); took > 5*time.Second {
		t.Errorf("the end took %v", took)
	}
	<-gone // on the wire too
	for line := range strings.Lines(d.stderr.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil || record["ts"] == nil || record["level"] == nil {
			t.Errorf("not a record: %v: %s", err, line)
		}
	}
}

func TestTakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	config := file(t, "ladder: [1k]\ntargets: [{name: a, url: 'http://127.0.0.1:1'}]\n")
	code, _, stderr := exec("--config.file="+config, "--web.listen-address="+l.Addr().String())
	if code != 1 || !strings.Contains(stderr, "longctx_exporter: serving metrics: listen tcp") {
		t.Errorf("%d, %s", code, stderr)
	}
}

// TestComparison measures a rung of the demonstration and looks its truth up.
func TestComparison(t *testing.T) {
	sim := simulated(t, simserver.Config{Options: simserver.Options{CacheReport: true, SpecMetrics: true}})
	target, err := prober.TargetConfig{URL: sim.url, ProbeConfig: prober.ProbeConfig{Ladder: prober.Ladder{1024}, Precision: 0.2}}.Target()
	if err != nil {
		t.Fatal(err)
	}
	runner, err := prober.NewRunner(target, nil, log.NewNopLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	var out bytes.Buffer
	table := newComparison(sim, []prober.Rung{1024, 2048}, &out, "the end\n")
	var run prober.Run
	var known truth
	for tries := 0; known.step == 0; tries++ { // a busy machine may spoil the cold legs, after which no long leg is sent
		if run = runner.Run(t.Context(), 1024, nil); run.Status == prober.Failed || tries == 50 {
			t.Fatal(run.Message)
		}
		if known, err = table.truth(run); err != nil {
			t.Fatal(err)
		}
	}
	if !(known.ttft > 0 && known.accept >= 1) {
		t.Errorf("%+v", known)
	}
	askAfter(t, sim, &run)
	if again, err := table.truth(run); err != nil || again != known {
		t.Errorf("with the question after the run: %+v, %v, want %+v", again, err, known)
	}
	run.Status = prober.Accepted
	table.ObserveRun(run)
	for range demoTries {
		if strings.Contains(out.String(), "TTFT") {
			t.Fatal("the table comes before every rung was tried")
		}
		table.ObserveRun(prober.Run{Rung: 2048, Status: prober.Failed, Reason: "timeout"})
	}
	if got := out.String(); !strings.Contains(got, "1k") || !strings.Contains(got, "failed: timeout") || !strings.HasSuffix(got, "the end\n") {
		t.Error(got)
	}
}

// askAfter lengthens a run by a question behind its prompt, as that for the planted fact is.
func askAfter(t *testing.T, sim *simulation, run *prober.Run) {
	t.Helper()
	ids := strings.TrimSuffix(strings.Repeat("7,", int(run.Rung)+20), ",")
	resp, err := http.Post(sim.url+"/generate", "application/json", strings.NewReader(
		`{"input_ids": [`+ids+`], "sampling_params": {"max_new_tokens": 9, "ignore_eos": true}}`))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body) // the truth tells whether it was answered
	_ = resp.Body.Close()
	requests := sim.Truth()
	if last := requests[len(requests)-1]; resp.StatusCode != http.StatusOK || last.PromptTokens <= int(run.Rung) || len(last.StepSeconds) == 0 {
		t.Fatalf("%s, %+v", resp.Status, last)
	}
	run.Duration = time.Since(run.Started)
}

func TestLogger(t *testing.T) {
	for format, want := range map[string]string{
		"logfmt": "level=info caller=main_test.go:",
		"json":   `"http2":false`,
	} {
		c := &promslog.Config{Level: promslog.NewLevel(), Format: promslog.NewFormat()}
		if err := c.Format.Set(format); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		_, lib := newLogger(c, &out)
		lib.Debug("not shown")
		lib.Info("TLS is disabled.", "http2", false)
		if got := out.String(); !strings.Contains(got, want) || strings.Contains(got, "time=") || strings.Contains(got, `"time"`) || strings.Contains(got, "not shown") {
			t.Errorf("%s: %s", format, got)
		}
	}
}

// TestSweepMayEvict finds that only a file keeps a sweep from pushing cached prefixes out.
func TestSweepMayEvict(t *testing.T) {
	path := filepath.Join(t.TempDir(), "longctx.yml")
	for file, want := range map[string]bool{
		"": true,
		"targets: [{name: a, url: 'http://127.0.0.1:1'}]":                                                true,
		"allow_eviction: false\ntargets: [{name: a, url: 'http://127.0.0.1:1'}]":                         false,
		"allow_eviction: false\ntargets: [{name: a, url: 'http://127.0.0.1:1', allow_eviction: true}]":   true,
		"allow_eviction: true\ntargets: [{name: a, url: 'http://127.0.0.1:1', allow_eviction: false}]\n": false,
	} {
		c := &sweepCommand{file: &configFile{path: path, set: file != ""}}
		if c.url = "http://127.0.0.1:1"; file != "" {
			c.url = ""
			if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		target, err := c.targetOf()
		if err != nil || target.AllowEviction != want {
			t.Errorf("%q: %v, %v, want %v", file, target.AllowEviction, err, want)
		}
	}
}
