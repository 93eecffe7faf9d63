package rota

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// Ready returns nil if this member has joined, holds its lease and has applied the newest
// plan that it knows: what the plan gives it runs, and what the plan takes from it has
// stopped. Otherwise the error says in one line what is missing. A member that was asked
// to leave is not ready, and neither is one that works on without a lease.
//
// The loop of Run answers, whatever the store does. If ctx ends before that, Ready
// returns the error of ctx, and no other error of it wraps that one: the loop is held up.
func (m *Member) Ready(ctx context.Context) error {
	if !m.ran.Load() {
		return errors.New("rota: it has not begun to join")
	}
	answer := make(chan error, 1)
	select {
	case m.asks <- func(s *session) { answer <- s.unready() }:
		return <-answer
	case <-m.ended:
		return errors.New("rota: it has ended")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unready is the reason why the session is not ready, nil if it is.
func (s *session) unready() error {
	p := s.node.Plan()
	joined := slices.ContainsFunc(s.node.Members(), func(m *record.Member) bool { return m.Session == s.id })
	cause, _ := s.node.Ended()
	switch {
	case cause != core.NotEnded:
		return fmt.Errorf("rota: its session ends: %v", cause)
	case s.leaving || s.askedToEnd():
		return errors.New("rota: it leaves")
	case !joined:
		return fmt.Errorf("rota: it has not joined%s", s.outage.clause())
	case s.m.now() >= core.Time(s.lease.Load()).Add(-s.m.timing.Margin):
		return fmt.Errorf("rota: it has no lease%s", s.outage.clause())
	case p != nil && p.Hold:
		return errors.New("rota: a hold: nothing is granted until every lease that the store may have forgotten is over")
	case p == nil || !slices.Contains(p.Members, s.id):
		return errors.New("rota: it has joined, and no plan counts on it yet")
	}
	return s.unapplied(p)
}

// askedToEnd tells that Run was asked to end, also before the loop has begun to leave.
func (s *session) askedToEnd() bool {
	select {
	case <-s.asked:
		return true
	default:
		return false
	}
}

// unapplied is what this member still has to do until the plan is applied.
func (s *session) unapplied(p *record.Plan) error {
	waits, first := 0, ""
	for _, row := range p.Mine(s.id, nil) {
		r, what := s.runs[row.ID], ""
		switch {
		case row.State == record.Revoking && r != nil:
			what = "for its owner to stop"
		case row.State == record.Owned && (r == nil || r.token != row.Token):
			what = "to be started"
		case row.State == record.Owned && !r.begun.Load():
			what = "for the source to confirm its start"
		default:
			continue
		}
		if waits++; waits == 1 {
			first = s.node.NameOf(row.ID) + " waits " + what
		}
	}
	switch waits {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("rota: plan %d is not applied: %s", p.ID, first)
	}
	return fmt.Errorf("rota: plan %d is not applied: %s, and %d more wait", p.ID, first, waits-1)
}

// clause is what the store last said, if it does not answer: a clause for people.
func (o *outage) clause() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.mute || o.last == nil {
		return ""
	}
	return ": the store does not answer: " + oneLine(o.last.Error())
}
