package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

const tryEvery = 20 * time.Millisecond // a lock that somebody else holds

// errInUse says that somebody else holds a lock.
var errInUse = errors.New("in use")

// acquire takes a lock that ends with the process, however it ends. The file is the lock's holder's; what is in it says nothing.
func acquire(path string) (*os.File, error) {
	f, err := openRegular(path, os.O_RDONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return f, nil
	}
	_ = f.Close() // nothing was written
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errInUse
	}
	return nil, fmt.Errorf("locking %s: %w", path, err)
}

// acquireWaiting waits until nobody else has the lock, or until ctx ends: the system's own waiting could not be ended.
func acquireWaiting(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := acquire(path)
		if !errors.Is(err, errInUse) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s is %w by somebody else: %w", path, err, context.Cause(ctx))
		case <-time.After(tryEvery):
		}
	}
}
