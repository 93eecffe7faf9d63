//go:build mutants

package rota

import (
	"time"

	"github.com/rota-dev/rota/internal/core"
)

// LeaseClock reads the clock that a new member would measure its lease by.
func LeaseClock() time.Duration { return time.Duration(newClock().now()) }

// Slept sets the member's clock back by the time that it stood still.
func (m *Member) Slept(d time.Duration) {
	now := m.clock.now
	m.clock.now = func() core.Time { return now().Add(-d) }
}
