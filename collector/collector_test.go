package collector

import (
	"bytes"
	"flag"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"

	"longctx_exporter/collector/servermetrics"
	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rung8k, rung32k, rung64k, rung128k = prober.Rung(8192), prober.Rung(32768), prober.Rung(65536), prober.Rung(131072)

func newTargetConfig(name string, ladder ...prober.Rung) prober.Target {
	return prober.Target{
		Name: name, URL: "http://server", Model: "kimi-k2.6", Ladder: ladder,
		Intervals: prober.PerRung[time.Duration]{Default: 5 * time.Minute, Rungs: map[prober.Rung]time.Duration{rung128k: time.Hour}},
	}
}

func mustNew(t testing.TB, targets ...prober.Target) *Collector {
	t.Helper()
	c, err := New(targets)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func tokens(n int) *int { return &n }

func facts() inference.Facts {
	return inference.Facts{
		Dialect: inference.SGLang, ServerVersion: "0.5.15.post1", Model: "moonshot/Kimi-K2.6", Speculation: "DDTREE",
		ContextLimit: 200000, KVPoolTokens: 218484,
		API: inference.Native, BlockSize: 8, PrefixCache: "on", Attention: "triton",
	}
}

// deployed is what a target was seen to run since a minute ago.
func deployed(id string) prober.Deploy {
	return prober.Deploy{ID: id, Since: time.Now().Add(-time.Minute)}
}

// accepted is a clean run that began now.
func accepted(target string, rung prober.Rung) prober.Run {
	long := float64(rung)
	return prober.Run{
		ID: "1a2b3c", Target: target, Rung: rung, Status: prober.Accepted, Started: time.Now(), Duration: 90 * time.Second, Plan: prober.Triple,
		Sample: prober.Sample{
			PromptTokens: int(rung), TTFT: 46.5, Prefill: 1290.5, Pairs: 2, Step: 0.06 + 1e-5*(long+16), StepStream: 0.06 + 1.01e-5*(long+16),
			StepError: 0.02, Method: "two_point", Steps: 16, StepsSource: "response", StepTimes: []float64{0.14, 0.15, 0.15, 0.16, 2.25},
			DecodeTokens: 32, DecodeRate: 24.5, AcceptLength: 3.5, AcceptHistogram: []int{3, 2, 3, 3, 2, 1, 1, 1}, BlockSize: 8, Isolation: prober.Proved,
		},
		Legs: []prober.Leg{
			{Run: 1, Kind: "cold", Response: inference.Response{PromptTokens: tokens(int(rung))}},
			{Run: 1, Kind: "warm", Response: inference.Response{PromptTokens: tokens(int(rung)), CachedTokens: tokens(int(rung) - 1)}},
			{Run: 1, Kind: "warm", Response: inference.Response{PromptTokens: tokens(int(rung))}},
		},
	}
}

func ended(target string, rung prober.Rung, status prober.Status, reason prober.Reason) prober.Run {
	run := prober.Run{Target: target, Rung: rung, Status: status, Reason: reason, Message: "req 0001 failed at 10.0.0.7"}
	if status != prober.Skipped {
		run.Started, run.Duration = time.Now(), 3*time.Second
	}
	return run
}

// contendedRun is one beside which the server worked for others.
func contendedRun(target string, rung prober.Rung) prober.Run {
	run := ended(target, rung, prober.Rejected, prober.Contended)
	run.Contended = &prober.Contention{TTFT: 71.5, Step: 0.41, DecodeRate: 8.25, Running: 3}
	return run
}

func text(t testing.TB, g prometheus.Gatherer) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// withObjectives is a target of which each rung has objectives: 8k meets both, 32k misses its step, the rest misses both.
func withObjectives() prober.Target {
	t := newTargetConfig("ct200", rung8k, rung32k, rung64k, rung128k)
	t.SLO = prober.SLO{TTFT: map[prober.Rung]time.Duration{}, Step: map[prober.Rung]time.Duration{}}
	for _, r := range t.Ladder {
		t.SLO.TTFT[r], t.SLO.Step[r] = 30*time.Second, 200*time.Millisecond
	}
	t.SLO.TTFT[rung8k], t.SLO.TTFT[rung32k] = time.Minute, time.Minute
	return t
}

// engineSnapshot is an engine that tells everything.
func engineSnapshot() servermetrics.Snapshot {
	f := func(v float64) *float64 { return &v }
	return servermetrics.Snapshot{
		Up: true, Running: tokens(2), Queued: tokens(1), KVUsed: f(0.41), KVFree: f(128905), AcceptLength: f(3.42), DecodeRate: f(13.5),
		PromptTokens: f(9441280), CachedTokens: f(4096), GeneratedTokens: f(159400), VerifySteps: f(48213), AcceptedDrafts: f(111115),
		FinishedRequests: f(72), AbortedRequests: f(1),
	}
}

// story is what happens before a page is read.
type story struct {
	name    string
	targets []prober.Target // one with three rungs where nil
	do      func(c *Collector)
}

func stories() []story {
	return []story{
		{name: "before-first-run", do: func(*Collector) {}},
		{name: "accepted", do: func(c *Collector) {
			c.SetFacts("ct200", facts(), prober.Deploy{})
			for _, r := range []prober.Rung{rung8k, rung64k, rung128k} {
				c.ObserveRun(accepted("ct200", r))
			}
		}},
		{name: "confirmed", targets: []prober.Target{withObjectives()}, do: func(c *Collector) {
			c.SetInterval("ct200", rung8k, 20*time.Minute)
			c.SetBudgetUsed("ct200", 0.73)
			for i := range 3 {
				for _, r := range withObjectives().Ladder {
					run := accepted("ct200", r)
					run.Confirmation = r == rung64k && i > 0
					run.Sample.Step *= 1 + float64(i)/100
					run.Sample.Prefill *= 1 + float64(i)/100
					c.ObserveRun(run)
					c.SetNextDue("ct200", r, time.Now().Add(5*time.Minute))
				}
			}
			c.ObserveRun(ended("ct200", rung8k, prober.Failed, prober.Reason(inference.Timeout)))
			c.ObserveRun(ended("ct200", rung32k, prober.Rejected, prober.Contended))
			c.BeginRun("ct200")
		}},
		{name: "compared", do: func(c *Collector) {
			c.ObserveRun(accepted("ct200", rung8k))
			pair := accepted("ct200", rung8k)
			pair.Plan, pair.Sample.Step, pair.Sample.AcceptLength = prober.Pair, 1.25*pair.Sample.Step, 0.5*pair.Sample.AcceptLength
			c.ObserveRun(pair)
			c.ObserveRun(accepted("ct200", rung8k)) // the next triple leaves the comparison standing
		}},
		{name: "deployed", do: deploys},
		{name: "recalled", do: func(c *Collector) {
			for i, found := range []bool{true, false, false} {
				run := accepted("ct200", rung8k)
				run.Needle, run.FirstTokens = &prober.Needle{Found: found, Leg: run.Legs[1]}, prober.FirstTokens{Compared: 4, Different: i / 2}
				c.ObserveRun(run)
			}
			run := accepted("ct200", rung128k)
			run.Needle = &prober.Needle{Found: true}
			c.ObserveRun(run)
			c.ObserveRun(ended("ct200", rung8k, prober.Rejected, prober.Contended))
			time.Sleep(12*time.Minute + 31*time.Second)
			run = accepted("ct200", rung64k)
			run.Needle = &prober.Needle{Found: true}
			c.ObserveRun(run)
		}},
		{name: "jittery", do: func(c *Collector) {
			steal := 0.02
			for i, r := range []prober.Rung{rung8k, rung64k, rung128k} {
				run := accepted("ct200", r)
				run.Self = prober.Self{Lag: 0.012, GC: 0.0002, Steal: &steal}
				run.Sample.StepTimes = nil
				for step := range []int{19, 99, 200}[i] {
					run.Sample.StepTimes = append(run.Sample.StepTimes, 0.1+0.001*float64(step))
				}
				c.ObserveRun(run)
			}
		}},
		{name: "rejected", do: func(c *Collector) {
			c.ObserveRun(contendedRun("ct200", rung8k))
		}},
		{name: "failed", do: func(c *Collector) {
			c.ObserveRun(accepted("ct200", rung8k))
			time.Sleep(5 * time.Minute)
			c.ObserveRun(ended("ct200", rung8k, prober.Failed, prober.Reason(inference.Connect)))
			c.ObserveRun(ended("ct200", rung128k, prober.Failed, prober.Reason(inference.ContextOverflow)))
			c.ObserveRun(ended("ct200", rung64k, prober.Failed, "req 0001 failed at 10.0.0.7"))
		}},
		{name: "logs", targets: []prober.Target{withLogs("ct200", 2), newTargetConfig("without", rung8k)}, do: readLog},
		{name: "skipped", do: func(c *Collector) {
			c.ObserveRun(ended("ct200", rung128k, prober.Skipped, prober.ExceedsPool))
			c.ObserveRun(ended("ct200", rung8k, prober.Skipped, prober.OverBudget))
		}},
		{name: "stale", do: func(c *Collector) {
			c.ObserveRun(accepted("ct200", rung8k))
			c.ObserveRun(accepted("ct200", rung128k))
			time.Sleep(12*time.Minute + 30*time.Second + time.Millisecond)
		}},
		{name: "two-targets", targets: []prober.Target{newTargetConfig("b", rung8k), newTargetConfig("a", rung64k)}, do: func(c *Collector) {
			c.ObserveRun(accepted("a", rung64k))
			c.ObserveRun(ended("b", rung8k, prober.Rejected, prober.CacheHit))
		}},
		{name: "engine", do: func(c *Collector) {
			c.SetEngine("ct200", engineSnapshot())
			c.SetEngine("nobody", engineSnapshot())
		}},
		{name: "engine-idle", do: func(c *Collector) {
			c.SetEngine("ct200", engineSnapshot())
			c.SetEngine("ct200", servermetrics.Snapshot{Up: true, Running: tokens(0), Queued: tokens(0)})
		}},
		{name: "engine-down", do: func(c *Collector) {
			c.SetEngine("ct200", engineSnapshot())
			c.SetEngine("ct200", servermetrics.Snapshot{})
		}},
		{name: "removed-target", targets: []prober.Target{newTargetConfig("a", rung8k), newTargetConfig("b", rung8k)}, do: func(c *Collector) {
			c.ObserveRun(accepted("a", rung8k))
			c.Remove("a")
			c.ObserveRun(accepted("a", rung8k)) // one that was under way
		}},
	}
}

func TestGolden(t *testing.T) {
	for _, tt := range stories() {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tt.targets == nil {
					tt.targets = []prober.Target{newTargetConfig("ct200", rung8k, rung64k, rung128k)}
				}
				c := mustNew(t, tt.targets...)
				tt.do(c)
				got := text(t, c.Gatherer())
				path := filepath.Join("testdata", tt.name+".golden")
				if *update {
					if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				checkUnique(t, got)
				if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
					t.Errorf("exposition (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// checkUnique finds series that stand twice on a page, which no registry looks for.
func checkUnique(t *testing.T, page string) {
	t.Helper()
	seen := map[string]bool{}
	for line := range strings.Lines(page) {
		series, _, _ := strings.Cut(line, "} ")
		if !strings.HasPrefix(line, "#") && seen[series] {
			t.Errorf("%s} stands twice", series)
		}
		seen[series] = true
	}
}

func TestNew(t *testing.T) {
	tests := map[string][]prober.Target{
		"given twice":   {newTargetConfig("a", rung8k), newTargetConfig("a", rung8k)},
		"lists 8k":      {newTargetConfig("a", rung8k, rung8k)},
		"not empty":     {newTargetConfig("", rung8k)},
		"valid UTF-8":   {newTargetConfig("a\xff", rung8k)},
		"must be valid": {{Name: "a", Model: "m\xff"}},
	}
	for want, targets := range tests {
		if _, err := New(targets); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// full brings every metric of the catalogue into being.
func full(t testing.TB) *Collector {
	target := withObjectives()
	target.Logs = []prober.LogSource{{Path: "server.log"}}
	c := mustNew(t, target)
	readLog(c)
	c.SetFacts("ct200", facts(), deployed("new"))
	c.SetPinned("ct200", map[int]float64{int(rung8k): 0.1})
	c.SetBudgetUsed("ct200", 0.73)
	for _, r := range withObjectives().Ladder {
		c.ObserveRun(contendedRun("ct200", r))
		for i := range 6 {
			run := accepted("ct200", r)
			run.Deploy = map[bool]string{true: "old", false: "new"}[i < 3]
			c.ObserveRun(run)
		}
		c.SetNextDue("ct200", r, time.Now())
	}
	pair := accepted("ct200", rung8k)
	pair.Plan = prober.Pair
	evicted := 4096.0
	pair.Evicted, pair.Needle, pair.Self.Steal = &evicted, &prober.Needle{Found: true}, &evicted
	pair.Sample.StepTimes = slices.Repeat(pair.Sample.StepTimes, 20)
	c.ObserveRun(pair)
	c.SetEngine("ct200", engineSnapshot())
	return c
}

func TestCatalogue(t *testing.T) {
	families, err := full(t).Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	exported := map[string]*dto.MetricFamily{}
	for _, f := range families {
		exported[f.GetName()] = f
	}
	listed := map[string]bool{}
	for _, m := range Catalogue() {
		if listed[m.Name] {
			t.Errorf("%s is listed twice", m.Name)
		}
		listed[m.Name] = true
		f := exported[m.Name]
		if f == nil {
			t.Errorf("%s is in the catalogue and never exported", m.Name)
			continue
		}
		if got := Type(strings.ToLower(f.GetType().String())); got != m.Type {
			t.Errorf("%s is a %s, the catalogue says %s", m.Name, got, m.Type)
		}
		if f.GetHelp() != m.Help || !strings.HasSuffix(m.Help, ".") {
			t.Errorf("%s: help %q", m.Name, f.GetHelp())
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		want := slices.Sorted(slices.Values(m.Labels))
		if diff := cmp.Diff(want, labels); diff != "" {
			t.Errorf("%s labels (-catalogue +exported):\n%s", m.Name, diff)
		}
		checkBuckets(t, m, f)
	}
	for name := range exported {
		if !listed[name] {
			t.Errorf("%s is exported and not in the catalogue", name)
		}
	}
}

func checkBuckets(t *testing.T, m Metric, f *dto.MetricFamily) {
	t.Helper()
	if m.Type != Histogram {
		return
	}
	h := f.GetMetric()[0].GetHistogram()
	var bounds []float64
	for _, b := range h.GetBucket() {
		if math.IsInf(b.GetUpperBound(), 1) {
			continue // there for its exemplar alone
		}
		bounds = append(bounds, b.GetUpperBound())
	}
	if diff := cmp.Diff(m.Buckets, bounds); diff != "" {
		t.Errorf("%s buckets (-catalogue +exported):\n%s", m.Name, diff)
	}
	if native := h.Schema != nil; native != m.Native {
		t.Errorf("%s is native: %v, the catalogue says %v", m.Name, native, m.Native)
	}
}

func TestLint(t *testing.T) {
	c := full(t)
	problems, err := testutil.GatherAndLint(c.Gatherer(NewProcessRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// odd draws numbers that a broken measurement might hold.
func odd(r *rand.Rand) float64 {
	values := []float64{0, 1, -1, 0.5, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64, -math.MaxFloat64}
	return values[r.IntN(len(values))]
}

func TestNoValueIsEverNaNOrInf(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ladder := []prober.Rung{rung8k, rung64k, rung128k}
	c := mustNew(t, newTargetConfig("t", ladder...))
	statuses := []prober.Status{prober.Accepted, prober.Accepted, prober.Rejected, prober.Failed, prober.Skipped, "odd"}
	for range 300 {
		run := prober.Run{
			Target: "t", Rung: ladder[r.IntN(3)], Status: statuses[r.IntN(len(statuses))], Reason: prober.CacheHit,
			Duration: time.Duration(r.Int64() - math.MaxInt64/2), Sample: prober.Sample{
				PromptTokens: r.IntN(3) - 1, TTFT: odd(r), Prefill: odd(r), Pairs: r.IntN(3) - 1, Step: odd(r), StepStream: odd(r), StepError: odd(r),
				Steps: r.IntN(3) - 1, StepTimes: []float64{odd(r), odd(r)}, DecodeTokens: odd(r), DecodeRate: odd(r), AcceptLength: odd(r),
				AcceptHistogram: []int{r.IntN(3) - 1, r.IntN(3), math.MaxInt * r.IntN(2)},
			},
		}
		if r.IntN(2) == 0 {
			run.Started = time.Now()
		}
		c.ObserveRun(run)
		c.SetFacts("t", inference.Facts{ContextLimit: r.IntN(3) - 1, KVPoolTokens: r.IntN(3) - 1}, prober.Deploy{})
		if page := text(t, c.Gatherer()); strings.Contains(page, "} NaN") || strings.Contains(page, "} +Inf") || strings.Contains(page, "} -Inf") {
			t.Fatalf("after %+v:\n%s", run, page)
		}
	}
}

func TestContentTypes(t *testing.T) {
	c := full(t)
	h := promhttp.HandlerFor(c.Gatherer(NewProcessRegistry()), promhttp.HandlerOpts{EnableOpenMetrics: true})
	tests := []struct{ accept, want string }{
		{"", "text/plain; version=0.0.4"},
		{"application/openmetrics-text;version=1.0.0", "application/openmetrics-text"},
		{"text/html,*/*;q=0.8", "text/plain; version=0.0.4"},
		{"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", "application/vnd.google.protobuf"},
	}
	for _, tt := range tests {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		if tt.accept != "" {
			r.Header.Set("Accept", tt.accept)
		}
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || !strings.HasPrefix(got, tt.want) {
			t.Errorf("Accept %q: %d, %q, want %q", tt.accept, w.Code, got, tt.want)
		}
		body := w.Body.String()
		if strings.Contains(tt.want, "openmetrics") && !strings.HasSuffix(body, "# EOF\n") {
			t.Errorf("Accept %q: no # EOF at the end", tt.accept)
		}
		for _, name := range []string{"longctx_step_seconds", "longctx_exporter_build_info", "go_goroutines"} {
			if !strings.Contains(body, name) {
				t.Errorf("Accept %q: %s is missing", tt.accept, name)
			}
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	c := mustNew(t, newTargetConfig("a", rung8k), newTargetConfig("b", rung8k))
	var wg sync.WaitGroup
	for _, do := range []func(){
		func() { c.ObserveRun(accepted("a", rung8k)) },
		func() { c.ObserveRun(ended("b", rung8k, prober.Failed, prober.Reason(inference.Timeout))) },
		func() { c.SetFacts("a", facts(), prober.Deploy{}) },
		func() { c.SetInterval("a", rung8k, time.Minute) },
		func() { c.SetNextDue("a", rung8k, time.Now()) },
		func() { c.SetBudgetUsed("a", 0.5) },
		func() { c.BeginRun("a")() },
		func() { _ = text(t, c.Gatherer()) },
		func() { c.Remove("b"); _ = c.Add(newTargetConfig("b", rung8k)) },
	} {
		wg.Go(func() {
			for range 50 {
				do()
			}
		})
	}
	wg.Wait()
}
