package deploy_test

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// The types hold the fields that the manifests use and no others, so that a field in the wrong place does not decode.
type (
	manifest[S any] struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct {
			Name, Namespace string
			Labels          map[string]string
		}
		Spec S
	}
	deployment = manifest[struct {
		Replicas int
		Strategy struct{ Type string }
		Template struct{ Spec podSpec }
	}]
	podSpec struct {
		AutomountServiceAccountToken  *bool `yaml:"automountServiceAccountToken"`
		EnableServiceLinks            *bool `yaml:"enableServiceLinks"`
		TerminationGracePeriodSeconds int   `yaml:"terminationGracePeriodSeconds"`
		SecurityContext               struct {
			RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
			RunAsUser      int                   `yaml:"runAsUser"`
			RunAsGroup     int                   `yaml:"runAsGroup"`
			FSGroup        int                   `yaml:"fsGroup"`
			SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
		} `yaml:"securityContext"`
		Containers []container
		Volumes    []struct {
			Name      string
			ConfigMap struct{ Name string } `yaml:"configMap"`
			Secret    struct {
				SecretName  string `yaml:"secretName"`
				DefaultMode int    `yaml:"defaultMode"`
				Optional    bool
			}
			EmptyDir struct {
				SizeLimit string `yaml:"sizeLimit"`
			} `yaml:"emptyDir"`
		}
	}
	container struct {
		Name, Image string
		Args        []string
		Env         []struct{ Name, Value string }
		Ports       []struct {
			Name          string
			ContainerPort int `yaml:"containerPort"`
		}
		LivenessProbe   probe `yaml:"livenessProbe"`
		ReadinessProbe  probe `yaml:"readinessProbe"`
		Resources       struct{ Requests, Limits map[string]string }
		SecurityContext struct {
			AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
			ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
			Capabilities             struct{ Drop []string }
		} `yaml:"securityContext"`
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
			ReadOnly  bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	}
	probe struct {
		HTTPGet          struct{ Path, Port string } `yaml:"httpGet"`
		PeriodSeconds    int                         `yaml:"periodSeconds"`
		TimeoutSeconds   int                         `yaml:"timeoutSeconds"`
		FailureThreshold int                         `yaml:"failureThreshold"`
	}
	service = manifest[struct {
		Ports []struct {
			Name       string
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
	}]
	namespace      = manifest[struct{}]
	serviceMonitor = manifest[struct {
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Endpoints []struct {
			Port, Path string
			Interval   time.Duration
		}
	}]
	scrapeConfig = manifest[struct {
		JobName        string                       `yaml:"jobName"`
		MetricsPath    string                       `yaml:"metricsPath"`
		ScrapeInterval time.Duration                `yaml:"scrapeInterval"`
		StaticConfigs  []struct{ Targets []string } `yaml:"staticConfigs"`
	}]
	secret struct {
		manifest[struct{}] `yaml:",inline"`
		Type               string
		StringData         map[string]string `yaml:"stringData"`
	}
	kustomization struct {
		manifest[struct{}] `yaml:",inline"`
		Namespace          string
		Resources          []string
		Labels             []struct {
			Pairs            map[string]string
			IncludeSelectors bool `yaml:"includeSelectors"`
			IncludeTemplates bool `yaml:"includeTemplates"`
		}
		ConfigMapGenerator []struct {
			Name  string
			Files []string
		} `yaml:"configMapGenerator"`
		Images []struct {
			Name    string
			NewName string `yaml:"newName"`
			NewTag  string `yaml:"newTag"`
		}
	}
)

func readDeployment(t *testing.T) deployment {
	t.Helper()
	d := decodeFile[deployment](t, "kubernetes/deployment.yaml")
	if d.APIVersion != "apps/v1" || d.Kind != "Deployment" || len(d.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%s %s with %d containers", d.APIVersion, d.Kind, len(d.Spec.Template.Spec.Containers))
	}
	return d
}

// TestDeploymentIsConfined wants what the restricted level of the pod security standards wants, and more.
func TestDeploymentIsConfined(t *testing.T) {
	d := readDeployment(t)
	pod, c := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
	for what, held := range map[string]bool{
		"one replica, never two at once": d.Spec.Replicas == 1 && d.Spec.Strategy.Type == "Recreate",
		"no token of the API":            pod.AutomountServiceAccountToken != nil && !*pod.AutomountServiceAccountToken,
		"no root":                        pod.SecurityContext.RunAsNonRoot && pod.SecurityContext.RunAsUser > 0,
		"seccomp":                        pod.SecurityContext.SeccompProfile.Type == "RuntimeDefault",
		"no escalation":                  c.SecurityContext.AllowPrivilegeEscalation != nil && !*c.SecurityContext.AllowPrivilegeEscalation,
		"read-only root":                 c.SecurityContext.ReadOnlyRootFilesystem,
		"no capabilities":                slices.Equal(c.SecurityContext.Capabilities.Drop, []string{"ALL"}),
		"no limit on CPU":                c.Resources.Limits["cpu"] == "",
		"time to end":                    pod.TerminationGracePeriodSeconds >= 10,
		"the image's user":               strconv.Itoa(pod.SecurityContext.RunAsUser) == strings.Split(readDockerfile(t).last("USER"), ":")[0],
	} {
		if !held {
			t.Errorf("not so: %s", what)
		}
	}
	if soft, hard := mebibytes(t, strings.TrimSuffix(c.Env[0].Value, "B")), mebibytes(t, c.Resources.Limits["memory"]); c.Env[0].Name != "GOMEMLIMIT" || soft >= hard {
		t.Errorf("GOMEMLIMIT %d MiB is not below the limit of %d MiB", soft, hard)
	}
}

// TestDeploymentFits holds the manifests against the program and against each other.
func TestDeploymentFits(t *testing.T) {
	d, k := readDeployment(t), decodeFile[kustomization](t, "kubernetes/kustomization.yaml")
	pod, c := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
	if c.Ports[0].Name != "metrics" || strconv.Itoa(c.Ports[0].ContainerPort) != port(t) {
		t.Errorf("the container's port is %+v, the program's %s", c.Ports[0], port(t))
	}
	for _, p := range []probe{c.LivenessProbe, c.ReadinessProbe} {
		if p.HTTPGet.Port != c.Ports[0].Name {
			t.Errorf("a probe asks port %s", p.HTTPGet.Port)
		}
	}
	s := decodeFile[service](t, "kubernetes/service.yaml")
	if s.Kind != "Service" || s.Spec.Ports[0].TargetPort != c.Ports[0].Name || strconv.Itoa(s.Spec.Ports[0].Port) != port(t) {
		t.Errorf("the service is %+v", s)
	}
	mounts := map[string]string{}
	for _, m := range c.VolumeMounts {
		mounts[m.Name] = m.MountPath
		if !m.ReadOnly && m.Name != "state" {
			t.Errorf("%s can be written to", m.Name)
		}
	}
	generated := k.ConfigMapGenerator[0]
	if pod.Volumes[0].ConfigMap.Name != generated.Name || checkCommand(t, c.Args) != mounts[pod.Volumes[0].Name]+"/"+generated.Files[0] {
		t.Errorf("the program reads %q, mounted are %v", c.Args, mounts)
	}
	keys := decodeFile[secret](t, "kubernetes/examples/secret.yaml")
	if keys.Metadata.Name != pod.Volumes[1].Secret.SecretName || keys.Metadata.Namespace != k.Namespace || !pod.Volumes[1].Secret.Optional {
		t.Errorf("the secret is %+v, mounted is %+v", keys.Metadata, pod.Volumes[1].Secret)
	}
	for _, target := range loadConfig(t, "kubernetes/"+generated.Files[0]) {
		if a := target.HTTP.Authorization; a != nil {
			entry := strings.TrimPrefix(a.CredentialsFile, mounts[pod.Volumes[1].Name]+"/")
			if keys.StringData[entry] == "" {
				t.Errorf("%s reads its key from %s, which the secret does not hold", target.Name, a.CredentialsFile)
			}
		}
	}
}

func TestScrapedByOperator(t *testing.T) {
	k, s := decodeFile[kustomization](t, "kubernetes/kustomization.yaml"), decodeFile[service](t, "kubernetes/service.yaml")
	m := decodeFile[serviceMonitor](t, "kubernetes/examples/servicemonitor.yaml")
	if d := cmp.Diff(k.Labels[0].Pairs, m.Spec.Selector.MatchLabels); d != "" || m.APIVersion != "monitoring.coreos.com/v1" {
		t.Errorf("%s selects other labels than kustomize sets: %s", m.APIVersion, d)
	}
	if e := m.Spec.Endpoints[0]; e.Port != s.Spec.Ports[0].Name || e.Interval >= 2*time.Minute {
		t.Errorf("endpoint %+v", e)
	}
	sc := decodeFile[scrapeConfig](t, "kubernetes/examples/scrapeconfig.yaml")
	if sc.APIVersion != "monitoring.coreos.com/v1alpha1" || !strings.HasSuffix(sc.Spec.StaticConfigs[0].Targets[0], ":"+port(t)) {
		t.Errorf("scrape config %+v", sc)
	}
	// The alert on a dead exporter looks for jobs by this prefix.
	for _, job := range []string{s.Metadata.Name, sc.Spec.JobName} {
		if !strings.HasPrefix(job, "longctx") {
			t.Errorf("job %s", job)
		}
	}
}

func TestKustomization(t *testing.T) {
	k := decodeFile[kustomization](t, "kubernetes/kustomization.yaml")
	for _, name := range slices.Concat(k.Resources, k.ConfigMapGenerator[0].Files) {
		if _, err := os.Stat("kubernetes/" + name); err != nil {
			t.Error(err)
		}
	}
	n := decodeFile[namespace](t, "kubernetes/namespace.yaml")
	if n.Metadata.Name != k.Namespace || n.Metadata.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("namespace %+v", n.Metadata)
	}
	if k.Images[0].Name != readDeployment(t).Spec.Template.Spec.Containers[0].Image || k.Images[0].NewTag == "latest" {
		t.Errorf("image %+v", k.Images[0])
	}
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Log("no kubectl here: the manifests were not put together")
		return
	}
	out, err := exec.Command(kubectl, "kustomize", "kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	checkBuilt(t, out)
}

// builtDeployment and builtService are with what Kustomize adds.
type (
	builtDeployment = manifest[struct {
		Replicas int
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Strategy struct{ Type string }
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     podSpec
		}
	}]
	builtService = manifest[struct {
		Ports    []map[string]string
		Selector map[string]string
	}]
	configMap struct {
		manifest[struct{}] `yaml:",inline"`
		Data               map[string]string
	}
)

// checkBuilt wants one of each kind, the pods to be found by their labels, and to mount the configuration that was made.
func checkBuilt(t *testing.T, out []byte) {
	t.Helper()
	var kinds []string
	var d builtDeployment
	var s builtService
	var c configMap
	for _, document := range decode[yaml.Node](t, out) {
		text, err := yaml.Marshal(&document)
		if err != nil {
			t.Fatal(err)
		}
		var m struct{ Kind string }
		if err := document.Decode(&m); err != nil {
			t.Fatal(err)
		}
		switch kinds = append(kinds, m.Kind); m.Kind {
		case "ConfigMap":
			c = decode[configMap](t, text)[0]
		case "Deployment":
			d = decode[builtDeployment](t, text)[0]
		case "Service":
			s = decode[builtService](t, text)[0]
		case "Namespace":
			decode[namespace](t, text)
		}
	}
	slices.Sort(kinds)
	if diff := cmp.Diff([]string{"ConfigMap", "Deployment", "Namespace", "Service"}, kinds); diff != "" {
		t.Fatal(diff)
	}
	labels := d.Spec.Template.Metadata.Labels
	for what, selector := range map[string]map[string]string{"deployment": d.Spec.Selector.MatchLabels, "service": s.Spec.Selector} {
		if diff := cmp.Diff(labels, selector); diff != "" || len(labels) == 0 {
			t.Errorf("the %s selects other pods than there are: %s", what, diff)
		}
	}
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.Name == "config" && (v.ConfigMap.Name != c.Metadata.Name || c.Data["longctx.yml"] == "") {
			t.Errorf("the pod mounts %q, made is %q", v.ConfigMap.Name, c.Metadata.Name)
		}
	}
}

// TestDeploymentState keeps the state where the container may write.
func TestDeploymentState(t *testing.T) {
	spec := readDeployment(t).Spec.Template.Spec
	mounted := map[string]string{}
	for _, m := range spec.Containers[0].VolumeMounts {
		if !m.ReadOnly {
			mounted["--storage.path="+m.MountPath] = m.Name
		}
	}
	for _, v := range spec.Volumes {
		for _, arg := range spec.Containers[0].Args {
			if mounted[arg] == v.Name && v.EmptyDir.SizeLimit != "" {
				return
			}
		}
	}
	t.Errorf("the state goes to none of %v", mounted)
}
