package trial

import (
	"testing"
	"time"
)

// Stood tells how long this process has stood still at most since it was called, until its result
// is: a machine that gives a process no time for that long shows nothing of what others did in time.
func Stood(t *testing.T) func() time.Duration {
	end, most := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var longest time.Duration
		for last := time.Now(); ; {
			select {
			case <-end:
				most <- max(longest, time.Since(last))
				return
			case <-time.After(5 * time.Millisecond):
			}
			now := time.Now()
			longest, last = max(longest, now.Sub(last)), now
		}
	}()
	var got time.Duration
	ended := false
	stop := func() time.Duration {
		if !ended {
			ended = true
			close(end)
			got = <-most
		}
		return got
	}
	t.Cleanup(func() { stop() })
	return stop
}
