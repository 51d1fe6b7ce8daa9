package prober_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"longctx_exporter/collector/servermetrics"
	"longctx_exporter/prober"
	"longctx_exporter/prober/simserver"
)

var updateReadme = flag.Bool("update-readme", false, "write the table of the naive pair into README.md")

// TestNaivePair keeps README's table true: what the plain script prints, what is so, and what we print, on one server.
func TestNaivePair(t *testing.T) {
	table := naiveTable(t)
	t.Logf("\n%s", table)
	const readme, begin, end = "../README.md", "<!-- naive-table -->\n", "<!-- end of naive-table -->"
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	old, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no table between %s and %s", readme, begin, end)
	}
	if *updateReadme {
		if err := os.WriteFile(readme, []byte(head+begin+table+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != table {
		t.Errorf("%s shows\n%s\nthe server gives\n%s", readme, old, table)
	}
}

func naiveTable(t *testing.T) string {
	var table strings.Builder
	table.WriteString("| context | M | script: T(1), T(1+M) | script: s/token | true s/step | ours: s/step | true τ | ours: τ |\n|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	synctest.Test(t, func(t *testing.T) {
		sim, target := simulated(t, simserver.Config{Shape: "sglang", Profile: profile(t, "kimi-k2.6-ddtree"), Seed: 1})
		target.Ladder = []prober.Rung{1024, 5120, 32768, 131072, 196608}
		target.AllowEviction = true // what the script leaves is nobody's
		client, runner := prober.ClientOf(target), prober.RunnerOf(t, target, servermetrics.New)
		for _, rung := range target.Ladder {
			m := 16
			if rung >= 131072 {
				m = 8
			}
			first := naiveRequest(t, client, int(rung), 1)
			second := naiveRequest(t, client, int(rung), 1+m)
			before := len(sim.Truth())
			run := runner.Run(t.Context(), rung, nil)
			if run.Status != prober.Accepted {
				t.Fatalf("%s: %s %s %s", rung, run.Status, run.Reason, run.Message)
			}
			step, tau := truthOf(run, sim.Truth()[before:])
			fmt.Fprintf(&table, "| %s | %d | %.2f s, %.2f s | %.3f | %.3f | %.3f | %.2f | %.2f |\n", rung, m, first.Seconds(), second.Seconds(),
				(second-first).Seconds()/float64(m), step, run.Sample.Step, tau, run.Sample.AcceptLength)
			time.Sleep(time.Minute)
		}
	})
	return table.String()
}

// naiveRequest is the script's: the same prompt each time, the whole answer awaited.
func naiveRequest(t *testing.T, client *http.Client, tokens, maxTokens int) time.Duration {
	t.Helper()
	ids := make([]int, tokens)
	for i := range ids {
		ids[i] = 2000 + i%1000
	}
	body, err := json.Marshal(map[string]any{"prompt": ids, "max_tokens": maxTokens, "temperature": 0, "ignore_eos": true})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	resp, err := client.Post("http://server.invalid/v1/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("HTTP %d, %v: %s", resp.StatusCode, err, answer)
	}
	return time.Since(began)
}

// truthOf is the mean step time and acceptance length of a run's long legs.
func truthOf(run prober.Run, truth []simserver.TruthRequest) (step, tau float64) {
	var seconds float64
	var steps, committed int
	for i, r := range truth[len(truth)-len(run.Legs):] {
		if run.Legs[i].MaxTokens == 1 {
			continue
		}
		for j, s := range r.StepSeconds {
			seconds += s
			steps++
			committed += r.Accepted[j]
		}
	}
	return seconds / float64(steps), float64(committed) / float64(steps)
}
