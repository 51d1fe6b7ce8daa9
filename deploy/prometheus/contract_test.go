package prometheus

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"longctx_exporter/collector"
)

// alerts are the alerts that there must be.
func alerts() []string {
	return []string{
		"LongCtxStepTimeGrowth", "LongCtxStepTimeGrowthWide", "LongCtxStepSlopeGrowth", "LongCtxStepInterceptGrowth",
		"LongCtxPrefillThroughputDrop", "LongCtxAcceptanceCollapse", "LongCtxFailing", "LongCtxNoCleanMeasurement",
		"LongCtxStepTimeSuperlinear", "LongCtxRungUnreachable", "LongCtxContextLimitShrank", "LongCtxContextExceedsKVPool",
		"LongCtxDeployRegression", "LongCtxStateNotSaved", "LongCtxWrongAnswer",
		"LongCtxBudgetExhausted", "LongCtxNoisyMeasurement", "LongCtxEngineMetricsDown",
		"LongCtxOverdue", "LongCtxExporterDown", "LongCtxExporterAbsent", "LongCtxConfigReloadFailed",
	}
}

// Rules that look back five minutes miss what is recorded less often than every two.
func TestGroupsRunOftenEnough(t *testing.T) {
	for _, g := range readRules(t).Groups {
		if d, err := time.ParseDuration(g.Interval); err != nil || d <= 0 || d > 2*minute {
			t.Errorf("group %s runs every %q, want 2m or less", g.Name, g.Interval)
		}
	}
}

func TestAlertsSayWhatAndWhereAndWhatToDo(t *testing.T) {
	runbooks, err := os.ReadFile("../../RUNBOOKS.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			names = append(names, r.Alert)
			if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
				t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
			}
			for _, name := range []string{"summary", "description"} {
				if text := r.Annotations[name]; !strings.HasSuffix(text, ".") {
					t.Errorf("%s: %s %q is no sentence", r.Alert, name, text)
				}
			}
			if got, want := r.Annotations["runbook_url"], RunbookBase+strings.ToLower(r.Alert); got != want {
				t.Errorf("%s: runbook_url %q, want %q", r.Alert, got, want)
			}
			section := sectionOf(string(runbooks), r.Alert)
			for _, part := range []string{"**What it means.**", "**First checks.**", "**When to ignore it.**"} {
				if !strings.Contains(section, part) {
					t.Errorf("RUNBOOKS.md: the section %s has no %s", r.Alert, part)
				}
			}
		}
	}
	slices.Sort(names)
	if want := slices.Sorted(slices.Values(alerts())); !slices.Equal(names, want) {
		t.Errorf("alerts are %v, want %v", names, want)
	}
}

// The README lists the alerts, each in the line of its severity.
func TestReadmeListsTheAlerts(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			_, line, found := strings.Cut(string(readme), "| "+r.Labels["severity"]+" | ")
			line, _, _ = strings.Cut(line, "\n")
			if link := "[" + strings.TrimPrefix(r.Alert, "LongCtx") + "](RUNBOOKS.md#" + strings.ToLower(r.Alert) + ")"; !found || !strings.Contains(line, link) {
				t.Errorf("README.md does not list %s under %s", link, r.Labels["severity"])
			}
		}
	}
}

// sectionOf is the section of markdown under a heading of the second level.
func sectionOf(text, heading string) string {
	_, section, _ := strings.Cut(text, "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

var (
	quoted    = regexp.MustCompile(`"[^"]*"`)
	names     = regexp.MustCompile(`\b(?:longctx_[a-z0-9_]+|(?:target|target_context):[a-z0-9_:]*[a-z0-9]|process_[a-z_]+|up)\b`)
	matchers  = regexp.MustCompile(`([a-z_:]*[a-z_])\{([^}]*)\}`)
	groupings = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right) \(([^)]*)\)`)
	label     = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	templated = regexp.MustCompile(`\$labels\.([a-z_]+)`)
)

// exported are the exported and the recorded series with the labels that the exporter gives them.
func exported(t *testing.T, rules rulesFile) map[string][]string {
	t.Helper()
	all := map[string][]string{"up": nil}
	for _, m := range collector.Catalogue() {
		all[m.Name] = m.Labels
	}
	process := collector.NewProcessRegistry()
	collector.NewReloads(process)
	collector.NewSaves(process, func() (time.Time, int) { return time.Now(), 0 })
	families, err := process.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		all[f.GetName()] = nil
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				all[r.Record] = nil
			}
		}
	}
	return all
}

// A rule on a series that is not there is silent for good, and nothing else tells.
func TestRulesUseWhatIsExported(t *testing.T) {
	rules := readRules(t)
	series := exported(t, rules)
	scraped := []string{"job", "instance", "pod"}
	labels := slices.Clone(scraped)
	for _, of := range series {
		labels = append(labels, of...)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			expr := quoted.ReplaceAllString(r.Expr, `""`)
			for _, name := range names.FindAllString(expr, -1) {
				if _, ok := series[name]; !ok {
					t.Errorf("%s: nobody exports or records %s", r.name(), name)
				}
			}
			for _, m := range matchers.FindAllStringSubmatch(expr, -1) {
				for _, l := range label.FindAllStringSubmatch(m[2], -1) {
					if !slices.Contains(series[m[1]], l[1]) && !slices.Contains(scraped, l[1]) {
						t.Errorf("%s: %s has no label %s", r.name(), m[1], l[1])
					}
				}
			}
			for _, l := range labelsUsed(r, expr) {
				if !slices.Contains(labels, l) {
					t.Errorf("%s: no series has the label %s", r.name(), l)
				}
			}
		}
	}
}

// labelsUsed are the labels by which a rule groups and joins, and those in its texts.
func labelsUsed(r rule, expr string) []string {
	var all []string
	for _, list := range groupings.FindAllStringSubmatch(expr, -1) {
		all = append(all, strings.FieldsFunc(list[1], func(c rune) bool { return c == ',' || c == ' ' })...)
	}
	for _, l := range templated.FindAllStringSubmatch(r.Annotations["summary"]+r.Annotations["description"], -1) {
		all = append(all, l[1])
	}
	return all
}

func TestRunbooksNameWhatIsExported(t *testing.T) {
	runbooks, err := os.ReadFile("../../RUNBOOKS.md")
	if err != nil {
		t.Fatal(err)
	}
	series := exported(t, readRules(t))
	for _, name := range names.FindAllString(string(runbooks), -1) {
		if _, ok := series[name]; !ok && strings.HasPrefix(name, "longctx_") && name != "longctx_exporter" {
			t.Errorf("RUNBOOKS.md: nobody exports or records %s", name)
		}
	}
}
