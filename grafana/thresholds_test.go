package grafana

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// rule is a rule of Prometheus, as far as the dashboards lean on it.
type rule struct {
	Record string `yaml:"record"`
	Alert  string `yaml:"alert"`
	Expr   string `yaml:"expr"`
}

// rulesByName are all rules.
func rulesByName(t *testing.T) map[string]rule {
	t.Helper()
	text, err := os.ReadFile("../deploy/prometheus/longctx.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Groups []struct {
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	all := map[string]rule{}
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			all[r.Record+r.Alert] = r
		}
	}
	return all
}

// A colour is where an alert fires, or the dashboard contradicts the page that woke someone.
func TestThresholdsAreThoseOfTheRules(t *testing.T) {
	rules := rulesByName(t)
	for _, tt := range []struct {
		rule, text string
		number     float64
	}{
		{"LongCtxStepTimeGrowth", ":growth > %g", stepGrowthWarns},
		{"LongCtxStepTimeGrowthWide", ":growth > %g", stepGrowthPages},
		{"LongCtxDeployRegression", `{baseline="previous_deploy"}) > %g`, deployGrowth},
		{"LongCtxStepTimeSuperlinear", stepExpectedMax + " > %g", bendWarns},
		{"LongCtxNoisyMeasurement", stepSpread + ") > %g", noisySpread},
		{"LongCtxBudgetExhausted", budgetUsed + ") >= %g", budgetSpent},
		{"LongCtxOverdue", "> %g * max without (instance, pod) (" + probeEffective, lateIntervals},
		{"LongCtxOverdue", probeEffective + ") + %g", lateSeconds},
		{"LongCtxStepSlopeGrowth", "> %g * abs(" + slopeMedian + ")", lineGrowthWarns},
		{"LongCtxStepInterceptGrowth", "> %g * abs(" + interceptMedian + ")", lineGrowthWarns},
		{"LongCtxPrefillThroughputDrop", "/ " + prefillMedian + " < %g", prefillDropWarns},
		{"LongCtxAcceptanceCollapse", acceptFresh + " < %g * " + acceptMedian, acceptDropWarns},
		{"LongCtxAcceptanceCollapse", acceptFresh + " < %g and", acceptFloor},
		{"LongCtxFailing", failuresInARow + ") >= %g", failuresWarn},
		{"LongCtxWrongAnswer", needleInARow + ") >= %g", missesWarn},
		{"LongCtxNoCleanMeasurement", "> %g * max without (instance, pod) (" + probeEffective, missingIntervals},
		{stepFresh, "<= %g * " + probeEffective, staleIntervals},
		{slopeFresh, stepFitRungs + " >= %g", judgedRungs},
		{interceptFresh, stepFitRungs + " >= %g", judgedRungs},
	} {
		expr := strings.Join(strings.Fields(rules[tt.rule].Expr), " ")
		if want := fmt.Sprintf(tt.text, tt.number); !strings.Contains(expr, want) {
			t.Errorf("%s has no %q, which the dashboards take from it:\n%s", tt.rule, want, expr)
		}
	}
}
