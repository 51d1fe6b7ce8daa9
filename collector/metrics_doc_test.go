package collector

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
)

// series is how many time series a metric makes of one target or rung: as classic histograms, in which a native one without
// classic buckets is left with +Inf, and as native ones.
func (m Metric) series() (classic, native int) {
	n := max(1, m.Children)
	if m.Type != Histogram {
		return n, n
	}
	return n * (len(m.Buckets) + 3), n // +Inf, sum and count
}

// seriesOf adds up the metrics of targets and of rungs.
func seriesOf(native bool) (perTarget, perRung int) {
	for _, m := range Catalogue() {
		n, asNative := m.series()
		if native {
			n = asNative
		}
		if slices.Contains(m.Labels, labelRung) {
			perRung += n
		} else {
			perTarget += n
		}
	}
	return perTarget, perRung
}

// document writes METRICS.md.
func document() string {
	var b strings.Builder
	b.WriteString(`# Metrics

Generated from the catalogue in the package collector by ` + "`go generate ./collector`" + `; change it there.

A series is there only while its value is known: what was not measured, or not lately, is absent and never 0. Counters stand at 0 from
the start; those of the engine's own account start where the engine stands, and fall only where the whole engine began anew. No sample has a time stamp of its own. Histograms carry the ID of a run as exemplar ` + "`run_id`" + ` in OpenMetrics.

| Label | Value |
|---|---|
| ` + "`target`" + ` | Configured name of the target. |
| ` + "`model`" + ` | Configured model, ` + "`default`" + ` where none is configured. |
| ` + "`context`" + ` | Nominal prompt length of the rung in tokens, ` + "`131072`" + `. |
| ` + "`rung`" + ` | The same for people, ` + "`128k`" + `. |
| ` + "`context_bucket`" + ` | The smallest of 1k, 2k, 4k, 8k, 16k, 32k, 64k, 128k and 192k tokens that holds the prompt of a request in a log, or ` + "`+Inf`" + `. |

All but those of the exporter have the labels target and model, those of a rung context and rung too; further labels are listed.
`)
	writeCardinality(&b)
	group := ""
	for _, m := range append(Catalogue(), processMetrics()...) {
		if m.Group != group {
			group = m.Group
			fmt.Fprintf(&b, "\n## %s\n\n| Name | Type | Of | Further labels | Meaning |\n|---|---|---|---|---|\n", group)
		}
		writeMetric(&b, m)
	}
	b.WriteString("\nBeside these: `go_*` and `process_*` of the process, and `promhttp_*` of the metrics page.\n")
	return b.String()
}

func writeCardinality(b *strings.Builder) {
	target, rung := seriesOf(false)
	nativeTarget, nativeRung := seriesOf(true)
	fmt.Fprintf(b, `
## Number of series

At most %d a target and %d a rung where classic histograms are scraped, %d and %d where native ones are; logs and objectives that
are not configured, and what a server does not tell, make it fewer.

| Targets | 9 rungs | 12 rungs | 24 rungs | 9 rungs, native |
|---:|---:|---:|---:|---:|
`, target, rung, nativeTarget, nativeRung)
	for _, n := range []int{1, 5, 20, 100} {
		fmt.Fprintf(b, "| %d | %d | %d | %d | %d |\n", n, n*(target+9*rung), n*(target+12*rung), n*(target+24*rung), n*(nativeTarget+9*nativeRung))
	}
}

func writeMetric(b *strings.Builder, m Metric) {
	scope, further := "exporter", m.Labels
	switch {
	case slices.Contains(m.Labels, labelRung):
		scope, further = "rung", m.Labels[len(perRung()):]
	case slices.Contains(m.Labels, labelTarget):
		scope, further = "target", m.Labels[len(perTarget()):]
	}
	kind, help := string(m.Type), m.Help
	switch {
	case m.Native && m.Buckets != nil:
		kind += ", classic and native"
	case m.Native:
		kind += ", native"
	}
	if m.Buckets != nil {
		var bounds []string
		for _, bound := range m.Buckets {
			bounds = append(bounds, strconv.FormatFloat(bound, 'g', -1, 64))
		}
		help += " Buckets up to " + strings.Join(bounds, ", ") + "."
	}
	var labels []string
	for _, l := range further {
		labels = append(labels, "`"+l+"`")
	}
	fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", m.Name, kind, scope, strings.Join(labels, ", "), help)
}

func TestMetricsDocument(t *testing.T) {
	const path = "../METRICS.md"
	got := document()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, []byte(got)) {
		t.Errorf("METRICS.md is not what go generate makes (-file +generated):\n%s", cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")))
	}
}

// TestCardinality holds the document's numbers against a page on which everything is known of at least one rung.
func TestCardinality(t *testing.T) {
	families, err := full(t).Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	exported := map[string]int{}
	for _, f := range families {
		perRung := map[string]int{}
		for _, m := range f.GetMetric() {
			i := slices.IndexFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == labelRung })
			rung := ""
			if i >= 0 {
				rung = m.GetLabel()[i].GetValue()
			}
			page := text(t, gathered{{Name: f.Name, Type: f.Type, Metric: []*dto.Metric{m}}})
			perRung[rung] += strings.Count(page, "\n") - 1 // the line of its type
			exported[f.GetName()] = max(exported[f.GetName()], perRung[rung])
		}
	}
	for _, m := range Catalogue() {
		if want, _ := m.series(); exported[m.Name] != want {
			t.Errorf("%s makes %d series, the document says %d", m.Name, exported[m.Name], want)
		}
	}
}

// gathered are families as a gatherer.
type gathered []*dto.MetricFamily

func (g gathered) Gather() ([]*dto.MetricFamily, error) { return g, nil }

func TestProcessMetrics(t *testing.T) {
	registry := NewProcessRegistry()
	NewReloads(registry)
	NewSaves(registry, func() (time.Time, int) { return time.Now(), 3 })
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	exported := map[string]*dto.MetricFamily{}
	for _, f := range families {
		exported[f.GetName()] = f
	}
	for _, m := range processMetrics() {
		f := exported[m.Name]
		if f == nil || f.GetHelp() != m.Help {
			t.Errorf("%s is exported as %v", m.Name, f)
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		if d := cmp.Diff(m.Labels, labels); d != "" {
			t.Errorf("%s labels (-listed +exported):\n%s", m.Name, d)
		}
		delete(exported, m.Name)
	}
	for name := range exported {
		if strings.HasPrefix(name, "longctx_") {
			t.Errorf("%s is exported and not listed", name)
		}
	}
}
