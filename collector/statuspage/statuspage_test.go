package statuspage

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// values is a Values of one rung.
type values map[place]prober.Sample

func (v values) Latest(target string, rung prober.Rung) (prober.Sample, time.Time, bool) {
	s, ok := v[place{target, rung}]
	return s, time.Now().Add(-3 * time.Minute), ok
}

const hostile = `<script>alert(1)</script>"><img src=x onerror=alert(1)>' javascript:alert(1)` + "\x00\x1b[31m\u202e\xff"

func newPages(t *testing.T, limit int, targets ...prober.Target) *Pages {
	t.Helper()
	v := values{}
	for _, target := range targets {
		v[place{target.Name, 1024}] = prober.Sample{Step: 0.0123, AcceptLength: 3.46, TTFT: 1.5}
	}
	p, err := New(Options{Version: "1.2.3", Metrics: "/metrics", History: limit, Values: v})
	if err != nil {
		t.Fatal(err)
	}
	p.SetTargets(targets)
	return p
}

func aRun(id, target string, rung prober.Rung, status prober.Status) prober.Run {
	n := 1024
	r := prober.Run{
		ID: id, Target: target, Model: "m", Rung: rung, Status: status, Started: time.Now().Add(-time.Minute), Duration: time.Second,
		Legs: []prober.Leg{{Run: 1, Kind: "cold", MaxTokens: 1, Response: inference.Response{
			HTTPStatus: 200, PromptTokens: &n, TTFT: time.Second, Text: "generated text", FinishReason: "length",
			Chunks: []inference.Chunk{{At: time.Second}, {At: 1500 * time.Millisecond}},
		}}},
	}
	if status != prober.Accepted {
		r.Reason, r.Message = "timeout", "it took too long"
	}
	return r
}

// ask serves a request by a multiplexer like that of the program.
func ask(p *Pages, path, accept string) *httptest.ResponseRecorder {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.Status)
	mux.HandleFunc("GET /runs", p.Runs)
	mux.HandleFunc("GET /runs/{id}", p.Run)
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

func get(t *testing.T, p *Pages, path string) string {
	t.Helper()
	w := ask(p, path, "text/html,*/*;q=0.8")
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

func TestStatus(t *testing.T) {
	p := newPages(t, 10, prober.Target{Name: "a", Ladder: []prober.Rung{2048, 1024}}, prober.Target{Name: "b", Ladder: []prober.Rung{1024}})
	p.ObserveRun(aRun("first", "a", 1024, prober.Failed))
	late := aRun("late", "a", 1024, prober.Skipped)
	late.Reason = prober.OverBudget
	p.ObserveRun(late)
	p.ObserveRun(aRun("stray", "c", 1024, prober.Failed))
	page := get(t, p, "/")
	for _, want := range []string{
		`href="runs/first">failed</a> timeout <`, "1 failed</span>.", ">12.3 ms<", ">3.46<", ">1.50 s<", ">3 min<", "59 s ago", "none yet",
		"1.2.3", `href="metrics"`, `href="config"`, `href="-/ready"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is not on the page", want)
		}
	}
	if strings.Contains(page, "runs/late") || strings.Contains(page, "stray") || strings.Index(page, ">1k<") > strings.Index(page, ">2k<") {
		t.Error(page)
	}
	p.SetTargets([]prober.Target{{Name: "a", Ladder: []prober.Rung{2048, 1024}, Budget: 0.5}})
	if page := get(t, p, "/"); strings.Contains(page, ">failed<") || strings.Contains(page, ">b<") {
		t.Error("what is gone or measured in another way is still shown")
	}
}

// TestHostile parses the pages as a browser does.
func TestHostile(t *testing.T) {
	configured, _, _ := strings.Cut(hostile, "\x00") // a configuration may hold no control characters
	p := newPages(t, 10, prober.Target{Name: configured, Model: configured, Server: configured, Ladder: []prober.Rung{1024}})
	run := aRun("x1", configured, 1024, prober.Failed)
	run.Model, run.Message = hostile, hostile+strings.Repeat("A", 1<<20)
	leg := &run.Legs[0]
	leg.Error, leg.Response.FinishReason, leg.Response.Replica, leg.ErrorClass = hostile+strings.Repeat("B", 1<<20), hostile, hostile, "timeout"
	p.ObserveRun(run)
	for _, path := range []string{"/", "/runs", "/runs?target=%3Cscript%3E%22%3E&rung=1k", "/runs/x1"} {
		w := ask(p, path, "text/html")
		if w.Code != http.StatusOK || w.Body.Len() > 64<<10 {
			t.Fatalf("%s: %d, %d bytes", path, w.Code, w.Body.Len())
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%s: policy %q", path, policy)
		}
		if strings.ContainsAny(w.Body.String(), "\x00\x1b") {
			t.Errorf("%s: control characters", path)
		}
		for z := html.NewTokenizer(w.Body); z.Next() != html.ErrorToken; {
			token := z.Token()
			if token.Type != html.StartTagToken && token.Type != html.SelfClosingTagToken {
				continue
			}
			if token.Data == "script" || token.Data == "img" || token.Data == "link" {
				t.Errorf("%s: element %s", path, token)
			}
			for _, a := range token.Attr {
				absolute := strings.HasPrefix(a.Val, "/") || strings.Contains(a.Val, "://") || strings.HasPrefix(a.Val, "javascript:")
				if strings.HasPrefix(a.Key, "on") || (a.Key == "href" || a.Key == "src" || a.Key == "action") && absolute {
					t.Errorf("%s: %s", path, token)
				}
			}
		}
	}
	w := ask(p, "/runs?status=%3Cscript%3E", "text/html")
	if w.Code != http.StatusBadRequest || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestRuns(t *testing.T) {
	p := newPages(t, 100, prober.Target{Name: "a", Ladder: []prober.Rung{1024}})
	p.ObserveRun(aRun("1", "a", 1024, prober.Accepted))
	p.ObserveRun(aRun("2", "a", 2048, prober.Failed))
	p.ObserveRun(aRun("3", "b&c", 1024, prober.Rejected))
	for query, want := range map[string]string{
		"": "3 2 1", "?target=a": "2 1", "?target=b%26c": "3", "?rung=1k": "3 1", "?rung=2048": "2", "?status=accepted": "1",
		"?target=a&rung=2k&status=failed": "2", "?target=none": "",
	} {
		var list struct{ Runs []Summary }
		if err := json.Unmarshal(ask(p, "/runs"+query, "application/json").Body.Bytes(), &list); err != nil || list.Runs == nil {
			t.Fatal(err)
		}
		var ids []string
		for _, r := range list.Runs {
			ids = append(ids, r.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%q gives %q, want %q", query, got, want)
		}
		get(t, p, "/runs"+query)
	}
	for _, query := range []string{"?rung=x", "?rung=" + strings.Repeat("0", 1000) + "1k", "?status=good"} {
		if w := ask(p, "/runs"+query, ""); w.Code != http.StatusBadRequest || w.Body.Len() > 200 {
			t.Errorf("%.20s: %d %s", query, w.Code, w.Body)
		}
	}
}

func TestRun(t *testing.T) {
	p := newPages(t, 100, prober.Target{Name: "a", Ladder: []prober.Rung{1024}})
	p.ObserveRun(aRun("42", "a", 1024, prober.Failed))
	for _, w := range []*httptest.ResponseRecorder{ask(p, "/runs/42?format=json", "text/html"), ask(p, "/runs/42", "application/json")} {
		var d Document
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		if d.ID != "42" || d.Reason != "timeout" || len(d.Legs) != 1 || d.Legs[0].TTFT != 1 || fmt.Sprint(d.Legs[0].Stamps) != "[1 1.5]" || d.Legs[0].CachedTokens != nil {
			t.Errorf("%+v", d)
		}
		if strings.Contains(w.Body.String(), "generated text") {
			t.Error("generated text is shown")
		}
	}
	page := get(t, p, "/runs/42")
	for _, want := range []string{`<span class="failed">failed</span>`, "it took too long", "1.500000", `href="../runs"`} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is not on the page", want)
		}
	}
	if w := ask(p, "/runs/43", ""); w.Code != http.StatusNotFound {
		t.Errorf("an unknown run: %d", w.Code)
	}
}

func TestHistoryOff(t *testing.T) {
	p := newPages(t, 0, prober.Target{Name: "a", Ladder: []prober.Rung{1024}})
	p.ObserveRun(aRun("1", "a", 1024, prober.Failed))
	if page := get(t, p, "/runs"); !strings.Contains(page, "No runs are kept") {
		t.Error(page)
	}
	if page := get(t, p, "/"); strings.Contains(page, "runs/1") || !strings.Contains(page, ">failed<") {
		t.Error(page)
	}
	if w := ask(p, "/runs/1", ""); w.Code != http.StatusNotFound {
		t.Errorf("%d", w.Code)
	}
}

// TestHistoryKeepsTrouble floods a history with successes and skips.
func TestHistoryKeepsTrouble(t *testing.T) {
	h := NewHistory(20)
	for i := range 10 {
		h.ObserveRun(aRun(fmt.Sprint("trouble ", i), "a", 1024, prober.Rejected))
	}
	for i := range 1000 {
		h.ObserveRun(aRun(fmt.Sprint("good ", i), "a", 1024, prober.Accepted))
		h.ObserveRun(aRun(fmt.Sprint("skip ", i), "a", 1024, prober.Skipped))
	}
	held := map[prober.Status]int{}
	for _, r := range h.runs {
		held[r.Status]++
	}
	if held[prober.Rejected] != 10 || held[prober.Accepted] < 5 || held[prober.Skipped] < 1 || len(h.runs) != 20 {
		t.Error(held)
	}
	for i := range 1000 {
		h.ObserveRun(aRun(fmt.Sprint("more ", i), "a", 1024, prober.Failed))
	}
	if newest, more := h.list(func(Summary) bool { return true }, 5); newest[0].ID != "more 999" || more != 15 {
		t.Errorf("%v and %d more", newest, more)
	}
}

// TestHistoryBytes keeps runs of the largest size that there can be.
func TestHistoryBytes(t *testing.T) {
	h := NewHistory(1 << 30)
	run := aRun("", "a", 1024, prober.Failed)
	for range 100 {
		leg := run.Legs[0]
		leg.Error = strings.Repeat("\x00", 10_000)
		leg.Response.Chunks = make([]inference.Chunk, 2_000)
		run.Legs = append(run.Legs, leg)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 200 {
		run.ID = fmt.Sprint(i)
		h.ObserveRun(run)
		if h.size > maxBytes {
			t.Fatalf("%d bytes", h.size)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > maxBytes*5/4 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if n := len(h.runs); n < 10 || n == 200 {
		t.Errorf("%d runs are kept", n)
	}
	d, known, err := h.run("199")
	if err != nil || !known || len(d.Legs) != maxLegs || d.MoreLegs != 101-maxLegs {
		t.Errorf("%v %v: %d legs, %d more", known, err, len(d.Legs), d.MoreLegs)
	}
	h.bytes = 1
	h.ObserveRun(run)
	if len(h.runs) != 0 || h.size != 0 {
		t.Errorf("%d runs of %d bytes in a history without room", len(h.runs), h.size)
	}
}

func TestAtOnce(t *testing.T) {
	p := newPages(t, 50, prober.Target{Name: "a", Ladder: []prober.Rung{1024}})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 10 {
				p.ObserveRun(aRun(fmt.Sprint(i, "-", j), "a", 1024, prober.Accepted))
				p.SetTargets([]prober.Target{{Name: "a", Ladder: []prober.Rung{1024}}})
				for _, path := range []string{"/", "/runs", fmt.Sprint("/runs/", i, "-", j)} {
					ask(p, path, "")
				}
			}
		})
	}
	all.Wait()
}

// unparsed is a Logs of one target.
type unparsed map[string][]string

func (u unparsed) UnparsedLines(target string) []string { return u[target] }

func TestUnparsedLines(t *testing.T) {
	target := prober.Target{Name: "ct200", Ladder: []prober.Rung{1024}}
	p := newPages(t, 10, target, prober.Target{Name: "other", Ladder: []prober.Rung{1024}})
	if page := get(t, p, "/"); strings.Contains(page, "could not be read") {
		t.Error("lines without logs")
	}
	p.options.Logs = unparsed{"ct200": {"Decode batch, " + hostile, strings.Repeat("x", 10*maxText)}}
	page := get(t, p, "/")
	if n := strings.Count(page, "could not be read"); n != 1 {
		t.Errorf("%d sections", n)
	}
	if strings.Contains(page, "<script") || !strings.Contains(page, "Decode batch, &lt;script&gt;") {
		t.Errorf("the page is\n%s", page)
	}
	if strings.Contains(page, strings.Repeat("x", maxText+1)) {
		t.Error("a line is not cut")
	}
}
