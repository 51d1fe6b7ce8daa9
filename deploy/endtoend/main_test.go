// Package endtoend_test runs the whole thing: simulated servers, the exporter that probes them, and a real Prometheus that scrapes
// it with the shipped configuration and rules, over a week that was written for it.
package endtoend_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"longctx_exporter/deploy/built"
)

var (
	prometheusPath = flag.String("prometheus", "../../.build/bin/prometheus", "Prometheus to scrape the exporter with")
	promtoolPath   = flag.String("promtool", "../../.build/bin/promtool", "promtool to write history with")
)

// program is the path of the built program.
var program string

func TestMain(m *testing.M) { os.Exit(built.Main(m, &program)) }

// tool is the path of a tool, without which there is nothing to test with: a failure.
func tool(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("a tool is missing (%v): run `make tools`, or give its path with -args -prometheus=PATH or -promtool=PATH", err)
	}
	return path
}

// patience is how long is waited for what takes seconds on an idle machine.
const patience = 2 * time.Minute

// eventually waits until a condition holds, and fails with what it said last.
func eventually(t *testing.T, patience time.Duration, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", patience, err)
		}
		time.Sleep(500 * time.Millisecond)
	}
}
