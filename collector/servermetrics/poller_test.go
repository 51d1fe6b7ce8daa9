package servermetrics

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"
	"github.com/google/go-cmp/cmp"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// watched is a poller with what it told.
type watched struct {
	*Poller
	mu     sync.Mutex
	seen   []Snapshot
	at     []time.Time
	logged strings.Builder
}

// Write takes a line of the log.
func (w *watched) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logged.Write(line)
}

func (w *watched) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logged.String()
}

func (w *watched) snapshots() []Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Snapshot(nil), w.seen...)
}

func (w *watched) times() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]time.Time(nil), w.at...)
}

// watch starts a poller; its end is that of the test.
func watch(t *testing.T, name string, dialect inference.Dialect, h http.HandlerFunc) *watched {
	t.Helper()
	w := &watched{}
	target := prober.Target{Name: name, URL: "http://server", Dialect: dialect, Dial: pipe(t, h)}
	p, err := NewPoller(target, func(s Snapshot) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.seen, w.at = append(w.seen, s), append(w.at, time.Now())
	}, log.NewLogfmtLogger(w))
	if err != nil {
		t.Fatal(err)
	}
	w.Poller = p
	p.Start()
	t.Cleanup(p.Close)
	return w
}

const idlePage = "vllm:num_requests_running 0\n"

func TestPollsEveryIntervalApartByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, idlePage) }
		a, b := watch(t, "a", inference.VLLM, ok), watch(t, "b", inference.VLLM, ok)
		began := time.Now()
		time.Sleep(4*pollEvery + time.Millisecond)
		for _, w := range []*watched{a, b} {
			times := w.times()
			if len(times) != 4 || times[0].Sub(began) > pollEvery {
				t.Fatalf("polled at %v, began %v", times, began)
			}
			for i, at := range times[1:] {
				if gap := at.Sub(times[i]); gap != pollEvery {
					t.Errorf("gap %v, want %v", gap, pollEvery)
				}
			}
		}
		if a.times()[0].Equal(b.times()[0]) {
			t.Error("both targets are polled at the same moment")
		}
	})
}

func TestNudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at atomic.Int32
		w := watch(t, "a", inference.VLLM, func(w http.ResponseWriter, _ *http.Request) {
			at.Add(1)
			time.Sleep(3 * time.Second)
			_, _ = io.WriteString(w, idlePage)
		})
		for range 5 {
			w.Nudge()
		}
		synctest.Wait()
		for range 5 {
			w.Nudge() // while one goes on
		}
		if got := at.Load(); got != 1 {
			t.Errorf("%d polls at once", got)
		}
		time.Sleep(6*time.Second + time.Millisecond)
		if got := len(w.snapshots()); got != 2 {
			t.Errorf("%d snapshots, want one at once and one for what happened meanwhile", got)
		}
	})
}

func TestRunGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hang atomic.Bool
		hang.Store(true)
		w := watch(t, "a", inference.VLLM, func(w http.ResponseWriter, r *http.Request) {
			if hang.Load() {
				<-r.Context().Done()
			}
			_, _ = io.WriteString(w, idlePage)
		})
		load, err := w.NewReader(w.target, inference.Facts{Dialect: inference.VLLM})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // a poll hangs
		hang.Store(false)
		began := time.Now()
		got, err := load.ReadLoad(t.Context())
		if err != nil || got.Running == nil {
			t.Errorf("%+v, %v", got, err)
		}
		if took := time.Since(began); took != letPoll {
			t.Errorf("the run waited %v, want %v", took, letPoll)
		}
		synctest.Wait()
		if diff := cmp.Diff([]Snapshot{{Up: true, Running: n(0)}}, w.snapshots()); diff != "" || w.log() != "" {
			t.Errorf("a poll that gave way is no failure (-want +got):\n%s%s", diff, w.log())
		}
	})
}

func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var status atomic.Int32
		status.Store(500)
		w := watch(t, "a", inference.VLLM, func(w http.ResponseWriter, r *http.Request) {
			if code := int(status.Load()); code != 200 {
				w.WriteHeader(code)
				return
			}
			_, _ = io.WriteString(w, idlePage)
		})
		time.Sleep(20 * time.Minute)
		if got := len(w.snapshots()); got < 9 || got > 14 { // 15 s, 30 s, 1 min, then 2 min apart
			t.Errorf("%d polls of a server that does not answer", got)
		}
		status.Store(200)
		time.Sleep(pollMost)
		if last := w.snapshots(); !last[len(last)-1].Up || last[0].Up {
			t.Error("up is not told")
		}
		before := len(w.snapshots())
		time.Sleep(time.Minute)
		if got := len(w.snapshots()) - before; got != 4 {
			t.Errorf("%d polls a minute of a server that answers again, want 4", got)
		}
		status.Store(503)
		time.Sleep(time.Hour)
		lines := strings.Split(strings.TrimSpace(w.log()), "\n")
		if len(lines) != 3 || !strings.Contains(lines[0], "reason=http_error") || !strings.Contains(lines[1], "level=info") {
			t.Errorf("logged:\n%s", w.log())
		}
	})
}

func TestQuietWhereNothingIsOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		w := watch(t, "a", inference.SGLang, func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			w.WriteHeader(http.StatusNotFound)
		})
		time.Sleep(time.Hour)
		if got := asked.Load(); got > 2*7 { // the page and the load, every ten minutes
			t.Errorf("asked %d times in an hour", got)
		}
		if diff := cmp.Diff(Snapshot{}, w.snapshots()[0]); diff != "" {
			t.Errorf("snapshot (-want +got):\n%s", diff)
		}
		if got := strings.Count(w.log(), "\n"); got != 1 {
			t.Errorf("logged %d lines:\n%s", got, w.log())
		}
	})
}

func TestHangingPageIsDown(t *testing.T) {
	half := file(t, "155-metrics-endpoint-hangs.prom")
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, "a", inference.VLLM, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, half)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		w.Nudge()
		time.Sleep(readTimeout + time.Millisecond)
		if diff := cmp.Diff([]Snapshot{{}}, w.snapshots()); diff != "" {
			t.Errorf("half a page was used (-want +got):\n%s", diff)
		}
		if !strings.Contains(w.log(), "reason=timeout") {
			t.Errorf("logged %q", w.log())
		}
		w.Nudge()
		synctest.Wait()
		began := time.Now()
		w.Close()
		w.Close()
		if took := time.Since(began); took != 0 {
			t.Errorf("closing waited %v for a page", took)
		}
	})
}

func TestNothingToReadUntilIdentified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, "a", inference.Auto, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, idlePage) })
		w.Nudge()
		time.Sleep(time.Minute)
		if got := w.snapshots(); len(got) != 0 {
			t.Errorf("%d snapshots of nobody knows what", len(got))
		}
		if r, err := w.NewReader(w.target, inference.Facts{Dialect: inference.OpenAI}); r != nil || err != nil {
			t.Errorf("%v, %v, want nil, nil", r, err)
		}
		if r, err := w.NewReader(w.target, inference.Facts{Dialect: inference.VLLM}); r == nil || err != nil {
			t.Errorf("%v, %v", r, err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]Snapshot{{Up: true, Running: n(0)}}, w.snapshots()); diff != "" {
			t.Errorf("snapshots (-want +got):\n%s", diff)
		}
	})
}
