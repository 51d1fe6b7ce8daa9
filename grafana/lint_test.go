package grafana

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
)

// Units that Grafana knows or shows as a suffix. It shows an unknown one as text, which nobody notices.
var units = map[string]bool{
	"s": true, "percentunit": true, "none": true, "locale": true, unitRate: true, unitSlope: true, unitAccept: true, "suffix:x": true, "suffix:lines/s": true,
}

func TestDashboardFrame(t *testing.T) {
	uids := map[string]bool{}
	for _, d := range Dashboards() {
		if uids[*d.Uid] {
			t.Errorf("two dashboards are called %s", *d.Uid)
		}
		uids[*d.Uid] = true
		if *d.Editable {
			t.Errorf("%s is editable, so changes would be lost at the next start", *d.Uid)
		}
		if *d.Title == "" || *d.Description == "" {
			t.Errorf("%s has no title or description", *d.Uid)
		}
		var names []string
		for _, a := range d.Annotations.List {
			names = append(names, a.Name)
		}
		if strings.Join(names, ", ") != "Alerts, Deploys, Exporter restarts" {
			t.Errorf("%s has annotations %q", *d.Uid, names)
		}
	}
}

func TestVariables(t *testing.T) {
	for _, d := range Dashboards() {
		text, err := Encode(d)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, v := range d.Templating.List {
			names = append(names, v.Name)
			if !strings.Contains(string(text), "$"+v.Name) && !strings.Contains(string(text), "${"+v.Name) {
				t.Errorf("%s: variable %s is not used", *d.Uid, v.Name)
			}
			if v.Type == dashboard.VariableTypeDatasource {
				continue
			}
			if *v.Refresh != dashboard.VariableRefreshOnTimeRangeChanged || *v.Datasource.Uid != "${datasource}" {
				t.Errorf("%s: variable %s is not read anew with the range, or from another data source", *d.Uid, v.Name)
			}
			if *v.Multi && (*v.AllValue != ".+" || !*v.IncludeAll) {
				t.Errorf("%s: all of variable %s is not .+", *d.Uid, v.Name)
			}
			if strings.HasPrefix(*v.Definition, "label_values("+v.Name) {
				t.Errorf("%s: variable %s would have the values of other people's metrics", *d.Uid, v.Name)
			}
		}
		if got := strings.Join(names, " "); got != "datasource job model target rung" {
			t.Errorf("%s has variables %s", *d.Uid, got)
		}
	}
}

func TestPanels(t *testing.T) {
	for _, d := range Dashboards() {
		titles := map[string]bool{}
		for _, p := range panelsOf(d) {
			where := *d.Uid + ", " + *p.Title
			if titles[*p.Title] || *p.Title == "" {
				t.Errorf("%s: no title, or twice the same", where)
			}
			titles[*p.Title] = true
			if p.Type == "text" {
				continue
			}
			checkTexts(t, where, p)
			checkThresholds(t, where, p)
			if len(p.Targets) == 0 || *p.Datasource.Uid != "${datasource}" {
				t.Errorf("%s: no query, or a data source of its own", where)
			}
			if (p.Type == "trend") != strings.Contains(*p.Description, needsTrend) {
				t.Errorf("%s: the description must say which Grafana the panel needs, and only where it needs one", where)
			}
		}
	}
}

func checkTexts(t *testing.T, where string, p *dashboard.Panel) {
	t.Helper()
	what, rest, bad := strings.Cut(*p.Description, "\n\n**Bad:** ")
	sign, action, do := strings.Cut(rest, "\n\n**Do:** ")
	if !bad || !do || len(what) < 20 || len(sign) < 3 || len(action) < 10 {
		t.Errorf("%s: the description does not say what it is, what is bad and what to do: %q", where, *p.Description)
	}
	if *p.FieldConfig.Defaults.NoValue == "" {
		t.Errorf("%s: no data is not explained", where)
	}
	all := []any{*p.FieldConfig.Defaults.Unit}
	for _, o := range p.FieldConfig.Overrides {
		for _, property := range o.Properties {
			if property.Id == "unit" {
				all = append(all, property.Value)
			}
		}
	}
	for _, u := range all {
		if !units[u.(string)] {
			t.Errorf("%s: unit %q", where, u)
		}
	}
}

// checkThresholds: values count only from the lowest up, and the 80 that Grafana sets by itself means nothing.
func checkThresholds(t *testing.T, where string, p *dashboard.Panel) {
	t.Helper()
	all := []dashboard.ThresholdsConfig{*p.FieldConfig.Defaults.Thresholds}
	for _, o := range p.FieldConfig.Overrides {
		for _, property := range o.Properties {
			if c, ok := property.Value.(dashboard.ThresholdsConfig); ok {
				all = append(all, c)
			}
		}
	}
	for _, c := range all {
		if len(c.Steps) == 0 || c.Steps[0].Value != nil {
			t.Errorf("%s: thresholds without a base", where)
			continue
		}
		for i, s := range c.Steps[1:] {
			if s.Value == nil || *s.Value == 80 || i > 0 && *s.Value <= *c.Steps[i].Value {
				t.Errorf("%s: threshold %d is missing, 80 or out of order", where, i+1)
			}
		}
	}
}

// Measurements are drawn as what they are: each holds until the next, is a point, and is not invented where there is none.
func TestGapsStayGaps(t *testing.T) {
	for _, d := range Dashboards() {
		for _, p := range panelsOf(d) {
			switch c := p.FieldConfig; {
			case c == nil:
			case p.Type == "timeseries" || p.Type == "trend":
				custom := c.Defaults.Custom.(common.GraphFieldConfig)
				if *custom.DrawStyle == common.GraphDrawStyleBars {
					if *p.Interval != runWindow {
						t.Errorf("%s, %s counts hours at other steps", *d.Uid, *p.Title)
					}
					continue
				}
				want := common.LineInterpolationStepAfter
				if p.Type == "trend" {
					want = common.LineInterpolationLinear
				}
				if *custom.SpanNulls.Bool || *custom.ShowPoints != common.VisibilityModeAlways || *custom.LineInterpolation != want {
					t.Errorf("%s, %s: %+v", *d.Uid, *p.Title, custom)
				}
			case p.Type == "state-timeline":
				if *c.Defaults.Custom.(statetimeline.FieldConfig).SpanNulls.Bool {
					t.Errorf("%s, %s spans gaps", *d.Uid, *p.Title)
				}
			}
		}
	}
}

func TestPlaces(t *testing.T) {
	for _, d := range Dashboards() {
		ids := map[uint32]bool{}
		taken := map[[2]uint32]uint32{}
		for _, p := range d.Panels {
			var id uint32
			var pos dashboard.GridPos
			if p.Panel != nil {
				id, pos = *p.Panel.Id, *p.Panel.GridPos
			} else {
				id, pos = p.RowPanel.Id, *p.RowPanel.GridPos
			}
			if ids[id] || id == 0 {
				t.Errorf("%s: id %d is zero or taken", *d.Uid, id)
			}
			ids[id] = true
			if pos.W == 0 || pos.H == 0 || pos.X+pos.W > gridWidth {
				t.Errorf("%s: panel %d lies outside: %+v", *d.Uid, id, pos)
			}
			for x := pos.X; x < pos.X+pos.W; x++ {
				for y := pos.Y; y < pos.Y+pos.H; y++ {
					if other := taken[[2]uint32{x, y}]; other != 0 {
						t.Fatalf("%s: panels %d and %d overlap", *d.Uid, other, id)
					}
					taken[[2]uint32{x, y}] = id
				}
			}
		}
	}
}

func TestLinesHaveNames(t *testing.T) {
	for _, d := range Dashboards() {
		for _, p := range panelsOf(d) {
			for _, target := range p.Targets {
				if q := target.(prometheus.Dataquery); p.Type == "timeseries" && q.LegendFormat == nil {
					t.Errorf("%s, %s: query %s names its lines by all their labels", *d.Uid, *p.Title, *q.RefId)
				}
			}
		}
	}
}

var averageOfRatios = regexp.MustCompile(`avg[^()]*\([^()]*/`)

func TestQueriesByRule(t *testing.T) {
	all := series(t)
	windows := []string{eventWindow, costWindow, stepWindow, "7d:1h"}
	window := regexp.MustCompile(`\[([^\]]*)\]`)
	selector := regexp.MustCompile(`[a-zA-Z_:][\w:]*\{[^}]*\}`)
	for _, d := range Dashboards() {
		for _, q := range queriesOf(d) {
			for _, w := range window.FindAllStringSubmatch(q.expr, -1) {
				if !slices.Contains(windows, w[1]) {
					t.Errorf("%s: window %s is none of the package's", q.where, w[1])
				}
			}
			for _, s := range selector.FindAllString(q.expr, -1) {
				if strings.HasPrefix(s, alertsSeries+"{") {
					continue
				}
				name, _, _ := strings.Cut(s, "{")
				chosen := targetSelector
				if !slices.Contains(all[name].labels, "target") {
					chosen = exporterSelector
				}
				if !strings.Contains(s, chosen) {
					t.Errorf("%s: %s is not restricted to what is chosen", q.where, s)
				}
			}
			if averageOfRatios.MatchString(q.expr) {
				t.Errorf("%s: an average of ratios weighs the idle like the busy: %s", q.where, q.expr)
			}
		}
	}
}
