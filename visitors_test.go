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
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

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
	for name, edit := range map[string]func(*http.Request){
		"a wrong password": func(r *http.Request) { r.SetBasicAuth("ops", "wrong") },
		"a wrong user":     func(r *http.Request) { r.SetBasicAuth("root", "correct horse") },
		"a token":          func(r *http.Request) { r.Header.Set("Authorization", "Bearer correct horse") },
	} {
		if got, _ := do(t, client, http.MethodGet, d.url+"/-/healthy", edit); got != http.StatusUnauthorized {
			t.Errorf("health with %s: %d", name, got)
		}
	}
	if got, _ := do(t, http.DefaultClient, http.MethodGet, "http://"+address+"/-/healthy", known); got != http.StatusBadRequest {
		t.Errorf("health without TLS: %d", got)
	}
	old := &tls.Config{RootCAs: roots, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	if c, err := tls.Dial("tcp", address, old); err == nil {
		c.Close()
		t.Error("TLS 1.1 is spoken")
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

// loopback serves the daemon's pages over real sockets with its own bounds, shorter ones for slow visitors.
func loopback(t *testing.T, handler http.Handler) string {
	t.Helper()
	s := newServer(handler, slog.New(slog.DiscardHandler))
	for _, bound := range []time.Duration{s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout, s.IdleTimeout} {
		if bound <= 0 || bound > 5*time.Minute {
			t.Errorf("a visitor may take %v", bound)
		}
	}
	s.ReadHeaderTimeout, s.ReadTimeout = 100*time.Millisecond, 200*time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		<-done
	})
	return l.Addr().String()
}

// TestSlowVisitors sees that whoever sends slowly, or without end, is cut off while others are served.
func TestSlowVisitors(t *testing.T) {
	address := loopback(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }))
	block := strings.Repeat("x", 64<<10)
	for name, visitor := range map[string]struct {
		head, more string
		pause      time.Duration
	}{
		"header that drips":   {"GET / HTTP/1.1\r\nHost: a\r\nX: ", "y", 10 * time.Millisecond},
		"header without end":  {"GET / HTTP/1.1\r\nHost: a\r\nX: ", block, 0},
		"headers without end": {"GET / HTTP/1.1\r\nHost: a\r\n", "X-Y: z\r\n", 0},
		"path without end":    {"GET /", block, 0},
		"body that drips":     {"POST /-/reload HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n", "y", 10 * time.Millisecond},
		"body without end":    {"POST /-/reload HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n", block, 0},
		"chunks without end":  {"POST /-/reload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "10000\r\n" + block + "\r\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			sent := 0
			for text := visitor.head; err == nil; text = visitor.more {
				var n int
				n, err = io.WriteString(c, text)
				if sent += n; sent > 64<<20 {
					t.Fatal("64 MiB are taken")
				}
				time.Sleep(visitor.pause)
			}
			if got, _ := do(t, http.DefaultClient, http.MethodGet, "http://"+address, nil); got != http.StatusOK {
				t.Errorf("others: %d", got)
			}
		})
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestLargeRequests sends the daemon more than it takes.
func TestLargeRequests(t *testing.T) {
	d := startDaemon(t, "--config.file="+file(t, "ladder: [1k]\ntargets: [{name: a, url: 'http://127.0.0.1:1'}]\n"), "--web.enable-lifecycle")
	got, _ := do(t, http.DefaultClient, http.MethodGet, d.url+"/", func(r *http.Request) { r.Header.Set("X", strings.Repeat("x", 60<<10)) })
	if got != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a large header: %d", got)
	}
	got, text := do(t, http.DefaultClient, http.MethodPost, d.url+"/-/reload", func(r *http.Request) {
		r.Body = io.NopCloser(io.LimitReader(rand.Reader, 200<<10))
	})
	if got != http.StatusOK {
		t.Errorf("a body that nobody reads: %d %s", got, text)
	}
	d.stop(t)
}

// TestNotReady asks a daemon whether it is ready while it is told to end and a run is on.
func TestNotReady(t *testing.T) {
	for range 10 {
		answer, err := readyAtEnd(t)
		if err != nil {
			t.Log(err)
			continue // it had ended before this busy machine came to ask
		}
		if answer.StatusCode != http.StatusServiceUnavailable {
			t.Error(answer.Status)
		}
		return
	}
	t.Error("whoever has begun to ask gets no answer at the end")
}

// readyAtEnd begins to ask before the end, and goes on once the run is cancelled.
func readyAtEnd(t *testing.T) (*http.Response, error) {
	t.Helper()
	slow, asked, gone := hanging(t)
	d := startProcess(t, "--config.file="+file(t, fmt.Sprintf("ladder: [1k]\nintervals: 1s\ntargets: [{name: slow, url: '%s'}]\n", slow)))
	<-asked
	http.DefaultClient.CloseIdleConnections()
	c, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /-/ready HTTP/1.1\r\n")
	// Connections are accepted in turn: once this one is served, the other is the daemon's.
	if got, _ := do(t, http.DefaultClient, http.MethodGet, d.url+"/-/ready", nil); got != http.StatusOK {
		t.Errorf("ready before: %d", got)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := d.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-gone
	fmt.Fprint(c, "Host: a\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if code := <-d.code; code != 0 {
		t.Errorf("exit code %d:\n%s", code, d.stderr)
	}
	return answer, err
}
