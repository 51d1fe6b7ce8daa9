package prober

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/common/config"
	"go.yaml.in/yaml/v3"

	"longctx_exporter/prober/inference"
	"longctx_exporter/prober/state"
)

// DefaultLadder is the ladder of targets that configure none.
func DefaultLadder() Ladder {
	return Ladder{1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 192 << 10}
}

// DefaultInterval is the interval of a rung where none is configured.
func DefaultInterval(r Rung) time.Duration {
	switch {
	case r >= 192<<10:
		return 4 * time.Hour
	case r >= 128<<10:
		return time.Hour
	case r >= 64<<10:
		return 30 * time.Minute
	}
	return 5 * time.Minute
}

// mostConfig bounds a configuration file in bytes.
const mostConfig = 16 << 20

// LoadConfig reads a configuration file, which must be a regular one of at most 16 MiB; relative paths in it are relative to its folder.
func LoadConfig(path string) (*Config, error) {
	b, err := state.ReadFile(path, mostConfig)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	c, err := ParseConfig(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	dir := filepath.Dir(path)
	for _, t := range c.Targets {
		(*config.HTTPClientConfig)(t.HTTP).SetDirectory(dir)
		if t.Metrics != nil {
			(*config.HTTPClientConfig)(t.Metrics.HTTP).SetDirectory(dir)
		}
		for i := range t.Logs {
			if t.Logs[i].Path != "" {
				t.Logs[i].Path = config.JoinDir(dir, t.Logs[i].Path)
			}
		}
	}
	return c, nil
}

// ParseConfig reads a configuration file's text. Its errors are one sentence that names the line.
func ParseConfig(b []byte) (*Config, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(b, &root); err != nil {
		return nil, plainYAMLError(err)
	}
	if line := emptyLadder(&root); line > 0 {
		return nil, fmt.Errorf("line %d: the ladder is empty: list at least one context length, like [1k, 8k]", line)
	}
	var c Config
	decoder := yaml.NewDecoder(bytes.NewReader(b))
	decoder.KnownFields(true)
	if err := decoder.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return nil, plainYAMLError(err)
	}
	var next yaml.Node
	if err := decoder.Decode(&next); err == nil {
		return nil, fmt.Errorf("line %d: a second YAML document begins here; write one", next.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, plainYAMLError(err)
	}
	return &c, nil
}

// emptyLadder is the line of a `ladder` without a value, 0 where there is none: the decoder passes over it in silence,
// and the target would get the full default ladder.
func emptyLadder(n *yaml.Node) int {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && child.Value == "ladder" && n.Content[i+1].ShortTag() == "!!null" {
			return child.Line
		}
		if line := emptyLadder(child); line > 0 {
			return line
		}
	}
	return 0
}

var (
	unknownKey = regexp.MustCompile(`(?s)^(line \d+): field (.*) not found in type .*$`)
	twiceKey   = regexp.MustCompile(`^(line \d+): mapping key (".*") already defined at (line \d+)$`)
	wrongKind  = regexp.MustCompile("(?s)^(line \\d+): cannot unmarshal !!(\\S+)(?: `.*`)? into (.*)$")
)

// plainYAMLError makes one sentence of the decoder's first complaint: no Go types, and no values, which may be secrets.
func plainYAMLError(err error) error {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	if typed := (*yaml.TypeError)(nil); errors.As(err, &typed) && len(typed.Errors) > 0 {
		message = typed.Errors[0]
	}
	if m := unknownKey.FindStringSubmatch(message); m != nil {
		message = fmt.Sprintf("%s: unknown key %q", m[1], m[2])
	} else if m := twiceKey.FindStringSubmatch(message); m != nil {
		message = fmt.Sprintf("%s: key %s is already on %s", m[1], m[2], m[3])
	} else if m := wrongKind.FindStringSubmatch(message); m != nil {
		message = fmt.Sprintf("%s: %s stands where %s is wanted", m[1], kindOfTag(m[2]), kindOfType(m[3]))
	}
	return errors.New(strings.ToValidUTF8(message, "\uFFFD"))
}

func kindOfTag(tag string) string {
	switch tag {
	case "seq":
		return "a list"
	case "map":
		return "a mapping"
	}
	return "a single value"
}

func kindOfType(name string) string {
	switch {
	case strings.HasPrefix(name, "[]"):
		return "a list"
	case name == "string" || strings.HasSuffix(name, "Dialect") || strings.HasSuffix(name, "API") || strings.HasSuffix(name, "Plan"):
		return "text"
	case name == "bool":
		return "true or false"
	}
	return "a mapping"
}

// ValidatedConfig is a configuration that has passed every check.
type ValidatedConfig struct {
	targets  []Target
	warnings []string
	yaml     []byte
}

// Targets are the targets in the order of the file.
func (v ValidatedConfig) Targets() []Target { return slices.Clone(v.targets) }

// Warnings are sentences about what is allowed but unwise.
func (v ValidatedConfig) Warnings() []string { return slices.Clone(v.warnings) }

// YAML is the configuration as text, each secret as `<secret>`.
func (v ValidatedConfig) YAML() []byte { return slices.Clone(v.yaml) }

// Validate checks everything that needs more than one line to be seen. Its errors are one sentence that names the path.
func (c Config) Validate() (ValidatedConfig, error) {
	var v ValidatedConfig
	if len(c.Targets) == 0 {
		return v, errors.New(`there are no targets: list at least one server under "targets"`)
	}
	names, servers := map[string]int{}, map[string]int{}
	for i, tc := range c.Targets {
		t, warnings, err := tc.resolve(c.ProbeConfig)
		if err != nil {
			return ValidatedConfig{}, fmt.Errorf("targets[%d].%w", i, err)
		}
		if first, again := names[t.Name]; again {
			return ValidatedConfig{}, fmt.Errorf("targets[%d].name %q is already used by targets[%d]", i, t.Name, first)
		}
		names[t.Name] = i
		for _, w := range warnings {
			v.warnings = append(v.warnings, fmt.Sprintf("targets[%d].%s", i, w))
		}
		address := hostPort(t.URL)
		if first, again := servers[address]; again && v.targets[first].Server != t.Server && t.Replica == "" {
			v.warnings = append(v.warnings, fmt.Sprintf(
				"targets[%d].server %q differs from that of targets[%d] though both are at %s: they may be probed at once",
				i, t.Server, first, address))
		} else if !again {
			servers[address] = i
		}
		v.targets = append(v.targets, t)
	}
	var probed Ladder
	for _, t := range v.targets {
		probed = append(probed, t.Ladder...)
	}
	v.warnings = slices.Concat(v.warnings, sharedLogs(v.targets), c.quietWarnings(), c.strayWarnings(probed))
	text, err := yaml.Marshal(c)
	if err != nil {
		return ValidatedConfig{}, fmt.Errorf("writing the configuration: %w", err)
	}
	v.yaml = text
	return v, nil
}

// Target checks a single target, as a command line gives it; a missing name becomes the server's.
func (t TargetConfig) Target() (Target, error) {
	if t.Name == "" && t.URL != "" {
		t.Name = cmp.Or(hostPort(t.URL), "-")
	}
	target, _, err := t.resolve(ProbeConfig{})
	return target, err
}

// resolve applies defaults and checks. Errors and warnings begin with the key.
func (t TargetConfig) resolve(outer ProbeConfig) (Target, []string, error) {
	if t.Name == "" {
		return Target{}, nil, errors.New("name is missing")
	}
	if err := t.checkNames(); err != nil {
		return Target{}, nil, err
	}
	base, err := checkURL("url", t.URL)
	if err != nil {
		return Target{}, nil, err
	}
	if base.RawQuery != "" || base.Fragment != "" {
		return Target{}, nil, errors.New(`url has a query or a fragment; write the base URL alone, and credentials under "http"`)
	}
	ladder := slices.Clone(t.Ladder)
	if len(ladder) == 0 {
		ladder = slices.Clone(outer.Ladder)
	}
	if len(ladder) == 0 {
		ladder = DefaultLadder()
	}
	out := Target{
		Name: t.Name, URL: strings.TrimRight(t.URL, "/"), Server: cmp.Or(t.Server, hostPort(t.URL)), Model: t.Model,
		Dialect: cmp.Or(t.Dialect, inference.Auto), API: cmp.Or(t.API, inference.AutoAPI), Plan: cmp.Or(t.Plan, AutoPlan),
		Replica: t.Replica, ContextLimit: int(t.ContextLimit), Ladder: ladder, Timeout: time.Duration(t.Timeout),
		Budget:       float64(cmp.Or(t.Budget, outer.Budget, 0.02)),
		Precision:    float64(cmp.Or(t.Precision, outer.Precision, 0.03)),
		DecodeTokens: decodeTokens(ladder, t.DecodeTokens, outer.DecodeTokens),
		Intervals:    intervals(ladder, t.Intervals, outer.Intervals),
		Weights:      rungWeights(ladder, t.Weights, outer.Weights),
		QuietHours:   slices.Clone(t.QuietHours),
		Needle:       true,
		SLO:          t.SLO.at(ladder),
	}
	if t.QuietHours == nil {
		out.QuietHours = slices.Clone(outer.QuietHours)
	}
	if plant := cmp.Or(t.Needle, outer.Needle); plant != nil {
		out.Needle = *plant
	}
	if allow := cmp.Or(t.AllowEviction, outer.AllowEviction); allow != nil {
		out.AllowEviction = *allow
	}
	if err := t.checkWords(out); err != nil {
		return Target{}, nil, err
	}
	if out.Logs, err = logSources(t.Logs); err != nil {
		return Target{}, nil, err
	}
	if err := t.connect(&out); err != nil {
		return Target{}, nil, err
	}
	return out, slices.Concat(limitWarnings(out), decodeWarnings(out), t.quietWarnings(), t.strayWarnings(ladder), t.SLO.strayWarnings(ladder)), nil
}

// checkNames checks text that becomes a label or part of a request.
func (t TargetConfig) checkNames() error {
	for _, n := range []struct{ key, text string }{{"name", t.Name}, {"server", t.Server}, {"model", t.Model}, {"replica", t.Replica}} {
		most := 512
		if n.key == "name" {
			most = 128
		}
		if strings.ContainsFunc(n.text, unicode.IsControl) || !utf8.ValidString(n.text) || len(n.text) > most {
			return fmt.Errorf("%s has control characters or is longer than %d bytes", n.key, most)
		}
	}
	return nil
}

// checkWords checks values that come out of a closed set.
func (t TargetConfig) checkWords(out Target) error {
	if err := oneOf("dialect", out.Dialect, inference.Auto, inference.SGLang, inference.VLLM, inference.LlamaCpp, inference.TRTLLM,
		inference.LMDeploy, inference.Ollama, inference.OpenAI); err != nil {
		return err
	}
	if err := oneOf("api", out.API, inference.AutoAPI, inference.Completions, inference.Chat, inference.Native); err != nil {
		return err
	}
	if err := oneOf("plan", out.Plan, AutoPlan, Pair, Triple); err != nil {
		return err
	}
	return nil
}

func oneOf[T ~string](key string, value T, allowed ...T) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = string(a)
	}
	return fmt.Errorf("%s %q is none of %s", key, string(value), strings.Join(words, ", "))
}

// connect fills in how the server and its metrics are reached.
func (t TargetConfig) connect(out *Target) error {
	var err error
	if out.HTTP, err = t.HTTP.client(); err != nil {
		return fmt.Errorf("http: %w", err)
	}
	if t.Metrics == nil {
		return nil
	}
	if t.Metrics.HTTP != nil {
		c, err := t.Metrics.HTTP.client()
		if err != nil {
			return fmt.Errorf("metrics.http: %w", err)
		}
		out.MetricsHTTP = &c
	}
	for i, page := range t.Metrics.URLs {
		if page == "auto" {
			if len(t.Metrics.URLs) > 1 {
				return errors.New(`metrics.urls has "auto" beside other pages; write one or the other`)
			}
			return nil
		}
		if _, err := checkURL(fmt.Sprintf("metrics.urls[%d]", i), page); err != nil {
			return err
		}
		out.MetricsURLs = append(out.MetricsURLs, page)
	}
	return nil
}

var secretWord = regexp.MustCompile(`(?i)key|token|secret|passw|auth|credential|signature`)

// checkURL parses an http or https URL that holds no secret. Its errors never quote one.
func checkURL(key, raw string) (*url.URL, error) {
	if raw == "" {
		return nil, fmt.Errorf("%s is missing", key)
	}
	u, err := url.Parse(raw)
	if (err == nil && u.User != nil) || strings.Contains(raw, "@") {
		return nil, fmt.Errorf(`%s has credentials in it; put them under "http"`, key)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not a URL like http://host:30000", key)
	}
	for name := range u.Query() {
		if secretWord.MatchString(name) {
			return nil, fmt.Errorf(`%s has what looks like a secret in its query; put credentials under "http"`, key)
		}
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
	if (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || err != nil || port == 0 {
		return nil, fmt.Errorf("%s %q is not a URL like http://host:30000", key, (&url.URL{
			Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path,
		}).String())
	}
	return u, nil
}

// hostPort is the host and port that a URL names, "" where it is none.
func hostPort(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), cmp.Or(u.Port(), port))
}
