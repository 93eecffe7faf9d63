//go:build !linux

package rota

import (
	"time"

	"github.com/rota-dev/rota/internal/core"
)

// bootClock: the standard library reaches no clock here that counts suspend, so
// the runtime's monotonic clock serves, and a jump between it and the wall clock
// counts as a lost lease.
func bootClock() (now func() core.Time, wall time.Time, ok bool) {
	return nil, time.Time{}, false
}
