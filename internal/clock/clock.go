// Package clock reads the clock that leases are measured by: it counts the time
// that the machine is suspended, and nobody sets it.
package clock

import "time"

// A Clock is what a member measures its lease by.
type Clock struct {
	Now func() time.Duration
	// Drift is how far another clock of this machine has run away from the one
	// that timers go by. When it jumps, the machine slept or was tampered with,
	// and no lease is trusted. Nil where there is no other clock to compare with.
	Drift func() time.Duration
	Exact bool // it counts suspend by itself
}

// New picks the best clock there is. In a test bubble the runtime's time is not
// this machine's; then the runtime's counts, for timers go by it.
func New() Clock {
	began := time.Now()
	wall, ok := kernelTime()
	if !ok {
		return Plain(began)
	}
	if d := time.Since(wall); d > time.Hour || d < -time.Hour {
		return Runtime(began)
	}
	first := Boot()
	return Clock{Boot, func() time.Duration { return Boot() - first - time.Since(began) }, true}
}

// Runtime is the runtime's monotonic clock alone, as if the machine were never
// suspended.
func Runtime(began time.Time) Clock { return Clock{Plain(began).Now, nil, true} }

// Plain is the runtime's monotonic clock, where none in reach counts suspend: the
// wall clock at least does not stand still in it.
func Plain(began time.Time) Clock {
	wall := began.Round(0)
	return Clock{
		Now: func() time.Duration { return time.Since(began) + 1 },
		Drift: func() time.Duration {
			t := time.Now() // one reading of both: a freeze in between is no sleep
			return t.Round(0).Sub(wall) - t.Sub(began)
		},
	}
}

// jump is how much two clocks of one machine may come apart, beyond what they
// are slewed by, before something has happened to it.
const jump = 200 * time.Millisecond

// SlewRate: two clocks of one machine may run apart by one part in this many and
// nothing has happened. NTP slews by 500 ppm at most. A sleep that is hidden by
// it is a tenth of the error of clock rates that leases allow for.
const SlewRate = 1000

// Apart tells whether two readings of a Drift differ by more than clocks do that
// nothing happened to.
func Apart(a, b time.Duration) bool { return a-b > jump || b-a > jump }
