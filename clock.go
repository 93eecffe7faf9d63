package rota

import (
	"time"

	"github.com/rota-dev/rota/internal/core"
)

// A clock tells the time that leases are measured by: it counts suspend, and
// nobody sets it.
type clock struct {
	now func() core.Time
}

// newClock picks the best clock there is. In a test bubble the runtime's time is
// not this machine's; then the runtime's counts, for timers go by it.
func newClock() clock {
	began := time.Now()
	runtime := clock{func() core.Time { return core.Time(time.Since(began)) + 1 }}
	boot, real, ok := bootClock()
	if !ok {
		return runtime
	}
	if d := time.Since(real); d > time.Hour || d < -time.Hour {
		return runtime
	}
	return clock{boot}
}
