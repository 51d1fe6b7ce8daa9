package inference

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// wireServer plays scripts over pipes, byte for byte and second for second; in a synctest bubble its time is virtual.
type wireServer struct {
	t         *testing.T
	exchanges []*wireExchange
	h2        bool
	tls       *tls.Config

	mu       sync.Mutex
	played   map[string]int // exchanges played by method and path
	bodies   []string       // request bodies in order
	dials    int
	left     []time.Time // when clients left hanging exchanges
	sessions sync.WaitGroup
}

// wireExchange is the scripted answer to one request.
type wireExchange struct {
	method, path string
	status       int
	header       [][2]string
	asserted     [][2]string
	forbidden    []string
	gzip         bool
	closeNext    bool
	steps        []wireStep
	bodies       map[string][]byte
}

type wireStep struct {
	at   time.Duration
	verb string
	arg  string
}

// loadCase reads the script of a case, or makes the one that stands for a case without.
func loadCase(t *testing.T, name string) *wireServer {
	t.Helper()
	bodies := map[string][]byte{}
	files, err := filepath.Glob(filepath.Join("testdata", "cases", name+".*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("case %s has no files: %v", name, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		bodies[strings.TrimPrefix(filepath.Base(f), name+".")] = b
	}
	script, ok := bodies["wire.txt"]
	if !ok {
		contentType := "application/json"
		if bodies["sse"] != nil {
			contentType = "text/event-stream"
		}
		script = []byte("exchange POST /v1/chat/completions\nstatus 200\nheader Content-Type: " + contentType + "\nat 0 send all\nat 0 end\n")
	}
	delete(bodies, "wire.txt")
	delete(bodies, "expect.txt")
	return parseScript(t, string(script), bodies)
}

func parseScript(t *testing.T, script string, bodies map[string][]byte) *wireServer {
	t.Helper()
	s := &wireServer{t: t, played: map[string]int{}}
	var x *wireExchange
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		verb, rest, _ := strings.Cut(line, " ")
		key, value, _ := strings.Cut(rest, ": ")
		switch verb {
		case "", "#":
		case "protocol":
			s.h2 = rest == "h2"
		case "exchange":
			method, path, _ := strings.Cut(rest, " ")
			x = &wireExchange{method: method, path: path, bodies: bodies}
			s.exchanges = append(s.exchanges, x)
		case "status":
			x.status, _ = strconv.Atoi(rest)
		case "header":
			x.header = append(x.header, [2]string{key, value})
		case "assert-request-header":
			x.asserted = append(x.asserted, [2]string{key, value})
		case "fail-test-if-header-present":
			x.forbidden = append(x.forbidden, rest)
		case "encode":
			x.gzip = rest == "gzip"
		case "close-idle-on-next-write":
			x.closeNext = true
		case "at":
			at, action, _ := strings.Cut(rest, " ")
			seconds, err := strconv.ParseFloat(at, 64)
			if err != nil {
				t.Fatalf("script line %q: %v", line, err)
			}
			verb, arg, _ := strings.Cut(action, " ")
			x.steps = append(x.steps, wireStep{time.Duration(seconds*1000+0.5) * time.Millisecond, verb, arg})
		default:
			t.Fatalf("script line %q is not understood", line)
		}
	}
	return s
}

// pipeEnd is the client's end of a pipe; after a reset by the server it fails as a socket does.
type pipeEnd struct {
	net.Conn
	reset *atomic.Bool
}

func (p pipeEnd) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if err != nil && p.reset.Load() {
		err = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	}
	return n, err
}

func (s *wireServer) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	var reset atomic.Bool
	s.mu.Lock()
	s.dials++
	s.mu.Unlock()
	s.sessions.Go(func() {
		defer server.Close()
		if s.h2 {
			s.serveH2(server)
			return
		}
		s.serve(server, &reset)
	})
	return pipeEnd{client, &reset}, nil
}

// serve answers the requests of one connection.
func (s *wireServer) serve(conn net.Conn, reset *atomic.Bool) {
	r := bufio.NewReader(conn)
	closeNext := false
	for {
		req, err := http.ReadRequest(r)
		if err != nil || closeNext {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		x := s.next(req, string(body))
		if x == nil {
			fmt.Fprintf(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
			return
		}
		closeNext = x.closeNext
		if !s.play(conn, r, x, reset) {
			return
		}
	}
}

// next is the exchange that answers a request: those of one path in order, the last one again and again.
func (s *wireServer) next(req *http.Request, body string) *wireExchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = append(s.bodies, body)
	var fitting []*wireExchange
	for _, x := range s.exchanges {
		if x.method == req.Method && x.path == req.URL.Path {
			fitting = append(fitting, x)
		}
	}
	if len(fitting) == 0 {
		return nil
	}
	key := req.Method + " " + req.URL.Path
	x := fitting[min(s.played[key], len(fitting)-1)]
	s.played[key]++
	for _, h := range x.asserted {
		if got := req.Header.Get(h[0]); got != h[1] {
			s.t.Errorf("request header %s is %q, want %q", h[0], got, h[1])
		}
	}
	for _, h := range x.forbidden {
		if req.Header.Get(h) != "" {
			s.t.Errorf("request header %s is present", h)
		}
	}
	return x
}

// play carries a script out; true means that the connection can be used again.
func (s *wireServer) play(conn net.Conn, r *bufio.Reader, x *wireExchange, reset *atomic.Bool) bool {
	began := time.Now()
	chunked := true
	if x.status != 0 {
		var head strings.Builder
		fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\n", x.status, http.StatusText(x.status))
		for _, h := range x.header {
			fmt.Fprintf(&head, "%s: %s\r\n", h[0], h[1])
			chunked = chunked && !strings.EqualFold(h[0], "Content-Length")
		}
		if chunked {
			head.WriteString("Transfer-Encoding: chunked\r\n")
		}
		if _, err := io.WriteString(conn, head.String()+"\r\n"); err != nil {
			return false
		}
	}
	for _, step := range x.steps {
		time.Sleep(step.at - time.Since(began))
		switch step.verb {
		case "send":
			b := x.bytes(s.t, step.arg)
			if chunked {
				b = fmt.Appendf(nil, "%x\r\n%s\r\n", len(b), b)
			}
			if _, err := conn.Write(b); err != nil {
				return false
			}
		case "end":
			if chunked {
				io.WriteString(conn, "0\r\n\r\n")
			}
			return true
		case "reset":
			reset.Store(true)
			return false
		case "end-without-response":
			return false
		case "hang":
			_, err := r.ReadByte()
			s.mu.Lock()
			s.left = append(s.left, time.Now())
			s.mu.Unlock()
			if err == nil {
				s.t.Error("the client wrote to a hanging connection")
			}
			return false
		default:
			s.t.Errorf("script verb %q is not understood", step.verb)
		}
	}
	return false
}

// bytes are what a send instruction sends.
func (x *wireExchange) bytes(t *testing.T, arg string) []byte {
	verb, rest, _ := strings.Cut(arg, " ")
	var body []byte
	for _, ext := range []string{"sse", "json", "txt"} {
		if b, ok := x.bodies[ext]; ok {
			body = b
			break
		}
	}
	var b []byte
	switch verb {
	case "all":
		b = body
	case "text":
		b = []byte(strings.ReplaceAll(rest, `\n`, "\n"))
	case "lines", "bytes":
		var from, to int
		if _, err := fmt.Sscanf(rest, "%d-%d", &from, &to); err != nil {
			t.Errorf("send %q: %v", arg, err)
		}
		if verb == "bytes" {
			b = body[from:min(to, len(body))]
			break
		}
		lines := bytes.SplitAfter(body, []byte("\n"))
		b = bytes.Join(lines[from-1:min(to, len(lines))], nil)
	default:
		t.Errorf("send %q is not understood", arg)
	}
	if x.gzip {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		w.Write(b)
		w.Close()
		b = packed.Bytes()
	}
	return b
}

// serveH2 answers one HTTP/2 connection over TLS.
func (s *wireServer) serveH2(raw net.Conn) {
	conn := tls.Server(raw, s.tls)
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	// Pipes have no buffer: both sides writing at once would wait for each other for ever.
	frames := make(chan []byte, 64)
	defer close(frames)
	s.sessions.Go(func() {
		for b := range frames {
			conn.Write(b)
		}
	})
	framer := http2.NewFramer(queue(frames), conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var out sync.Mutex
	write := func(f func() error) {
		out.Lock()
		defer out.Unlock()
		if err := f(); err != nil {
			s.t.Errorf("writing an HTTP/2 frame: %v", err)
		}
	}
	write(func() error { return framer.WriteSettings() })
	var playing sync.WaitGroup
	defer playing.Wait()
	var req *http.Request
	var body []byte
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		ended := false
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				write(framer.WriteSettingsAck)
			}
		case *http2.MetaHeadersFrame:
			req, _ = http.NewRequest(f.PseudoValue("method"), "https://x"+f.PseudoValue("path"), nil)
			ended = f.StreamEnded()
		case *http2.DataFrame:
			body = append(body, f.Data()...)
			ended = f.StreamEnded()
		}
		if ended {
			id := frame.Header().StreamID
			x := s.next(req, string(body))
			body = nil
			playing.Go(func() {
				s.playH2(framer, write, id, x)
				raw.Close()
			})
		}
	}
}

// queue is a writer that never waits.
type queue chan []byte

func (q queue) Write(p []byte) (int, error) {
	q <- bytes.Clone(p)
	return len(p), nil
}

func (s *wireServer) playH2(framer *http2.Framer, write func(func() error), id uint32, x *wireExchange) {
	began := time.Now()
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	enc.WriteField(hpack.HeaderField{Name: ":status", Value: strconv.Itoa(x.status)})
	for _, h := range x.header {
		enc.WriteField(hpack.HeaderField{Name: strings.ToLower(h[0]), Value: h[1]})
	}
	write(func() error {
		return framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head.Bytes(), EndHeaders: true})
	})
	for _, step := range x.steps {
		time.Sleep(step.at - time.Since(began))
		switch step.verb {
		case "send":
			write(func() error { return framer.WriteData(id, false, x.bytes(s.t, step.arg)) })
		case "end":
			write(func() error { return framer.WriteData(id, true, nil) })
		case "goaway":
			write(func() error { return framer.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil) })
		case "rst_stream":
			write(func() error { return framer.WriteRSTStream(id, http2.ErrCodeInternal) })
		default:
			s.t.Errorf("script verb %q is not understood over HTTP/2", step.verb)
		}
	}
	time.Sleep(time.Second) // what was written is read before the connection closes
}

// withTLS gives the server a certificate of its own.
func (s *wireServer) withTLS() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"pipe.test"}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		s.t.Fatal(err)
	}
	s.tls = &tls.Config{NextProtos: []string{"h2"}, Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}}
}
