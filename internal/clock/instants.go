package clock

import (
	"sync"
	"time"
)

// Instants turns instants of Go's clock into those of Boot. Between reading the
// one and the other a process may be put aside for milliseconds, so only readings
// close together count; they stay good until a suspend, which Go's clock does not
// see.
type Instants struct {
	mu   sync.Mutex
	zero time.Time
	off  time.Duration // boot time of zero
}

// closely is how far apart two readings may be that are taken for one.
const closely = 20 * time.Microsecond

// Boot is what the function Boot would have returned at t.
func (i *Instants) Boot(t time.Time) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	for tries := 0; ; tries++ {
		before := time.Now()
		boot := Boot()
		gap := time.Since(before)
		first := i.zero.IsZero()
		if first {
			i.zero = before
		}
		off := boot - before.Sub(i.zero) // too late by at most gap
		switch moved := off - i.off; {
		case gap <= closely || first && tries >= 100:
			i.off = off
		case first:
			i.zero = time.Time{}
			continue
		case moved > gap+time.Millisecond || moved < -time.Millisecond:
			if tries < 10 {
				continue
			}
			i.off = off
		}
		return i.off + t.Sub(i.zero)
	}
}
