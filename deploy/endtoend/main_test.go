// Package endtoend_test runs the whole thing: simulated servers, the exporter that probes them, and a real Prometheus that scrapes
// it with the shipped configuration and rules, over a week that was written for it.
package endtoend_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var (
	prometheusPath = flag.String("prometheus", "../../.build/bin/prometheus", "Prometheus to scrape the exporter with")
	promtoolPath   = flag.String("promtool", "../../.build/bin/promtool", "promtool to write history with")
)

// program is the path of the built program.
var program string

func TestMain(m *testing.M) {
	code, err := withProgram(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func withProgram(run func() int) (int, error) {
	dir, err := os.MkdirTemp("", "longctx")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "longctx_exporter")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, "../..").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return run(), nil
}

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
