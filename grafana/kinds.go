package grafana

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/text"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/trend"
)

// scale is how a value axis is divided.
type scale = common.ScaleDistributionConfig

func linear() *scale { return &scale{Type: common.ScaleDistributionLinear} }

func logarithmic() *scale { return &scale{Type: common.ScaleDistributionLog, Log: new(2.0)} }

func legend(placement common.LegendPlacement) common.VizLegendOptions {
	return common.VizLegendOptions{DisplayMode: common.LegendDisplayModeList, Placement: placement, ShowLegend: true, Calcs: []string{}}
}

func tooltip() common.VizTooltipOptions {
	return common.VizTooltipOptions{Mode: common.TooltipDisplayModeMulti, Sort: common.SortOrderDescending}
}

// lines is how measurements are drawn: each holds until the next, each is a point, and where there is none there is no line.
func lines(p panel, s *scale) common.GraphFieldConfig {
	c := common.GraphFieldConfig{
		DrawStyle: new(common.GraphDrawStyleLine), LineInterpolation: new(common.LineInterpolationStepAfter),
		LineWidth: new(1.0), ShowPoints: new(common.VisibilityModeAlways), PointSize: new(4.0),
		SpanNulls: &common.BoolOrFloat64{Bool: new(false)}, ScaleDistribution: s,
		ThresholdsStyle: &common.GraphThresholdsStyleConfig{Mode: common.GraphThresholdsStyleModeOff},
	}
	if p.thresholds != nil {
		c.ThresholdsStyle.Mode = common.GraphThresholdsStyleModeDashed
	}
	return c
}

// overTime draws values over time.
func overTime(p panel, s *scale) dashboard.Panel {
	return p.build("timeseries", timeseries.Options{Legend: legend(common.LegendPlacementRight), Tooltip: tooltip()},
		lines(p, s), p.ranged(prometheus.PromQueryFormatTimeSeries))
}

// bars counts events, hour by hour.
func bars(p panel) dashboard.Panel {
	c := lines(p, linear())
	c.DrawStyle, c.ShowPoints, c.FillOpacity = new(common.GraphDrawStyleBars), new(common.VisibilityModeNever), new(80.0)
	c.Stacking = &common.StackingConfig{Mode: new(common.StackingModeNormal), Group: new("A")}
	built := p.build("timeseries", timeseries.Options{Legend: legend(common.LegendPlacementRight), Tooltip: tooltip()},
		c, p.ranged(prometheus.PromQueryFormatTimeSeries))
	built.Interval = new(runWindow)
	return built
}

const needsTrend = "Grafana 10.0 for the Trend panel. On Grafana 9 the tables and the graphs over time show the same numbers."

// overContext draws the latest values over the length of the context.
func overContext(p panel) dashboard.Panel {
	p.overrides = append(p.overrides, override("context", property("unit", "locale")))
	return curved(p)
}

// overCount draws the latest values over a number, the field of that name.
func overCount(p panel, field string) dashboard.Panel {
	p.overrides = append(p.overrides, override(field, property("unit", "none"), property("displayName", "tokens")))
	return curved(p)
}

// curved draws the latest values over a number that is no time.
func curved(p panel) dashboard.Panel {
	p.about.needs = needsTrend
	c := lines(p, linear())
	c.LineInterpolation = new(common.LineInterpolationLinear)
	return p.build("trend", trend.Options{Legend: legend(common.LegendPlacementBottom), Tooltip: tooltip()}, c, p.instant())
}

// curves joins the queries of a panel to one table with a row for each context length, which is what Trend draws.
func curves(queries []query) []dashboard.DataTransformerConfig {
	exclude, rename := map[string]bool{"Time": true}, map[string]string{}
	for i, q := range queries {
		exclude[timeOf(i)] = true
		rename["Value #"+q.ref] = q.ref
	}
	rename["Value"] = queries[0].ref // so called where the other queries have no result
	return []dashboard.DataTransformerConfig{
		toNumber("context"),
		transform("joinByField", map[string]any{"byField": "context", "mode": "outer"}),
		transform("organize", map[string]any{"excludeByName": exclude, "indexByName": map[string]int{}, "renameByName": rename}),
		transform("sortBy", map[string]any{"fields": map[string]any{}, "sort": []any{map[string]string{"field": "context"}}}),
	}
}

// timeOf is the name of the time in the i-th joined query.
func timeOf(i int) string { return "Time " + string(rune('1'+i)) }

// curvePer makes a column for each value of a label out of one query by that label and another, whose values are numbers.
func curvePer(column, row string) []dashboard.DataTransformerConfig {
	rows := row + `\` + column // as the transformation names it
	return []dashboard.DataTransformerConfig{
		transform("groupingToMatrix", map[string]string{
			"rowField": row, "columnField": column, "valueField": "Value", "emptyValue": "null",
		}),
		toNumber(rows),
		transform("sortBy", map[string]any{"fields": map[string]any{}, "sort": []any{map[string]string{"field": rows}}}),
	}
}

func transform(id string, options any) dashboard.DataTransformerConfig {
	return dashboard.DataTransformerConfig{Id: id, Options: options}
}

func toNumber(field string) dashboard.DataTransformerConfig {
	return transform("convertFieldType", map[string]any{
		"fields": map[string]any{}, "conversions": []any{map[string]string{"targetField": field, "destinationType": "number"}},
	})
}

// number shows the latest value large.
func number(p panel) dashboard.Panel {
	return p.build("stat", stat.Options{
		GraphMode: common.BigValueGraphModeNone, ColorMode: common.BigValueColorModeValue,
		JustifyMode: common.BigValueJustifyModeAuto, TextMode: common.BigValueTextModeValue, Orientation: common.VizOrientationAuto,
		ReduceOptions:          common.ReduceDataOptions{Calcs: []string{"lastNotNull"}, Values: new(false), Fields: new("")},
		PercentChangeColorMode: common.PercentChangeColorModeStandard,
	}, nil, p.instantNumber())
}

// column is a column of a table, the result of one query.
type column struct {
	query
	name       string
	unit       string
	thresholds []dashboard.Threshold
	maps       map[string]dashboard.ValueMappingResult
}

// rows is a table with the latest values: the labels by which all queries group, then a column for each query.
func rows(p panel, columns []column, hide ...string) dashboard.Panel {
	exclude, index := map[string]bool{"Time": true}, map[string]int{"target": 0, "model": 1, "rung": 2, "context": 3}
	for _, h := range hide {
		exclude[h] = true
	}
	for i, c := range columns {
		p.queries = append(p.queries, c.query)
		index["Value #"+c.ref] = 10 + i
		properties := []dashboard.DynamicConfigValue{property("displayName", c.name), property("unit", c.unit)}
		if c.thresholds != nil {
			properties = append(properties,
				property("thresholds", dashboard.ThresholdsConfig{Mode: dashboard.ThresholdsModeAbsolute, Steps: c.thresholds}),
				// The older name of the setting, which newer Grafanas translate and older ones do not know otherwise.
				property("custom.displayMode", "color-background"))
		}
		if c.maps != nil {
			properties = append(properties, property("mappings", []dashboard.ValueMapping{{
				ValueMap: &dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: c.maps},
			}}))
		}
		p.overrides = append(p.overrides, override("Value #"+c.ref, properties...))
	}
	p.transforms = []dashboard.DataTransformerConfig{
		transform("merge", map[string]any{}),
		toNumber("context"),
		transform("organize", map[string]any{"excludeByName": exclude, "indexByName": index, "renameByName": map[string]string{}}),
	}
	p.overrides = append(p.overrides, override("context", property("unit", "locale")))
	return p.build("table", table.Options{ShowHeader: true, SortBy: []common.TableSortByFieldState{{DisplayName: "target"}, {DisplayName: "context"}}},
		nil, p.instant())
}

// states draws which state held when.
func states(p panel) dashboard.Panel {
	return p.build("state-timeline", statetimeline.Options{
		ShowValue: common.VisibilityModeNever, RowHeight: 0.8, MergeValues: new(true),
		AlignValue: new(common.TimelineValueAlignmentLeft), Legend: legend(common.LegendPlacementBottom), Tooltip: tooltip(),
	}, statetimeline.FieldConfig{
		FillOpacity: new(uint32(70)), LineWidth: new(uint32(0)), SpanNulls: &statetimeline.BoolOrUint32{Bool: new(false)},
	}, p.ranged(prometheus.PromQueryFormatTimeSeries))
}

// buckets draws a histogram over time.
func buckets(p panel) dashboard.Panel {
	built := p.build("heatmap", heatmap.Options{
		Calculate: new(false), CellGap: new(uint8(1)), ShowValue: common.VisibilityModeNever,
		Color: heatmap.HeatmapColorOptions{
			Mode: new(heatmap.HeatmapColorModeScheme), Scheme: "Oranges", Fill: "dark-orange", Exponent: 0.5, Steps: 64,
			Scale: new(heatmap.HeatmapColorScaleExponential),
		},
		FilterValues: &heatmap.FilterValueRange{Le: new(float32(1e-9))},
		RowsFrame:    &heatmap.RowsHeatmapOptions{Layout: new(common.HeatmapCellLayoutAuto)},
		YAxis:        heatmap.YAxisConfig{Unit: &p.unit, AxisPlacement: new(common.AxisPlacementLeft)},
		Legend:       heatmap.HeatmapLegend{Show: true},
		Tooltip:      heatmap.HeatmapTooltip{Mode: common.TooltipDisplayModeSingle, YHistogram: new(true)},
		Exemplars:    heatmap.ExemplarConfig{Color: "rgba(255,0,255,0.7)"},
	}, heatmap.FieldConfig{ScaleDistribution: linear()}, p.ranged(prometheus.PromQueryFormatHeatmap))
	built.Interval = new(stepWindow)
	return built
}

// words is a text.
func words(title, markdown string, width, height uint32) dashboard.Panel {
	return dashboard.Panel{
		Type: "text", Title: &title, Description: &title, GridPos: &dashboard.GridPos{W: width, H: height},
		Options: text.Options{Mode: text.TextModeMarkdown, Content: markdown},
	}
}
