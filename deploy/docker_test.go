package deploy_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dockerfile is a list of instructions, each a word and the rest.
type dockerfile [][2]string

func readDockerfile(t *testing.T) dockerfile {
	t.Helper()
	var d dockerfile
	text := strings.ReplaceAll(string(read(t, "docker/Dockerfile")), "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		d = append(d, [2]string{word, strings.TrimSpace(rest)})
	}
	return d
}

func (d dockerfile) all(word string) []string {
	var found []string
	for _, i := range d {
		if i[0] == word {
			found = append(found, i[1])
		}
	}
	return found
}

// last is what an instruction says last, "" if it is not there.
func (d dockerfile) last(word string) string {
	if found := d.all(word); len(found) > 0 {
		return found[len(found)-1]
	}
	return ""
}

func TestDockerfile(t *testing.T) {
	d := readDockerfile(t)
	if len(d.all("ADD")) > 0 {
		t.Error("ADD fetches and unpacks; use COPY")
	}
	bases := d.all("FROM")
	for _, base := range bases {
		pinned(t, strings.Fields(strings.TrimPrefix(base, "--platform=$BUILDPLATFORM "))[0])
	}
	if len(bases) != 2 || bases[1] != "gcr.io/distroless/static-debian13:nonroot" {
		t.Errorf("the stages are %q", bases)
	}
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(read(t, "../go.mod")))
	if !strings.Contains(bases[0], "golang:"+language[1]) {
		t.Errorf("%s builds, go.mod wants %s", bases[0], language[1])
	}
	if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(d.last("USER")) {
		t.Errorf("USER %s is not a number above 0", d.last("USER"))
	}
	if d.last("EXPOSE") != port(t) {
		t.Errorf("EXPOSE %s, the program listens on %s", d.last("EXPOSE"), port(t))
	}
	var command []string
	if err := json.Unmarshal([]byte(d.last("CMD")), &command); err != nil {
		t.Fatalf("CMD %s: %v", d.last("CMD"), err)
	}
	checkCommand(t, command)
}

// pinned wants a tag that names a version or a kind.
func pinned(t *testing.T, image string) {
	t.Helper()
	_, tag, _ := strings.Cut(filepath.Base(image), ":")
	if tag == "" || tag == "latest" {
		t.Errorf("image %s has no tag that names a version", image)
	}
}

// ignored tells by the rules of .dockerignore whether a path stays out of the build.
func ignored(rules []string, path string) bool {
	out := false
	for _, rule := range rules {
		pattern, again := strings.CutPrefix(rule, "!")
		expression := strings.NewReplacer(`\*\*/`, `(?:.*/)?`, `\*`, `[^/]*`).Replace(regexp.QuoteMeta(pattern))
		if regexp.MustCompile("^" + expression + "(?:/|$)").MatchString(path) {
			out = !again
		}
	}
	return out
}

// TestImageBuilds copies what the Dockerfile copies, and asks Go whether the program can be built from it.
func TestImageBuilds(t *testing.T) {
	var rules []string
	for line := range strings.Lines(string(read(t, "../.dockerignore"))) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			rules = append(rules, line)
		}
	}
	var wanted []string
	for _, c := range readDockerfile(t).all("COPY") {
		words := strings.Fields(c)
		if !strings.HasPrefix(c, "--from") {
			wanted = append(wanted, words[:len(words)-1]...)
		}
	}
	if slices.Contains(wanted, ".") {
		t.Error("COPY . takes everything")
	}
	src := t.TempDir()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		path = filepath.ToSlash(strings.TrimPrefix(path, "../"))
		top, _, _ := strings.Cut(path, "/")
		if err != nil || path == ".." || strings.HasPrefix(top, ".") || d.IsDir() {
			return err
		}
		taken := slices.ContainsFunc(wanted, func(source string) bool {
			ok, _ := filepath.Match(source, top)
			return ok
		})
		if !taken || ignored(rules, path) {
			return nil
		}
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata/") {
			t.Errorf("%s has no business in the image", path)
		}
		to := filepath.Join(src, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, read(t, filepath.Join("..", path)), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-deps", ".")
	list.Dir = src
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := list.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

type composeFile struct {
	Name     string
	Hardened hardened `yaml:"x-hardened"`
	Services map[string]composeService
	Volumes  map[string]any
}

type hardened struct {
	Restart     string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
}

type composeService struct {
	hardened    `yaml:",inline"`
	Image       string
	Build       struct{ Context, Dockerfile string }
	Command     []string
	Ports       []string
	Volumes     []string
	Tmpfs       []string
	Environment map[string]string
	NetworkMode string   `yaml:"network_mode"`
	ExtraHosts  []string `yaml:"extra_hosts"`
	MemLimit    string   `yaml:"mem_limit"`
}

func TestCompose(t *testing.T) {
	c := decodeFile[composeFile](t, "docker/compose.yml")
	var published []string
	for name, s := range c.Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.SecurityOpt) == 0 {
			t.Errorf("%s is not confined: %+v", name, s.hardened)
		}
		if s.Build.Context == "" {
			pinned(t, s.Image)
		}
		published = append(published, s.Ports...)
		for _, volume := range s.Volumes {
			source, rest, _ := strings.Cut(volume, ":")
			if _, named := c.Volumes[source]; named {
				continue
			}
			if _, err := os.Stat(filepath.Join("docker", source)); err != nil || !strings.HasSuffix(rest, ":ro") {
				t.Errorf("%s mounts %s: %v", name, volume, err)
			}
		}
	}
	for _, mapping := range published {
		if !strings.HasPrefix(mapping, "127.0.0.1:") {
			t.Errorf("%s can be reached from outside", mapping)
		}
	}
	if !slices.Contains(published, "127.0.0.1:"+port(t)+":"+port(t)) {
		t.Errorf("the exporter's port is not among %q", published)
	}
	exporter := c.Services["longctx_exporter"]
	if _, err := os.Stat(filepath.Join("docker", exporter.Build.Context, exporter.Build.Dockerfile)); err != nil {
		t.Error(err)
	}
	for _, flag := range []string{"--demo", "--config.file=" + strings.Split(exporter.Volumes[0], ":")[1]} {
		command := slices.Clone(exporter.Command)
		for i := range command {
			command[i] = strings.ReplaceAll(command[i], "${LONGCTX_FLAG:---demo}", flag)
		}
		checkCommand(t, command)
	}
	loadConfig(t, "docker/longctx.yml")
}

// provisioningFile is what Grafana reads from a file of data sources or of dashboards, as far as it is used here.
type provisioningFile struct {
	APIVersion  int `yaml:"apiVersion"`
	Datasources []struct {
		Name, Type, Access, URL string
		JSONData                struct {
			TimeInterval string `yaml:"timeInterval"`
		} `yaml:"jsonData"`
	}
	Providers []struct {
		Name, Folder, Type    string
		DisableDeletion       bool `yaml:"disableDeletion"`
		AllowUIUpdates        bool `yaml:"allowUiUpdates"`
		UpdateIntervalSeconds int  `yaml:"updateIntervalSeconds"`
		Options               struct{ Path string }
	}
}

// TestProvisioning wants Grafana to find what is mounted, and localhost in the configurations to be everybody's.
func TestProvisioning(t *testing.T) {
	services := decodeFile[composeFile](t, "docker/compose.yml").Services
	for name, s := range services {
		if name != "prometheus" && s.NetworkMode != "service:prometheus" {
			t.Errorf("%s has another localhost than prometheus", name)
		}
	}
	mounted := map[string]string{}
	for _, volume := range services["grafana"].Volumes {
		parts := strings.Split(volume, ":")
		mounted[parts[1]] = parts[0]
	}
	files, err := filepath.Glob("../grafana/provisioning/*/*.y*ml")
	if err != nil || len(files) == 0 || mounted["/etc/grafana/provisioning"] != "../../grafana/provisioning" {
		t.Fatalf("provisioning: %q, mounted %v, %v", files, mounted, err)
	}
	found := 0
	for _, file := range files {
		p := decodeFile[provisioningFile](t, file)
		if p.APIVersion != 1 {
			t.Errorf("%s is of version %d", file, p.APIVersion)
		}
		for _, d := range p.Datasources {
			if found++; d.URL != "http://localhost:9090" {
				t.Errorf("%s asks %s", file, d.URL)
			}
		}
		for _, provider := range p.Providers {
			if found++; mounted[provider.Options.Path] != "../../grafana/dashboards" {
				t.Errorf("%s reads %s, mounted are %v", file, provider.Options.Path, mounted)
			}
		}
	}
	if found != 2 {
		t.Errorf("%d sources and providers", found)
	}
}
