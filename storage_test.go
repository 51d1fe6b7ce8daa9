package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"longctx_exporter/prober/simserver"
	"longctx_exporter/prober/state"
)

var (
	timestamps = regexp.MustCompile(`(?m)^(longctx_probe_last_(?:attempt|success)_timestamp_seconds\{[^}]*\}|longctx_target_deploy_timestamp_seconds\{[^}]*\}|longctx_state_last_save_timestamp_seconds) (\S+)$`)
	runsCount  = regexp.MustCompile(`(?m)^longctx_probe_runs_total\{[^}]*\} (\d+)$`)
)

// killed follows a daemon through its lives.
type killed struct {
	mu     sync.Mutex
	newest map[string]float64 // timestamps seen so far
	runs   float64            // counted in this life
	pages  int
}

// see takes in a page of metrics.
func (k *killed) see(t *testing.T, page string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pages++
	for _, m := range timestamps.FindAllStringSubmatch(page, -1) {
		v, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Error(err)
		}
		if v < k.newest[m[1]] {
			t.Errorf("%s went back from %f to %f", m[1], k.newest[m[1]], v)
		}
		k.newest[m[1]] = v
	}
	runs := 0.0
	for _, m := range runsCount.FindAllStringSubmatch(page, -1) {
		n, _ := strconv.ParseFloat(m[1], 64)
		runs += n
	}
	if runs < k.runs {
		t.Errorf("runs fell from %v to %v within a life", k.runs, runs)
	}
	k.runs = runs
}

// scrape reads pages until the life ends.
func (k *killed) scrape(t *testing.T, url string, end <-chan struct{}) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	for {
		select {
		case <-end:
			return
		case <-time.After(2 * time.Millisecond):
		}
		answer, err := client.Get(url)
		if err != nil {
			continue // not up yet, or killed
		}
		page, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err == nil {
			k.see(t, string(page))
		}
	}
}

// TestKilled kills the daemon at random moments: its state always loads, no gauge goes back in time, nothing is counted twice.
func TestKilled(t *testing.T) {
	lives := 200
	if testing.Short() {
		lives = 15
	}
	sim := simulated(t, simserver.Config{TimeScale: 300, Options: simserver.Options{CacheReport: true, SpecMetrics: true}})
	binary, storage, address := builtProgram(t), filepath.Join(t.TempDir(), "state"), freePort(t)
	config := file(t, fmt.Sprintf("ladder: [512, 1k]\nintervals: 1s\nbudget: 100%%\ntargets: [{name: a, url: '%s'}]\n", sim.url))
	k := &killed{newest: map[string]float64{}}
	var total float64
	for life := range lives {
		daemon := launch(t, binary, address, "--config.file="+config, "--storage.path="+storage)
		end := make(chan struct{})
		var scraping sync.WaitGroup
		scraping.Go(func() { k.scrape(t, daemon.url+"/metrics", end) })
		time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
		if err := daemon.Kill(); err != nil {
			t.Error(err)
		}
		<-daemon.code
		close(end)
		scraping.Wait()
		if text := daemon.stderr.String(); strings.Contains(text, "set aside") || strings.Contains(text, "level=error") || strings.Contains(text, "another exporter") {
			t.Errorf("life %d: %s", life, text)
		}
		if _, err := os.Stat(filepath.Join(storage, "state")); err == nil {
			if _, err := state.Look(storage); err != nil {
				t.Errorf("life %d: %v", life, err)
			}
		}
		total, k.runs = total+k.runs, 0
	}
	requests := float64(len(sim.Truth())) // each run takes at least two
	t.Logf("%d lives, %d pages, %v runs, %v requests", lives, k.pages, total, requests)
	if total == 0 || total > requests/2 {
		t.Errorf("%v runs were counted, and the server saw %v requests", total, requests)
	}
	view, err := state.Look(storage)
	if err != nil {
		t.Fatal(err)
	}
	attempted := 0
	for _, target := range view.Targets {
		for _, r := range target.Rungs {
			if !r.Attempted.IsZero() {
				attempted++
			}
		}
	}
	if attempted == 0 {
		t.Error("nothing was kept")
	}
}
