package rota

import (
	"fmt"
	"time"

	"github.com/rota-dev/rota/internal/core"
)

// tellHold reports a hold when it begins, with its length, and keeps it as a condition
// of the leader until it is over. Only the leader knows how long it takes: the time
// counts from its own claim.
func (s *session) tellHold() {
	p := s.node.Plan()
	if p == nil || !p.Hold || !s.node.Leads() {
		if s.holdEnd.Swap(0) != 0 {
			s.conditions.end(ConditionHold)
		}
		s.holdSince = 0
		return
	}
	begins := s.holdSince == 0
	if begins {
		s.holdSince = s.m.now()
		s.newGroup.Store(p.ID == 0)
	}
	lease := s.cfg.Lease
	for _, m := range s.node.Members() {
		lease = max(lease, m.Lease) // the leases of lost records may have been as long
	}
	s.holdEnd.Store(int64(s.holdSince.Add(core.Timing{Lease: lease}.W())))
	if begins {
		s.condition(ConditionHold, "", s.holdText())
	}
}

// renewHold puts the time that remains into the condition that the next heartbeat has.
func (s *session) renewHold() {
	if s.holdEnd.Load() != 0 {
		s.conditions.end(ConditionHold)
		s.conditions.add(ConditionInfo{Code: ConditionHold, Text: s.holdText()}, time.Now())
	}
}

func (s *session) holdText() string {
	why := "the store has lost writes: nothing is granted"
	if s.newGroup.Load() {
		why = "a new group, in a store that may have been emptied: nothing is granted"
	}
	remaining := core.Time(s.holdEnd.Load()).Sub(s.m.now())
	if remaining <= 0 {
		return why + " yet; every lease that it may have forgotten is over, but a member of before or the source has not answered"
	}
	return fmt.Sprintf("%s for another %.1f s, until every lease that it may have forgotten is over", why, remaining.Seconds())
}
