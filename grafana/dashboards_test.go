package grafana

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the dashboards")

func file(d Dashboard) string { return filepath.Join("dashboards", *d.Uid+".json") }

func TestCommittedDashboardsAreCurrent(t *testing.T) {
	var want []string
	for _, d := range Dashboards() {
		text, err := Encode(d)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := Encode(d); !bytes.Equal(text, again) {
			t.Errorf("%s is not the same each time", file(d))
		}
		if *update {
			if err := os.WriteFile(file(d), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file(d)); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s is not what this package builds (%v): run `go generate ./grafana`", file(d), err)
		}
		want = append(want, file(d))
	}
	got, err := filepath.Glob("dashboards/*")
	if err != nil {
		t.Fatal(err)
	}
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("dashboards/ has %q, want %q", got, want)
	}
}

// Strict decoding finds options that a panel does not have.
func TestCommittedDashboardsDecode(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	for _, d := range Dashboards() {
		text, err := os.ReadFile(file(d))
		if err != nil {
			t.Fatal(err)
		}
		if err := decode(text); err != nil {
			t.Errorf("%s: %v", file(d), err)
		}
		if misspelt := bytes.Replace(text, []byte(`"spanNulls"`), []byte(`"spanNull"`), 1); decode(misspelt) == nil {
			t.Errorf("%s: a misspelt option is not found", file(d))
		}
		var tree map[string]any
		if err := json.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		if v := tree["schemaVersion"]; v != 36.0 {
			t.Errorf("%s has schema version %v: Grafana 9.0 reads 36, and newer ones translate it", file(d), v)
		}
		for _, key := range []string{"id", "__inputs", "__requires"} {
			if v, ok := tree[key]; ok && v != nil {
				t.Errorf("%s has %s, which provisioning does not take", file(d), key)
			}
		}
	}
}

// decode decodes strictly. Without faults the decoder still returns an error, an empty list of them.
func decode(text []byte) error {
	var d Dashboard
	err := d.UnmarshalJSONStrict(text)
	if faults := (cog.BuildErrors{}); errors.As(err, &faults) && len(faults) == 0 {
		return nil
	}
	return err
}

// The provisioned data source must know how often is scraped, or Grafana chooses steps that are too fine.
func TestProvisioning(t *testing.T) {
	var scrape struct {
		Global struct {
			Interval string `yaml:"scrape_interval"`
		} `yaml:"global"`
	}
	readYAML(t, "../deploy/prometheus/prometheus.yml", &scrape)
	var sources struct {
		Datasources []struct {
			Type     string `yaml:"type"`
			JSONData struct {
				TimeInterval string `yaml:"timeInterval"`
			} `yaml:"jsonData"`
		} `yaml:"datasources"`
	}
	readYAML(t, "provisioning/datasources/longctx.yml", &sources)
	if len(sources.Datasources) != 1 || sources.Datasources[0].Type != "prometheus" ||
		sources.Datasources[0].JSONData.TimeInterval != scrape.Global.Interval {
		t.Errorf("provisioned %+v, want one Prometheus with interval %s", sources.Datasources, scrape.Global.Interval)
	}
	var providers struct {
		Providers []struct {
			Type    string `yaml:"type"`
			Options struct {
				Path string `yaml:"path"`
			} `yaml:"options"`
		} `yaml:"providers"`
	}
	readYAML(t, "provisioning/dashboards/longctx.yml", &providers)
	if len(providers.Providers) != 1 || providers.Providers[0].Type != "file" || providers.Providers[0].Options.Path == "" {
		t.Errorf("provisioned %+v, want one folder of files", providers.Providers)
	}
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// panelsOf are the panels of a dashboard, rows left out.
func panelsOf(d Dashboard) []*dashboard.Panel {
	var all []*dashboard.Panel
	for _, p := range d.Panels {
		if p.Panel != nil {
			all = append(all, p.Panel)
		}
	}
	return all
}

// located is a query with the place where it stands.
type located struct{ where, expr string }

// queriesOf are the queries of a dashboard's panels.
func queriesOf(d Dashboard) []located {
	var all []located
	for _, p := range panelsOf(d) {
		for _, target := range p.Targets {
			q := target.(prometheus.Dataquery)
			all = append(all, located{fmt.Sprintf("%s, %q, %s", *d.Uid, *p.Title, *q.RefId), q.Expr})
		}
	}
	return all
}

// annotationsOf are the queries of its annotations.
func annotationsOf(d Dashboard) []located {
	var all []located
	for _, a := range d.Annotations.List {
		all = append(all, located{*d.Uid + ", annotation " + a.Name, *a.Expr})
	}
	return all
}

// valuesOf are the queries of its variables.
func valuesOf(d Dashboard) []located {
	var all []located
	for _, v := range d.Templating.List {
		if v.Query.Map != nil {
			all = append(all, located{*d.Uid + ", variable " + v.Name, v.Query.Map["query"].(string)})
		}
	}
	return all
}

func TestReadmeListsTheDashboards(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range Dashboards() {
		if !strings.Contains(string(readme), "| `"+*d.Uid+"` | ") {
			t.Errorf("README.md does not list the dashboard %s", *d.Uid)
		}
	}
}

func TestLinksLeadToDashboards(t *testing.T) {
	uids := map[string]bool{}
	for _, d := range Dashboards() {
		uids[*d.Uid] = true
	}
	for _, d := range Dashboards() {
		text, err := Encode(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, after := range strings.Split(string(text), `"/d/`)[1:] {
			if uid, _, _ := strings.Cut(after, "?"); !uids[uid] {
				t.Errorf("%s links to %s, which is no dashboard", *d.Uid, uid)
			}
		}
		if len(d.Links) != 1 || !slices.Contains(d.Links[0].Tags, tag) || !slices.Contains(d.Tags, tag) || !d.Links[0].IncludeVars || !d.Links[0].KeepTime {
			t.Errorf("%s has no link to the others that keeps variables and time: %+v", *d.Uid, d.Links)
		}
	}
}
