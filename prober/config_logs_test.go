package prober

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

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
