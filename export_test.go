package rota

import (
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// What tests need to reach.

// Hold makes the member call f wherever a stopped process would stand still.
func (m *Member) Hold(f func()) { m.hold = f }

// Jump tells the running session that its host's clocks disagree.
func (m *Member) Jump() { m.cur.Load().send(core.Event{Kind: core.Jumped}) }

// Prove gives the running session the kernel's proof that another is gone.
func (m *Member) Prove(session uint64) {
	m.cur.Load().send(core.Event{Kind: core.Proven, Session: record.Session(session)})
}

// LeaseLeft is how long the running session trusts its ownerships.
func (m *Member) LeaseLeft() time.Duration {
	s := m.cur.Load()
	if s == nil {
		return 0
	}
	return core.Time(s.lease.Load()).Sub(m.clock.now())
}

// SessionID is the running session's.
func (m *Member) SessionID() uint64 {
	if s := m.cur.Load(); s != nil {
		return uint64(s.id)
	}
	return 0
}

// Leaving: what Config has no word for yet, a leave that means to return.
func (m *Member) LeaveReturning() {
	m.cur.Load().send(core.Event{Kind: core.Leave, Flag: true})
}

// SourceFailures sets how often a source may fail before it is given up.
func SourceFailures(n int) (undo func()) {
	old := sourceFailures
	sourceFailures = n
	return func() { sourceFailures = old }
}

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
