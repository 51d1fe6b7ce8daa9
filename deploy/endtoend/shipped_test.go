package endtoend_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	shippedRules  = "../prometheus/longctx.rules.yml"
	shippedConfig = "../prometheus/prometheus.yml"
)

type (
	rulesFile struct {
		Groups []ruleGroup `yaml:"groups"`
	}
	ruleGroup struct {
		Name     string `yaml:"name"`
		Interval string `yaml:"interval"`
		Rules    []rule `yaml:"rules"`
	}
	rule struct {
		Record      string            `yaml:"record,omitempty"`
		Alert       string            `yaml:"alert,omitempty"`
		Expr        string            `yaml:"expr"`
		For         string            `yaml:"for,omitempty"`
		KeepFiring  string            `yaml:"keep_firing_for,omitempty"`
		Labels      map[string]string `yaml:"labels,omitempty"`
		Annotations map[string]string `yaml:"annotations,omitempty"`
	}
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func parseRules(t *testing.T, text string) rulesFile {
	t.Helper()
	var f rulesFile
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&f); err != nil {
		t.Fatal(err)
	}
	return f
}

// fresh are the shipped rules that record fresh values, on which those of the week before rest.
func fresh(t *testing.T) []rule {
	t.Helper()
	for _, g := range parseRules(t, read(t, shippedRules)).Groups {
		if g.Name == "longctx.fresh" {
			return g.Rules
		}
	}
	t.Fatalf("%s has no group longctx.fresh", shippedRules)
	return nil
}

var minutes = regexp.MustCompile(`(?m)^(\s+(?:interval|for|keep_firing_for): )(\d+)m$`)

// lapse makes a second of each minute that rules wait: how often they are evaluated, and how long alerts wait and are held. What
// they look at stays.
func lapse(rules string) string { return minutes.ReplaceAllString(rules, "${1}${2}s") }

func TestLapseChangesWaitsAndNothingElse(t *testing.T) {
	text := read(t, shippedRules)
	shipped, lapsed := parseRules(t, text), parseRules(t, lapse(text))
	waits := 0
	// same tells whether one wait is a sixtieth of the other, and makes them equal.
	same := func(wait, short *string) bool {
		if *wait == "" && *short == "" {
			return true
		}
		long, err := time.ParseDuration(*wait)
		quick, quickErr := time.ParseDuration(*short)
		ok := err == nil && quickErr == nil && long == 60*quick && quick > 0
		waits++
		*short = *wait
		return ok
	}
	for i, g := range shipped.Groups {
		if !same(&g.Interval, &lapsed.Groups[i].Interval) {
			t.Errorf("the interval of %s is not a sixtieth of what it was", g.Name)
		}
		for j, r := range g.Rules {
			if quick := &lapsed.Groups[i].Rules[j]; !same(&r.For, &quick.For) || !same(&r.KeepFiring, &quick.KeepFiring) {
				t.Errorf("the waits of %s%s are not a sixtieth of what they were", r.Record, r.Alert)
			}
		}
	}
	if !reflect.DeepEqual(shipped, lapsed) || waits == 0 {
		t.Errorf("more than the %d waits changed", waits)
	}
}

// adapted is the shipped scrape configuration as it is here: the exporter's address, the place of the rules, how often, and the
// lines for Prometheus 3 that it has as comments.
func adapted(t *testing.T, exporter, rules string) string {
	t.Helper()
	text := read(t, shippedConfig)
	for _, change := range [][2]string{
		{"scrape_interval: 15s", "scrape_interval: 1s"},
		{"evaluation_interval: 1m", "evaluation_interval: 1s"},
		{"- longctx.rules.yml", "- " + rules},
		{"localhost:10430", exporter},
		{"# scrape_native_histograms: true", "scrape_native_histograms: true"},
		{"# always_scrape_classic_histograms: true", "always_scrape_classic_histograms: true"},
	} {
		if strings.Count(text, change[0]) != 1 {
			t.Fatalf("%s has %q %d times, want once", shippedConfig, change[0], strings.Count(text, change[0]))
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	return text
}
