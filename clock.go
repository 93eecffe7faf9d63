package rota

import (
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/rule"
)

// A clock tells the time that leases are measured by: it counts suspend, and
// nobody sets it.
type clock struct {
	now func() core.Time
	// drift is how far another clock of this machine has run away from the one
	// that timers go by. When it jumps, the machine slept or was tampered with,
	// and no lease is trusted. Nil where there is no other clock to compare with.
	drift func() time.Duration
	exact bool // it counts suspend by itself
}

// newClock picks the best clock there is. In a test bubble the runtime's time is
// not this machine's; then the runtime's counts, for timers go by it.
func newClock() clock {
	began := time.Now()
	runtime := plainClock(began).now
	boot, real, ok := bootClock()
	// clock-counts-suspend: The clock of a lease counts the time that the machine sleeps.
	// Without it: C1's machine sleeps past the lease, and q goes to C2. C1 wakes up with a
	// clock that stood still, and goes on with q under a lease that looks valid.
	if rule.ClockCountsSuspend.Off() {
		return clock{runtime, nil, true}
	}
	if !ok {
		return plainClock(began)
	}
	if d := time.Since(real); d > time.Hour || d < -time.Hour {
		return clock{runtime, nil, true}
	}
	first := boot()
	return clock{boot, func() time.Duration { return boot().Sub(first) - time.Since(began) }, true}
}

// plainClock is the runtime's monotonic clock, where none in reach counts
// suspend: the wall clock at least does not stand still in it.
func plainClock(began time.Time) clock {
	wall := began.Round(0)
	return clock{
		now: func() core.Time { return core.Time(time.Since(began)) + 1 },
		drift: func() time.Duration {
			t := time.Now() // one reading of both: a freeze in between is no sleep
			return t.Round(0).Sub(wall) - t.Sub(began)
		},
	}
}

// jump is how much two clocks of one machine may come apart, beyond what they
// are slewed by, before something has happened to it.
const jump = 200 * time.Millisecond

// slewRate: two clocks of one machine may run apart by one part in this many and
// nothing has happened. NTP slews by 500 ppm at most. A sleep that is hidden by
// it is a tenth of the error of clock rates that leases allow for.
const slewRate = 1000

func apart(a, b time.Duration) bool { return a-b > jump || b-a > jump }
