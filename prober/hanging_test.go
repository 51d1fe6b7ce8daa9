package prober

import (
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"

	"longctx_exporter/prober/inference"
	"longctx_exporter/prober/simserver"
)

// TestServersThatNeverEnd makes two hundred runs against servers that answer nothing, or without end: each is a timeout, and none
// leaves a goroutine or a connection behind.
func TestServersThatNeverEnd(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"hanging": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"endless": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":" w"},"finish_reason":null}]}`+"\n\n")
				w.(http.Flusher).Flush()
				time.Sleep(20 * time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				open := map[net.Conn]bool{}
				listener := simserver.NewPipeListener()
				server := &http.Server{
					Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						_, _ = io.Copy(io.Discard, r.Body)
						switch r.URL.Path {
						case "/v1/models":
							_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
						case "/v1/chat/completions":
							answer(w, r)
						default:
							http.NotFound(w, r)
						}
					}),
					ConnState: func(c net.Conn, s http.ConnState) {
						mu.Lock()
						defer mu.Unlock()
						if open[c] = true; s == http.StateClosed {
							delete(open, c)
						}
					},
				}
				go func() { _ = server.Serve(listener) }()
				runner, err := NewRunner(Target{
					Name: "t", URL: "http://server.invalid", Dialect: inference.OpenAI, API: inference.Chat, Plan: Pair, Ladder: []Rung{1024},
					Precision: 0.03, Timeout: 50 * time.Millisecond, Dial: listener.Dial,
				}, nil, log.NewNopLogger())
				if err != nil {
					t.Fatal(err)
				}
				var before int
				for i := range 200 {
					run := runner.Run(t.Context(), 1024, nil)
					if run.Status != Failed || run.Reason != Reason(inference.Timeout) {
						t.Fatalf("run %d ended %s %s (%s)", i, run.Status, run.Reason, run.Message)
					}
					time.Sleep(time.Second)
					synctest.Wait()
					if i == 0 {
						before = runtime.NumGoroutine()
					}
				}
				mu.Lock()
				left := len(open)
				mu.Unlock()
				if after := runtime.NumGoroutine(); after > before+5 || left > 4 {
					t.Errorf("%d goroutines after the first run, %d after two hundred; %d connections are open", before, after, left)
				}
				runner.Close()
				_ = server.Close()
				_ = listener.Close()
				synctest.Wait()
			})
		})
	}
}
