package grafana

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
)

// about explains a panel to whoever is woken by it.
type about struct {
	what  string // what it shows
	bad   string // what to worry about
	do    string // what to do then
	needs string // the Grafana it needs, if newer than 9.0, and what stands in for it
}

func (a about) String() string {
	text := a.what + "\n\n**Bad:** " + a.bad + "\n\n**Do:** " + a.do
	if a.needs != "" {
		text += "\n\n**Needs:** " + a.needs
	}
	return text
}

// query is a query of a panel.
type query struct {
	ref    string // names the result in transformations; a letter where it is not set
	expr   string
	legend string
}

// panel is what all panels share.
type panel struct {
	title         string
	about         about
	unit          string
	empty         string // what stands where there is no data
	width, height uint32
	queries       []query
	thresholds    []dashboard.Threshold // nil where no alert knows a number
	maps          map[string]dashboard.ValueMappingResult
	overrides     []dashboard.DashboardFieldConfigSourceOverrides
	transforms    []dashboard.DataTransformerConfig
}

// build makes the panel of a kind with what only that kind has.
func (p panel) build(kind string, options, custom any, targets []variants.Dataquery) dashboard.Panel {
	color := dashboard.FieldColor{Mode: dashboard.FieldColorModeIdPaletteClassic}
	thresholds := dashboard.ThresholdsConfig{Mode: dashboard.ThresholdsModeAbsolute, Steps: steps(plain)}
	if p.thresholds != nil {
		thresholds.Steps = p.thresholds
	}
	switch kind {
	case "stat", "state-timeline", "table":
		color.Mode = dashboard.FieldColorModeIdThresholds
	}
	defaults := dashboard.FieldConfig{
		Unit: &p.unit, NoValue: &p.empty, Thresholds: &thresholds, Color: &color, Custom: custom,
	}
	if p.maps != nil {
		defaults.Mappings = []dashboard.ValueMapping{{
			ValueMap: &dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: p.maps},
		}}
	}
	return dashboard.Panel{
		Type: kind, Title: &p.title, Description: new(p.about.String()), Datasource: datasource(),
		GridPos: &dashboard.GridPos{W: p.width, H: p.height},
		Targets: targets, Options: options, Transformations: p.transforms,
		FieldConfig: &dashboard.FieldConfigSource{Defaults: defaults, Overrides: append([]dashboard.DashboardFieldConfigSourceOverrides{}, p.overrides...)},
	}
}

func datasource() *common.DataSourceRef {
	return &common.DataSourceRef{Type: new("prometheus"), Uid: new("${datasource}")}
}

// ranged asks for the values of the range shown.
func (p panel) ranged(format prometheus.PromQueryFormat) []variants.Dataquery {
	return p.targets(format, false)
}

// instant asks for the values of now, a row for each series.
func (p panel) instant() []variants.Dataquery {
	return p.targets(prometheus.PromQueryFormatTable, true)
}

// instantNumber asks for the value of now alone.
func (p panel) instantNumber() []variants.Dataquery {
	return p.targets(prometheus.PromQueryFormatTimeSeries, true)
}

func (p panel) targets(format prometheus.PromQueryFormat, instant bool) []variants.Dataquery {
	var all []variants.Dataquery
	for i, q := range p.queries {
		ref := q.ref
		if ref == "" {
			ref = string(rune('A' + i))
		}
		t := prometheus.Dataquery{
			RefId: &ref, Expr: q.expr, Datasource: datasource(), EditorMode: new(prometheus.QueryEditorModeCode),
			Format: &format, Instant: &instant, Range: new(!instant),
		}
		if q.legend != "" {
			t.LegendFormat = &q.legend
		}
		all = append(all, t)
	}
	return all
}

// override sets properties of a field, by its name in the result.
func override(field string, properties ...dashboard.DynamicConfigValue) dashboard.DashboardFieldConfigSourceOverrides {
	return dashboard.DashboardFieldConfigSourceOverrides{
		Matcher:    dashboard.MatcherConfig{Id: "byName", Options: field},
		Properties: properties,
	}
}

func property(id string, value any) dashboard.DynamicConfigValue {
	return dashboard.DynamicConfigValue{Id: id, Value: value}
}

// dashed draws a line that is no measurement.
func dashed(field string) dashboard.DashboardFieldConfigSourceOverrides {
	return override(field,
		property("custom.lineStyle", common.LineStyle{Fill: new(common.LineStyleFillDash), Dash: []float64{8, 6}}),
		property("custom.showPoints", common.VisibilityModeNever))
}

// dashedWhere draws the lines so whose names match.
func dashedWhere(pattern string) []dashboard.DashboardFieldConfigSourceOverrides {
	return []dashboard.DashboardFieldConfigSourceOverrides{{
		Matcher:    dashboard.MatcherConfig{Id: "byRegexp", Options: "/" + pattern + "/"},
		Properties: dashed("").Properties,
	}}
}
