package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	defer s.hangup()
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

// TestNotReady asks a daemon that is stopping.
func TestNotReady(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	(&service{ctx: ctx}).serveReady(w, nil)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestSlowVisitors sees that neither slow nor endless requests are waited for without end.
func TestSlowVisitors(t *testing.T) {
	s := newServer(http.NotFoundHandler())
	for name, bound := range map[string]time.Duration{
		"header": s.ReadHeaderTimeout, "request": s.ReadTimeout, "answer": s.WriteTimeout, "idle": s.IdleTimeout,
	} {
		if bound <= 0 || bound > 5*time.Minute {
			t.Errorf("%s: %v", name, bound)
		}
	}
	// A body that never ends is not read at all.
	s.ReadHeaderTimeout = 50 * time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	for _, text := range []string{"POST /-/reload HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\nx", "GET / HTT"} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, text)
		answer, _ := http.ReadResponse(bufio.NewReader(c), nil)
		if answer != nil && answer.StatusCode == http.StatusOK {
			t.Errorf("%q: %s", text, answer.Status)
		}
		c.Close()
	}
	s.Close()
	<-done
}

// TestSecrets looks for credentials on every page, in the log and in errors.
func TestSecrets(t *testing.T) {
	server := refusing(t) // says in its errors what it was sent
	config := file(t, fmt.Sprintf(`ladder: [1k]
intervals: 1s
budget: 100%%
targets:
  - {name: bearer, url: '%[1]s', http: {authorization: {credentials: hunter2}}}
  - {name: basic, url: '%[1]s', server: b, http: {basic_auth: {username: u, password: hunter2}}}
  - {name: header, url: '%[1]s', server: h, http: {http_headers: {X-Key: {secrets: [hunter2]}}}, metrics: {http: {authorization: {credentials: hunter2}}}}
`, server))
	d := startDaemon(t, "--config.file="+config, "--web.enable-lifecycle", "--web.enable-pprof", "--log.level=debug")
	for _, name := range []string{"bearer", "basic", "header"} {
		wait(t, "a run of "+name, func() bool { return d.runs(t, name) > 0 })
	}
	look := func(path, body string) {
		t.Helper()
		if strings.Contains(body, "hunter2") || strings.Contains(body, "dTpodW50ZXIy") { // the latter is u:hunter2 in base64
			t.Errorf("%s shows a secret:\n%s", path, body)
		}
	}
	paths := []string{"/", "/metrics", "/config", "/runs", "/runs?format=json", "/debug/pprof/cmdline"}
	_, list := do(t, http.DefaultClient, http.MethodGet, d.url+"/runs?format=json", nil)
	ids := regexp.MustCompile(`"id": "(\w+)"`).FindAllStringSubmatch(list, -1)
	if len(ids) < 3 {
		t.Errorf("no runs: %s", list)
	}
	for _, id := range ids {
		paths = append(paths, "/runs/"+id[1], "/runs/"+id[1]+"?format=json")
	}
	for _, path := range paths {
		_, body := do(t, http.DefaultClient, http.MethodGet, d.url+path, nil)
		look(path, body)
	}
	if _, body := do(t, http.DefaultClient, http.MethodGet, d.url+"/config", nil); strings.Count(body, "<secret>") != 4 {
		t.Errorf("the configuration does not show where secrets are:\n%s", body)
	}
	if status, text := do(t, http.DefaultClient, http.MethodPost, d.url+"/-/reload", nil); status != http.StatusOK || !strings.Contains(d.stderr.String(), "targets_kept=3") {
		t.Errorf("%d %s: reloading the same file touches targets:\n%s", status, text, d.stderr)
	}
	look("the log", d.stderr.String())
	d.stop(t)
}

// TestWebConfig serves with TLS and a password.
func TestWebConfig(t *testing.T) {
	dir := t.TempDir()
	roots := certificate(t, dir)
	text := "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n" +
		"basic_auth_users: {ops: $2a$04$MToIDJxiB0WWSLFVT1GBmOT.s.O8/5Rm.4IdZVACD7UvChiwtQYCe}\n"
	if err := os.WriteFile(filepath.Join(dir, "web.yml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freePort(t)
	d := daemon{url: "https://" + address, stderr: &lockedBuffer{}, code: make(chan int, 1)}
	config := file(t, "ladder: [1k]\ntargets: [{name: a, url: 'http://127.0.0.1:1'}]\n")
	go func() {
		d.code <- run(context.Background(), []string{
			"--config.file=" + config, "--web.enable-lifecycle", "--web.listen-address=" + address, "--web.config.file=" + filepath.Join(dir, "web.yml"),
		}, io.Discard, d.stderr)
	}()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	wait(t, "listening", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	known := func(r *http.Request) { r.SetBasicAuth("ops", "correct horse") }
	for _, path := range []string{"/", "/runs", "/config", "/metrics", "/-/ready", "/-/healthy"} {
		if got, _ := do(t, client, http.MethodGet, d.url+path, nil); got != http.StatusUnauthorized {
			t.Errorf("%s without a password: %d", path, got)
		}
		if got, _ := do(t, client, http.MethodGet, d.url+path, known); got != http.StatusOK {
			t.Errorf("%s with the password: %d", path, got)
		}
	}
	if got, _ := do(t, client, http.MethodPost, d.url+"/-/reload", nil); got != http.StatusUnauthorized {
		t.Errorf("reload without a password: %d", got)
	}
	if got, text := do(t, client, http.MethodPost, d.url+"/-/reload", known); got != http.StatusOK {
		t.Errorf("reload with the password: %d %s", got, text)
	}
	client.CloseIdleConnections()
	d.stop(t)
}

// certificate writes a certificate of 127.0.0.1 and its key.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(parsed)
	return pool
}
