package simserver

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Player answers requests from a Script. As an http.Handler it answers 404 where the script has nothing.
type Player struct {
	repeat bool

	mu        sync.Mutex
	exchanges []*exchange
	used      map[*exchange]bool
	conns     map[string]bool // remote addresses that have had an answer
	failures  []string
}

// NewPlayer parses a script.
func NewPlayer(s Script) (*Player, error) {
	exchanges, err := s.parse()
	if err != nil {
		return nil, err
	}
	return &Player{repeat: s.Repeat, exchanges: exchanges, used: map[*exchange]bool{}, conns: map[string]bool{}}, nil
}

// Failures are the assertions of the script that requests did not meet.
func (p *Player) Failures() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.failures...)
}

func (p *Player) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.play(w, r) {
		http.NotFound(w, r)
	}
}

// play answers a request; false where the script has no answer.
func (p *Player) play(w http.ResponseWriter, r *http.Request) bool {
	x, stale := p.take(r)
	if x == nil {
		return false
	}
	if stale {
		closeQuietly(w)
		return true
	}
	_, _ = io.Copy(io.Discard, r.Body) // times run from the end of the request, however it ends
	p.perform(w, r, x)
	return true
}

// take gives the next exchange for a request, and whether the request came on a connection that is to be found closed.
func (p *Player) take(r *http.Request) (next *exchange, stale bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var last *exchange
	for _, x := range p.exchanges {
		if x.method != r.Method || x.path != r.URL.Path {
			continue
		}
		if last = x; !p.used[x] {
			next = x
			break
		}
	}
	if next == nil && p.repeat {
		next = last
	}
	if next == nil {
		return nil, false
	}
	if next.closeIdle && p.conns[r.RemoteAddr] {
		return next, true // still to be played, on a fresh connection
	}
	p.used[next], p.conns[r.RemoteAddr] = true, true
	p.check(next, r)
	return next, false
}

func (p *Player) check(x *exchange, r *http.Request) {
	for _, want := range x.asserted {
		if got := r.Header.Get(want[0]); got != want[1] {
			p.failures = append(p.failures, fmt.Sprintf("%s %s: header %s is %q, not %q", x.method, x.path, want[0], got, want[1]))
		}
	}
	for _, key := range x.forbidden {
		if r.Header.Get(key) != "" {
			p.failures = append(p.failures, fmt.Sprintf("%s %s: header %s is present", x.method, x.path, key))
		}
	}
}

func (p *Player) perform(w http.ResponseWriter, r *http.Request, x *exchange) {
	start := time.Now()
	rc := http.NewResponseController(w)
	var body io.Writer = w
	var zip *gzip.Writer
	if x.gzip {
		zip = gzip.NewWriter(w)
		body = zip
	}
	headed := false
	for _, a := range x.actions {
		if !until(r, start.Add(a.at)) {
			return
		}
		if a.kind == "send" || a.kind == "end" {
			if !headed && !head(w, x) {
				break
			}
			headed = true
		}
		switch a.kind {
		case "send":
			_, _ = body.Write(a.data) // a client that has left is seen by its context
			if zip == nil {
				_ = rc.Flush()
			}
		case "end":
			if zip != nil {
				_ = zip.Close() // as above
			}
			return
		case "hang":
			<-r.Context().Done()
			return
		case "end-without-response":
			closeQuietly(w)
			return
		case "reset":
			resetConnection(w)
			return
		}
	}
	if !headed {
		<-r.Context().Done()
	}
}

// head writes the response head; false where the script has none.
func head(w http.ResponseWriter, x *exchange) bool {
	if x.status == 0 {
		return false
	}
	for _, h := range x.headers {
		w.Header().Add(h[0], h[1])
	}
	w.WriteHeader(x.status)
	return true
}

func until(r *http.Request, at time.Time) bool {
	return wait(time.Until(at), r.Context().Done())
}

// wait tells whether d passed before done was closed. A time that has passed gets no timer: in a synctest bubble whoever asks
// such a timer runs it, and the race detector of Go 1.26 crashes where two do at once.
func wait(d time.Duration, done <-chan struct{}) bool {
	if d <= 0 {
		select {
		case <-done:
			return false
		default:
			return true
		}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}

func closeQuietly(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // net/http's way of ending a stream that cannot be hijacked
	}
	_ = conn.Close()
}

func resetConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // as above
	}
	breakOff(conn)
}
