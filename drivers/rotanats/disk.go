package rotanats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// A server that cannot write does not answer. Its clients on the same host can find out
// by a small write of their own.
const (
	diskRoom = 64 << 10               // bytes
	diskTime = 100 * time.Millisecond // timeout for that write: the caller waits
)

// withDisk adds to the timeout of a write to a folder that its disk is full or broken, if
// it is.
func (s *store) withDisk(err error) error {
	if s.set.Folder == "" || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	f := s.set.AsFolder()
	found := make(chan error, 1)
	go func() { found <- f.Writable(diskRoom, false) }() // nobody waits for it to end: a disk may hang
	select {
	case cause := <-found:
		if slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO}, func(e error) bool { return errors.Is(cause, e) }) {
			cause = f.Explain(cause)
			s.warn(cause.Error()) // reads are answered, so for a member this is not an outage
			return fmt.Errorf("%w; %w", err, cause)
		}
	case <-time.After(diskTime):
	}
	return err
}
