package serverlog

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

const (
	lookEvery   = 250 * time.Millisecond
	goneAfter   = 20  // looks without the file until that is told
	closeAfter  = 240 // looks after which a file that is gone or rotated away, and quiet, is closed
	oldAtOnce   = 4   // files that were rotated away and are read on
	unreachable = "the log cannot be read; what its lines count stands still"
)

// fileLog follows a path.
type fileLog struct {
	path   string
	log    *lineLog
	buffer []byte
	open   func(path string) (*tail, error)
	stat   func(path string) (os.FileInfo, error)
	logger log.Logger

	current *tail
	old     []*tail // rotated away, oldest first
	last    *tail   // closed, because it was gone for long
	looked  bool    // at least once
	history bool    // what is there now was there at the start
	missing int     // looks in a row without a file
	reading bool
	told    bool // that it cannot be read
}

func newFileLog(path string, l *lineLog, logger log.Logger) *fileLog {
	return &fileLog{
		path: path, log: l, buffer: make([]byte, chunkSize), open: openTail, stat: os.Stat,
		logger: log.With(logger, "log", path),
	}
}

// run looks until ctx ends. wake tells when to look again.
func (f *fileLog) run(ctx context.Context, wake func() <-chan time.Time) {
	defer f.close()
	for {
		if more := f.look(); more && ctx.Err() == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-wake():
		}
	}
}

func (f *fileLog) close() {
	for _, t := range append(f.old, f.current) {
		if t != nil {
			_ = t.file.Close()
		}
	}
	f.old, f.current = nil, nil
}

// look reads what is new, up to a bound, and tells whether there is more to read at once.
func (f *fileLog) look() (more bool) {
	f.readOld()
	if f.current == nil && !f.find() {
		return false
	}
	more, err := f.advance()
	if err != nil {
		f.unreadable(err)
		f.release()
		return false
	}
	return more
}

// readOld reads on what was rotated away, until it is quiet.
func (f *fileLog) readOld() {
	kept := f.old[:0]
	for i, t := range f.old {
		more, err := t.read(f.buffer, f.give)
		for i == 0 && len(f.old) > oldAtOnce && more && err == nil {
			more, err = t.read(f.buffer, f.give) // its place is needed
		}
		if err != nil || t.quiet > closeAfter || i == 0 && len(f.old) > oldAtOnce {
			_ = t.file.Close()
			continue
		}
		kept = append(kept, t)
	}
	clear(f.old[len(kept):])
	f.old = kept
}

func (f *fileLog) give(t *tail, chunk []byte) { f.log.feed(&t.lines, &t.unwrap, chunk) }

// find opens the file at the path.
func (f *fileLog) find() bool {
	t, err := f.open(f.path)
	if !f.looked {
		f.looked = true
		f.history = !errors.Is(err, fs.ErrNotExist)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.history = false // what comes is new
		f.absent(err)
		return false
	case err != nil:
		f.unreadable(err)
		return false
	}
	if f.history {
		if err := t.toEnd(); err != nil {
			_ = t.file.Close()
			f.unreadable(err)
			return false
		}
	}
	if f.last != nil {
		t.resume(f.last)
		if !os.SameFile(t.info, f.last.info) {
			f.log.lines.Rotations++
		} else if t.offset == 0 && f.last.offset > 0 {
			f.log.lines.Truncations++
		}
	}
	f.history, f.last = false, nil
	f.use(t)
	return true
}

// use follows a file from now on.
func (f *fileLog) use(t *tail) {
	f.current = t
	f.found()
	f.log.flush()
}

// release closes the current file, to go on where it is read when it can be opened again.
func (f *fileLog) release() {
	_ = f.current.file.Close()
	f.last, f.current = f.current, nil
}

// advance reads the current file. At its end it sees whether that is still the file at the path.
func (f *fileLog) advance() (more bool, err error) {
	cut, err := f.current.rewritten()
	if err != nil {
		return false, err
	}
	if cut {
		f.log.lines.Truncations++
	}
	more, err = f.current.read(f.buffer, f.give)
	f.log.flush()
	if err != nil || more {
		return more, err
	}
	info, err := f.stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.absent(err)
		if f.missing > closeAfter && f.current.quiet > closeAfter {
			f.release() // its place on the disk is wanted
		}
	case err != nil:
		f.unreadable(err)
	case os.SameFile(info, f.current.info):
		f.found()
	default:
		return f.rotate()
	}
	return false, nil
}

// rotate goes on with the new file at the path.
func (f *fileLog) rotate() (more bool, err error) {
	next, err := f.open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.absent(err)
		return false, nil
	}
	if err != nil {
		f.unreadable(err)
		return false, nil
	}
	if os.SameFile(next.info, f.current.info) { // the old one is back
		return false, next.file.Close()
	}
	f.current.quiet = 0
	f.old = append(f.old, f.current)
	f.log.lines.Rotations++
	f.use(next)
	return true, nil
}

// found tells that the file is there, once.
func (f *fileLog) found() {
	f.missing = 0
	if f.reading {
		return
	}
	f.reading = true
	f.log.sink.SetReading(true)
	if f.told {
		f.told = false
		level.Info(f.logger).Log("msg", "the log can be read again")
	}
}

// absent takes that the file is not there. In the middle of a rotation that is nothing to tell.
func (f *fileLog) absent(err error) {
	if f.missing++; f.missing > goneAfter || f.current == nil && f.last == nil {
		f.unreadable(err)
	}
}

// unreadable tells that the file cannot be read, once.
func (f *fileLog) unreadable(err error) {
	if f.reading {
		f.reading = false
		f.log.sink.SetReading(false)
	}
	if !f.told {
		f.told = true
		level.Warn(f.logger).Log("msg", unreachable, "err", err)
	}
}
