package prometheus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// suite is one file of unit tests.
type suite struct {
	name      string
	scrapes   time.Duration // the time between them
	evaluated time.Duration // the time between evaluations
	scenarios []scenario
}

// scenario is what some exporters show, and what must come of it.
type scenario struct {
	name      string
	exporters []exporter
	unusual   bool // no medians of a week before
	extra     []series
	checks    []check
}

// check is what must hold at a time: which alerts fire, how one of them reads, or what an expression yields.
type check struct {
	at     time.Duration
	only   string // looks at this alert alone
	firing []string
	text   *text
	expr   string
	want   []sample
}

// text is an alert as people get it.
type text struct {
	alert   string
	labels  map[string]string
	summary string
}

type sample struct {
	Labels string  `yaml:"labels"`
	Value  float64 `yaml:"value"`
}

// firing checks that these alerts and no others fire, each as "Name target rung" without its prefix, or "Name instance", as
// far as the alert has them.
func firing(at time.Duration, alerts ...string) check { return check{at: at, firing: alerts} }

// silent checks that no alert fires.
func silent(at time.Duration) check { return check{at: at} }

// among checks which alerts of one name fire, each as "target rung".
func among(alert string, at time.Duration, where ...string) check {
	for i, w := range where {
		where[i] = alert + " " + w
	}
	return check{at: at, only: alert, firing: where}
}

// reads checks the labels and the summary of the one alert of that name.
func reads(at time.Duration, alert, summary string, labels ...string) check {
	t := &text{alert: "LongCtx" + alert, labels: map[string]string{}, summary: summary}
	for _, l := range labels {
		name, value, _ := strings.Cut(l, "=")
		t.labels[name] = value
	}
	return check{at: at, text: t}
}

// yields checks what an expression gives.
func yields(at time.Duration, expr string, want ...sample) check {
	return check{at: at, expr: expr, want: want}
}

// The file format of promtool's unit tests.
type (
	testFile struct {
		RuleFiles []string    `yaml:"rule_files"`
		Interval  string      `yaml:"evaluation_interval"`
		Order     []string    `yaml:"group_eval_order"`
		Tests     []testGroup `yaml:"tests"`
	}
	testGroup struct {
		Name     string       `yaml:"name"`
		Interval string       `yaml:"interval"`
		Input    []testSeries `yaml:"input_series"`
		Alerts   []testAlert  `yaml:"alert_rule_test,omitempty"`
		Exprs    []testExpr   `yaml:"promql_expr_test,omitempty"`
	}
	testSeries struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	}
	testAlert struct {
		At    string         `yaml:"eval_time"`
		Name  string         `yaml:"alertname"`
		Alert []testExpected `yaml:"exp_alerts"`
	}
	testExpected struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"`
	}
	testExpr struct {
		Expr string   `yaml:"expr"`
		At   string   `yaml:"eval_time"`
		Want []sample `yaml:"exp_samples"`
	}
)

// encode writes the suite for a file of rules.
func (s suite) encode(rules rulesFile, ruleFile string) ([]byte, error) {
	f := testFile{RuleFiles: []string{ruleFile}, Interval: promDuration(s.evaluated)}
	for _, g := range rules.Groups {
		f.Order = append(f.Order, g.Name)
	}
	for _, sc := range s.scenarios {
		f.Tests = append(f.Tests, sc.group(s.scrapes, rules))
	}
	return yaml.Marshal(f)
}

func (sc scenario) group(interval time.Duration, rules rulesFile) testGroup {
	g := testGroup{Name: sc.name, Interval: promDuration(interval)}
	var end time.Duration
	for _, c := range sc.checks {
		end = max(end, c.at)
		switch {
		case c.text != nil:
			g.Alerts = append(g.Alerts, c.text.expect(c.at, rules))
		case c.expr != "":
			g.Exprs = append(g.Exprs, testExpr{c.expr, promDuration(c.at), c.want})
		default:
			g.Exprs = append(g.Exprs, c.expectFiring())
		}
	}
	all := slices.Clone(sc.extra)
	for _, e := range sc.exporters {
		all = append(all, e.series()...)
	}
	if !sc.unusual && len(sc.exporters) > 0 {
		for _, t := range sc.exporters[0].targets {
			all = append(all, t.usual()...)
		}
	}
	for _, one := range all {
		if values := one.values(interval, end); values != "" {
			g.Input = append(g.Input, testSeries{one.labels, values})
		}
	}
	return g
}

// expectFiring counts the firing alerts by everything that tells them apart.
func (c check) expectFiring() testExpr {
	matchers := `alertstate="firing"`
	if c.only != "" {
		matchers = fmt.Sprintf(`alertname="LongCtx%s",%s`, c.only, matchers)
	}
	e := testExpr{Expr: "count by (alertname, instance, target, rung) (ALERTS{" + matchers + "})", At: promDuration(c.at), Want: []sample{}}
	for _, alert := range c.firing {
		words := strings.Fields(alert)
		labels := []string{fmt.Sprintf(`alertname="LongCtx%s"`, words[0])}
		names := []string{"target", "rung"}
		if slices.ContainsFunc([]string{"Exporter", "Config", "State"}, func(of string) bool { return strings.HasPrefix(alert, of) }) {
			names = []string{"instance"}
		}
		for i, name := range names {
			if len(words) > i+1 {
				labels = append(labels, fmt.Sprintf("%s=%q", name, words[i+1]))
			}
		}
		e.Want = append(e.Want, sample{"{" + strings.Join(labels, ",") + "}", 1})
	}
	return e
}

// expect takes from the rules what has no numbers in it, and is nothing that a unit test could find wrong.
func (t text) expect(at time.Duration, rules rulesFile) testAlert {
	r := rules.find(t.alert)
	labels := map[string]string{"severity": r.Labels["severity"]}
	for name, value := range t.labels {
		labels[name] = value
	}
	annotations := map[string]string{
		"summary": t.summary, "description": r.Annotations["description"], "runbook_url": r.Annotations["runbook_url"],
	}
	return testAlert{promDuration(at), t.alert, []testExpected{{labels, annotations}}}
}

// promDuration writes a duration as Prometheus does.
func promDuration(d time.Duration) string { return fmt.Sprintf("%dm", d/minute) }
