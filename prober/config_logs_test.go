package prober

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestOneLogOfTwoTargets: each counts all lines of it, which may be wanted.
func TestOneLogOfTwoTargets(t *testing.T) {
	c, err := ParseConfig([]byte(`targets:
  - {name: a, url: 'http://localhost:1', logs: [{path: /var/log/a.log}, {unit: sglang}]}
  - {name: b, url: 'http://localhost:2', logs: [{path: /var/log/b.log}, {path: /var/log/../log/a.log}]}
  - {name: c, url: 'http://localhost:3', logs: [{unit: sglang}, {unit: vllm}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	const says = " is a log of targets[0] too: each counts every line, and a sum over targets counts them twice; name it under one of them"
	v, err := c.Validate()
	if got, want := v.Warnings(), []string{"targets[1].logs[1]" + says, "targets[2].logs[0]" + says}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %q", err, got)
	}
}

// TestOneLogByTwoPaths refuses a log that is configured twice, whatever its paths look like.
func TestOneLogByTwoPaths(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "server.log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("server.log", filepath.Join(dir, "current")); err != nil {
		t.Fatal(err)
	}
	const twice = "targets[0].logs[1] is already in the list; its lines would count twice"
	for _, test := range []struct{ first, second, want string }{
		{"server.log", filepath.Join(dir, "server.log"), twice},
		{"absent.log", filepath.Join(dir, "absent.log"), twice},
		{"./server.log", "server.log", twice},
		{"logs/../server.log", "server.log", twice},
		{"current", "server.log", twice},
		{"server.log", "other.log", ""},
	} {
		path := filepath.Join(dir, "config.yml")
		text := fmt.Sprintf("targets: [{name: a, url: 'http://localhost:1', logs: [{path: '%s'}, {path: '%s', format: sglang}]}]\n", test.first, test.second)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := LoadConfig(path)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if _, err := c.Validate(); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s and %s: %q", test.first, test.second, got)
		}
	}
}
