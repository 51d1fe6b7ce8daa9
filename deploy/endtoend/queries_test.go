package endtoend_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	grafanaprometheus "github.com/grafana/grafana-foundation-sdk/go/prometheus"

	"longctx_exporter/grafana"
)

// query is a query of a panel or an annotation, its variables replaced.
type query struct {
	where  string
	expr   string
	step   time.Duration // between the values over time; 0 where only the latest is asked for
	labels []string      // that its legend or its texts show
}

var (
	variable  = regexp.MustCompile(`\$\{?(\w+)\}?`)
	templated = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}`)
	labelList = regexp.MustCompile(`^label_values\(([^{]+?)(\{.*\})?, (\w+)\)$`)
)

// chosen are values of a dashboard's variables by name.
type chosen map[string]string

func (c chosen) fill(expr string) string {
	return variable.ReplaceAllStringFunc(expr, func(name string) string {
		return c[variable.FindStringSubmatch(name)[1]]
	})
}

// open is what a dashboard has for its variables when it is opened: all, or one where only one can be chosen.
func open(d grafana.Dashboard) chosen {
	values := chosen{}
	for _, v := range d.Templating.List {
		if v.Query.Map == nil {
			continue // the data source
		}
		values[v.Name] = opened
		if v.AllValue != nil {
			values[v.Name] = *v.AllValue
		}
	}
	return values
}

// valuesOf are the values that a variable offers.
func (p *prometheus) valuesOf(v dashboard.VariableModel, values chosen) ([]string, error) {
	definition := values.fill(v.Query.Map["query"].(string))
	m := labelList.FindStringSubmatch(definition)
	if m == nil {
		return nil, fmt.Errorf("variable %s: %s is no list of values", v.Name, definition)
	}
	found, err := p.query("count by ("+m[3]+") ("+m[1]+m[2]+")", 0)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, r := range found {
		if r.labels[m[3]] != "" {
			all = append(all, r.labels[m[3]])
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("variable %s offers nothing: %s", v.Name, definition)
	}
	return all, nil
}

// queriesOf are the queries of a dashboard as Grafana sends them when it is opened: of panels that repeat, one for each value.
func (p *prometheus) queriesOf(d grafana.Dashboard) ([]query, error) {
	values := open(d)
	offered := map[string][]string{}
	for _, v := range d.Templating.List {
		if v.Query.Map == nil {
			continue
		}
		of, err := p.valuesOf(v, values)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", *d.Uid, err)
		}
		if offered[v.Name] = of; v.AllValue == nil && !slices.Contains(of, values[v.Name]) {
			return nil, fmt.Errorf("%s: variable %s does not offer %s", *d.Uid, v.Name, values[v.Name])
		}
	}
	var all []query
	for _, panel := range d.Panels {
		if panel.Panel == nil {
			continue
		}
		repeat := []chosen{values}
		if panel.Panel.Repeat != nil {
			repeat = nil
			for _, one := range offered[*panel.Panel.Repeat] {
				with := chosen{*panel.Panel.Repeat: one}
				for name, value := range values {
					with[name] = cmp.Or(with[name], value)
				}
				repeat = append(repeat, with)
			}
		}
		for _, c := range repeat {
			all = append(all, panelQueries(*d.Uid, panel.Panel, c)...)
		}
	}
	for _, a := range d.Annotations.List {
		q := query{where: *d.Uid + ", annotation " + a.Name, expr: values.fill(*a.Expr), step: 15 * time.Second}
		q.labels = labelsIn(*a.TitleFormat + *a.TextFormat)
		all = append(all, q)
	}
	return all, nil
}

func panelQueries(uid string, panel *dashboard.Panel, c chosen) []query {
	var all []query
	for _, target := range panel.Targets {
		of := target.(grafanaprometheus.Dataquery)
		q := query{where: fmt.Sprintf("%s, %s, %s", uid, c.fill(*panel.Title), *of.RefId), expr: c.fill(of.Expr)}
		if of.Instant == nil || !*of.Instant {
			q.step = 15 * time.Second
			if panel.Interval != nil {
				q.step, _ = time.ParseDuration(*panel.Interval)
			}
		}
		if of.LegendFormat != nil {
			q.labels = labelsIn(*of.LegendFormat)
		}
		all = append(all, q)
	}
	return all
}

// labelsIn are the labels that a legend or an annotation of Grafana or of an alert shows.
func labelsIn(text string) []string {
	var all []string
	for _, m := range templated.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// asked is what dashboards and rules ask for: an expression with the labels that are shown of it.
func (p *prometheus) asked(t *testing.T) ([]query, error) {
	t.Helper()
	var all []query
	for _, d := range grafana.Dashboards() {
		of, err := p.queriesOf(d)
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
		for _, v := range d.Templating.List {
			if v.Query.Map != nil {
				m := labelList.FindStringSubmatch(open(d).fill(v.Query.Map["query"].(string)))
				all = append(all, query{where: *d.Uid + ", variable " + v.Name, expr: m[1] + m[2], labels: []string{m[3]}})
			}
		}
	}
	for _, g := range parseRules(t, read(t, shippedRules)).Groups {
		for _, r := range g.Rules {
			texts := strings.Join([]string{r.Annotations["summary"], r.Annotations["description"]}, " ")
			all = append(all, query{where: "rule " + r.Record + r.Alert, expr: r.Expr, labels: labelsIn(texts)})
		}
	}
	return all, nil
}
