package grafana

import (
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

const (
	fleetUID       = "longctx-fleet"
	contextUID     = "longctx-context"
	speculationUID = "longctx-speculation"
	probesUID      = "longctx-probes"

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
func firing(matchers ...string) string {
	all := append([]string{ourAlerts, `job=~"$job|",model=~"$model|",target=~"$target|"`}, matchers...)
	return alertsSeries + "{" + strings.Join(all, ",") + "}"
}

// deploys are the times at which targets were first seen to run what they run, with what that is. Where two exporters tell of one
// target, either will do.
func deploys() string {
	const what = "server_version, attention_backend, spec_algorithm, deploy"
	return joined(ofTarget(targetDeployTime)) + " * on (target, model) group_left (" + what + ") topk by (target, model) (1, " +
		"max by (target, model, " + what + ") (" + ofTarget(targetInfo) + "))"
}

func annotations() []dashboard.AnnotationQuery {
	return []dashboard.AnnotationQuery{
		{
			Name: "Alerts", Enable: true, IconColor: red, Datasource: datasource(), Expr: new(firing()),
			Step: new("1m"), TitleFormat: new("{{alertname}}"), TextFormat: new("{{target}} {{rung}}"), TagKeys: new("severity"),
		},
		{
			Name: "Deploys", Enable: true, IconColor: "purple", Datasource: datasource(),
			Expr: new(deploys() + " * 1000"), UseValueForTime: new(true),
			Step: new("1m"), TitleFormat: new("{{target}} was deployed"), TextFormat: new("{{server_version}} {{attention_backend}} {{spec_algorithm}}"),
			TagKeys: new("deploy"),
		},
		{
			// By its own start, not by a change: an exporter that comes back elsewhere is a new series, which never changed.
			Name: "Exporter restarts", Enable: true, IconColor: "blue", Datasource: datasource(),
			Expr: new(processStart + `{job=~"$job"} * 1000`), UseValueForTime: new(true),
			Step: new("1m"), TitleFormat: new("Exporter started"), TextFormat: new("{{instance}}"), TagKeys: new("job"),
		},
	}
}

// toDashboards are links from a row of a table to its target's dashboards.
func toDashboards() dashboard.DynamicConfigValue {
	const url = "/d/%s?${datasource:queryparam}&${job:queryparam}&var-model=${__data.fields.model}&var-target=${__data.fields.target}&${__url_time_range}"
	link := func(title, uid string) map[string]string {
		return map[string]string{"title": title, "url": fmt.Sprintf(url, uid)}
	}
	return property("links", []map[string]string{
		link("Long context of this target", contextUID), link("Speculation of this target", speculationUID),
		link("How this target is measured", probesUID),
	})
}
