package grafana

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	dto "github.com/prometheus/client_model/go"

	"longctx_exporter/collector"
	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

var (
	sums      = regexp.MustCompile(`\bsum(?: (?:by|without) \([^)]*\))? ?\(`)
	ofCounter = regexp.MustCompile(`^(?:increase|rate)\(`)
)

// summedGauge is what a query sums up that is no growth of a counter; "" for nothing.
func summedGauge(expr string) string {
	for _, at := range sums.FindAllStringIndex(expr, -1) {
		if summed := expr[at[1]:]; !ofCounter.MatchString(summed) {
			return summed
		}
	}
	return ""
}

// Four ranks that use 78 % are not used by 312 %: shares are compared, and only growth of counters is added up.
func TestOnlyGrowthIsSummed(t *testing.T) {
	for _, d := range Dashboards() {
		for _, q := range slices.Concat(queriesOf(d), annotationsOf(d)) {
			if summed := summedGauge(q.expr); summed != "" {
				t.Errorf("%s sums %s", q.where, summed)
			}
		}
		for _, p := range panelsOf(d) {
			if p.FieldConfig == nil {
				continue
			}
			custom, ok := p.FieldConfig.Defaults.Custom.(common.GraphFieldConfig)
			if ok && custom.Stacking != nil && *p.FieldConfig.Defaults.Unit == "percentunit" {
				t.Errorf("%s, %s piles shares up", *d.Uid, *p.Title)
			}
		}
	}
	for _, expr := range []string{"sum(" + ofTarget(budgetUsed) + ")", "sum by (target) (" + joined(ofTarget(budgetUsed)) + ")"} {
		if summedGauge(expr) == "" {
			t.Errorf("nothing is found wrong with %s", expr)
		}
	}
}

// What is installed elsewhere has other data sources.
func TestNoDataSourceIsNamed(t *testing.T) {
	for _, d := range Dashboards() {
		text, err := os.ReadFile(file(d))
		if err != nil {
			t.Fatal(err)
		}
		var tree any
		if err := json.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		found := 0
		walk(tree, func(key string, value any) {
			if key != "datasource" {
				return
			}
			found++
			source, ok := value.(map[string]any)
			if uid := source["uid"]; !ok || uid != "${datasource}" && source["type"] != "grafana" && source["type"] != "datasource" {
				t.Errorf("%s has the data source %v", file(d), value)
			}
		})
		if found == 0 {
			t.Errorf("%s has no data source", file(d))
		}
	}
}

// walk visits what stands under a key anywhere in a tree.
func walk(tree any, visit func(key string, value any)) {
	switch node := tree.(type) {
	case map[string]any:
		for key, value := range node {
			visit(key, value)
			walk(value, visit)
		}
	case []any:
		for _, value := range node {
			walk(value, visit)
		}
	}
}

// Panels that show one value show that of now: the last one of a range may be hours old.
func TestLatestIsNow(t *testing.T) {
	for _, d := range Dashboards() {
		for _, p := range panelsOf(d) {
			for _, target := range p.Targets {
				q, drawn := target.(prometheus.Dataquery), slices.Contains([]string{"timeseries", "state-timeline", "heatmap"}, p.Type)
				if *q.Instant == drawn || *q.Range != drawn {
					t.Errorf("%s, %s (%s): query %s asks for a range: %v", *d.Uid, *p.Title, p.Type, *q.RefId, *q.Range)
				}
			}
		}
	}
}

// Measurements that the dashboards take as the exporter shows them need no gate of their own: once a target only fails, they
// leave the page. What stays does not claim to be a measurement of now.
func TestOldMeasurementsAreNotShown(t *testing.T) {
	stays := []string{
		targetUp, rungContext, rungReachable, probeInterval, probeEffective, probeLastSuccess, probeDuration, failuresInARow,
		rejectionsInARow, stepBaseline, sloThreshold, selfLag, selfGC, // the last two are of the latest run, whatever became of it
	}
	synctest.Test(t, func(t *testing.T) {
		const length = 8192
		c, err := collector.New([]prober.Target{{
			Name: "t", Ladder: []prober.Rung{length}, Intervals: prober.PerRung[time.Duration]{Default: 5 * time.Minute},
			SLO: prober.SLO{TTFT: map[prober.Rung]time.Duration{length: time.Minute}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		run := prober.Run{Target: "t", Rung: length, Status: prober.Accepted, Deploy: "d", Sample: prober.Sample{
			PromptTokens: length, TTFT: 6, Prefill: 1400, Pairs: 2, Step: 0.14, StepStream: 0.15, StepError: 0.02, Method: "two_point",
			Steps: 16, StepTimes: slices.Repeat([]float64{0.14, 0.15}, 60), DecodeTokens: 56, DecodeRate: 25, AcceptLength: 3.5,
			AcceptHistogram: []int{3, 2, 3, 3}, BlockSize: 4, Isolation: prober.Proved,
		}}
		for range 3 {
			run.Started = time.Now()
			c.ObserveRun(run)
		}
		if shown := gaugesOf(t, c); !slices.Contains(shown, decodeRate) || !slices.Contains(shown, isolationProved) {
			t.Fatalf("after a clean run: %q", shown)
		}
		for range 4 {
			time.Sleep(5 * time.Minute)
			c.ObserveRun(prober.Run{Target: "t", Rung: length, Status: prober.Failed, Reason: prober.Reason(inference.Connect), Started: time.Now()})
		}
		shown := gaugesOf(t, c)
		for _, d := range Dashboards() {
			for _, q := range queriesOf(d) {
				for _, s := range selectors.FindAllStringSubmatch(q.expr, -1) {
					if slices.Contains(shown, s[1]) && !slices.Contains(stays, s[1]) {
						t.Errorf("%s: %s is shown after four failures", q.where, s[1])
					}
				}
			}
		}
	})
}

// gaugesOf are the names of the gauges on a page.
func gaugesOf(t *testing.T, c *collector.Collector) []string {
	t.Helper()
	families, err := c.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		if f.GetType() == dto.MetricType_GAUGE {
			names = append(names, f.GetName())
		}
	}
	return names
}
