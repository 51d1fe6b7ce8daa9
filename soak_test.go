//go:build soak

package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"longctx_exporter/prober/simserver"
)

var soakFor = flag.Duration("soak", 10*time.Minute, "how long the fleet is probed")

const (
	soakTargets = 100
	soakRungs   = 9                // the default ladder
	soakEvery   = 15 * time.Second // between scrapes, as Prometheus does
	soakMemory  = 256 << 20        // bytes resident at most
)

// sight is one scrape of the exporter.
type sight struct {
	after, took                       time.Duration
	resident, goroutines, descriptors float64
	bytes                             int
	runs, failures, rejections        float64
	measured                          float64            // rungs with a step time
	skips                             map[string]float64 // by reason
}

// TestFleetSoak probes a hundred simulated servers, a ladder each, by the program as users start it, and scrapes it all the while.
func TestFleetSoak(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	var config strings.Builder
	config.WriteString("budget: 100%\ntargets:\n") // hours of a real server pass in minutes here
	for i := range soakTargets {
		sim := simulated(t, simserver.Config{Seed: uint64(i), TimeScale: 100, Options: simserver.Options{CacheReport: true, SpecMetrics: true}})
		fmt.Fprintf(&config, "  - {name: t%d, url: '%s', model: kimi-k2.6, slo: {ttft: {128k: 180s}, step: {128k: 3s}}}\n", i, sim.url)
	}
	d := startProcess(t, "--config.file="+file(t, config.String()), "--storage.path="+t.TempDir(), "--web.enable-pprof")
	began := time.Now()
	var seen []sight
	for time.Since(began) < *soakFor {
		time.Sleep(soakEvery - time.Since(began)%soakEvery)
		s := look(t, d.url, began)
		seen = append(seen, s)
		t.Logf("%4.0f s: %.0f runs, %.0f failed, %.0f rejected, skips %v, %.0f rungs measured; %.0f MiB, %.0f goroutines, %.0f descriptors; %.1f MB page in %v",
			s.after.Seconds(), s.runs, s.failures, s.rejections, s.skips, s.measured, s.resident/(1<<20), s.goroutines, s.descriptors,
			float64(s.bytes)/1e6, s.took.Round(time.Millisecond))
	}
	judgeSoak(t, seen)
}

func judgeSoak(t *testing.T, seen []sight) {
	t.Helper()
	last := seen[len(seen)-1]
	var took []time.Duration
	var memory float64
	for _, s := range seen {
		took, memory = append(took, s.took), max(memory, s.resident)
	}
	slices.Sort(took)
	t.Logf("pages took %v in the median and %v at most, memory was %.0f MiB at most", took[len(took)/2], took[len(took)-1], memory/(1<<20))
	if memory > soakMemory {
		t.Errorf("%.0f MiB were resident, %d MiB are allowed", memory/(1<<20), soakMemory>>20)
	}
	if last.runs < soakTargets*soakRungs {
		t.Errorf("%v runs: some rungs never ran", last.runs)
	}
	for _, reason := range []string{"previous_running", "budget", "cooldown"} {
		if n := last.skips[reason]; n > 0 {
			t.Errorf("%v due times were missed as %s", n, reason)
		}
	}
	third := len(seen) / 3
	most := func(part []sight, of func(sight) float64) float64 {
		m := 0.0
		for _, s := range part {
			m = max(m, of(s))
		}
		return m
	}
	for what, of := range map[string]func(sight) float64{
		"goroutines":  func(s sight) float64 { return s.goroutines },
		"descriptors": func(s sight) float64 { return s.descriptors },
	} {
		if early, late := most(seen[:third], of), most(seen[len(seen)-third:], of); late > early+soakTargets/2 {
			t.Errorf("%v %s in the last third, %v in the first", late, what, early)
		}
	}
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
	s := sight{after: asked.Sub(began), took: time.Since(asked), bytes: len(body), skips: map[string]float64{}}
	sums := map[string]*float64{
		"process_resident_memory_bytes": &s.resident, "go_goroutines": &s.goroutines, "process_open_fds": &s.descriptors,
		"longctx_probe_runs_total": &s.runs, "longctx_probe_failures_total": &s.failures, "longctx_probe_rejections_total": &s.rejections,
		"longctx_step_seconds": &s.measured,
	}
	for line := range strings.Lines(string(body)) {
		name, labels, _ := strings.Cut(strings.TrimSpace(line), "{")
		name, value, _ := strings.Cut(name, " ")
		if labels != "" {
			labels, value = labels[:strings.LastIndex(labels, "}")], labels[strings.LastIndex(labels, "} ")+2:]
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue // a comment
		}
		switch sum := sums[name]; {
		case name == "longctx_step_seconds":
			s.measured++
		case sum != nil:
			*sum += v
		case name == "longctx_probe_reasons_total" && v > 0:
			if _, reason, skip := strings.Cut(labels, `kind="skip",model="kimi-k2.6",reason="`); skip {
				reason, _, _ = strings.Cut(reason, `"`)
				s.skips[reason] += v
			}
		}
	}
	return s
}
