//go:build mutants

package rota

import "time"

// LeaseClock reads the clock that a new member would measure its lease by.
func LeaseClock() time.Duration { return leaseClock().Now() }

// Slept sets the member's clock back by the time that it stood still.
func (m *Member) Slept(d time.Duration) {
	now := m.clock.Now
	m.clock.Now = func() time.Duration { return now() - d }
}
