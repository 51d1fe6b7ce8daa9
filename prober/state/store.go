package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

const (
	syncPatience = 2 * time.Second // for a save that somebody waits for
	bytesAtOnce  = 4 << 20         // written per second at most, on average
	longestPause = 2 * time.Second // between two saves
	lookAround   = 5 * time.Second // how often pinned baselines and the wall clock are looked at
)

// Options are how a store is opened.
type Options struct {
	Dir    string // of its files, made where it is not there; "" keeps everything in memory
	Logger log.Logger
	// Repinned, where set, is called by Run when the pinned baselines have changed.
	Repinned func()

	disk  disk  // the machine's where nil
	clock clock // the machine's where nil
}

// Store is the state of all targets, in memory and where it has a directory also on disk. Trouble with the disk is logged
// when it begins and when it ends, and never stops anybody. It is safe for concurrent use.
type Store struct {
	Options
	opened time.Time
	past   snapshot // as it was found; its targets are in targets
	away   time.Duration
	timely bool // the ages of what was found are known
	lock   *os.File
	unread error // why the state that is there cannot be read; nothing replaces it then. Of whoever saves

	mu       sync.Mutex
	targets  map[string]Target
	active   map[string]bool // targets that are configured
	changes  uint64          // so far
	saved    uint64          // of them, those that are on disk
	lastSave time.Time
	failures int
	failing  bool
	pins     Pins
	pinsSeen fileStamp
	attempt  chan struct{} // closed when an attempt to save ends, and replaced
	changed  chan struct{} // takes one signal: there is something to save
}

// Open reads what the directory holds. A file whose content cannot be used is set aside and told of in the log. One that cannot
// be read is left as it is: everything is kept in memory until it is gone. So it is with a directory that cannot be used, until it
// can. The only error is that another exporter uses it.
func Open(o Options) (*Store, error) {
	if o.disk == nil {
		o.disk = realDisk{}
	}
	if o.clock == nil {
		o.clock = machineClock{}
	}
	s := &Store{
		Options: o, opened: o.clock.now(), targets: map[string]Target{}, active: map[string]bool{},
		attempt: make(chan struct{}), changed: make(chan struct{}, 1),
	}
	if o.Dir == "" {
		return s, nil
	}
	if err := os.MkdirAll(o.Dir, 0o700); err == nil {
		if s.lock, err = acquire(filepath.Join(o.Dir, "lock")); errors.Is(err, errInUse) {
			return nil, fmt.Errorf("another exporter keeps its state in %s: give each a directory of its own", o.Dir)
		}
	}
	s.load()
	s.readPins()
	s.save()
	return s, nil
}

// Close gives the directory free. Run must have ended.
func (s *Store) Close() {
	if s.lock != nil {
		_ = s.lock.Close() // which also unlocks it
	}
}

// load takes in what the directory holds.
func (s *Store) load() {
	path := filepath.Join(s.Dir, stateName)
	content, err := s.disk.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil && !errors.Is(err, ErrTooLarge) {
		s.unread = fmt.Errorf("the state that is there cannot be read and is left as it is, make it readable and restart: %w", err)
		return
	}
	var past snapshot
	var dropped int
	if err == nil {
		past, dropped, err = decode(content, s.opened)
	}
	if err != nil {
		level.Warn(s.Logger).Log("msg", "the saved state cannot be used and is set aside; nothing is known of earlier runs",
			"file", path, "aside", path+aside, "err", err)
		if err := s.disk.rename(path, path+aside); err != nil {
			level.Warn(s.Logger).Log("msg", "the saved state cannot be set aside either", "err", err)
		}
		return
	}
	var set time.Duration
	s.tellDropped(path, dropped)
	s.away, set, s.timely = past.away(s.opened, s.clock)
	if set.Abs() > clockNoise {
		level.Warn(s.Logger).Log("msg", "the wall clock was set while the exporter was away", "by", set.Round(time.Second),
			"ages_known", s.timely)
	}
	s.lastSave = past.Saved
	if past.Targets != nil {
		s.targets = past.Targets
	}
	past.Targets = nil
	s.past = past
	level.Info(s.Logger).Log("msg", "state loaded", "file", path, "targets", len(s.targets), "away", s.away.Round(time.Second))
}

// tellDropped tells of what a file held that cannot be true.
func (s *Store) tellDropped(path string, entries int) {
	if entries > 0 {
		level.Warn(s.Logger).Log("msg", "some of what was saved cannot be true and is left out", "file", path, "entries", entries)
	}
}

// Target is what is kept of a target; its zero value where nothing is. It is the caller's.
func (s *Store) Target(key string) Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.targets[key]
	t.Rungs = maps.Clone(t.Rungs)
	return t
}

// SetActive tells which targets are configured, names by key. Others are forgotten after a month.
func (s *Store) SetActive(names map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.active)
	for key, name := range names {
		s.active[key] = true
		t := s.targets[key]
		t.Name, t.Seen = name, s.clock.now()
		s.targets[key] = t
	}
	s.change()
}

// SetServer keeps what was learnt of a target's server.
func (s *Store) SetServer(key string, server Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.targets[key]
	t.Server = server
	s.targets[key] = t
	s.change()
}

// SetRung keeps the state of a rung.
func (s *Store) SetRung(key string, context int, r Rung) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.targets[key]
	t.Rungs = maps.Clone(t.Rungs) // whoever has the old ones may read on
	if t.Rungs == nil {
		t.Rungs = map[int]Rung{}
	}
	t.Rungs[context] = r
	s.targets[key] = t
	s.change()
}

// change notes that there is something to save. The caller holds mu.
func (s *Store) change() {
	s.changes++
	select {
	case s.changed <- struct{}{}:
	default: // it is known already
	}
}

// Age is how long ago a time was that this store keeps; false where that is not known because the wall clock was set.
func (s *Store) Age(t time.Time) (time.Duration, bool) {
	if t.IsZero() {
		return 0, false
	}
	if t != t.Round(0) { // it was taken by this process and has a monotonic reading
		return max(0, s.clock.now().Sub(t)), true
	}
	before := s.past.Saved.Sub(t)
	if !s.timely || before < -clockNoise {
		return 0, false
	}
	return max(0, before) + s.away + s.clock.now().Sub(s.opened), true
}

// LastSave is when the state was last on disk as a whole, zero if never; and how many attempts to save it failed.
func (s *Store) LastSave() (at time.Time, failures int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastSave, s.failures
}

func (s *Store) isFailing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failing
}

// Sync waits until everything that was told so far is on disk, but not long, and not where saving fails.
func (s *Store) Sync(ctx context.Context) {
	if s.Dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, syncPatience)
	defer cancel()
	s.mu.Lock()
	wanted := s.changes
	for s.saved < wanted && !s.failing {
		attempt := s.attempt
		s.mu.Unlock()
		select {
		case <-attempt:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
	}
	s.mu.Unlock()
}

// Run saves what changes until ctx ends, and then once more.
func (s *Store) Run(ctx context.Context) {
	if s.Dir == "" {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(lookAround)
	defer tick.Stop()
	wall := newWallWatch(s.clock.now())
	for {
		select {
		case <-ctx.Done():
			s.save()
			return
		case <-s.changed:
			pause(ctx, s.save())
		case <-tick.C:
			now := s.clock.now()
			if by := wall.set(now, now); by != 0 {
				level.Warn(s.Logger).Log("msg", "the wall clock was set", "by", by.Round(time.Second))
			}
			if s.isFailing() {
				s.save()
			}
			if s.readPins() && s.Repinned != nil {
				s.Repinned()
			}
		}
	}
}

// pause keeps a large state from being written all the time.
func pause(ctx context.Context, written int) {
	t := time.NewTimer(min(longestPause, time.Second*time.Duration(written)/bytesAtOnce))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// save writes everything that is known, and gives its size.
func (s *Store) save() (written int) {
	content, changes, at, err := s.snapshot()
	if err == nil {
		err = s.spare()
	}
	if err == nil {
		err = s.disk.write(filepath.Join(s.Dir, stateName), content, 0o600)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.attempt)
	s.attempt = make(chan struct{})
	if err != nil {
		if s.failures++; !s.failing {
			level.Error(s.Logger).Log("msg", "the state cannot be saved: a restart would lose what was measured since", "dir", s.Dir, "err", err)
		}
		s.failing = true
		return 0
	}
	if s.failing {
		level.Info(s.Logger).Log("msg", "the state is saved again", "dir", s.Dir)
	}
	s.failing, s.saved, s.lastSave = false, changes, at
	return len(content)
}

// spare keeps a state from being replaced that could not be read, as long as it is there: it may be whole.
func (s *Store) spare() error {
	if s.unread == nil {
		return nil
	}
	_, err := s.disk.read(filepath.Join(s.Dir, stateName))
	if errors.Is(err, fs.ErrNotExist) {
		s.unread = nil
	}
	return s.unread
}

// snapshot is what is known now, without what has been forgotten.
func (s *Store) snapshot() (content []byte, changes uint64, at time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.now()
	for key, t := range s.targets {
		switch {
		case s.active[key]:
			t.Seen = now
			s.targets[key] = t
		case now.Round(0).Sub(t.Seen) > forgetAfter && len(s.active) > 0:
			delete(s.targets, key)
		}
	}
	snap := snapshot{Saved: now, Targets: s.targets}
	if boot, up, ok := s.clock.uptime(); ok {
		snap.Boot, snap.Uptime = boot, up.Seconds()
	}
	content, err = seal(stateName, stateVersion, snap)
	return content, s.changes, now, err
}

// wallWatch sees the wall clock being set, by the monotonic one.
type wallWatch struct {
	wall, monotonic time.Time
}

func newWallWatch(now time.Time) *wallWatch { return &wallWatch{wall: now.Round(0), monotonic: now} }

// set is by how much the wall clock was set since it was last asked; 0 where that may be noise. The readings of both clocks
// belong to one moment.
func (w *wallWatch) set(wall, monotonic time.Time) time.Duration {
	by := wall.Round(0).Sub(w.wall) - monotonic.Sub(w.monotonic)
	w.wall, w.monotonic = wall.Round(0), monotonic
	if by.Abs() <= clockNoise {
		return 0
	}
	return by
}
