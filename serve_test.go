package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-kit/log"
)

// refusing is a server that refuses requests and says what credentials it was sent.
func refusing(t *testing.T) string {
	t.Helper()
	return answering(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		http.Error(w, fmt.Sprintf("no, %v %v", r.Header["Authorization"], r.Header["X-Key"]), http.StatusInternalServerError)
	})
}

// hanging is a server that answers nothing, and tells when requests come and when they go.
func hanging(t *testing.T) (url string, asked, gone chan struct{}) {
	t.Helper()
	asked, gone = make(chan struct{}, 1000), make(chan struct{}, 1000)
	return answering(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that the client leaves
		asked <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	}), asked, gone
}

// wait asks again until something holds.
func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 3000 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("it does not come to this: %s", what)
}

// do sends a request and gives back the answer's status and body.
func do(t *testing.T, client *http.Client, method, url string, edit func(*http.Request)) (int, string) {
	t.Helper()
	request, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(request)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func (d daemon) stop(t *testing.T) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := <-d.code; code != 0 {
		t.Errorf("exit code %d:\n%s", code, d.stderr)
	}
}

// runs reads how many runs of a target were counted, -1 where it has no series.
func (d daemon) runs(t *testing.T, target string) int {
	t.Helper()
	_, page := do(t, http.DefaultClient, http.MethodGet, d.url+"/metrics", nil)
	m := regexp.MustCompile(`longctx_probe_runs_total\{[^}]*target="` + target + `"\} (\d+)`).FindStringSubmatch(page)
	if m == nil {
		return -1
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestReload changes the targets of a daemon that probes.
func TestReload(t *testing.T) {
	slow, asked, gone := hanging(t)
	stays := fmt.Sprintf("  - {name: stays, url: '%s'}\n", refusing(t))
	head := "ladder: [1k]\nintervals: 1s\nbudget: 100%\ntargets:\n"
	config := file(t, head+stays+fmt.Sprintf("  - {name: leaves, url: '%s'}\n", slow))
	d := startDaemon(t, "--config.file="+config, "--web.enable-lifecycle")
	<-asked
	wait(t, "runs of the target that stays", func() bool { return d.runs(t, "stays") >= 2 })
	rewrite := func(text string) {
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reload := func() (int, string) { return do(t, http.DefaultClient, http.MethodPost, d.url+"/-/reload", nil) }
	page := func(path string) string {
		_, body := do(t, http.DefaultClient, http.MethodGet, d.url+path, nil)
		return body
	}

	for _, bad := range []string{
		head + stays + "    lader: [1k]\n", "targets: []\n", head + stays + stays, "\t",
		head + stays + "  - {name: hidden, url: 'http://u:hunter2@localhost'}\n",
		head + stays + "  - {name: hidden, url: 'http://localhost', http: {authorization: {credentials: hunter2, credentials_file: x}}}\n",
	} {
		rewrite(bad)
		status, text := reload()
		if status != http.StatusInternalServerError || !strings.Contains(text, "was not reloaded") || !strings.Contains(text, config) || strings.Contains(text, "hunter2") {
			t.Errorf("%d %s", status, text)
		}
		if metrics := page("/metrics"); !strings.Contains(metrics, "longctx_config_last_reload_successful 0") || d.runs(t, "leaves") < 0 {
			t.Error("a bad file changes something, or does not tell")
		}
		if !strings.Contains(page("/config"), "leaves") || !strings.Contains(page("/"), "leaves") {
			t.Error("the configuration in use is no longer shown")
		}
	}
	if !strings.Contains(d.stderr.String(), "level=error") || strings.Contains(d.stderr.String(), "hunter2") {
		t.Errorf("the log does not tell of the bad file, or of more:\n%s", d.stderr)
	}
	if len(gone) > 0 {
		t.Error("a bad file cancels a run")
	}

	before := d.runs(t, "stays")
	rewrite(head + stays + fmt.Sprintf("  - {name: comes, url: '%s'}\n", slow))
	if status, text := reload(); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	<-gone // on the wire
	<-asked
	if got := d.runs(t, "stays"); got < before {
		t.Errorf("the target that stays had %d runs, and has %d", before, got)
	}
	if d.runs(t, "leaves") >= 0 || d.runs(t, "comes") < 0 || !strings.Contains(page("/metrics"), "longctx_config_last_reload_successful 1") {
		t.Error(page("/metrics"))
	}
	if status := page("/"); strings.Contains(status, "leaves") || !strings.Contains(status, "comes") || !strings.Contains(page("/runs"), "interrupted") {
		t.Error(status)
	}
	wait(t, "more runs of the target that stays", func() bool { return d.runs(t, "stays") > before })

	rewrite(head + stays)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-gone
	wait(t, "the end of the other target", func() bool { return d.runs(t, "comes") < 0 })
	d.stop(t)
}

// TestManyReloads looks for what reloads leave behind.
func TestManyReloads(t *testing.T) {
	slow, asked, _ := hanging(t)
	config := configFile{path: file(t, "targets: [{name: a, url: 'http://127.0.0.1:1'}]")}
	names := []string{"a", "b"}
	write := func(name string) {
		text := fmt.Sprintf("ladder: [1k]\nintervals: 1s\nbudget: 100%%\ntargets: [{name: stays, url: '%s'}, {name: %s, server: %s, url: '%s'}]", slow, name, name, slow)
		if err := os.WriteFile(config.path, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	write("a")
	ctx, cancel := context.WithCancel(t.Context())
	command := &serveCommand{metrics: "/metrics", history: 10}
	s, err := command.newService(ctx, config.load, nil, log.NewNopLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer s.end()
	var running sync.WaitGroup
	running.Go(func() { s.fleet.run(ctx) })
	<-asked
	<-asked // both run
	base := runtime.NumGoroutine()
	for i := range 100 {
		write(names[(i+1)%2])
		if err := s.reload(); err != nil {
			t.Fatal(err)
		}
		if i%20 == 0 {
			<-asked
		}
	}
	var at4 sync.WaitGroup
	for range 4 { // at once
		at4.Go(func() {
			if err := s.reload(); err != nil {
				t.Error(err)
			}
		})
	}
	at4.Wait()
	wait(t, "as many goroutines as before 100 reloads", func() bool { return runtime.NumGoroutine() <= base })
	if got := len(s.fleet.current()); got != 2 {
		t.Errorf("%d targets", got)
	}
	cancel()
	running.Wait()
}

func TestPaths(t *testing.T) {
	config := file(t, "ladder: [1k]\ntargets: [{name: a, url: 'http://127.0.0.1:1'}]\n")
	closed := startDaemon(t, "--config.file="+config)
	check := func(d daemon, method, path string, edit func(*http.Request), want int) {
		t.Helper()
		if got, body := do(t, http.DefaultClient, method, d.url+path, edit); got != want {
			t.Errorf("%s %s: %d, want %d: %s", method, path, got, want, body)
		}
	}
	for _, path := range []string{"/", "/metrics", "/config", "/runs", "/-/healthy", "/-/ready"} {
		check(closed, http.MethodGet, path, nil, http.StatusOK)
		check(closed, http.MethodHead, path, nil, http.StatusOK)
	}
	for _, path := range []string{"/", "/config", "/runs", "/-/ready"} {
		check(closed, http.MethodPost, path, nil, http.StatusMethodNotAllowed)
	}
	check(closed, http.MethodGet, "/-/reload", nil, http.StatusMethodNotAllowed)
	check(closed, http.MethodPost, "/-/reload", nil, http.StatusForbidden)
	check(closed, http.MethodPut, "/-/reload", nil, http.StatusForbidden)
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/cmdline", "/runs/none", "/nothing"} {
		check(closed, http.MethodGet, path, nil, http.StatusNotFound)
	}
	check(closed, http.MethodGet, "/"+strings.Repeat("a", 60<<10), nil, http.StatusRequestHeaderFieldsTooLarge)
	closed.stop(t)

	open := startDaemon(t, "--config.file="+config, "--web.enable-lifecycle", "--web.enable-pprof", "--history.limit=0", "--web.telemetry-path=/m/e")
	check(open, http.MethodGet, "/-/reload", nil, http.StatusMethodNotAllowed)
	check(open, http.MethodPut, "/-/reload", nil, http.StatusOK)
	check(open, http.MethodPost, "/-/reload", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden)
	check(open, http.MethodGet, "/debug/pprof/", nil, http.StatusOK)
	check(open, http.MethodGet, "/debug/pprof/goroutine", nil, http.StatusOK)
	check(open, http.MethodGet, "/m/e", nil, http.StatusOK)
	if _, body := do(t, http.DefaultClient, http.MethodGet, open.url+"/", nil); !strings.Contains(body, `href="m/e"`) {
		t.Error("the first page does not lead to the metrics")
	}
	open.stop(t)
}
