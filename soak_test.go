//go:build soak

package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"longctx_exporter/prober/simserver"
)

var (
	soakFor   = flag.Duration("soak", 10*time.Minute, "how long the fleet is probed")
	soakScale = flag.Float64("soak.scale", 10, "how many times faster than life its servers are")
)

const (
	soakTargets = 100
	soakRungs   = 9                // the default ladder
	soakEvery   = 15 * time.Second // between scrapes, as Prometheus does
	soakMemory  = 256 << 20        // bytes resident at most

	// Every server is busy about half the time, and every rung runs at least twice.
	soakConfig = "budget: 100%\nintervals: {default: 3m, 64k: 4m, 128k: 5m, 192k: 5m}\ntargets:\n"
	soakFirst  = time.Minute // within which each rung is due for the first time
)

// sight is one scrape of the exporter.
type sight struct {
	after, took                       time.Duration
	resident, goroutines, descriptors float64
	bytes                             int
	families                          map[string]*dto.MetricFamily
}

// sum adds up the series of a counter or a gauge that have the labels.
func (s sight) sum(name string, labels ...string) float64 {
	total := 0.0
	for _, m := range s.families[name].GetMetric() {
		if hasLabels(m, labels) {
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return total
}

// hasLabels says whether a series has labels, given as name=value.
func hasLabels(m *dto.Metric, labels []string) bool {
	for _, l := range labels {
		if !slices.ContainsFunc(m.GetLabel(), func(p *dto.LabelPair) bool { return p.GetName()+"="+p.GetValue() == l }) {
			return false
		}
	}
	return true
}

// reasons are the counters of a kind of outcome that is no measurement, by reason.
func (s sight) reasons(kind string) map[string]float64 {
	some := map[string]float64{}
	for _, m := range s.families["longctx_probe_reasons_total"].GetMetric() {
		if v := m.GetCounter().GetValue(); v > 0 && hasLabels(m, []string{"kind=" + kind}) {
			i := slices.IndexFunc(m.GetLabel(), func(p *dto.LabelPair) bool { return p.GetName() == "reason" })
			some[m.GetLabel()[i].GetValue()] += v
		}
	}
	return some
}

// TestFleetSoak probes a hundred simulated servers, a ladder each, by the program as users start it, and scrapes it all the while.
func TestFleetSoak(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	var config strings.Builder
	config.WriteString(soakConfig)
	for i := range soakTargets {
		sim := simulated(t, simserver.Config{Seed: uint64(i), TimeScale: *soakScale, Options: simserver.Options{CacheReport: true, SpecMetrics: true}})
		fmt.Fprintf(&config, "  - {name: t%d, url: '%s', model: kimi-k2.6, slo: {ttft: {128k: 180s}, step: {128k: 3s}}}\n", i, sim.url)
	}
	d := startProcess(t, "--config.file="+file(t, config.String()), "--storage.path="+t.TempDir())
	began := time.Now()
	var seen []sight
	for time.Since(began) < *soakFor {
		time.Sleep(soakEvery - time.Since(began)%soakEvery)
		s := look(t, d.url, began)
		seen = append(seen, s)
		t.Logf("%4.0f s: %.0f runs, %.0f in flight, failures %v, rejections %v, skips %v, %d rungs measured; %.0f MiB, %.0f goroutines, %.0f descriptors; %.1f MB page in %v",
			s.after.Seconds(), s.sum("longctx_probe_runs_total"), s.sum("longctx_probes_in_flight"), s.reasons("failure"), s.reasons("rejection"), s.reasons("skip"),
			len(s.families["longctx_step_seconds"].GetMetric()), s.resident/(1<<20), s.goroutines, s.descriptors, float64(s.bytes)/1e6, s.took.Round(time.Millisecond))
		if len(seen) > 1 {
			seen[len(seen)-2].families = nil // only the last one's are judged
		}
	}
	judgeSoak(t, seen)
	judgeRuns(t, seen[len(seen)-1])
	most := peakMemory(t, d.Pid)
	t.Logf("memory was %.0f MiB at most", most/(1<<20))
	if most > soakMemory {
		t.Errorf("%.0f MiB were resident, %d MiB are allowed", most/(1<<20), soakMemory>>20)
	}
}

// judgeSoak says what grew.
func judgeSoak(t *testing.T, seen []sight) {
	t.Helper()
	var took []time.Duration
	for _, s := range seen {
		took = append(took, s.took)
	}
	slices.Sort(took)
	t.Logf("pages took %v in the median and %v at most", took[len(took)/2], took[len(took)-1])
	third := len(seen) / 3
	most := func(part []sight, of func(sight) float64) float64 {
		m := 0.0
		for _, s := range part {
			m = max(m, of(s))
		}
		return m
	}
	for what, kind := range map[string]struct {
		of   func(sight) float64
		more float64 // that may come and go
	}{
		"goroutines":     {func(s sight) float64 { return s.goroutines }, soakTargets / 2},
		"descriptors":    {func(s sight) float64 { return s.descriptors }, soakTargets / 2},
		"resident bytes": {func(s sight) float64 { return s.resident }, soakMemory / 8},
	} {
		if early, late := most(seen[:2*third], kind.of), most(seen[len(seen)-third:], kind.of); late > early+kind.more {
			t.Errorf("%v %s in the last third, %v before", late, what, early)
		}
	}
}

// judgeRuns says which due times were neither run nor counted as missed: at most one of each rung may be waiting.
func judgeRuns(t *testing.T, s sight) {
	t.Helper()
	rungs := 0
	for _, m := range s.families["longctx_probe_interval_seconds"].GetMetric() {
		rungs++
		var labels []string
		for _, p := range m.GetLabel() {
			labels = append(labels, p.GetName()+"="+p.GetValue())
		}
		due := int((s.after-soakFirst).Seconds()/m.GetGauge().GetValue()) + 1
		counted := s.sum("longctx_probe_runs_total", labels...) - s.sum("longctx_probe_confirmations_total", labels...) + s.sum("longctx_probe_skips_total", labels...)
		if int(counted) < due-1 {
			t.Errorf("%v was due %d times, of which %v were run or missed", labels, due, counted)
		}
	}
	if rungs != soakTargets*soakRungs {
		t.Errorf("%d rungs", rungs)
	}
}

// peakMemory is the most that a process ever had resident, in bytes.
func peakMemory(t *testing.T, pid int) float64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	var kilobytes float64
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(line, &kilobytes); err != nil {
		t.Fatal(err)
	}
	return kilobytes * 1024
}

// look scrapes as Prometheus does.
func look(t *testing.T, url string, began time.Time) sight {
	t.Helper()
	asked := time.Now()
	response, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, err)
	}
	s := sight{after: asked.Sub(began), took: time.Since(asked), bytes: len(body)}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	if s.families, err = parser.TextToMetricFamilies(bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	s.resident, s.goroutines, s.descriptors = s.sum("process_resident_memory_bytes"), s.sum("go_goroutines"), s.sum("process_open_fds")
	return s
}
