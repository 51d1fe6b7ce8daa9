package state

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logged is a log that is read while it is written.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// fakeClock is a machine's clocks, both of which a test moves.
type fakeClock struct {
	boot string
	wall time.Time
	up   time.Duration
}

func (c *fakeClock) now() time.Time { return c.wall }
func (c *fakeClock) uptime() (string, time.Duration, bool) {
	return c.boot, c.up, c.boot != ""
}

// trouble is a disk that fails as it is told.
type trouble struct {
	realDisk
	mu  sync.Mutex
	err error
}

func (d *trouble) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *trouble) write(path string, content []byte, mode os.FileMode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: d.err}
	}
	return d.realDisk.write(path, content, mode)
}

func open(t *testing.T, o Options) (*Store, *logged) {
	t.Helper()
	out := &logged{}
	o.Logger = log.NewLogfmtLogger(out)
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, out
}

// running runs a store's saver until the end of the test, or stop.
func running(t *testing.T, s *Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

var at = time.Date(2026, 11, 30, 12, 0, 0, 123, time.UTC)

func someRung() Rung {
	yes, spread := true, 0.02
	r := Rung{
		Attempted: at, Duration: 12.5, Succeeded: at.Add(12500 * time.Millisecond), Failing: 1, Rejecting: 2, Reachable: &yes, Unbroken: 1,
		Samples: []Sample{{At: at, Deploy: "d", PromptTokens: 8192, TTFT: 4.5, Step: 0.14, Spread: &spread, Method: "stream", Plan: "triple", Isolation: "proved"}},
		Plans:   &Plans{At: at, Step: 1.01},
		Needle:  &Needle{At: at, Missing: 2},
	}
	for _, step := range []float64{0.14, 0.15, 0.13} {
		r.AddStep("d", step)
	}
	return r
}

func someServer() Server {
	return Server{
		Deploy: Deploy{ID: "d", Since: at, Settings: map[string]string{"version": "1"}}, Started: 1e9, Counters: []float64{1, 2, -1},
		Unsettled: true, ShortTTFT: 0.5, Short: 2, Counts: true, NoCache: at, Learnt: map[int]Learnt{8192: {Cold: 4.5, Step: 0.14, Tau: 3.5, Jitter: 0.01, Runs: 7, NoWarm: at}},
	}
}

func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	s, _ := open(t, Options{Dir: dir})
	stop := running(t, s)
	s.SetActive(map[string]string{"k": "ct200"})
	s.SetServer("k", someServer())
	s.SetRung("k", 8192, someRung())
	s.Sync(t.Context())
	saved, err := Look(dir)
	if err != nil || saved.Targets["k"].Name != "ct200" || len(saved.Targets["k"].Rungs) != 1 {
		t.Fatalf("after a sync: %v, %+v", err, saved)
	}
	if _, err := Open(Options{Dir: dir, Logger: log.NewNopLogger()}); err == nil || !strings.Contains(err.Error(), "another exporter") {
		t.Errorf("two stores use one directory: %v", err)
	}
	stop()
	s.Close()

	again, out := open(t, Options{Dir: dir})
	got := again.Target("k")
	want := Target{Name: "ct200", Seen: got.Seen, Server: someServer(), Rungs: map[int]Rung{8192: someRung()}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-saved +loaded):\n%s", d)
	}
	if out.count("state loaded") != 1 || out.count("level=warn") > 0 {
		t.Errorf("the log says %s", out)
	}
	if last, failures := again.LastSave(); last.IsZero() || failures != 0 {
		t.Errorf("last save %v, %d failures", last, failures)
	}
	if other := again.Target("unknown"); other.Rungs != nil {
		t.Errorf("%+v", other)
	}
}

func TestMemoryOnly(t *testing.T) {
	s, out := open(t, Options{})
	stop := running(t, s)
	s.SetRung("k", 1024, someRung())
	s.Sync(t.Context())
	if got := s.Target("k").Rungs[1024]; got.Duration != 12.5 {
		t.Errorf("%+v", got)
	}
	stop()
	if last, failures := s.LastSave(); !last.IsZero() || failures > 0 || out.String() != "" {
		t.Errorf("%v %d %s", last, failures, out)
	}
}

// TestBadFiles opens what cannot be used: it is set aside, told of, and everybody goes on.
func TestBadFiles(t *testing.T) {
	good, err := seal(stateName, stateVersion, snapshot{Saved: at, Targets: map[string]Target{"k": {Name: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	older, _ := seal(stateName, stateVersion-1, snapshot{})
	other, _ := seal(pinnedName, stateVersion, Pins{})
	strange, _ := seal(stateName, stateVersion, []int{1})
	flipped := bytes.Clone(good)
	flipped[len(flipped)-5] ^= 1
	for name, test := range map[string]struct {
		content []byte
		says    string
	}{
		"empty": {nil, "its beginning is lost"}, "text": {[]byte("hello\n"), "no such file"}, "cut": {good[:len(good)-3], "damaged"},
		"a bit flipped": {flipped, "damaged"}, "of an older version": {older, "it has format"}, "of another kind": {other, "no such file"},
		"of a strange form": {strange, "cannot be read"}, "zeros": {make([]byte, 4096), "its beginning is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, stateName)
			if err := os.WriteFile(path, test.content, 0o600); err != nil {
				t.Fatal(err)
			}
			s, out := open(t, Options{Dir: dir})
			if out.count("is set aside") != 1 || out.count(test.says) != 1 {
				t.Errorf("the log says %s", out)
			}
			if aside, err := os.ReadFile(path + aside); err != nil || !bytes.Equal(aside, test.content) {
				t.Errorf("set aside: %v", err)
			}
			s.Close()
			if _, out := open(t, Options{Dir: dir}); out.count("level=warn") > 0 {
				t.Errorf("what was saved since cannot be used: %s", out)
			}
		})
	}
}

// TestTrouble writes to a disk that is full, then read-only, then well again.
func TestTrouble(t *testing.T) {
	disk := &trouble{}
	dir := t.TempDir()
	s, out := open(t, Options{Dir: dir, disk: disk})
	running(t, s)
	first, _ := s.LastSave()
	for i, err := range []error{syscall.ENOSPC, syscall.EROFS, syscall.EIO} {
		disk.fail(err)
		s.SetRung("k", 1024*(i+1), someRung())
		s.Sync(t.Context())
	}
	for failures := 0; failures == 0; {
		_, failures = s.LastSave()
		time.Sleep(time.Millisecond)
	}
	if out.count("cannot be saved") != 1 || out.count(syscall.ENOSPC.Error()) != 1 {
		t.Errorf("the log says %s", out)
	}
	if last, _ := s.LastSave(); !last.Equal(first) {
		t.Error("a failed save counts")
	}
	if view, err := Look(dir); err != nil || len(view.Targets) != 0 {
		t.Errorf("a failed save destroys the last good one: %v", err)
	}
	disk.fail(nil)
	s.SetRung("k", 4096, someRung())
	for view := (View{}); len(view.Targets["k"].Rungs) < 4; {
		view, _ = Look(dir)
		time.Sleep(time.Millisecond)
	}
	for out.count("is saved again") == 0 {
		time.Sleep(time.Millisecond)
	}
}

// TestNoDirectory has a directory that cannot be made: memory is what is left.
func TestNoDirectory(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, out := open(t, Options{Dir: filepath.Join(blocked, "state")})
	running(t, s)
	s.SetRung("k", 1024, someRung())
	s.Sync(t.Context())
	if s.Target("k").Rungs[1024].Duration != 12.5 || out.count("cannot be saved") != 1 {
		t.Errorf("%s", out)
	}
	if last, failures := s.LastSave(); !last.IsZero() || failures == 0 {
		t.Errorf("%v %d", last, failures)
	}
}

func TestClocks(t *testing.T) {
	for name, test := range map[string]struct {
		boot      string // after the restart; "" where the machine does not tell
		wall, up  time.Duration
		age       time.Duration // of what was measured 10 min before the save
		unknown   bool
		complains bool
	}{
		"a minute away":                        {"b1", time.Minute, time.Minute, 11 * time.Minute, false, false},
		"set forward by an hour":               {"b1", 61 * time.Minute, time.Minute, 11 * time.Minute, false, true},
		"set back by an hour":                  {"b1", -59 * time.Minute, time.Minute, 11 * time.Minute, false, true},
		"the machine restarted":                {"b2", 5 * time.Minute, time.Minute, 15 * time.Minute, false, false},
		"restarted with its clock an hour off": {"b2", -55 * time.Minute, time.Minute, 0, true, true},
		"not told, a minute":                   {"", time.Minute, 0, 11 * time.Minute, false, false},
		"not told, set forward":                {"", 61 * time.Minute, 0, 71 * time.Minute, false, false}, // older than it is: on the safe side
		"not told, set back":                   {"", -59 * time.Minute, 0, 0, true, true},
		"not told, a second back":              {"", -time.Second, 0, 10 * time.Minute, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			clock := &fakeClock{boot: "b1", wall: at, up: time.Hour}
			if test.boot == "" {
				clock.boot = ""
			}
			s, _ := open(t, Options{Dir: dir, clock: clock})
			s.SetActive(map[string]string{"k": "a"})
			measured := at.Add(-10 * time.Minute)
			s.SetRung("k", 1024, Rung{Attempted: measured})
			s.save()
			s.Close()

			clock.boot, clock.wall, clock.up = test.boot, at.Add(test.wall), clock.up+test.up
			again, out := open(t, Options{Dir: dir, clock: clock})
			age, known := again.Age(again.Target("k").Rungs[1024].Attempted)
			if age != test.age || known == test.unknown || (out.count("wall clock was set") == 1) != test.complains {
				t.Errorf("age %v, known %t, log %s", age, known, out)
			}
			if !again.Target("k").Rungs[1024].Attempted.Equal(measured) {
				t.Error("the time itself changed")
			}
			if _, known := again.Age(time.Time{}); known {
				t.Error("no time has an age")
			}
			if _, known := again.Age(at.Add(time.Hour)); known {
				t.Error("a time after the save has an age")
			}
			if age, known := again.Age(time.Now().Add(-time.Hour)); known && age < 0 {
				t.Error("an age is negative")
			}
		})
	}
}

// TestWallWatch sets the wall clock of a running process.
func TestWallWatch(t *testing.T) {
	start := time.Now()
	w := newWallWatch(start)
	passed := time.Duration(0)
	for _, step := range []time.Duration{0, time.Hour, -time.Hour, 30 * time.Second, -2 * time.Minute} {
		passed += time.Minute
		want := step
		if step.Abs() <= clockNoise {
			want = 0
		}
		if by := w.set(start.Add(passed).Round(0).Add(step), start.Add(passed)); by != want {
			t.Errorf("set by %v, seen as %v", step, by)
		}
		w.wall = start.Add(passed).Round(0)
	}
}

func TestForgotten(t *testing.T) {
	dir := t.TempDir()
	clock := &fakeClock{boot: "b", wall: at}
	s, _ := open(t, Options{Dir: dir, clock: clock})
	s.SetActive(map[string]string{"stays": "a", "goes": "b"})
	s.save()
	s.SetActive(map[string]string{"stays": "a"})
	for _, test := range []struct {
		after time.Duration
		left  int
	}{{29 * 24 * time.Hour, 2}, {31 * 24 * time.Hour, 1}} {
		clock.wall = at.Add(test.after)
		s.save()
		if view, err := Look(dir); err != nil || len(view.Targets) != test.left || view.Targets["stays"].Name != "a" {
			t.Errorf("after %v: %v %+v", test.after, err, view.Targets)
		}
	}
}

func TestKey(t *testing.T) {
	base := Key("a", "http://h", "m", "auto")
	for _, other := range []string{
		Key("b", "http://h", "m", "auto"), Key("a", "http://h2", "m", "auto"), Key("a", "http://h", "n", "auto"), Key("a", "http://h", "m", "vllm"), Key("a", "http://hm", "", "auto"),
	} {
		if other == base {
			t.Error("two targets share a key")
		}
	}
	if Key("a", "http://h", "m", "auto") != base {
		t.Error("a key is not stable")
	}
}
