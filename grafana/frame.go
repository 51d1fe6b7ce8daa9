package grafana

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

const (
	fleetUID   = "longctx-fleet"
	contextUID = "longctx-context"

	tag = "longctx"

	// schemaVersion is that of Grafana 9.0. Newer Grafanas translate older versions, and none translates back.
	schemaVersion = 36
)

// frame makes a dashboard: what both share.
func frame(uid, title, description string, variables []dashboard.VariableModel, rows []row) Dashboard {
	return Dashboard{
		Uid: &uid, Title: &title, Description: &description, Tags: []string{tag},
		Editable: new(false), GraphTooltip: new(dashboard.DashboardCursorSyncCrosshair), Timezone: new("browser"),
		Time: &dashboard.DashboardDashboardTime{From: "now-24h", To: "now"}, Refresh: new("1m"),
		Timepicker:    &dashboard.TimePickerConfig{},
		SchemaVersion: schemaVersion,
		Templating:    dashboard.DashboardDashboardTemplating{List: variables},
		Annotations:   dashboard.AnnotationContainer{List: annotations()},
		Links: []dashboard.DashboardLink{{
			Title: "Long context", Type: dashboard.DashboardLinkTypeDashboards, Tags: []string{tag},
			IncludeVars: true, KeepTime: true, Icon: "external link",
		}},
		Panels: layout(rows),
	}
}

// variables are those of a dashboard of one target or of several.
func variables(several bool) []dashboard.VariableModel {
	return []dashboard.VariableModel{
		{
			Type: dashboard.VariableTypeDatasource, Name: "datasource", Label: new("Data source"),
			Query: &dashboard.StringOrMap{String: new("prometheus")}, Hide: new(dashboard.VariableHideDontHide),
		},
		variable("job", "Job", "label_values("+rungContext+", job)", true),
		variable("model", "Model", `label_values(`+rungContext+`{job=~"$job"}, model)`, true),
		variable("target", "Target", `label_values(`+rungContext+`{job=~"$job",model=~"$model"}, target)`, several),
		variable("rung", "Rung", `label_values(`+rungContext+`{`+targetSelector+`}, rung)`, true),
	}
}

// variable has the values of a label, read anew with each range of time.
func variable(name, label, values string, several bool) dashboard.VariableModel {
	v := dashboard.VariableModel{
		Type: dashboard.VariableTypeQuery, Name: name, Label: &label, Datasource: datasource(), Definition: &values,
		Query:   &dashboard.StringOrMap{Map: map[string]any{"query": values, "refId": "values of " + name}},
		Refresh: new(dashboard.VariableRefreshOnTimeRangeChanged), Sort: new(dashboard.VariableSortNumericalAsc),
		Multi: &several, IncludeAll: &several, Hide: new(dashboard.VariableHideDontHide),
	}
	if several {
		v.AllValue = new(".+")
		v.Current = &dashboard.VariableOption{
			Selected: new(true),
			Text:     dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value:    dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		}
	}
	return v
}

// firing selects the alerts of what is shown. An exporter that is down has no target, and one that is absent no job.
func firing() string {
	return alertsSeries + "{" + ourAlerts + `,job=~"$job|",model=~"$model|",target=~"$target|"}`
}

func annotations() []dashboard.AnnotationQuery {
	return []dashboard.AnnotationQuery{
		{
			Name: "Alerts", Enable: true, IconColor: red, Datasource: datasource(), Expr: new(firing()),
			Step: new("1m"), TitleFormat: new("{{alertname}}"), TextFormat: new("{{target}} {{rung}}"), TagKeys: new("severity"),
		},
		{
			// By its own start, not by a change: an exporter that comes back elsewhere is a new series, which never changed.
			Name: "Exporter restarts", Enable: true, IconColor: "blue", Datasource: datasource(),
			Expr: new(processStart + `{job=~"$job"} * 1000`), UseValueForTime: new(true),
			Step: new("1m"), TitleFormat: new("Exporter started"), TextFormat: new("{{instance}}"), TagKeys: new("job"),
		},
	}
}

// toContext is a link from a row of a table to its target's dashboard.
func toContext() dashboard.DynamicConfigValue {
	const url = "/d/%s?${datasource:queryparam}&${job:queryparam}&var-model=${__data.fields.model}&var-target=${__data.fields.target}&${__url_time_range}"
	return property("links", []map[string]string{{"title": "Long context of this target", "url": fmt.Sprintf(url, contextUID)}})
}
