package rota

import (
	"fmt"

	"github.com/rota-dev/rota/internal/core"
)

// What happens is told twice: as an event for programs, as a log line with its
// reason for people.

func (s *session) tell(e Event) {
	e.Session = s.id.String()
	s.m.emit(e)
	s.m.log.Info(string(e.Kind), "member", s.m.name, "partition", e.Partition, "token", uint64(e.Token), "plan", e.Plan, "because", e.Because)
}

func (s *session) tellRun(k EventKind, r *run, because string) {
	s.tell(Event{Kind: k, Partition: r.name, Token: Token(r.token), Because: because})
}

func (s *session) tellEnd(c core.Cause) {
	k := map[core.Cause]EventKind{
		core.ByLeave:   EventLeft,
		core.ByFence:   EventFenced,
		core.ByOrphan:  EventOrphaned,
		core.ByStore:   EventStoreLost,
		core.ByFailure: EventCondition,
	}[c]
	s.tell(Event{Kind: k, Because: c.String()})
}

func (s *session) note(a *core.Action) {
	e := Event{Kind: EventCondition}
	if a.Who != 0 {
		e.About = a.Who.String()
	}
	switch a.Note {
	case core.NoteJoined:
		e.Kind = EventJoined
	case core.NoteLead:
		e.Kind = EventLeader
	case core.NotePlan:
		e.Kind, e.Because, e.Moved, e.Placed = EventPlan, a.Why.String(), a.Moved, a.Placed
		e.Plan = s.node.Plan().ID + 1
		s.said = e
	case core.NoteDead:
		e.Kind = EventDead
	case core.NoteEvicted:
		e.Kind = EventEvicted
	case core.NotePaused:
		e.Kind = EventPaused
	case core.NoteResumed:
		e.Kind = EventResumed
	case core.NoteLeaving:
		e.Kind = EventLeaving
	case core.NoteLost:
		e.Kind = EventStoreLost
	case core.NoteTwins:
		e.Because = "two processes have one name"
	case core.NoteStuck:
		e.Partition, e.Token = a.Name, Token(a.Token)
		e.Because = "granted long ago and not started"
	case core.NoteBug:
		e.Because = fmt.Sprintf("the last leader, %s, ended on a bug over this plan: nothing is changed until members or orders change", e.About)
	case core.NoteNoRoster:
		e.Because = "the plan obeys a roster that is not in sight: waiting for it"
	case core.NoteReturned:
		e.Because = "it took the place of the ended session of its name"
	case core.NoteCleared:
		e.Because = "every lease there may have been is over: partitions may be granted"
	case core.NotePin:
		e.Because = "a partition is pinned to a member that is not here: the pin is ignored"
	default:
		return
	}
	s.tell(e)
}
