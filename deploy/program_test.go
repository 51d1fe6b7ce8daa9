// Package deploy_test holds what is deployed against the program: flags, port, paths and configuration files.
package deploy_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"longctx_exporter/deploy/built"
	"longctx_exporter/prober"
)

// program is the path of the built program.
var program string

func TestMain(m *testing.M) { os.Exit(built.Main(m, &program)) }

// serveHelp is what the program says of its daemon.
func serveHelp(t *testing.T) string {
	t.Helper()
	out, err := exec.Command(program, "serve", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// port is the one on which the program listens by default.
func port(t *testing.T) string {
	t.Helper()
	m := regexp.MustCompile(`--web\.listen-address=:(\d+)`).FindStringSubmatch(serveHelp(t))
	if m == nil {
		t.Fatal("the help names no port")
	}
	return m[1]
}

var flagInHelp = regexp.MustCompile(`--(?:\[no-\])?([a-z][a-z.-]+)`)

// checkCommand checks that the program knows the command and its flags, and gives the configuration file that it names.
func checkCommand(t *testing.T, args []string) (configFile string) {
	t.Helper()
	if len(args) == 0 || args[0] != "serve" {
		t.Fatalf("%q does not begin with serve", args)
	}
	var known []string
	for _, m := range flagInHelp.FindAllStringSubmatch(serveHelp(t), -1) {
		known = append(known, m[1])
	}
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if !slices.Contains(known, name) {
			t.Errorf("the program has no flag %s", arg)
		}
		if name == "config.file" {
			configFile = value
		}
	}
	return configFile
}

// loadConfig checks a configuration file; nothing in it may even be unwise.
func loadConfig(t *testing.T, path string) []prober.Target {
	t.Helper()
	c, err := prober.LoadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.Validate()
	if err != nil || len(v.Warnings()) > 0 {
		t.Fatalf("%s: %v, warnings %q", path, err, v.Warnings())
	}
	return v.Targets()
}

// decode reads every document of a YAML file strictly.
func decode[T any](t *testing.T, text []byte) []T {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var documents []T
	for {
		var document T
		err := decoder.Decode(&document)
		if err == io.EOF { //nolint:errorlint // the decoder's own, never wrapped
			return documents
		}
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, document)
	}
}

func decodeFile[T any](t *testing.T, path string) T {
	t.Helper()
	documents := decode[T](t, read(t, path))
	if len(documents) != 1 {
		t.Fatalf("%s has %d documents", path, len(documents))
	}
	return documents[0]
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestProbedPaths asks the running program for every path that a manifest names.
func TestProbedPaths(t *testing.T) {
	config := filepath.Join(t.TempDir(), "longctx.yml")
	if err := os.WriteFile(config, []byte("targets: [{name: none, url: 'http://127.0.0.1:9'}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	serve := exec.CommandContext(ctx, program, "serve", "--config.file="+config, "--web.listen-address=127.0.0.1:0")
	serve.Cancel = func() error { return serve.Process.Signal(os.Interrupt) }
	stderr, err := serve.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_, _ = io.Copy(io.Discard, stderr)
		if state := serve.Wait(); serve.ProcessState.ExitCode() != 0 {
			t.Errorf("the program ended with %v", state)
		}
	}()
	address := ""
	for lines := bufio.NewScanner(stderr); address == "" && lines.Scan(); {
		if m := regexp.MustCompile(`address=(127\.0\.0\.1:\d+)`).FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
		}
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }() // ends with the program
	container := readDeployment(t).Spec.Template.Spec.Containers[0]
	monitor := decodeFile[serviceMonitor](t, "kubernetes/examples/servicemonitor.yaml")
	scrape := decodeFile[scrapeConfig](t, "kubernetes/examples/scrapeconfig.yaml")
	for _, path := range []string{
		container.LivenessProbe.HTTPGet.Path, container.ReadinessProbe.HTTPGet.Path, monitor.Spec.Endpoints[0].Path, scrape.Spec.MetricsPath,
	} {
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}
}
