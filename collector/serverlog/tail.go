package serverlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

const (
	chunkSize    = 64 << 10
	chunksAtOnce = 64      // of one look, so that it ends
	printSize    = 4 << 10 // bytes by which a file is known again
)

// tail is one file and how far it is read.
type tail struct {
	file     *os.File
	info     os.FileInfo // as it was opened; which file it is
	offset   int64
	modified time.Time // at the latest look
	print    []byte    // the bytes before offset
	lines    lineBuffer
	unwrap   unwrapper
	quiet    int // looks in a row without anything new
}

// openTail opens a file to read it from its beginning.
func openTail(path string) (*tail, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for its writer
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &tail{file: file, info: info}, nil
}

// Readable tells why a file cannot be followed now, if it cannot.
func Readable(path string) error {
	t, err := openTail(path)
	if err != nil {
		return err
	}
	return t.file.Close()
}

// toEnd passes over what is there. A line that is not whole yet is passed over too.
func (t *tail) toEnd() error {
	size := t.info.Size()
	t.print = make([]byte, min(size, printSize))
	if _, err := t.file.ReadAt(t.print, size-int64(len(t.print))); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the end: %w", err)
	}
	t.offset = size
	if n := len(t.print); n > 0 && t.print[n-1] != '\n' {
		t.lines.skip()
	}
	return nil
}

// resume goes on where another tail of the same file ended, if the file is still the one that it read.
func (t *tail) resume(last *tail) {
	if last == nil || !os.SameFile(t.info, last.info) || t.info.Size() < last.offset {
		return
	}
	t.print, t.offset = last.print, last.offset
	if !t.same() {
		t.print, t.offset = nil, 0
		return
	}
	t.lines, t.unwrap = last.lines, last.unwrap
}

// same tells whether the bytes before the offset are those that were read.
func (t *tail) same() bool {
	now := make([]byte, len(t.print))
	n, err := t.file.ReadAt(now, t.offset-int64(len(t.print)))
	return n == len(now) && (err == nil || errors.Is(err, io.EOF)) && bytes.Equal(now, t.print)
}

// rewritten tells whether the file was cut since it was read, and goes back to its beginning then.
func (t *tail) rewritten() (bool, error) {
	info, err := t.file.Stat()
	if err != nil {
		return false, err
	}
	touched := info.Size() != t.offset || !info.ModTime().Equal(t.modified)
	t.modified = info.ModTime()
	if !touched || info.Size() >= t.offset && t.same() {
		return false, nil
	}
	t.offset, t.print = 0, t.print[:0]
	t.lines, t.unwrap = lineBuffer{}, unwrapper{}
	return true, nil
}

// read gives what is new, in bounded chunks, and tells whether there may be more.
func (t *tail) read(buffer []byte, give func(t *tail, chunk []byte)) (more bool, err error) {
	t.quiet++
	for range chunksAtOnce {
		n, err := t.file.ReadAt(buffer, t.offset)
		if n > 0 {
			t.quiet = 0
			t.offset += int64(n)
			t.remember(buffer[:n])
			give(t, buffer[:n])
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// remember keeps the latest bytes.
func (t *tail) remember(chunk []byte) {
	if len(chunk) >= printSize {
		t.print = append(t.print[:0], chunk[len(chunk)-printSize:]...)
		return
	}
	if excess := len(t.print) + len(chunk) - printSize; excess > 0 {
		t.print = append(t.print[:0], t.print[excess:]...)
	}
	t.print = append(t.print, chunk...)
}
