package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrape reads the series as a scraper that asks so, and may not wait long.
func scrape(t *testing.T, method, url string, headers ...string) (http.Header, string) {
	t.Helper()
	request, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Timeout: time.Minute} // a page that waits for a run comes never
	response, err := client.Do(request)
	if err != nil {
		t.Error(err)
		return nil, ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%s %s %q: %s, %v", method, url, headers, response.Status, err)
	}
	return response.Header, string(body)
}

// TestSeriesDuringARun scrapes, one after the other and side by side, while the server owes the answer to a leg.
func TestSeriesDuringARun(t *testing.T) {
	asked, gone := make(chan struct{}, 10), make(chan struct{}, 10)
	server := answering(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if !strings.HasSuffix(r.URL.Path, "/completions") {
			http.NotFound(w, r)
			return
		}
		asked <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	})
	d := startDaemon(t, "--config.file="+file(t, fmt.Sprintf("ladder: [1k]\nintervals: 1s\nbudget: 100%%\ntargets: [{name: a, url: '%s', model: m, dialect: openai}]\n", server)))
	<-asked
	const inFlight = `longctx_probes_in_flight{model="m",target="a"} 1`
	check := func() {
		if _, page := scrape(t, http.MethodGet, d.url+"/metrics"); !strings.Contains(page, inFlight) {
			t.Error("a page does not tell of the run that is going on")
		}
	}
	for range 330 {
		check()
	}
	var scrapers sync.WaitGroup
	for range 20 {
		scrapers.Go(func() {
			for range 5 {
				check()
			}
		})
	}
	scrapers.Wait()
	if len(gone) > 0 {
		t.Error("the run ended before the last page came")
	}
	d.stop(t)
}

// TestFormats asks for the series as Prometheus 2 and 3, browsers and curl do.
func TestFormats(t *testing.T) {
	d := startDaemon(t, "--config.file="+file(t, "ladder: [1k]\ntargets: [{name: a, url: 'http://127.0.0.1:1'}]\n"))
	const plain, openMetrics = "text/plain; version=0.0.4", "application/openmetrics-text; version=1.0.0"
	for _, tt := range []struct{ accept, encoding, want string }{
		{"", "identity", plain},
		{"application/openmetrics-text;version=1.0.0", "identity", openMetrics},
		{"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.2", "gzip", openMetrics},
		{"text/html,*/*;q=0.8", "identity", plain},
		{"application/json", "identity", plain},
		{"nothing/known;;q=x", "identity", plain},
		{"", "gzip", plain},
	} {
		header, body := scrape(t, http.MethodGet, d.url+"/metrics", "Accept", tt.accept, "Accept-Encoding", tt.encoding)
		if got := header.Get("Content-Type"); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%+v: content type %q", tt, got)
		}
		if got := header.Get("Content-Encoding"); got != strings.TrimPrefix(tt.encoding, "identity") {
			t.Errorf("%+v: content encoding %q", tt, got)
		}
		if tt.encoding == "gzip" {
			body = unzipped(t, body)
		}
		if eof := strings.HasSuffix(body, "\n# EOF\n"); eof != (tt.want == openMetrics) {
			t.Errorf("%+v: ends with # EOF: %v", tt, eof)
		}
		if !strings.Contains(body, "\nlongctx_probe_runs_total{") {
			t.Errorf("%+v: no runs", tt)
		}
		if tt.want == plain {
			checkPage(t, body)
		}
	}
	header, body := scrape(t, http.MethodHead, d.url+"/metrics")
	if got := header.Get("Content-Type"); !strings.HasPrefix(got, plain) || body != "" {
		t.Errorf("HEAD: content type %q, %d bytes", got, len(body))
	}
	d.stop(t)
}

func unzipped(t *testing.T, body string) string {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// checkPage reads a page as text and lints it, as promtool does.
func checkPage(t *testing.T, page string) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(page)); err != nil {
		t.Error(err)
	}
	problems, err := promlint.New(strings.NewReader(page)).Lint()
	if err != nil {
		t.Error(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
