package state

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// ErrTooLarge says that a file is larger than it may be.
var ErrTooLarge = errors.New("too large")

// ReadFile reads a regular file of at most so many bytes. Nothing else is opened for long: a pipe would make whoever reads it wait.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := openRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(content)) > most {
		return nil, fmt.Errorf("%s is %w: more than %d MiB", path, ErrTooLarge, most>>20)
	}
	return content, err
}

// openRegular opens a regular file, and does not wait for anybody at the other end of what is none.
func openRegular(path string, how int, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, how|syscall.O_NONBLOCK, mode)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}
