package rota

import (
	"time"

	"github.com/rota-dev/rota/internal/clock"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// What tests need to reach.

// TestPause makes the member call f wherever a stopped process would stand still.
func (m *Member) TestPause(f func()) { m.testPause = f }

// Jump tells the running session that its host's clocks disagree.
func (m *Member) Jump() { m.cur.Load().send(core.Event{Kind: core.Jumped}) }

// Prove gives the running session the kernel's proof that another is gone.
func (m *Member) Prove(session uint64) {
	m.cur.Load().send(core.Event{Kind: core.Proven, Session: record.Session(session)})
}

// LeaseRemaining is how long the running session trusts its ownerships.
func (m *Member) LeaseRemaining() time.Duration {
	s := m.cur.Load()
	if s == nil {
		return 0
	}
	return core.Time(s.lease.Load()).Sub(m.now())
}

// SessionID is the running session's.
func (m *Member) SessionID() uint64 {
	if s := m.cur.Load(); s != nil {
		return uint64(s.id)
	}
	return 0
}

// SourceFailures sets how often a source may fail in a row before its partition is
// given up.
func (m *Member) SourceFailures(n int) { m.sourceFailures = n }

// LastPlan is the newest plan event of the member.
func (m *Member) LastPlan() Event {
	m.ring.mu.Lock()
	defer m.ring.mu.Unlock()
	for i := m.ring.next; i > 0 && m.ring.next-i < ringSize; i-- {
		if e := m.ring.buf[(i-1)%ringSize]; e.Kind == EventPlan {
			return e
		}
	}
	return Event{}
}

// Unpaced turns the equal rate of the member's partitions off.
func (m *Member) Unpaced() { m.ahead = 1 << 40 }

// CheckTiming is what New asks of a lease, a heartbeat and the time it takes to
// stop, which no Config can set.
func CheckTiming(lease, heartbeat, margin time.Duration) error {
	t := core.MakeTiming(lease, heartbeat)
	t.Margin = margin
	return checkTiming(t)
}

// Timing is what New made of the durations: those of Config, in its order.
func (m *Member) Timing() [7]time.Duration {
	t := m.timing
	return [...]time.Duration{t.Lease, t.Heartbeat, t.Quiet, t.StopTime, t.Grace, t.Orphan, t.Return}
}

// Drift sets how far this machine's clocks have come apart.
func (m *Member) Drift(f func() time.Duration) { m.clock.Drift = f }

// Inexact makes the member's clock one that does not count suspend; drift is how
// far the wall clock has run away from it.
func (m *Member) Inexact(drift func() time.Duration) { m.clock.Drift, m.clock.Exact = drift, false }

// NoBootClock gives the member the clock of a system where none counts suspend.
func (m *Member) NoBootClock() { m.clock = clock.Plain(time.Now()) }

// Answers reads the plan as a session does, and returns what its core would be
// told within the given time.
func (m *Member) Answers(within time.Duration) (told []core.Outcome) {
	s := newSession(m)
	defer s.stop()
	s.call(core.Action{Do: core.DoCall, Verb: core.Get, Key: core.Key{Cell: core.PlanCell}})
	for end := time.After(within); ; {
		select {
		case ev := <-s.inbox:
			told = append(told, ev.Outcome)
		case <-end:
			return told
		}
	}
}

// AfterClock makes the member call f each time it has read its lease's clock.
func (m *Member) AfterClock(f func()) {
	now := m.clock.Now
	m.clock.Now = func() time.Duration {
		t := now()
		f()
		return t
	}
}
