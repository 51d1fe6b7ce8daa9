package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-kit/log/level"
)

// Pins are the baselines that operators pinned, by key of the target and prompt tokens.
type Pins map[string]map[int]Pin

// Pin is one of them.
type Pin struct {
	Target string    `json:"target"`
	Step   float64   `json:"step"` // seconds
	At     time.Time `json:"at"`
	Deploy string    `json:"deploy,omitempty"` // that ran then
}

// Pinned are the pinned baselines of a target in seconds, by prompt tokens.
func (s *Store) Pinned(key string) map[int]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	steps := map[int]float64{}
	for context, p := range s.pins[key] {
		steps[context] = p.Step
	}
	return steps
}

// fileStamp tells one content of a file from another.
type fileStamp struct {
	inode uint64
	at    time.Time
	size  int64
}

func stampOf(path string) fileStamp {
	info, err := os.Stat(path)
	if err != nil {
		return fileStamp{}
	}
	stamp := fileStamp{at: info.ModTime(), size: info.Size()}
	if system, ok := info.Sys().(*syscall.Stat_t); ok {
		stamp.inode = system.Ino
	}
	return stamp
}

// readPins takes the pinned baselines in if they have changed, and says whether they have. Those that cannot be read leave the
// ones before in force.
func (s *Store) readPins() (changed bool) {
	path := filepath.Join(s.Dir, pinnedName)
	stamp := stampOf(path)
	if stamp == s.pinsSeen {
		return false
	}
	s.pinsSeen = stamp
	pins, dropped, err := loadPins(s.Dir)
	if err != nil {
		level.Warn(s.Logger).Log("msg", "the pinned baselines cannot be read; those before stay in force", "err", err)
		return false
	}
	s.tellDropped(path, dropped)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pins = pins
	return true
}

func loadPins(dir string) (pins Pins, dropped int, err error) {
	path := filepath.Join(dir, pinnedName)
	content, err := realDisk{}.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Pins{}, 0, nil
	}
	pins = Pins{}
	if err == nil {
		err = unseal(content, pinnedName, pinnedVersion, &pins)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	j := judge{}
	j.pins(pins)
	return pins, j.dropped, nil
}

// View is what a directory holds, for whoever does not own it.
type View struct {
	Saved   time.Time
	Targets map[string]Target // by key
	Pins    Pins
}

// Look reads a directory. A daemon may use it at the same time.
func Look(dir string) (View, error) {
	path := filepath.Join(dir, stateName)
	content, err := realDisk{}.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return View{}, fmt.Errorf("no state is stored here; is %s the --storage.path of a daemon? %w", dir, err)
	}
	if err != nil {
		return View{}, fmt.Errorf("reading the state: %w", err)
	}
	past, _, err := decode(content, time.Now())
	if err != nil {
		return View{}, fmt.Errorf("%s: %w", path, err)
	}
	pins, _, err := loadPins(dir)
	if err != nil {
		return View{}, err
	}
	return View{Saved: past.Saved, Targets: past.Targets, Pins: pins}, nil
}

// EditPins changes the pinned baselines of a directory. Whoever else does so waits, until ctx ends; a daemon that uses the directory sees the
// change within seconds. Nothing is changed where edit fails.
func EditPins(ctx context.Context, dir string, edit func(View) error) error {
	if _, err := Look(dir); err != nil {
		return err
	}
	lock, err := acquireWaiting(ctx, filepath.Join(dir, pinnedName+".lock"))
	if err != nil {
		return fmt.Errorf("locking the pinned baselines: %w", err)
	}
	defer lock.Close() // which also unlocks it
	view, err := Look(dir)
	if err != nil {
		return err
	}
	if err := edit(view); err != nil {
		return err
	}
	maps.DeleteFunc(view.Pins, func(_ string, pins map[int]Pin) bool { return len(pins) == 0 })
	content, err := seal(pinnedName, pinnedVersion, view.Pins)
	if err != nil {
		return err
	}
	// Readable by the daemon's user, whoever pins.
	if err := (realDisk{}).write(filepath.Join(dir, pinnedName), content, 0o644); err != nil {
		return fmt.Errorf("writing the pinned baselines: %w", err)
	}
	return nil
}
