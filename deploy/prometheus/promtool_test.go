package prometheus

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var (
	promtoolPath   = flag.String("promtool", "../../.build/bin/promtool", "promtool to check and test the rules with")
	oldestPromtool = flag.String("oldest-promtool", "../../.build/bin/promtool-2.42.0", "promtool of the oldest Prometheus that the rules are for")
	update         = flag.Bool("update", false, "write the unit tests")
)

// promtool is the path of the tool; without it the rules are not tested, which is a failure.
func promtool(t *testing.T) string { return tool(t, "promtool", *promtoolPath) }

// promtools are those of both generations of Prometheus, which read the same rules and configuration.
func promtools(t *testing.T) map[string]string {
	return map[string]string{"newest": promtool(t), "oldest": tool(t, "oldest-promtool", *oldestPromtool)}
}

func tool(t *testing.T, name, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("promtool is missing, so the rules cannot be tested (%v): run `make tools`, or give its path with -args -%s=PATH", err, name)
	}
	return path
}

// command runs promtool on one core, for as many run at once as there are.
func command(tool string, args ...string) *exec.Cmd {
	c := exec.Command(tool, args...)
	c.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=800")
	return c
}

func TestRulesAndConfigurationAreValid(t *testing.T) {
	for generation, tool := range promtools(t) {
		for _, args := range [][]string{
			{"check", "rules", "--lint=all", "--lint-fatal", "longctx.rules.yml"},
			{"check", "config", "prometheus.yml"},
		} {
			if out, err := command(tool, args...).CombinedOutput(); err != nil {
				t.Errorf("%s promtool %v: %v\n%s", generation, args, err, out)
			}
		}
	}
}

// The alerts on the exporter itself look for this job, and the rest is silent where the rules are not loaded.
func TestConfigurationFitsTheRules(t *testing.T) {
	text, err := os.ReadFile("prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Rules []string `yaml:"rule_files"`
		Jobs  []struct {
			Name string `yaml:"job_name"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(c.Rules, "longctx.rules.yml") || len(c.Jobs) != 1 || !strings.HasPrefix(c.Jobs[0].Name, "longctx") {
		t.Errorf("rules %q, jobs %+v", c.Rules, c.Jobs)
	}
}

// The committed files are what the scenarios say, so that promtool alone can run them.
func TestUnitTestsAreCurrent(t *testing.T) {
	rules := readRules(t)
	for _, s := range suites() {
		want, err := s.encode(rules, "../longctx.rules.yml")
		if err != nil {
			t.Fatal(err)
		}
		want = append([]byte("# Written by `go generate ./deploy/prometheus` from its scenarios.\n"), want...)
		file := filepath.Join("tests", s.name+".yml")
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the scenarios say (%v): run `go generate ./deploy/prometheus`", file, err)
		}
	}
}

func TestUnits(t *testing.T) {
	for generation, tool := range promtools(t) {
		for _, s := range suites() {
			t.Run(generation+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				if out, err := command(tool, "test", "rules", filepath.Join("tests", s.name+".yml")).CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}
