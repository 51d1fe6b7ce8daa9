package endtoend_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const day = 24 * time.Hour

// A week as rules look back on it: eight days until now, on the hours, where their subqueries look.
func hours() []time.Time {
	end := time.Now().Add(-10 * time.Minute).Truncate(time.Hour) // out of sight of what looks back five minutes
	var all []time.Time
	for at := end.Add(-8 * day); !at.After(end); at = at.Add(time.Hour) {
		all = append(all, at)
	}
	return all
}

// measured are the metrics of an exporter.
func measured(exporter string) (map[string]*dto.MetricFamily, error) {
	answer, err := http.Get("http://" + exporter + "/metrics")
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(answer.Body)
}

// series is a name with labels.
type series struct{ name, labels string }

// before is a series as another instance of the exporter had it.
func before(name string, of map[string]string) series {
	with := map[string]string{"job": "longctx", "instance": "before:10430"}
	maps.Copy(with, of)
	return series{name, labels(with)}
}

// history is what an exporter showed for a week, in OpenMetrics: every gauge as it is now, but for what the physics say that it was,
// and times at the age that they have now.
func history(t *testing.T, families map[string]*dto.MetricFamily, at []time.Time) string {
	t.Helper()
	values := map[series]float64{}
	for name, family := range families {
		if family.GetType() != dto.MetricType_GAUGE || !strings.HasPrefix(name, "longctx_") {
			continue
		}
		for _, m := range family.Metric {
			values[before(name, labelsOf(m))] = m.Gauge.GetValue()
		}
	}
	for _, g := range targets() {
		maps.Copy(values, g.week(t))
	}
	now, last := time.Now(), ""
	var text strings.Builder
	sorted := slices.SortedFunc(maps.Keys(values), func(a, b series) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.labels, b.labels))
	})
	for _, s := range sorted {
		if s.name != last {
			fmt.Fprintf(&text, "# TYPE %s gauge\n", s.name)
			last = s.name
		}
		for _, hour := range at {
			v := values[s]
			if strings.HasSuffix(s.name, "_timestamp_seconds") {
				v -= now.Sub(hour).Seconds()
			}
			fmt.Fprintf(&text, "%s%s %s %d\n", s.name, s.labels, strconv.FormatFloat(v, 'g', -1, 64), hour.Unix())
		}
	}
	text.WriteString("# EOF\n")
	return text.String()
}

// writeHistory fills an empty data directory with the week before: the exporter's series, and what the shipped rules record of them.
// promtool can record rules backwards as well, but not on the hours.
func writeHistory(t *testing.T, dir string, families map[string]*dto.MetricFamily) {
	t.Helper()
	at, scratch := hours(), t.TempDir()
	writeBlocks(t, dir, history(t, families, at))
	config := filepath.Join(scratch, "prometheus.yml")
	write(t, config, "global: {}\n")
	p := startPrometheus(t, config, dir)
	recorded := recordedBefore(t, p, at)
	p.stop()
	writeBlocks(t, dir, recorded)
}

// writeBlocks adds series in OpenMetrics to a data directory.
func writeBlocks(t *testing.T, dir, openMetrics string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "series.txt")
	write(t, file, openMetrics)
	args := []string{"tsdb", "create-blocks-from", "--max-block-duration=30d", "openmetrics", file, dir}
	if out, err := exec.Command(tool(t, *promtoolPath), args...).CombinedOutput(); err != nil {
		t.Fatalf("promtool %v: %v\n%s", args, err, out)
	}
}

// recordedBefore is what the rules of fresh values would have recorded, in OpenMetrics.
func recordedBefore(t *testing.T, p *prometheus, at []time.Time) string {
	t.Helper()
	var text strings.Builder
	for _, r := range fresh(t) {
		data, err := get[matrix](p, "query_range", url.Values{
			"query": {r.Expr}, "start": {fmt.Sprint(at[0].Unix())}, "end": {fmt.Sprint(at[len(at)-1].Unix())}, "step": {"3600"},
		})
		if err != nil || len(data.Result) == 0 {
			t.Fatalf("nothing is recorded of the week before as %s: %v", r.Record, err)
		}
		fmt.Fprintf(&text, "# TYPE %s gauge\n", r.Record)
		for _, series := range data.Result {
			for _, v := range series.Values {
				fmt.Fprintf(&text, "%s%s %s %d\n", r.Record, labels(series.Metric), v[1], int64(v[0].(float64)))
			}
		}
	}
	text.WriteString("# EOF\n")
	return text.String()
}

func labelsOf(m *dto.Metric) map[string]string {
	of := map[string]string{}
	for _, l := range m.Label {
		of[l.GetName()] = l.GetValue()
	}
	return of
}

// labels writes labels as the text formats do.
func labels(of map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s=%q", name, of[name]))
	}
	return "{" + strings.Join(all, ",") + "}"
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
