package prober

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"longctx_exporter/prober/inference"
)

func validate(path string) (ValidatedConfig, error) {
	c, err := LoadConfig(path)
	if err != nil {
		return ValidatedConfig{}, err
	}
	return c.Validate()
}

func TestGoodConfig(t *testing.T) {
	v, err := validate("testdata/full.good.yml")
	if err != nil {
		t.Fatal(err)
	}
	targets := v.Targets()
	first, second := targets[0], targets[1]
	type facts struct {
		Name, URL, Server, Model string
		Budget, Precision        float64
		M1, M128                 int
		I1, I128, I192, Timeout  time.Duration
		Ladder                   []Rung
		Pages                    []string
		File                     string
	}
	of := func(t Target) facts {
		return facts{
			t.Name, t.URL, t.Server, t.Model, t.Budget, t.Precision, t.DecodeTokens.At(1024), t.DecodeTokens.At(128 << 10),
			t.Intervals.At(1024), t.Intervals.At(128 << 10), t.Intervals.At(192 << 10), t.Timeout, t.Ladder, t.MetricsURLs,
			t.HTTP.Authorization.CredentialsFile,
		}
	}
	want := []facts{
		{
			"ct200", "http://10.0.0.5:30000", "ct200", "kimi-k2.6", 0.02, 0.03, 16, 8, 5 * time.Minute, time.Hour, 4 * time.Hour,
			0, DefaultLadder(), nil, "",
		},
		{
			"second", "https://Gateway.example/v1", "gateway.example:443", "", 0.1, 0.05, 0, 0, 5 * time.Minute, 5 * time.Minute,
			5 * time.Minute, 90 * time.Second,
			[]Rung{1536, 5500},
			[]string{"http://10.0.0.5:30000/metrics", "http://10.0.0.5:30001/metrics"},
			"testdata/key",
		},
	}
	if d := cmp.Diff(want, []facts{of(first), of(second)}); d != "" {
		t.Error(d)
	}
	if got := second.Intervals.At(5500); got != 1500*time.Millisecond {
		t.Errorf("interval of 5500 = %v", got)
	}
	if got := second.DecodeTokens.At(5500); got != 4 {
		t.Errorf("decode tokens of 5500 = %d", got)
	}
	if first.Dialect != inference.Auto || first.API != inference.AutoAPI || first.Plan != AutoPlan || first.MetricsHTTP == nil {
		t.Errorf("defaults: %+v", first)
	}
	if second.HTTP.FollowRedirects || !second.HTTP.EnableHTTP2 {
		t.Error("http: the library's defaults are not the start")
	}
	want2 := []string{"targets[1].decode_tokens 4 for 1.5k is below 8: the step time rests on few steps"}
	if d := cmp.Diff(want2, v.Warnings()); d != "" {
		t.Error(d)
	}
}

func TestConfigYAML(t *testing.T) {
	v, err := validate("testdata/full.good.yml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(v.YAML())
	if strings.Contains(text, "hunter2") {
		t.Error("a secret is shown")
	}
	for _, want := range []string{
		"ladder: [1k, 2k, 4k, 8k, 16k, 32k, 64k, 128k, 192k]", "budget: 2%", "decode_tokens: {default: 16, 128k: 8}",
		"intervals: {default: 5m, 64k: 30m, 128k: 1h, 192k: 4h}", "credentials: <secret>", "timeout: 1m30s", "128k: 3m",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	again, err := ParseConfig(v.YAML())
	if err != nil {
		t.Fatalf("what is shown does not parse: %v", err)
	}
	v2, err := again.Validate()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(text, string(v2.YAML())); d != "" {
		t.Error(d)
	}
}

func TestBadConfig(t *testing.T) {
	tests := map[string]string{
		"api":              `targets[0].api "v1" is none of auto, completions, chat, native`,
		"budget_big":       `line 2: "2" is not a share like 2%, above 0 and up to 100%`,
		"budget_zero":      `line 1: "0%" is not a share like 2%, above 0 and up to 100%`,
		"decode_negative":  `line 4: decode_tokens "-5" is neither auto nor a number from 1 up`,
		"decode_rung":      `line 4: context length "128q" is neither a number of tokens nor like 8k`,
		"decode_zero":      `line 4: decode_tokens "0" is neither auto nor a number from 1 up`,
		"dialect":          `targets[0].dialect "sgl" is none of auto, sglang, vllm, llamacpp, trtllm, lmdeploy, ollama, openai`,
		"duplicate_key":    `line 2: key "budget" is already on line 1`,
		"duplicate_name":   `targets[1].name "a" is already used by targets[0]`,
		"empty":            `there are no targets: list at least one server under "targets"`,
		"empty_ladder":     `line 2: the ladder is empty: list at least one context length, like [1k, 8k]`,
		"interval_short":   `line 4: interval "500ms" is shorter than 1s`,
		"interval_unit":    `line 2: "300" is not a time above 0, like 90s, 5m or 1h`,
		"default_twice":    `line 4: "default" is there twice`,
		"ladder_huge":      `line 1: context length "1000000000" is longer than 16384k tokens`,
		"ladder_long":      `line 1: the ladder has 25 context lengths, more than 24`,
		"ladder_not_list":  `line 1: the ladder is not a list like [1k, 8k]`,
		"ladder_twice":     `line 1: context length 1k is twice in the ladder`,
		"ladder_unit":      `line 1: context length "1x" is neither a number of tokens nor like 8k`,
		"log_format":       `targets[0].logs[1].format "xml" is none of auto, sglang, vllm, llamacpp, ollama`,
		"log_path":         `targets[0].logs[0].path is missing`,
		"metrics_auto":     `targets[0].metrics.urls has "auto" beside other pages; write one or the other`,
		"metrics_secret":   `targets[0].metrics.urls[0] has what looks like a secret in its query; put credentials under "http"`,
		"no_name":          `targets[0].name is missing`,
		"no_targets":       `there are no targets: list at least one server under "targets"`,
		"no_url":           `targets[0].url is missing`,
		"null_ladder":      `line 4: the ladder is empty: list at least one context length, like [1k, 8k]`,
		"plan":             `targets[0].plan "quad" is none of auto, pair, triple`,
		"proxy_password":   `http: a URL in it does not parse`,
		"replica":          `targets[0].replica has control characters or is longer than 512 bytes`,
		"syntax":           `line 1: did not find expected '-' indicator`,
		"targets_mapping":  `line 2: a mapping stands where a list is wanted`,
		"timeout":          `line 4: "soon" is not a time above 0, like 90s, 5m or 1h`,
		"two_credentials":  `targets[0].http: at most one of basic_auth, oauth2 & authorization must be configured`,
		"two_documents":    `line 2: a second YAML document begins here; write one`,
		"unknown_http_key": `line 5: unknown key "authorisation"`,
		"unknown_key_two":  `line 1: unknown key "lad\nder"`,
		"unknown_key":      `line 5: unknown key "modl"`,
		"url_no_scheme":    `targets[0].url "localhost:30000" is not a URL like http://host:30000`,
		"url_port":         `targets[0].url "http://localhost:300000" is not a URL like http://host:30000`,
		"url_query":        `targets[0].url has a query or a fragment; write the base URL alone, and credentials under "http"`,
		"url_scheme":       `targets[0].url "ftp://localhost:30000" is not a URL like http://host:30000`,
		"url_secret":       `targets[0].url has what looks like a secret in its query; put credentials under "http"`,
		"url_userinfo":     `targets[0].url has credentials in it; put them under "http"`,
		"wrong_kind":       `line 4: a single value stands where a mapping is wanted`,
	}
	files, err := filepath.Glob("testdata/*.bad.yml")
	if err != nil || len(files) != len(tests) {
		t.Errorf("%d files for %d cases, %v", len(files), len(tests), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".bad.yml")
		t.Run(name, func(t *testing.T) {
			_, err := validate(file)
			if err == nil {
				t.Fatal("accepted")
			}
			if got := strings.TrimPrefix(err.Error(), file+": "); got != tests[name] {
				t.Errorf("\n got %q\nwant %q", got, tests[name])
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") {
				t.Errorf("a secret or a second line: %q", err)
			}
		})
	}
	if _, err := LoadConfig("testdata/missing.yml"); err == nil || err.Error() !=
		"reading the configuration: open testdata/missing.yml: no such file or directory" {
		t.Errorf("missing file: %v", err)
	}
}

func TestOneServerTwoNames(t *testing.T) {
	c, err := ParseConfig([]byte(`targets:
- {name: a, url: 'http://localhost:30000'}
- {name: b, url: 'http://LOCALHOST:30000/v1', server: other}
- {name: c, url: 'http://localhost:30000', server: third, replica: "1"}
`))
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.Validate()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`targets[1].server "other" differs from that of targets[0] though both are at localhost:30000: they may be probed at once`}
	if d := cmp.Diff(want, v.Warnings()); d != "" {
		t.Error(d)
	}
}

func TestStrayRungs(t *testing.T) {
	c, err := ParseConfig([]byte(`ladder: [1k, 2k]
intervals: {2k: 1m, 8k: 1m, 12k: 1m}
targets:
  - {name: a, url: 'http://localhost:30000', decode_tokens: {2k: 8, 4k: 8}, slo: {ttft: {2k: 1s}, step: {8k: 1s}}}
  - {name: b, url: 'http://localhost:30001', ladder: [8k]}
`))
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.Validate()
	want := []string{
		"targets[0].decode_tokens names 4k, which is not in the ladder", "targets[0].slo.step names 8k, which is not in the ladder",
		"intervals names 12k, which is not in the ladder",
	}
	if d := cmp.Diff(want, v.Warnings()); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
}

// TestNothingIsMeasured: what is allowed and leaves nothing to do is told, where it stands.
func TestNothingIsMeasured(t *testing.T) {
	const quiet = "targets[0].quiet_hours cover the whole week: no run will start; leave some hours free"
	limit := func(tokens int) string {
		return fmt.Sprintf("targets[0].context_limit of %d tokens has no room for any rung of the ladder: nothing will be measured; "+
			"raise it or shorten the ladder", tokens)
	}
	for _, test := range []struct{ keys, top, want string }{
		{"quiet_hours: ['00:00-24:00']", "", quiet},
		{"quiet_hours: ['12:00-00:00 Europe/Berlin', 'Mon-Sun 00:00-12:00 Europe/Berlin']", "", quiet},
		{"quiet_hours: ['Mon-Sat 00:00-24:00', 'Sun 00:00-23:59']", "", ""},
		{"quiet_hours: []", "quiet_hours: ['00:00-24:00']", strings.TrimPrefix(quiet, "targets[0].")},
		{"context_limit: 1k", "", limit(1024)},
		{"context_limit: 1, decode_tokens: 8", "", limit(1)},
		{"context_limit: 4000, decode_tokens: {4k: 8}", "ladder: [4k, 8k]", limit(4000)},
		{"context_limit: 4095", "ladder: [4k, 8k]", ""}, // 4k is shortened to fit
		{"context_limit: 2k", "", ""},
	} {
		c, err := ParseConfig([]byte(test.top + "\ntargets: [{name: a, url: 'http://localhost:1', " + test.keys + "}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		v, err := c.Validate()
		if got := strings.Join(v.Warnings(), "; "); err != nil || got != test.want {
			t.Errorf("%s %s: %v, %s", test.top, test.keys, err, got)
		}
	}
}

func TestIntervalLevels(t *testing.T) {
	c, err := ParseConfig([]byte(`ladder: [1k, 64k, 100k, 128k, 256k]
intervals: {64k: 10m}
targets:
- {name: a, url: 'http://localhost:1'}
- {name: b, url: 'http://localhost:2', intervals: 2m}
- {name: c, url: 'http://localhost:3', intervals: {128k: 3h}}
`))
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.Validate()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"a": {"5m0s", "10m0s", "30m0s", "1h0m0s", "4h0m0s"},
		"b": {"2m0s", "2m0s", "2m0s", "2m0s", "2m0s"},
		"c": {"5m0s", "10m0s", "30m0s", "3h0m0s", "4h0m0s"},
	}
	got := map[string][]string{}
	for _, target := range v.Targets() {
		for _, r := range target.Ladder {
			got[target.Name] = append(got[target.Name], target.Intervals.At(r).String())
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestObjectives(t *testing.T) {
	c, err := ParseConfig([]byte(`ladder: [1k, 128k]
targets:
- {name: none, url: 'http://localhost:1'}
- {name: one, url: 'http://localhost:2', slo: {ttft: {128k: 180s}}}
- {name: all, url: 'http://localhost:3', slo: {ttft: {default: 2s, 128k: 3m}, step: 150ms}}
`))
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.Validate()
	if err != nil {
		t.Fatal(err)
	}
	const short, long = Rung(1 << 10), Rung(128 << 10)
	type times = map[Rung]time.Duration
	want := []SLO{
		{},
		{TTFT: times{long: 3 * time.Minute}, Step: times{}},
		{TTFT: times{short: 2 * time.Second, long: 3 * time.Minute}, Step: times{short: 150 * time.Millisecond, long: 150 * time.Millisecond}},
	}
	for i, target := range v.Targets() {
		if d := cmp.Diff(want[i], target.SLO); d != "" {
			t.Errorf("%s: %s", target.Name, d)
		}
	}
}

func TestCommandLineTarget(t *testing.T) {
	target, err := TargetConfig{URL: "http://localhost:30000/"}.Target()
	if err != nil || target.Name != "localhost:30000" || target.URL != "http://localhost:30000" {
		t.Errorf("%+v, %v", target, err)
	}
	if _, err := ParseLadder("1k, 1x"); err == nil || err.Error() != `context length "1x" is neither a number of tokens nor like 8k` {
		t.Error(err)
	}
	if _, err := ParseLadder(" , "); err == nil || !strings.HasPrefix(err.Error(), "the ladder is empty") {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"-5":        `decode_tokens "-5" is neither auto nor a number from 1 up`,
		"":          `decode_tokens is empty`,
		"{1k: 0}":   `decode_tokens "0" is neither auto nor a number from 1 up`,
		"{1k":       `did not find expected ',' or '}'`,
		"[1]":       `a single value is wanted here`,
		"{default}": `"default" has no value`,
	} {
		if _, err := ParseDecodeTokens(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, pattern := range []string{"testdata/*.good.yml", "testdata/*.bad.yml"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseConfig(b)
		if err != nil {
			return
		}
		v, err := c.Validate()
		if err != nil {
			return
		}
		for _, target := range v.Targets() {
			if target.Name == "" || len(target.Ladder) == 0 || len(target.Ladder) > maxRungs ||
				!(target.Budget > 0 && target.Budget <= 1) || !(target.Precision > 0 && target.Precision <= 1) {
				t.Errorf("validated, yet %+v", target)
			}
			for _, r := range target.Ladder {
				if target.Intervals.At(r) < time.Second || target.DecodeTokens.At(r) < 0 {
					t.Errorf("validated, yet %+v", target)
				}
			}
		}
		if _, err := ParseConfig(v.YAML()); err != nil {
			t.Errorf("what is shown does not parse: %v\n%s", err, v.YAML())
		}
	})
}

// TestConfigFile: what is no file, or far too large for one, is refused at once.
func TestConfigFile(t *testing.T) {
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, mostConfig+1); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "is not a regular file", dir: "is not a regular file", large: "too large: more than 16 MiB"} {
		if _, err := LoadConfig(path); err == nil || !strings.Contains(err.Error(), path+" is ") || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}
