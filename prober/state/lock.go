package state

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// errInUse says that somebody else holds a lock.
var errInUse = errors.New("in use")

// acquire takes a lock that ends with the process, however it ends. The file is the lock's holder's; what is in it says nothing.
func acquire(path string) (*os.File, error) { return flock(path, syscall.LOCK_EX|syscall.LOCK_NB) }

// acquireWaiting waits until nobody else has it.
func acquireWaiting(path string) (*os.File, error) { return flock(path, syscall.LOCK_EX) }

func flock(path string, how int) (*os.File, error) {
	f, err := openRegular(path, os.O_RDONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
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
