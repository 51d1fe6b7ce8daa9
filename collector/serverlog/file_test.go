package serverlog

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/google/go-cmp/cmp"

	"longctx_exporter/prober"
)

// decodeLine is a batch line with an acceptance length of its own.
func decodeLine(n int) string {
	return fmt.Sprintf("[2026-06-03 08:%02d:%02d TP0] Decode batch, #running-req: 1, #token: %d, token usage: 0.02, accept len: %d.%02d, accept rate: 0.05, cuda graph: True, gen throughput (token/s): 23.75, #queue-req: 0, \n",
		n/60%60, n%60, n, 3+n/100, n%100)
}

func acceptOf(n int) float64 { return float64(300+n) / 100 }

// followed is a file that is followed by hand: nothing is read until look.
type followed struct {
	*fileLog
	*notebook
	dir string
	t   *testing.T
}

func follow(t *testing.T, existing string) *followed {
	t.Helper()
	n := &notebook{}
	dir := t.TempDir()
	f := &followed{newFileLog(filepath.Join(dir, "server.log"), newLineLog("auto", n), log.NewNopLogger()), n, dir, t}
	t.Cleanup(f.close)
	if existing != "" {
		f.append(existing)
	}
	f.looks()
	return f
}

// looks looks until there is nothing more at once.
func (f *followed) looks() {
	for f.look() {
	}
}

func (f *followed) append(text string) { appendTo(f.t, f.path, text) }

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func (f *followed) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// expect looks and compares what has come by now.
func (f *followed) expect(numbers ...int) {
	f.t.Helper()
	f.looks()
	var want []float64
	for _, n := range numbers {
		want = append(want, acceptOf(n))
	}
	if d := cmp.Diff(want, f.lengths()); d != "" {
		f.t.Fatalf("-want +got\n%s", d)
	}
}

func numbers(from, to int) (all []int) {
	for n := from; n < to; n++ {
		all = append(all, n)
	}
	return all
}

func lines(from, to int) string {
	var b strings.Builder
	for _, n := range numbers(from, to) {
		b.WriteString(decodeLine(n))
	}
	return b.String()
}

// TestCopytruncate is the case rotation-copytruncate.
func TestCopytruncate(t *testing.T) {
	f := follow(t, "\n")
	f.append(lines(0, 10))
	f.expect(numbers(0, 10)...)
	f.must(os.Truncate(f.path, 0))
	f.append(lines(10, 13))
	f.expect(numbers(0, 13)...)
	f.must(os.Truncate(f.path, 0))
	f.append(lines(13, 25)) // longer than before
	f.expect(numbers(0, 25)...)
	if got := f.lines(); got.Truncations != 2 || got.Rotations != 0 || got.Unparsed != 0 || got.Read != 25 {
		t.Errorf("counted %+v", got)
	}
}

// TestTruncatedToTheSameLength has only the time of the change and the bytes to tell.
func TestTruncatedToTheSameLength(t *testing.T) {
	f := follow(t, "\n")
	f.append(lines(0, 3))
	f.expect(0, 1, 2)
	f.must(os.WriteFile(f.path, []byte("\n"+lines(3, 6)), 0o600))
	f.must(os.Chtimes(f.path, time.Time{}, time.Now().Add(time.Second))) // clocks of file systems are coarse
	f.expect(0, 1, 2, 3, 4, 5)
}

// TestTruncatedUnderAWriter is a writer without O_APPEND, who goes on where he was: the file begins with a hole.
func TestTruncatedUnderAWriter(t *testing.T) {
	f := follow(t, "\n")
	writer, err := os.OpenFile(f.path, os.O_WRONLY, 0)
	f.must(err)
	defer writer.Close()
	_, err = writer.WriteString(lines(0, 5))
	f.must(err)
	f.expect(numbers(0, 5)...)
	f.must(os.Truncate(f.path, 0))
	_, err = writer.WriteString(lines(5, 8))
	f.must(err)
	f.expect(numbers(0, 8)...)
}

// TestPartialLine is the case partial-last-line.
func TestPartialLine(t *testing.T) {
	f := follow(t, "\n")
	line := decodeLine(42)
	cut := strings.Index(line, "3.42") + 2
	f.append(line[:cut])
	f.expect()
	f.append(line[cut : len(line)-1])
	f.expect()
	f.append("\n")
	f.expect(42)
}

// TestStartAtEnd is the case start-at-end-no-history.
func TestStartAtEnd(t *testing.T) {
	f := follow(t, lines(0, 1000))
	f.expect()
	f.append(lines(1000, 1002))
	f.expect(1000, 1001)
}

// TestStartWithinALine passes over the rest of a line that was begun before.
func TestStartWithinALine(t *testing.T) {
	line := decodeLine(7)
	f := follow(t, line[:50])
	f.append(line[50:] + decodeLine(8))
	f.expect(8)
	if got := f.lines().Read; got != 1 {
		t.Errorf("%d lines read", got)
	}
}

func TestRotations(t *testing.T) {
	tests := map[string]func(f *followed, generation int){
		"rename and create": func(f *followed, _ int) {
			f.must(os.Rename(f.path, f.path+".1"))
			f.append(lines(0, 0))
		},
		"rename, and create later": func(f *followed, _ int) {
			f.must(os.Rename(f.path, f.path+".1"))
			f.looks()
			f.append(lines(0, 0))
		},
		"delete and create": func(f *followed, _ int) {
			f.must(os.Remove(f.path))
			f.looks()
			f.append(lines(0, 0))
		},
		"create beside and move over": func(f *followed, _ int) {
			appendTo(f.t, f.path+".new", "")
			f.must(os.Rename(f.path+".new", f.path))
		},
		"symbolic link": func(f *followed, generation int) {
			fresh := fmt.Sprintf("%s.%d", f.path, generation)
			appendTo(f.t, fresh, "")
			f.must(os.Symlink(fresh, f.path+".link"))
			f.must(os.Rename(f.path+".link", f.path))
		},
	}
	for name, rotate := range tests {
		t.Run(name, func(t *testing.T) {
			f := follow(t, "\n")
			for generation := range 20 {
				f.append(lines(10*generation, 10*generation+9))
				if generation%2 == 0 {
					f.looks()
				}
				f.append(decodeLine(10*generation + 9)) // unread when it is rotated
				rotate(f, generation)
				f.looks()
			}
			f.expect(numbers(0, 200)...)
			if got := f.lines(); got.Rotations != 20 || got.Truncations != 0 || got.Read != 200 {
				t.Errorf("counted %+v", got)
			}
		})
	}
}

// TestSlowWriter goes on writing to a file that was rotated away, as one does that reopens its log only when it is told.
func TestSlowWriter(t *testing.T) {
	f := follow(t, "\n")
	writer, err := os.OpenFile(f.path, os.O_APPEND|os.O_WRONLY, 0)
	f.must(err)
	defer writer.Close()
	f.must(os.Rename(f.path, f.path+".1"))
	f.append(decodeLine(0))
	f.expect(0)
	line := decodeLine(1)
	_, err = writer.WriteString(line[:60])
	f.must(err)
	f.append(decodeLine(2))
	f.expect(0, 2)
	_, err = writer.WriteString(line[60:])
	f.must(err)
	f.expect(0, 2, 1)
	for range closeAfter + 2 {
		f.looks()
	}
	if len(f.old) != 0 {
		t.Error("a file that was rotated away stays open")
	}
}

// TestMovedAwayAndBack is the same file again: nothing is read twice.
func TestMovedAwayAndBack(t *testing.T) {
	f := follow(t, "\n")
	f.append(lines(0, 3))
	f.expect(0, 1, 2)
	f.must(os.Rename(f.path, f.path+".away"))
	for range 2 * closeAfter {
		f.looks()
	}
	if f.current != nil {
		t.Error("a file that is gone stays open")
	}
	f.must(os.Rename(f.path+".away", f.path))
	f.append(decodeLine(3))
	f.expect(0, 1, 2, 3)
	if d := cmp.Diff([]bool{true, false, true}, f.notebook.reading); d != "" {
		t.Errorf("reading -want +got\n%s", d)
	}
}

func TestPermissionLostAndRegained(t *testing.T) {
	f := follow(t, "\n")
	open, stat := f.open, f.stat
	denied := fmt.Errorf("open: %w", fs.ErrPermission)
	f.append(lines(0, 2))
	f.expect(0, 1)
	f.open = func(string) (*tail, error) { return nil, denied }
	f.stat = func(string) (os.FileInfo, error) { return nil, denied }
	f.append(lines(2, 4))
	f.expect(0, 1, 2, 3)
	f.must(os.Rename(f.path, f.path+".1"))
	f.append(decodeLine(4))
	f.expect(0, 1, 2, 3)
	f.open, f.stat = open, stat
	f.expect(0, 1, 2, 3, 4)
	if d := cmp.Diff([]bool{true, false, true}, f.notebook.reading); d != "" {
		t.Errorf("reading -want +got\n%s", d)
	}
}

// TestPermissionOnlyLater has a log that was there from the start: its history is not read.
func TestPermissionOnlyLater(t *testing.T) {
	n := &notebook{}
	f := &followed{newFileLog(filepath.Join(t.TempDir(), "server.log"), newLineLog("auto", n), log.NewNopLogger()), n, "", t}
	t.Cleanup(f.close)
	f.append(lines(0, 5))
	open := f.open
	f.open = func(string) (*tail, error) { return nil, fs.ErrPermission }
	f.looks()
	f.open = open
	f.expect()
	f.append(decodeLine(5))
	f.expect(5)
}

// TestComesLater has a log that was not there at the start: it is new.
func TestComesLater(t *testing.T) {
	f := follow(t, "")
	f.append(lines(0, 3))
	f.expect(0, 1, 2)
	if got := f.lines().Rotations; got != 0 {
		t.Errorf("%d rotations", got)
	}
}

// TestReadError reads on where it was when the file can be read again.
func TestReadError(t *testing.T) {
	f := follow(t, "\n")
	f.append(lines(0, 2))
	f.expect(0, 1)
	f.must(f.current.file.Close()) // every read fails
	f.append(decodeLine(2))
	f.look()
	f.expect(0, 1, 2)
}

func TestNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, pipe} {
		if tail, err := openTail(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v %v", path, tail, err)
		}
	}
}

// TestLookIsBounded gives up the turn in a file that is long.
func TestLookIsBounded(t *testing.T) {
	f := follow(t, "\n")
	f.append(strings.Repeat("x", 100) + "\n")
	f.must(os.Truncate(f.path, 3*chunksAtOnce*chunkSize))
	turns := 0
	for f.look() {
		turns++
	}
	if turns < 2 {
		t.Errorf("%d turns", turns)
	}
}

// TestMemory reads the case huge-garbage-line again and again and holds what is kept against a bound.
func TestMemory(t *testing.T) {
	f := follow(t, "\n")
	garbage := string(expand(t, readFile(t, "cases/132-huge-garbage-line.log")))
	var before, after runtime.MemStats
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // what is garbage already is not counted
	runtime.GC()
	runtime.ReadMemStats(&before)
	most := uint64(0)
	for range 5 {
		f.append(garbage)
		for f.look() {
			runtime.ReadMemStats(&after)
			most = max(most, after.HeapAlloc)
		}
	}
	if grown := int64(most) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("%d MiB", grown>>20)
	}
	if got := f.lines(); got.Read != 15 || got.Matched != 5 || got.Unparsed != 5 {
		t.Errorf("counted %+v", got)
	}
	if got := cap(f.current.lines.pending); got > usualLine {
		t.Errorf("%d bytes stay", got)
	}
}

// descriptors counts the open files of the process that are called server.log.
func descriptors(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("there is no /proc")
	}
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err == nil && strings.HasPrefix(to, dir) {
			n++
		}
	}
	return n
}

// TestDescriptors rotates often and leaves nothing open.
func TestDescriptors(t *testing.T) {
	f := follow(t, "\n")
	for n := range 100 {
		f.append(decodeLine(n))
		f.must(os.Rename(f.path, f.path+".1"))
		f.append("")
		f.looks()
		if got := descriptors(t, f.dir); got > oldAtOnce+2 {
			t.Fatalf("%d descriptors after %d rotations", got, n)
		}
	}
	f.expect(numbers(0, 100)...)
	f.close()
	if got := descriptors(t, f.dir); got != 0 {
		t.Errorf("%d descriptors after the end", got)
	}
}

// TestFollow is the follower with its goroutine, which looks when it is woken.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.log")
	wake := make(chan time.Time)
	n := &notebook{}
	f := Follow(prober.LogSource{Path: path, Format: "sglang"}, n, log.NewNopLogger(), Options{Wake: func() <-chan time.Time { return wake }})
	wake <- time.Time{}
	appendTo(t, path, lines(0, 3))
	wake <- time.Time{}
	wake <- time.Time{} // the look before is over
	if got := n.lengths(); !slices.Equal(got, []float64{3, 3.01, 3.02}) {
		t.Errorf("read %v", got)
	}
	if last := n.lines().Last; time.Since(last) > time.Hour {
		t.Errorf("the latest line came at %v", last)
	}
	f.Close()
	if got := descriptors(t, path); got != 0 {
		t.Errorf("%d descriptors after the end", got)
	}
}

// TestEndWhileReading ends a follower in the midst of a file that never ends.
func TestEndWhileReading(t *testing.T) {
	f := follow(t, "\n")
	f.must(os.Truncate(f.path, 1<<40)) // a hole
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.run(ctx, func() <-chan time.Time { return nil })
	}()
	cancel()
	<-done
	if f.current != nil {
		t.Error("the file stays open")
	}
}

func TestUnreadableIsToldOnce(t *testing.T) {
	var told []string
	logger := log.LoggerFunc(func(pairs ...any) error {
		told = append(told, fmt.Sprint(pairs...))
		return nil
	})
	n := &notebook{}
	f := newFileLog(filepath.Join(t.TempDir(), "server.log"), newLineLog("auto", n), logger)
	defer f.close()
	for range 10 {
		f.look()
	}
	appendTo(t, f.path, decodeLine(0))
	for range 10 {
		f.look()
	}
	if len(told) != 2 || !strings.Contains(told[0], "cannot be read") || !strings.Contains(told[1], "can be read again") {
		t.Errorf("told %q", told)
	}
}
