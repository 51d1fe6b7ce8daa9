package state

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestPins(t *testing.T) {
	dir := t.TempDir()
	if err := EditPins(t.Context(), dir, func(View) error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("pins without a state: %v", err)
	}
	repinned := make(chan struct{}, 100)
	s, out := open(t, Options{Dir: dir, Repinned: func() { repinned <- struct{}{} }})
	s.SetActive(map[string]string{"k": "a"})
	s.save()
	var all sync.WaitGroup
	for i := range 20 { // at once: none is lost
		all.Go(func() {
			err := EditPins(t.Context(), dir, func(v View) error {
				if v.Pins["k"] == nil {
					v.Pins["k"] = map[int]Pin{}
				}
				v.Pins["k"][1024*(i+1)] = Pin{Target: "a", Step: float64(i + 1), At: at}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if !s.readPins() || len(s.Pinned("k")) != 20 || s.Pinned("k")[2048] != 2 || s.readPins() {
		t.Errorf("%v", s.Pinned("k"))
	}
	if err := EditPins(t.Context(), dir, func(v View) error { clear(v.Pins["k"]); return errors.New("no") }); err == nil || s.readPins() {
		t.Error("a failed edit changes something")
	}
	if err := EditPins(t.Context(), dir, func(v View) error { clear(v.Pins["k"]); return nil }); err != nil || !s.readPins() || len(s.Pinned("k")) != 0 {
		t.Errorf("%v, %v", err, s.Pinned("k"))
	}
	absurd := map[int]Pin{1024: {Step: 1e300}, 2048: {Step: -1}, 4096: {Step: 0.1, At: at.AddDate(300, 0, 0)}, -1: {Step: 1}}
	if err := EditPins(t.Context(), dir, func(v View) error { v.Pins["k"] = absurd; return nil }); err != nil || !s.readPins() {
		t.Error(err)
	}
	if pinned := s.Pinned("k"); len(pinned) != 1 || pinned[4096] != 0.1 || out.count("cannot be true") != 1 || out.count("entries=3") != 1 {
		t.Errorf("%v, the log says %s", pinned, out)
	}
	if err := os.WriteFile(filepath.Join(dir, pinnedName), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.readPins() || out.count("cannot be read") != 1 {
		t.Errorf("the log says %s", out)
	}
	if err := EditPins(t.Context(), dir, func(View) error { return nil }); err == nil {
		t.Error("damaged pins are overwritten")
	}
}

// TestWaitingEnds: whoever waits for somebody else's lock can be told to stop.
func TestWaitingEnds(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Options{Dir: dir})
	s.save()
	lock, err := acquire(filepath.Join(dir, pinnedName+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := EditPins(ctx, dir, func(View) error { t.Error("pinned without the lock"); return nil })
		if !errors.Is(err, errInUse) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}
