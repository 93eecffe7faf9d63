package rota

import (
	"context"
	"time"

	"github.com/rota-dev/rota/internal/clock"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// This file gives the tests of package rota_test access to internals.

// TestPause makes the member call f at the points where SIGSTOP could stop a process.
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

// SessionID is the id of the running session.
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

// Unpaced lets the member's partitions run at unequal rates.
func (m *Member) Unpaced() { m.ahead = 1 << 40 }

// CheckTiming is the check of New, with a margin that no Config can set.
func CheckTiming(lease, heartbeat, margin time.Duration) error {
	t := core.MakeTiming(lease, heartbeat)
	t.Margin = margin
	return checkTiming(t)
}

// Timing are the durations in use, in the order of Config.
func (m *Member) Timing() [7]time.Duration {
	t := m.timing
	return [...]time.Duration{t.Lease, t.Heartbeat, t.Quiet, t.StopTime, t.Grace, t.Orphan, t.Return}
}

// Drift sets how far this machine's clocks have come apart.
func (m *Member) Drift(f func() time.Duration) { m.clock.Drift = f }

// Inexact gives the member a clock that does not count suspend; drift is how far the
// wall clock is ahead of it.
func (m *Member) Inexact(drift func() time.Duration) { m.clock.Drift, m.clock.Exact = drift, false }

// NoBootClock gives the member the clock of a system without a clock that counts
// suspend.
func (m *Member) NoBootClock() { m.clock = clock.Plain(time.Now()) }

// Answers reads the plan as a session does, and returns the outcomes that its core
// would get in the given time.
func (m *Member) Answers(within time.Duration) (told []core.Outcome) {
	s := newSession(context.Background(), m)
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
