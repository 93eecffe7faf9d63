//go:build unix

package folder

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// flock locks a file for this process, or returns ErrServed.
func flock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrServed
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}
