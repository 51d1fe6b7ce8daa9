package grafana

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var promtoolPath = flag.String("promtool", "../.build/bin/promtool", "promtool to evaluate the queries with")

// Every query is evaluated by Prometheus against series of every metric, and must have a result: what does not parse, does not
// match or asks for too much has none.
func TestQueriesHaveResults(t *testing.T) {
	tool, err := filepath.Abs(*promtoolPath)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(tool); err != nil {
		t.Fatalf("promtool is missing, so the queries cannot be tested (%v): run `make tools`, or give its path with -args -promtool=PATH", err)
	}
	chosen := strings.NewReplacer(`"$job"`, `".+"`, `"$model"`, `"m"`, `"$target"`, `"t"`, `"$rung"`, `"(1k|8k)"`, `"$job|"`, `".+|"`, `"$model|"`, `"m|"`, `"$target|"`, `"t|"`)
	var tests []any
	for _, d := range Dashboards() {
		for _, q := range slices.Concat(queriesOf(d), annotationsOf(d)) {
			expr := chosen.Replace(q.expr)
			if strings.Contains(expr, "$") {
				t.Errorf("%s: a variable is left in %s", q.where, expr)
			}
			tests = append(tests, map[string]any{
				"expr": "count(" + expr + ") > bool 0", "eval_time": "3d",
				"exp_samples": []any{map[string]any{"labels": "{}", "value": 1}},
			})
		}
	}
	text, err := yaml.Marshal(map[string]any{
		"evaluation_interval": "1h",
		"tests":               []any{map[string]any{"interval": "5m", "input_series": inputs(t), "promql_expr_test": tests}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "queries.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// inputs are two rungs of a target for three days, all values 1 and all counters rising.
func inputs(t *testing.T) []any {
	t.Helper()
	var all []any
	for name, s := range series(t) {
		values := "1x864"
		if s.counter {
			values = "0+1x864"
		}
		for _, labels := range children(s.labels) {
			all = append(all, map[string]string{"series": name + "{" + strings.Join(labels, ",") + "}", "values": values})
		}
	}
	return all
}

// children are the series that a set of labels makes. The rungs' context goes with them and multiplies nothing.
func children(labels []string) [][]string {
	values := map[string][]string{
		"target": {"t"}, "model": {"m"}, "job": {"longctx"}, "instance": {"i:1"}, "rung": {"1k", "8k"},
		"slo": {"ttft", "step"}, "result": {"good", "bad"}, "kind": {"failure", "computed"}, "le": {"1", "+Inf"},
		"context_bucket": {"1k", "8k", "+Inf"}, "baseline": {"deploy", "previous_deploy"}, "severity": {"critical", "info"},
		"alertname": {"LongCtxFailing"}, "alertstate": {"firing"},
	}
	made := [][]string{nil}
	for _, label := range labels {
		if label == "context" {
			continue
		}
		of, ok := values[label]
		if !ok {
			of = []string{"x"}
		}
		var next [][]string
		for _, m := range made {
			for _, v := range of {
				with := append(slices.Clone(m), fmt.Sprintf("%s=%q", label, v))
				if label == "rung" {
					with = append(with, fmt.Sprintf("context=%q", map[string]string{"1k": "1024", "8k": "8192"}[v]))
				}
				next = append(next, with)
			}
		}
		made = next
	}
	return made
}
