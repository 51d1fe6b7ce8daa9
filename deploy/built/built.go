// Package built builds the program for tests that run it as users do.
package built

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Program builds the program into a directory, and gives its path.
func Program(dir string) (string, error) {
	path := filepath.Join(dir, "longctx_exporter")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "longctx_exporter").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return path, nil
}

// Main runs tests that need the program, whose path it puts into program, and gives their exit code.
func Main(m *testing.M, program *string) int {
	dir, err := os.MkdirTemp("", "longctx")
	if err == nil {
		defer os.RemoveAll(dir)
		*program, err = Program(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
