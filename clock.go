package rota

import (
	"time"

	"github.com/rota-dev/rota/internal/core"
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
	runtime := func() core.Time { return core.Time(time.Since(began)) + 1 }
	boot, real, ok := bootClock()
	if mutClockStops {
		return clock{runtime, nil, true}
	}
	if !ok {
		// No clock in reach counts suspend: the wall clock at least does not
		// stand still in it.
		wall := began.Round(0)
		return clock{runtime, func() time.Duration { return time.Now().Round(0).Sub(wall) - time.Since(began) }, false}
	}
	if d := time.Since(real); d > time.Hour || d < -time.Hour {
		return clock{runtime, nil, true}
	}
	first := boot()
	return clock{boot, func() time.Duration { return boot().Sub(first) - time.Since(began) }, true}
}

// jump is how much two clocks of one machine may disagree from one look to the
// next before something has happened to it.
const jump = 200 * time.Millisecond
