package state

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func fifo(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if content, err := ReadFile(path, 5); err != nil || string(content) != "12345" {
		t.Errorf("%q, %v", content, err)
	}
	if _, err := ReadFile(path, 4); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte too many: %v", err)
	}
	if _, err := ReadFile(filepath.Join(dir, "none"), 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	fifo(t, filepath.Join(dir, "fifo"))
	for _, path := range []string{filepath.Join(dir, "fifo"), dir, "/dev/zero"} {
		if _, err := ReadFile(path, 4); err == nil || err.Error() != path+" is not a regular file" {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestPipes has pipes where files are expected: nobody waits for their other ends.
func TestPipes(t *testing.T) {
	for _, name := range []string{stateName, stateName + ".new", pinnedName, "lock"} {
		dir := t.TempDir()
		fifo(t, filepath.Join(dir, name))
		s, out := open(t, Options{Dir: dir})
		s.Close()
		if told := out.count("is not a regular file"); (told == 0) != (name == stateName+".new" || name == "lock") {
			t.Errorf("%s: the log says %s", name, out)
		}
	}
}

// unreadable is a disk that reads only when it is told to.
type unreadable struct {
	realDisk
	err error
}

func (d *unreadable) read(path string) ([]byte, error) {
	if d.err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: d.err}
	}
	return d.realDisk.read(path)
}

// TestUnreadable: a state that cannot be read may be whole, so it is neither set aside nor replaced until somebody took it away.
func TestUnreadable(t *testing.T) {
	for _, err := range []error{syscall.EACCES, syscall.EIO} {
		dir := t.TempDir()
		path := filepath.Join(dir, stateName)
		s, _ := open(t, Options{Dir: dir})
		s.SetRung("k", 1024, someRung())
		s.save()
		s.Close()
		before, _ := os.ReadFile(path)
		disk := &unreadable{err: err}
		s, out := open(t, Options{Dir: dir, disk: disk})
		s.SetRung("k", 2048, someRung())
		s.save()
		disk.err = nil // what is known now must not replace it either
		s.save()
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Errorf("%v: the state was replaced", err)
		}
		if _, gone := os.Stat(path + aside); gone == nil {
			t.Errorf("%v: the state was set aside", err)
		}
		if _, failures := s.LastSave(); failures != 3 || out.count("level=error") != 1 || out.count(err.Error()) != 1 || out.count("left as it is") != 1 {
			t.Errorf("%d failures, the log says %s", failures, out)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		s.save()
		if view, err := Look(dir); err != nil || len(view.Targets["k"].Rungs) != 1 || out.count("saved again") != 1 {
			t.Errorf("%v, the log says %s", err, out)
		}
	}
}

// TestLeftover writes where a crash, or somebody else, left something.
func TestLeftover(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(dir, stateName+".new")); err != nil {
		t.Fatal(err)
	}
	s, out := open(t, Options{Dir: dir})
	if at, failures := s.LastSave(); time.Since(at) > time.Hour || failures > 0 {
		t.Errorf("the log says %s", out)
	}
	if kept, err := os.ReadFile(other); err != nil || string(kept) != "kept" {
		t.Errorf("a link was followed: %q, %v", kept, err)
	}
	if info, err := os.Lstat(filepath.Join(dir, stateName)); err != nil || !info.Mode().IsRegular() || strings.Contains(out.String(), "level=error") {
		t.Errorf("%v, the log says %s", err, out)
	}
}
