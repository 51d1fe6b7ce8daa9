package prometheus

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// watchers are the suites that a change of a rule must break, by the beginning of the rule's name. The first that breaks will do.
func watchers() map[string][]string {
	return map[string][]string{
		"LongCtxStepTimeGrowth":                        {"steps"},
		"LongCtxStepSlopeGrowth":                       {"slope"},
		"LongCtxStepInterceptGrowth":                   {"intercept"},
		"LongCtxPrefillThroughputDrop":                 {"prefill"},
		"LongCtxAcceptanceCollapse":                    {"acceptance"},
		"LongCtxStepTimeSuperlinear":                   {"superlinear"},
		"LongCtxDeployRegression":                      {"deploy", "deployed"},
		"LongCtxWrongAnswer":                           {"answers"},
		"target_context:longctx_needle_found":          {"answers", "recalled"},
		"LongCtxStateNotSaved":                         {"saving"},
		"LongCtxRungUnreachable":                       {"reach"},
		"LongCtxContextLimitShrank":                    {"limit"},
		"LongCtxContextExceedsKVPool":                  {"pool"},
		"LongCtxBudgetExhausted":                       {"info"},
		"LongCtxNoisyMeasurement":                      {"noise"},
		"LongCtxEngineMetricsDown":                     {"info"},
		"target_context:longctx_step_expected_seconds": {"superlinear"},
		"target:longctx_target_max_context_tokens":     {"limit", "advertised"},
		"LongCtxFailing":                               {"failing"},
		"LongCtxNoCleanMeasurement":                    {"unmeasured"},
		"LongCtxStepTimeGrowthWide":                    {"wide"},
		"LongCtxOverdue":                               {"schedule"},
		"LongCtxExporter":                              {"exporter"},
		"LongCtxConfigReloadFailed":                    {"exporter"},
		"target_context:longctx_step_seconds:growth":   {"restarts"},
		"target_context:longctx_step_seconds:median7d": {"usual", "week"},
		"target_context:longctx_prefill_confirmed_tokens_per_second:median7d": {"usual", "week"},
		"target_context:longctx_accept_confirmed_length:median7d":             {"usual", "week"},
		"target:longctx_step_slope_seconds_per_token:median7d":                {"usual", "week"},
		"target:longctx_step_intercept_seconds:median7d":                      {"usual", "week"},
		"target_context:longctx_rung_reachable:max7d":                         {"failing", "memory", "restarts"},
		"target_context:longctx_probe_last_success_timestamp_seconds:max1d":   {"unmeasured", "memory", "restarts"},
		"target_context:": {"stale", "restarts"},
		"target:":         {"slope", "intercept", "restarts"},
	}
}

// mutant is the rules with one of them changed.
type mutant struct {
	rule, change string
	rules        rulesFile
}

// Every rule that is switched off, every number and duration that is moved a little and every condition that is dropped must
// break a unit test, or that test tests nothing.
func TestUnitsTellEveryChangeOfARule(t *testing.T) {
	tool, dir := promtool(t), t.TempDir()
	rules := readRules(t)
	tests := map[string][]byte{}
	for _, s := range suites() {
		text, err := s.encode(rules, s.name+".rules.yml")
		if err != nil {
			t.Fatal(err)
		}
		tests[s.name] = text
	}
	mutants := mutantsOf(rules)
	check := []string{"check", "rules"}
	for i, m := range mutants {
		place := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(place, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range watching(m.rule) {
			text, err := yaml.Marshal(m.rules.only(m.rule + string(tests[name])))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(place, name+".rules.yml"), text)
			write(t, filepath.Join(place, name+".yml"), tests[name])
			check = append(check, filepath.Join(place, name+".rules.yml"))
		}
	}
	// What is no rule at all would break any test.
	if out, err := command(tool, check...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%d changes", len(mutants))
	for i, m := range mutants {
		t.Run(fmt.Sprintf("%s/%d", m.rule, i), func(t *testing.T) {
			t.Parallel()
			for _, name := range watching(m.rule) {
				if command(tool, "test", "rules", filepath.Join(dir, strconv.Itoa(i), name+".yml")).Run() != nil {
					return
				}
			}
			t.Errorf("no unit test tells that %s", m.change)
		})
	}
}

// only leaves the rules that a text names and those that they read: evaluating all of them a week long takes most of the time.
func (f rulesFile) only(text string) rulesFile {
	kept := map[string]bool{}
	for grown := true; grown; {
		grown = false
		for _, g := range f.Groups {
			for _, r := range g.Rules {
				if !kept[r.name()] && strings.Contains(text, r.name()) {
					kept[r.name()], grown = true, true
					text += r.Expr
				}
			}
		}
	}
	left := rulesFile{Groups: slices.Clone(f.Groups)}
	for i, g := range left.Groups {
		left.Groups[i].Rules = slices.DeleteFunc(slices.Clone(g.Rules), func(r rule) bool { return !kept[r.name()] })
	}
	return left
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// watching is which suites watch a rule: those of the longest beginning of its name.
func watching(rule string) []string {
	longest := ""
	all := watchers()
	for beginning := range all {
		if strings.HasPrefix(rule, beginning) && len(beginning) > len(longest) {
			longest = beginning
		}
	}
	return all[longest]
}

// mutantsOf makes all mutants of the rules.
func mutantsOf(rules rulesFile) []mutant {
	var all []mutant
	for g, group := range rules.Groups {
		for i, r := range group.Rules {
			for change, changed := range changes(r) {
				copied := rulesFile{Groups: slices.Clone(rules.Groups)}
				copied.Groups[g].Rules = slices.Clone(group.Rules)
				copied.Groups[g].Rules[i] = changed
				all = append(all, mutant{r.name(), change, copied})
			}
		}
	}
	slices.SortFunc(all, func(a, b mutant) int { return strings.Compare(a.rule+a.change, b.rule+b.change) })
	return all
}

// changes are the ways in which a rule is changed.
func changes(r rule) map[string]rule {
	all := map[string]rule{}
	off := r
	off.Expr = "vector(0) > 1"
	all["the rule is off"] = off
	for change, expr := range exprChanges(r.Expr) {
		changed := r
		changed.Expr = expr
		all[change] = changed
	}
	for _, factor := range []float64{0.75, 1.25} {
		if r.For != "" {
			changed := r
			changed.For = scaled(r.For, factor)
			all[fmt.Sprintf("for is %s, no longer %s", changed.For, r.For)] = changed
		}
		if r.KeepFiring != "" {
			changed := r
			changed.KeepFiring = scaled(r.KeepFiring, factor)
			all[fmt.Sprintf("keep_firing_for is %s, no longer %s", changed.KeepFiring, r.KeepFiring)] = changed
		}
	}
	return all
}

var (
	// numbers are the numbers of an expression that are no part of a name or a duration.
	numbers = regexp.MustCompile(`(?:^|[\s(*])(\d+(?:\.\d+)?(?:e-?\d+)?)(?:$|[\s)])`)
	// durations are ranges and offsets. The resolution of a subquery is a cost and no threshold.
	durations = regexp.MustCompile(`(?:\[|offset )(\d+[dhm])`)
)

// parts are what is replaced in an expression, each place by itself.
func parts() [][2]string {
	return [][2]string{
		{"instance, ", ""},
		{"abs(", "("},
		{`"none|"`, `"none"`},
		{`{job=~"longctx.*"}`, ""},
		{` unless on () up{job=~"longctx.*"} == 0`, ""},
		{"unless target_context:longctx_rung_reachable:max7d == 0", ""},
		{`unless on (target, model) longctx_target_info{spec_algorithm="none"}`, ""},
		{`and on (target, model) longctx_target_info{spec_algorithm!~"none|"}`, ""},
		{"or max without (instance, pod) (longctx_rung_reachable)", ""},
		{"longctx_probe_last_success_timestamp_seconds\n  or ", ""},
		{"unless target_context:longctx_probe_last_success_timestamp_seconds:max1d", ""},
		{"and max without (context, rung) (target_context:longctx_step_seconds:growth) > 1.1", ""},
		{"and max without (instance, pod) (longctx_target_up) == 1", ""},
		{"and max without (instance, pod) (longctx_step_expected_seconds)", ""},
		{"unless time() - longctx_state_last_save_timestamp_seconds < 900", ""},
		{`{baseline="previous_deploy"}`, ""},
		{"unless\n  max without (instance, pod) (longctx_rung_context_tokens)\n  > ignoring (context, rung) group_left () max without (instance, pod) (longctx_target_max_context_tokens)", ""},
	}
}

func exprChanges(expr string) map[string]string {
	all := map[string]string{}
	replace := func(at []int, with string) {
		all[fmt.Sprintf("%s at %d is %s", expr[at[2]:at[3]], at[2], with)] = expr[:at[2]] + with + expr[at[3]:]
	}
	for _, at := range numbers.FindAllStringSubmatchIndex(expr, -1) {
		for _, v := range moved(expr[at[2]:at[3]]) {
			replace(at, v)
		}
	}
	for _, at := range durations.FindAllStringSubmatchIndex(expr, -1) {
		for _, factor := range []float64{0.5, 1.5} {
			replace(at, scaled(expr[at[2]:at[3]], factor))
		}
	}
	for _, part := range parts() {
		for from := 0; ; {
			at := strings.Index(expr[from:], part[0])
			if at < 0 {
				break
			}
			at += from
			from = at + len(part[0])
			all[fmt.Sprintf("%q at %d is %q", part[0], at, part[1])] = expr[:at] + part[1] + expr[from:]
		}
	}
	return all
}

// moved is a number moved a little: counts by one, small numbers and numbers of seconds by a part.
func moved(number string) []string {
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return nil
	}
	write := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	switch {
	case v == 0:
		return []string{"1"}
	case v == float64(int(v)) && v <= 24:
		return []string{write(v - 1), write(v + 1)}
	case v > 24:
		return []string{write(v * 0.8), write(v * 1.2)}
	}
	return []string{write(v * 0.96), write(v * 1.04)}
}

// scaled is a duration times a factor, in whole minutes, away from what it was.
func scaled(duration string, factor float64) string {
	n, _ := strconv.Atoi(duration[:len(duration)-1])
	units := map[string]time.Duration{"m": minute, "h": hour, "d": day}
	minutes := factor * (time.Duration(n) * units[duration[len(duration)-1:]]).Minutes()
	if factor < 1 {
		return fmt.Sprintf("%dm", int(math.Floor(minutes)))
	}
	return fmt.Sprintf("%dm", int(math.Ceil(minutes)))
}

// Every rule has suites that watch it, and they exist.
func TestEveryRuleIsWatched(t *testing.T) {
	known := map[string]bool{}
	for _, s := range suites() {
		known[s.name] = true
	}
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if len(watching(r.name())) == 0 {
				t.Errorf("no suite watches %s", r.name())
			}
		}
	}
	for _, names := range slices.Collect(maps.Values(watchers())) {
		for _, name := range names {
			if !known[name] {
				t.Errorf("there is no suite %s", name)
			}
		}
	}
}
