//go:build browser

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"longctx_exporter/prober/simserver"
)

var (
	chromium    = flag.String("chromium", "/usr/bin/chromium", "browser to open the pages with")
	screenshots = flag.String("screenshots", "", "directory to write a picture of each page to")
)

// TestBrowser opens the pages of the program in a real browser.
func TestBrowser(t *testing.T) {
	if _, err := os.Stat(*chromium); err != nil {
		t.Fatalf("there is no browser to test the pages with (%v): install Chromium, or give its path with -args -chromium=PATH", err)
	}
	d := startProcess(t, "--config.file="+file(t, scenery(t)))
	good := awaitRun(t, d, "kimi-ct200", "accepted")
	bad := awaitRun(t, d, "refuses", "failed")
	browser := newBrowser(t)

	pages := map[string]string{
		"status": "/", "runs": "/runs", "failed-runs": "/runs?target=refuses&status=failed", "no-runs": "/runs?rung=3k",
		"run": "/runs/" + good, "failed-run": "/runs/" + bad, "config": "/config",
	}
	for name, path := range pages {
		for _, width := range []int64{1280, 400} {
			for _, scheme := range []string{"light", "dark"} {
				picture := fmt.Sprintf("%s-%d-%s", name, width, scheme)
				t.Run(picture, func(t *testing.T) { browser.look(t, d.url+path, width, scheme, picture) })
			}
		}
	}
	t.Run("numbers", func(t *testing.T) { browser.compareNumbers(t, d) })
	d.Signal(os.Interrupt)
	if code := <-d.code; code != 0 {
		t.Errorf("exit code %d:\n%s", code, d.stderr)
	}
}

// scenery is a configuration whose pages have something of everything: good runs, failures, text that is long or hostile.
func scenery(t *testing.T) string {
	t.Helper()
	sim := simulated(t, simserver.Config{TimeScale: 50, Options: simserver.Options{CacheReport: true, SpecMetrics: true}})
	rude := answering(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "<h1>"+strings.Repeat("no_", 200)+strings.Repeat(" not now", 50)+"</h1><script>alert(1)</script>", http.StatusInternalServerError)
	})
	return fmt.Sprintf(`ladder: [1k, 8k, 64k]
intervals: 5s
budget: 100%%
targets:
  - {name: kimi-ct200, url: '%s', precision: 20%%}
  - {name: refuses, url: '%s', model: %s}
  - {name: a-target-with-a-name-as-long-as-they-come-in-clusters.region-1.example.org, url: 'http://127.0.0.1:1', http: {authorization: {credentials: x}}}
`, sim.url, rude, strings.Repeat("organisation/model-", 5))
}

// awaitRun waits for a run of a target and gives its ID.
func awaitRun(t *testing.T, d process, target, status string) string {
	t.Helper()
	id := regexp.MustCompile(`"id": "([^"]+)"`)
	var found []string
	wait(t, "a run of "+target+" is "+status, func() bool {
		_, list := do(t, http.DefaultClient, http.MethodGet, d.url+"/runs?format=json&target="+target+"&status="+status, nil)
		found = id.FindStringSubmatch(list)
		return found != nil
	})
	return found[1]
}

// browser is a tab of a Chromium, and what went wrong in it.
type browser struct {
	ctx context.Context

	mu       sync.Mutex
	troubles []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	ctx, _ := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(*chromium), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.WSURLReadTimeout(2*time.Minute))...)
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	})
	b := &browser{ctx: ctx}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	return b
}

// listen notes what a person would see in red in the browser's tools.
func (b *browser) listen(event any) {
	trouble := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		trouble = "exception: " + e.ExceptionDetails.Text
	case *runtime.EventConsoleAPICalled:
		trouble = fmt.Sprintf("console: %s", e.Type)
	case *cdplog.EventEntryAdded:
		trouble = fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *network.EventLoadingFailed:
		trouble = fmt.Sprintf("request: %s %s", e.ErrorText, e.BlockedReason)
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 {
			trouble = fmt.Sprintf("%s: %d", e.Response.URL, e.Response.Status)
		}
	}
	if trouble != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.troubles = append(b.troubles, trouble)
	}
}

// took gives the troubles since it was called last.
func (b *browser) took() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := strings.Join(b.troubles, "\n")
	b.troubles = nil
	return text
}

// evaluate runs a script in the page.
func evaluate[T any](t *testing.T, b *browser, script string) T {
	t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (b *browser) open(t *testing.T, url string) {
	t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
}

// overflowing names the elements that make a page wider than its window.
const overflowing = `document.documentElement.scrollWidth <= window.innerWidth ? "" :
	[...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll") && e.getBoundingClientRect().right > window.innerWidth)
		.map(e => e.outerHTML.slice(0, 100)).join("\n") || "the page itself"`

// unreadable names the texts whose contrast is below 4.5 to 1, what WCAG 2 (1.4.3) asks of small text.
const unreadable = `(() => {
	const channels = c => c.match(/[\d.]+/g).map(Number);
	const light = c => channels(c).slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = e => { while (e && channels(getComputedStyle(e).backgroundColor)[3] === 0) e = e.parentElement; return e };
	const page = matchMedia("(prefers-color-scheme: dark)").matches ? "rgb(18, 18, 18)" : "rgb(255, 255, 255)";
	return [...document.querySelectorAll("body, body *")].filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).filter(e => {
		const b = behind(e), [x, y] = [light(getComputedStyle(e).color), light(b ? getComputedStyle(b).backgroundColor : page)];
		return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05) < 4.5;
	}).map(e => e.outerHTML.slice(0, 100)).join("\n");
})()`

// look opens a page in a window of a width, by day or by night.
func (b *browser) look(t *testing.T, url string, width int64, scheme, picture string) {
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err == nil {
		err = chromedp.Do(b.ctx, chromedp.EmulateViewport(width, 900))
	}
	if err != nil {
		t.Fatal(err)
	}
	b.open(t, url)
	if *screenshots != "" {
		if err := b.draw(filepath.Join(*screenshots, picture+".png")); err != nil {
			t.Error(err)
		}
	}
	if wide := evaluate[string](t, b, overflowing); wide != "" {
		t.Errorf("wider than the window:\n%s", wide)
	}
	if faint := evaluate[string](t, b, unreadable); faint != "" {
		t.Errorf("hard to read:\n%s", faint)
	}
	if text := evaluate[string](t, b, "document.body.innerText"); len(strings.TrimSpace(text)) < 50 {
		t.Errorf("almost nothing to see: %q", text)
	}
	if troubles := b.took(); troubles != "" {
		t.Error(troubles)
	}
}

func (b *browser) draw(path string) error {
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	return errors.Join(err, os.WriteFile(path, png, 0o600))
}

// row is a rung as the first page shows it.
type row struct{ Target, Rung, Step, Accept, TTFT string }

const rows = `[...document.querySelectorAll("section")].flatMap(s => [...s.querySelectorAll("tbody tr")].map(r => ({
	Target: s.querySelector("h2").innerText, Rung: r.cells[0].innerText, Step: r.cells[2].innerText, Accept: r.cells[3].innerText, TTFT: r.cells[4].innerText,
})))`

// compareNumbers holds the first page against the metrics, once nothing changed while both were read.
func (b *browser) compareNumbers(t *testing.T, d process) {
	series := regexp.MustCompile(`(?m)^longctx_(?:step_seconds|accept_length|ttft_seconds)\{.*$`)
	read := func() []byte {
		_, page := do(t, http.DefaultClient, http.MethodGet, d.url+"/metrics", nil)
		return bytes.Join(series.FindAll([]byte(page), -1), []byte("\n"))
	}
	var metrics []byte
	var table []row
	wait(t, "values are there and stay as they are while the page is read", func() bool {
		metrics = read()
		b.open(t, d.url+"/")
		table = evaluate[[]row](t, b, rows)
		return len(metrics) > 0 && bytes.Equal(metrics, read())
	})
	shown := 0
	for _, r := range table {
		for name, text := range map[string]string{"longctx_step_seconds": r.Step, "longctx_accept_length": r.Accept, "longctx_ttft_seconds": r.TTFT} {
			want := value(metrics, name, r.Target, r.Rung)
			got, err := shownValue(text)
			if err != nil || math.Abs(got-want) > 0.006*want {
				t.Errorf("%s of %s, %s: %q on the page, %g in the metrics, %v", name, r.Target, r.Rung, text, want, err)
			}
			if want > 0 {
				shown++
			}
		}
	}
	if len(table) != 9 || shown != bytes.Count(metrics, []byte("\n"))+1 {
		t.Errorf("%d rungs and %d values are shown of\n%s", len(table), shown, metrics)
	}
}

// value is that of a series, 0 where there is none.
func value(metrics []byte, name, target, rung string) float64 {
	for line := range strings.Lines(string(metrics)) {
		if strings.HasPrefix(line, name+"{") && strings.Contains(line, `target="`+target+`"`) && strings.Contains(line, `rung="`+rung+`"`) {
			v, _ := strconv.ParseFloat(strings.Fields(line)[1], 64)
			return v
		}
	}
	return 0
}

// shownValue reads a value as a person does, 0 for a dash.
func shownValue(text string) (float64, error) {
	if text == "–" {
		return 0, nil
	}
	number, unit, _ := strings.Cut(text, " ")
	v, err := strconv.ParseFloat(number, 64)
	if unit == "ms" {
		v /= 1e3
	}
	return v, err
}
