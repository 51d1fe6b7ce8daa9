package deploy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

type alertmanagerConfig struct {
	Route        route
	InhibitRules []struct {
		SourceMatchers []string `yaml:"source_matchers"`
		TargetMatchers []string `yaml:"target_matchers"`
		Equal          []string
	} `yaml:"inhibit_rules"`
	Receivers []struct {
		Name           string
		WebhookConfigs []struct{ URL string } `yaml:"webhook_configs"`
	}
}

type route struct {
	Receiver       string
	Matchers       []string
	Routes         []route
	GroupBy        []string      `yaml:"group_by"`
	GroupWait      time.Duration `yaml:"group_wait"`
	GroupInterval  time.Duration `yaml:"group_interval"`
	RepeatInterval time.Duration `yaml:"repeat_interval"`
}

var matcher = regexp.MustCompile(`^([a-z_]+)(=|!=|=~|!~)"([^"]*)"$`)

// matched are the alerts that a list of matchers takes; matchers of other labels than the name take all.
func matched(t *testing.T, matchers, alerts []string) []string {
	t.Helper()
	for _, text := range matchers {
		m := matcher.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("%q is no matcher", text)
		}
		if m[1] != "alertname" {
			continue
		}
		for _, name := range strings.Split(m[3], "|") {
			if !slices.ContainsFunc(alerts, regexp.MustCompile("^(?:"+name+")$").MatchString) {
				t.Errorf("no alert is called %s", name)
			}
		}
		takes := regexp.MustCompile("^(?:" + m[3] + ")$")
		alerts = slices.DeleteFunc(slices.Clone(alerts), func(a string) bool { return takes.MatchString(a) == strings.HasPrefix(m[2], "!") })
	}
	return alerts
}

func TestAlertmanager(t *testing.T) {
	var alerts []string
	for _, m := range regexp.MustCompile(`(?m)^ +- alert: (\S+)$`).FindAllStringSubmatch(string(read(t, "prometheus/longctx.rules.yml")), -1) {
		alerts = append(alerts, m[1])
	}
	c := decodeFile[alertmanagerConfig](t, "alertmanager/alertmanager.yml")
	var receivers []string
	for _, r := range c.Receivers {
		receivers = append(receivers, r.Name)
	}
	for _, r := range append(c.Route.Routes, c.Route) {
		if !slices.Contains(receivers, r.Receiver) {
			t.Errorf("no receiver is called %s", r.Receiver)
		}
		if len(matched(t, r.Matchers, alerts)) == 0 {
			t.Errorf("the route to %s takes no alert", r.Receiver)
		}
	}
	for _, rule := range c.InhibitRules {
		sources, targets := matched(t, rule.SourceMatchers, alerts), matched(t, rule.TargetMatchers, alerts)
		if len(sources) == 0 || len(targets) == 0 {
			t.Errorf("%q inhibits %q: one of them is no alert", rule.SourceMatchers, rule.TargetMatchers)
		}
		for _, source := range sources {
			if slices.Contains(targets, source) {
				t.Errorf("%s inhibits itself", source)
			}
		}
		if !slices.Contains(rule.Equal, "target") {
			t.Errorf("%q silences other targets", rule.SourceMatchers)
		}
	}
}
