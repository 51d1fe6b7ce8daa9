package prometheus

import (
	"os"
	"testing"

	"go.yaml.in/yaml/v3"
)

// rulesFile is a file of rules.
type rulesFile struct {
	Groups []group `yaml:"groups"`
}

type group struct {
	Name     string `yaml:"name"`
	Interval string `yaml:"interval"`
	Rules    []rule `yaml:"rules"`
}

type rule struct {
	Record      string            `yaml:"record,omitempty"`
	Alert       string            `yaml:"alert,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	KeepFiring  string            `yaml:"keep_firing_for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

// name is the name of the alert or of the recorded series.
func (r rule) name() string { return r.Alert + r.Record }

// find is the rule of that name, or one without a name.
func (f rulesFile) find(name string) rule {
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			if r.name() == name {
				return r
			}
		}
	}
	return rule{}
}

// readRules reads the rules.
func readRules(t *testing.T) rulesFile {
	t.Helper()
	text, err := os.ReadFile("longctx.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var f rulesFile
	if err := yaml.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	return f
}
