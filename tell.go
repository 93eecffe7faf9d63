package rota

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// tell reports an event twice: to programs as an Event, and to people as a log line
// with its reason.
func (s *session) tell(e Event) {
	e = s.stamp(e)
	s.m.emit(e)
	times, due := 1, true
	if e.Kind == EventError || e.Kind == EventCondition {
		times, due = s.m.repeats.found(ConditionInfo{e.Condition, e.Partition, e.Because})
	}
	if due {
		s.m.logEvent(&e, times)
	}
}

// stamp fills in time, session, plan and remaining lease. The time is read first: if
// the process is stopped between the two, the lease looks shorter than it was, never
// longer.
func (s *session) stamp(e Event) Event {
	e.Time = time.Now()
	e.Session = s.id.String()
	if e.Plan == 0 {
		e.Plan = s.plan.Load()
	}
	e.Gen, e.Term = s.gen.Load(), s.term.Load()
	if until := s.lease.Load(); until != 0 {
		e.Remaining = core.Time(until).Sub(s.m.now())
	}
	return e
}

// where publishes the numbers of the newest plan to stamp in other goroutines.
func (s *session) where() {
	if p := s.node.Plan(); p != nil {
		s.plan.Store(p.ID)
		s.gen.Store(p.Gen)
		s.term.Store(p.Term)
	}
}

// tellStop ends a run, and reports why: the plan takes the partition, the member
// leaves, or there is no time left for a graceful stop.
func (s *session) tellStop(r *run, now bool) {
	because := "leaving"
	switch {
	case now:
		because = "no lease, or no time left to stop in"
	case !s.leaving && !r.asked():
		because = "the plan takes it"
		s.tellRun(EventRevoke, r, "")
	}
	r.end(now, because)
}

// tellFailed reports an error of the handler.
func (s *session) tellFailed(r *run, msg *Message, err error) {
	s.tell(Event{Kind: EventError, Partition: r.name, Token: Token(r.token), Message: msg.ID, Attempt: msg.Attempt, Because: reason(err)})
}

// trace gives Config.Trace an event about one message or a settlement, if it wants
// those.
func (r *run) trace(k EventKind, msg Message, err error) {
	if !r.traced() {
		return
	}
	e := Event{Kind: k, Partition: r.name, Token: Token(r.token), Message: msg.ID, Attempt: msg.Attempt}
	if err != nil {
		e.Because = err.Error()
	}
	r.s.m.trace(r.s.stamp(e))
}

// traced tells whether Config.Trace wants events about single messages.
func (r *run) traced() bool { return r.s.m.cfg.Trace != nil && r.s.m.cfg.TraceMessages }

func (r *run) traceAll(k EventKind, msgs []Message, err error) {
	for i := range msgs {
		if r.s.m.cfg.TraceMessages {
			r.trace(k, msgs[i], err)
		}
	}
}

// tellRun is not inlined: the Event would be a part of its callers' stacks, of every
// partition for as long as that runs.
//
//go:noinline
func (s *session) tellRun(k EventKind, r *run, because string) {
	s.tell(Event{Kind: k, Partition: r.name, Token: Token(r.token), Because: because})
}

func (s *session) tellEnd(c core.Cause) {
	k := map[core.Cause]EventKind{
		core.ByLeave:   EventLeft,
		core.ByFence:   EventFenced,
		core.ByOrphan:  EventOrphaned,
		core.ByStore:   EventWritesLost,
		core.ByFailure: EventCondition,
	}[c]
	e := Event{Kind: k, Because: c.String()}
	if err := s.outage.cause(c); err != nil {
		e.Because = err.Error()
	}
	if k == EventCondition {
		e.Condition = ConditionPlanUnwritable
	}
	s.tell(e)
}

// noLease is said for as long as work goes on without a lease.
const noLease = "the store does not answer and the lease is over: work goes on all the same, and another member may do it, too; only a sink that checks tokens tells them apart"

// nameOf is the name of a session, or empty if its record is not known.
func (s *session) nameOf(id record.Session) string {
	for _, m := range s.node.Members() {
		if m.Session == id {
			return m.Name
		}
	}
	return ""
}

// twins says which processes have the name of this session.
func (s *session) twins(id record.Session) string {
	name := s.nameOf(id)
	var which []string
	for _, m := range s.node.Members() {
		if m.Name == name && m.State == record.Live {
			which = append(which, fmt.Sprintf("session %v (pid %d)", m.Session, m.Host.PID))
		}
	}
	slices.Sort(which)
	return fmt.Sprintf("two processes have the name %s: %s; orders and --return mean both", name, strings.Join(which, ", "))
}

func (s *session) note(a *core.Action) {
	e := Event{Kind: EventCondition}
	if a.Who != 0 {
		e.About = a.Who.String()
		e.AboutName = s.nameOf(a.Who)
	}
	switch a.Note {
	case core.NoteJoined:
		e.Kind = EventJoined
	case core.NoteLead:
		e.Kind = EventLeader
	case core.NotePlan:
		e.Kind, e.Causes, e.Moved, e.Placed = EventPlan, causes(a.Why), a.Moved, a.Placed
		e.Plan = s.node.Plan().ID + 1
		s.said = e
		if a.Why&(core.WhyLoad|core.WhyInterval) != 0 {
			s.tellPacked()
		}
	case core.NoteKept:
		s.tellPacked()
		return
	case core.NoteSize:
		s.tell(s.noteSize(a))
		return
	case core.NoteBack:
		e.Condition = ConditionNeededAgain
		e.Because = fmt.Sprintf("%s was to go and is needed after all", s.memberName(a.Who))
	case core.NoteStays:
		e.Condition = ConditionNotRemoved
		e.Because = fmt.Sprintf("the scaler was asked to remove %s, and it is still there after %v: it is used again", s.memberName(a.Who), s.cfg.Scaling.Vanish)
	case core.NoteDead:
		e.Kind = EventDead
	case core.NoteEvicted:
		e.Kind = EventEvicted
	case core.NoteLapsed:
		e.Kind = EventLapsed
	case core.NoteWorksOn:
		e.Kind = EventWorksOn
		s.conditions.begin(ConditionInfo{ConditionNoLease, "", noLease}, time.Now())
	case core.NoteResumed:
		e.Kind = EventResumed
		s.conditions.over(ConditionNoLease, "")
	case core.NoteLeaving:
		s.leaving = true
		e.Kind = EventLeaving
	case core.NoteLost:
		e.Condition, e.Because = ConditionWritesLost, "the store has lost acknowledged writes"
	case core.NoteTwins:
		e.Condition = ConditionTwins
		e.Because = s.twins(a.Who)
	case core.NoteQuarantined:
		e.Condition, e.Partition = ConditionQuarantined, a.Name
		e.Because = fmt.Sprintf("%d owners in a row died with it: it runs nowhere until it is released", a.Deaths)
	case core.NoteStuck:
		e.Condition, e.Partition, e.Token = ConditionStuck, a.Name, Token(a.Token)
		e.Because = "granted long ago and not started"
	case core.NoteBug:
		e.Condition = ConditionBlocked
		e.Because = fmt.Sprintf("the last leader, %s, ended on a bug over this plan: it stays as it is until members or orders change", cmp.Or(e.AboutName, e.About))
	case core.NoteNoRoster:
		e.Condition = ConditionRosterMissing
		e.Because = "the plan refers to a roster that the store does not show yet: waiting for it"
	case core.NoteReturned:
		e.Condition = ConditionReturned
		e.Because = "it took over from the ended session of its name"
	case core.NoteCleared:
		e.Condition = ConditionHoldOver
		e.Because = "every lease that the store may have forgotten is over: partitions are granted again"
	case core.NoteBadRoster:
		e.Condition = ConditionRosterUnwritable
		e.Because = "the partitions of source and orders do not fit into the roster: it stays as it is"
	case core.NoteMeta:
		e.Condition, e.Partition = ConditionMetaTooLarge, a.Name
		e.Because = "its metadata by order, its topic's and the source's do not fit into 4096 bytes together: the topic's is left out or, if that does not help, all that is ordered"
	case core.NoteWorn:
		e.Condition, e.Partition = ConditionTokensUsedUp, a.Name
		e.Because = "its tokens are used up: a new incarnation begins, every session ends once, and tokens count from 1 again"
	case core.NoteLongLease:
		e.Condition = ConditionLeaseTooLong
		e.Because = fmt.Sprintf("its lease is more than 4 times that of the leader, %v: it gets no partition; start it with a lease like the others'", s.cfg.Lease)
	case core.NotePin:
		e.Condition = ConditionPinIgnored
		e.Because = "a partition is pinned to a member that is not in the group: the pin is ignored"
	default:
		return
	}
	if e.Kind == EventCondition && e.Condition != ConditionHoldOver { // that one is the end of a condition
		s.conditions.add(ConditionInfo{e.Condition, e.Partition, e.Because}, time.Now())
	}
	s.tell(e)
}
