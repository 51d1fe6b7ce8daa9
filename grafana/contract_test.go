package grafana

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"longctx_exporter/collector"
	"longctx_exporter/prober"
)

// known is what can be queried: the labels of each series, and whether it is a counter.
type known map[string]struct {
	labels  []string
	counter bool
}

// series are the exporter's, those of the process, the recorded ones, and ALERTS.
func series(t *testing.T) known {
	t.Helper()
	all := known{}
	add := func(name string, counter bool, labels ...string) {
		all[name] = struct {
			labels  []string
			counter bool
		}{append(slices.Clone(labels), "job"), counter}
	}
	for _, m := range collector.Catalogue() {
		if m.Type == collector.Histogram {
			add(m.Name+"_bucket", true, append(slices.Clone(m.Labels), "instance", "le")...)
			add(m.Name+"_sum", true, append(slices.Clone(m.Labels), "instance")...)
			add(m.Name+"_count", true, append(slices.Clone(m.Labels), "instance")...)
			continue
		}
		add(m.Name, m.Type == collector.Counter, append(slices.Clone(m.Labels), "instance")...)
	}
	process := collector.NewProcessRegistry()
	collector.NewSaves(process, func() (time.Time, int) { return time.Now(), 0 })
	families, err := process.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		add(f.GetName(), f.GetType() == dto.MetricType_COUNTER, "instance")
	}
	for name := range rulesByName(t) {
		if parts := strings.Split(name, ":"); len(parts) == 3 {
			base, ok := all[parts[1]]
			if !ok {
				t.Fatalf("%s is recorded from a metric that the catalogue does not have", name)
			}
			add(name, false, slices.DeleteFunc(slices.Clone(base.labels), func(l string) bool { return l == "job" || l == "instance" })...)
		}
	}
	add(alertsSeries, false, "alertname", "alertstate", "severity", "target", "model")
	return all
}

var (
	selectors = regexp.MustCompile(`([a-zA-Z_:][\w:]*)\{([^}]*)\}`)
	matchers  = regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"[^"]*"`)
	groupings = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right) \(([^)]*)\)`)
	counted   = regexp.MustCompile(`(?:increase|rate)\($`)
	rest      = regexp.MustCompile(`"[^"]*"|\[[^\]]*\]|offset \w+|\b\d[\w.]*`)
	leftWords = regexp.MustCompile(`[a-zA-Z_]\w*\s*\(?`)
)

func TestQueriesAskForWhatExists(t *testing.T) {
	all := series(t)
	for _, d := range Dashboards() {
		for _, q := range slices.Concat(queriesOf(d), annotationsOf(d)) {
			checkQuery(t, all, q)
		}
		for _, q := range valuesOf(d) {
			name, label, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(q.expr, "label_values("), ")"), ", ")
			if !strings.Contains(name, "{") {
				name += "{}"
			}
			checkQuery(t, all, located{q.where, name})
			if metric, _, _ := strings.Cut(name, "{"); !slices.Contains(all[metric].labels, label) {
				t.Errorf("%s: %s has no label %s", q.where, metric, label)
			}
		}
	}
}

func checkQuery(t *testing.T, all known, q located) {
	t.Helper()
	labels := []string{"instance", "pod"}
	for _, at := range selectors.FindAllStringSubmatchIndex(q.expr, -1) {
		name := q.expr[at[2]:at[3]]
		s, ok := all[name]
		if !ok {
			t.Errorf("%s: %s does not exist", q.where, name)
			continue
		}
		labels = append(labels, s.labels...)
		for _, m := range matchers.FindAllStringSubmatch(q.expr[at[4]:at[5]], -1) {
			if !slices.Contains(s.labels, m[1]) {
				t.Errorf("%s: %s has no label %s", q.where, name, m[1])
			}
		}
		if s.counter != counted.MatchString(q.expr[:at[0]]) {
			t.Errorf("%s: %s: counters, and only those, are asked for their increase", q.where, name)
		}
	}
	for _, g := range groupings.FindAllStringSubmatch(q.expr, -1) {
		for l := range strings.SplitSeq(g[1], ",") {
			if l = strings.TrimSpace(l); l != "" && !slices.Contains(labels, l) {
				t.Errorf("%s: no series has a label %s", q.where, l)
			}
		}
	}
	left := rest.ReplaceAllString(groupings.ReplaceAllString(selectors.ReplaceAllString(q.expr, ""), ""), "")
	for _, w := range leftWords.FindAllString(left, -1) {
		if word := strings.TrimSpace(w); !strings.HasSuffix(word, "(") && !slices.Contains([]string{"and", "or", "unless"}, word) {
			t.Errorf("%s: %s is asked for without what is chosen", q.where, word)
		}
	}
}

// The curve of real traffic knows the lengths of prompts by the collector's label.
func TestBucketsOfTrafficAreTheCollectors(t *testing.T) {
	var want []int
	for _, r := range prober.DefaultLadder() {
		if want = append(want, int(r)/1024); r.String() != fmt.Sprintf("%dk", int(r)/1024) {
			t.Errorf("the length %d is called %s", r, r)
		}
	}
	if got := contextBuckets(); !slices.Equal(got, want) {
		t.Errorf("the dashboards have buckets of %dk, the collector of %dk", got, want)
	}
}

// A check that finds nothing wrong anywhere proves nothing.
func TestContractFindsFaults(t *testing.T) {
	all := series(t)
	for _, expr := range []string{
		"longctx_nothing{" + rungSelector + "}",
		ofTarget(targetUp, `rung="1k"`),
		"sum by (engine) (" + ofTarget(targetUp) + ")",
		ofTarget(engineBusy),
		"rate(" + ofTarget(targetUp) + "[1h])",
		"max(longctx_target_up)",
	} {
		fake := &testing.T{}
		if checkQuery(fake, all, located{"here", expr}); !fake.Failed() {
			t.Errorf("nothing is found wrong with %s", expr)
		}
	}
}
