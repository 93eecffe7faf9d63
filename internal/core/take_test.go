package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// seen lets a watch in progress show these versions.
func (d *desk) seen(es ...core.Entry) { d.step(core.Event{Kind: core.Seen, Entries: es}) }

// replan lets the watch show the next plan, over these members.
func (d *desk) replan(members ...record.Session) {
	p := *d.n.Plan()
	p.Gen, p.Decided, p.Write, p.ID, p.Members = p.Gen+1, p.Gen+1, p.Gen+1, p.ID+1, members
	d.rev++
	d.seen(core.Entry{Key: core.Key{Cell: core.PlanCell}, Rev: d.rev, Plan: &p})
}

func deleted(c core.Cell, s record.Session) core.Entry {
	return core.Entry{Key: core.Key{Cell: c, Session: s}, Deleted: true}
}

func in(state record.MemberState, m *record.Member) *record.Member {
	m.State = state
	return m
}

// claim lets the node see that its leader is dead, and answers its calls until it
// leads.
func (d *desk) claim(dead *record.Member) {
	d.t.Helper()
	d.show(false, in(record.Dead, dead))
	d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: d.n.Plan()})
	d.answer(core.Put, core.PlanCell, 0, core.OK)
	if !d.n.Leads() {
		d.t.Fatal("it does not lead")
	}
}

// knows returns the state in which the node knows s, and whether it knows s at all.
func (d *desk) knows(s record.Session) (record.MemberState, bool) {
	for _, m := range d.n.Members() {
		if m.Session == s {
			return m.State, true
		}
	}
	return 0, false
}

// After a gap the watched records are read: plan and roster by every member, orders
// and members by the leader as well.
func TestGapReadsWhatWasWatched(t *testing.T) {
	for _, me := range []record.Session{1, 6} {
		d := newDesk(t, me, &record.Plan{Leader: 1, Members: []record.Session{1, 2, 3, 4, 5, 6}}, nil)
		if me == 1 {
			d.lead(0, nil, member(2, "c2", 1), member(3, "c3", 1), member(4, "c4", 1), member(5, "c5", 1), member(6, "c6", 1))
		} else {
			d.answer(core.Get, core.RosterCell, 0, core.OK, core.Entry{Roster: &record.Roster{Ver: 1}})
		}
		d.wantNone(core.Get, core.PlanCell, 0)
		d.step(core.Event{Kind: core.Gap})
		d.want(core.Get, core.PlanCell, 0)
		d.want(core.Get, core.RosterCell, 0)
		if me == 1 {
			d.want(core.Get, core.OrdersCell, 0)
			d.want(core.List, core.MemberCell, 0)
		} else {
			d.wantNone(core.Get, core.OrdersCell, 0)
			d.wantNone(core.List, core.MemberCell, 0)
		}
	}
}

// A session whose first heartbeat gives it no lease, because a clock jumped after
// the sending, waits for a lease as long as a member that has lost its own.
func TestHopesForItsFirstLease(t *testing.T) {
	cfg := &core.Config{Session: me, Name: "c1", Timing: core.DefaultTiming(), Era: 7}
	l := &lone{victim: &victim{t: t, n: core.New(cfg), now: core.Time(time.Hour), shown: map[string]bool{}}}
	l.takes(core.Event{Kind: core.Begin})
	l.takes(core.Event{Kind: core.Jumped})
	l.reply(core.Put, core.Event{Rev: 1})
	if cause, _ := l.n.Ended(); cause != core.NotEnded {
		t.Errorf("it ends: %v", cause)
	}
}

// A plan that a watch shows as deleted is read. The deletion of roster or orders
// changes nothing: their content is known.
func TestDeletedCells(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	d.lead(0, &record.Orders{Ver: 1})
	d.calls = nil
	d.seen(deleted(core.RosterCell, 0))
	d.seen(deleted(core.OrdersCell, 0))
	if d.n.Roster() == nil || slices.Contains(d.notes, core.NoteLost) {
		t.Errorf("it knows roster %v, and tells %v", d.n.Roster(), d.notes)
	}
	d.seen(deleted(core.PlanCell, 0))
	d.want(core.Get, core.PlanCell, 0)
}

// A member that waits for a roster starts its partitions when a watch shows the
// roster; and a plain heartbeat in a batch does not hide the other entries.
func TestActsOnWhatIsSeen(t *testing.T) {
	l := newLone(t, nil)
	l.takes(shows(aPlan(1, 2, record.Owned, 1, 1)))
	l.ask(!l.did(core.DoStart), "it starts what has no name")
	l.takes(names("q0"))
	l.ask(l.did(core.DoStart), "it has a roster and does not start")

	l = newLone(t, nil)
	l.takes(names("q0"))
	l.takes(core.Event{Kind: core.Seen, Entries: []core.Entry{isMember(2, 1, record.Live)}})
	ev := shows(aPlan(1, 2, record.Owned, 1, 1))
	ev.Entries = append(ev.Entries, isMember(2, 2, record.Live))
	l.takes(ev)
	l.ask(l.did(core.DoStart), "it has a plan and does not start")
}

// A session whose watch shows its own record does nothing while that record is
// alive. If it has ended or is deleted, the session reads it, and retries until it
// knows.
func TestOwnRecordIsShown(t *testing.T) {
	d := newDesk(t, 2, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
	for _, state := range []record.MemberState{record.Live, record.Leaving} {
		d.show(false, in(state, member(2, "me", 1)))
		d.after(0)
		d.wantNone(core.Get, core.MemberCell, 2)
	}
	d.show(false, in(record.Dead, member(2, "me", 1)))
	d.want(core.Get, core.MemberCell, 2)
	d.seen(deleted(core.MemberCell, 2)) // while the read is in flight
	d.step(core.Event{Kind: core.Answer, Verb: core.Get, Outcome: core.Unknown, Key: core.Key{Cell: core.MemberCell, Session: 2}})
	d.wantNone(core.Get, core.MemberCell, 2)
	d.after(100 * time.Millisecond)
	d.want(core.Get, core.MemberCell, 2)
}

// The leader's heartbeat reveals a plan that no watch has shown: the plan is read
// after a back-off. Heartbeats of other members do not, nor does the leader's
// acknowledgement in another incarnation: a read for each of them would be too
// many.
func TestLeaderTellsOfAPlan(t *testing.T) {
	ack := func(s record.Session, seq uint64, i uint32, gen uint64) *record.Member {
		m := member(s, "c", seq)
		m.AckInc, m.AckGen = i, gen
		return m
	}
	seat := func() *desk {
		d := newDesk(t, 2, &record.Plan{Leader: 1, Members: []record.Session{1, 2, 3}}, nil)
		d.show(false, ack(1, 3, inc, 5), ack(3, 3, inc, 5))
		d.after(500 * time.Millisecond)
		return d
	}
	d := seat()
	d.show(false, ack(1, 4, inc, 6))
	d.after(99 * time.Millisecond)
	d.wantNone(core.Get, core.PlanCell, 0)
	d.after(time.Millisecond)
	d.want(core.Get, core.PlanCell, 0)

	// A late watch puts the read off; the next heartbeat asks for it again.
	d = seat()
	d.show(false, ack(1, 4, inc, 6))
	d.rev++
	d.seen(core.Entry{Key: core.Key{Cell: core.PlanCell}, Rev: d.rev, Plan: d.n.Plan()})
	d.show(false, ack(1, 5, inc, 6))
	d.after(100 * time.Millisecond)
	d.want(core.Get, core.PlanCell, 0)

	for _, m := range []*record.Member{ack(3, 4, inc, 6), ack(1, 4, inc-1, 9)} {
		d = seat()
		d.show(false, m)
		d.after(time.Second)
		d.wantNone(core.Get, core.PlanCell, 0)
	}
}

// An older version than the known one is stale, or the store has lost the newer
// one: the record is read at once. The same version in another revision is neither:
// the next write replaces that revision.
func TestVersionsOfARecord(t *testing.T) {
	seat := func() *desk {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
		d.lead(0, nil, member(2, "c2", 5))
		return d
	}
	d := seat()
	d.show(false, member(2, "c2", 4))
	d.want(core.Get, core.MemberCell, 2)

	d = seat()
	d.show(false, member(2, "c2", 5))
	d.wantNone(core.Get, core.MemberCell, 2)
	rev := d.rev
	d.step(core.Event{Kind: core.Proven, Session: 2})
	if a := d.want(core.Put, core.MemberCell, 2); a.Prev != rev {
		t.Errorf("it writes over %d, not %d", a.Prev, rev)
	}
}

// The records of a store that has lost writes are not accepted any more: an evicted
// member is not live again, and an absent one is not back with an earlier record.
func TestLostStoreIsNotBelieved(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	d.lead(0, nil, in(record.Evicted, member(2, "c2", 5)))
	d.show(false, member(2, "c2", 6))
	if state, _ := d.knows(2); state != record.Evicted || !slices.Contains(d.notes, core.NoteLost) {
		t.Errorf("it knows 2 as %v, and tells %v", state, d.notes)
	}

	d = newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 3}}, nil)
	d.show(false, member(3, "c3", 9))
	d.seen(deleted(core.MemberCell, 3))
	d.answer(core.Get, core.MemberCell, 3, core.NotFound)
	d.step(core.Event{Kind: core.Proven, Session: 3})
	d.after(2 * time.Second)
	d.answer(core.Get, core.MemberCell, 3, core.OK, core.Entry{Member: member(3, "c3", 3)})
	if state, known := d.knows(3); known || !slices.Contains(d.notes, core.NoteLost) {
		t.Errorf("it knows 3 as %v, and tells %v", state, d.notes)
	}
}

// After a death, members that were seen to change or to arrive are known to be
// alive, and not waited for; the age of a record that was only found is unknown, so
// its member is.
func TestAgeOfARecord(t *testing.T) {
	for name, c := range map[string]struct {
		see   func(d *desk)
		waits bool
	}{
		"found": {func(d *desk) {
			d.show(true, member(3, "c3", 1))
		}, true},
		"came": {func(d *desk) {
			d.show(false, member(3, "c3", 1))
		}, false},
		"found, and again": {func(d *desk) {
			d.show(true, member(3, "c3", 1))
			d.show(true, member(3, "c3", 2))
		}, false},
		"came, gone, and found": {func(d *desk) {
			d.show(false, member(3, "c3", 1))
			d.seen(deleted(core.MemberCell, 3))
			d.answer(core.Get, core.MemberCell, 3, core.NotFound)
			d.show(true, member(3, "c3", 2))
		}, false},
	} {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2, 3}}, nil)
		c.see(d)
		d.lead(0, nil, member(2, "c2", 1))
		d.wantNone(core.Put, core.PlanCell, 0)
		d.show(false, in(record.Dead, member(2, "c2", 2)))
		if _, ok := d.call(core.Put, core.PlanCell, 0); ok == c.waits {
			t.Errorf("%s: a plan at once: %v", name, ok)
		}
	}
}

// The same holds for an owner that no listing showed, and whose record had to be
// read.
func TestAgeOfAnOwner(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2, 3}, Rows: []record.Row{owned(3)}}, nil)
	d.lead(1, nil, member(2, "c2", 1))
	d.answer(core.Get, core.MemberCell, 3, core.OK, core.Entry{Member: member(3, "c3", 1)})
	d.show(false, in(record.Dead, member(2, "c2", 2)))
	d.wantNone(core.Put, core.PlanCell, 0)
	d.show(false, member(3, "c3", 2))
	d.want(core.Put, core.PlanCell, 0)
}

// A record that was absent is there again, in the very version that was known.
func TestAbsentComesBackUnchanged(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 3}}, nil)
	d.show(false, member(3, "c3", 1))
	e := entry(member(3, "c3", 1), d.rev)
	d.seen(deleted(core.MemberCell, 3))
	d.answer(core.Get, core.MemberCell, 3, core.NotFound)
	if _, known := d.knows(3); known {
		t.Fatal("it knows what is not there")
	}
	d.seen(e)
	if _, known := d.knows(3); !known {
		t.Error("it does not see what is there")
	}
}

// A record that was not found is not read again without a reason, and with one at
// most once per heartbeat.
func TestAbsentIsReadOnce(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 3}}, nil)
	d.show(false, member(3, "c3", 1))
	d.seen(deleted(core.MemberCell, 3))
	d.answer(core.Get, core.MemberCell, 3, core.NotFound)
	d.after(beat - 1)
	d.seen(deleted(core.MemberCell, 3))
	d.wantNone(core.Get, core.MemberCell, 3)
	d.after(1)
	d.answer(core.Get, core.MemberCell, 3, core.NotFound)
	d.after(5 * beat)
	d.wantNone(core.Get, core.MemberCell, 3)
}

// A read that failed is retried after a back-off, not at once.
func TestReadOfARecordFails(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 3}}, nil)
	d.show(false, member(3, "c3", 1))
	d.seen(deleted(core.MemberCell, 3))
	d.answer(core.Get, core.MemberCell, 3, core.Unknown)
	d.after(99 * time.Millisecond)
	d.wantNone(core.Get, core.MemberCell, 3)
	d.after(time.Millisecond)
	d.want(core.Get, core.MemberCell, 3)
}

// A session that no plan names, and whose record is gone, is forgotten. If it comes
// again, it joins like any other.
func TestForgetsWhomNobodyNames(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	d.lead(0, nil, in(record.Left, member(2, "c2", 5)))
	d.seen(deleted(core.MemberCell, 2))
	d.answer(core.Get, core.MemberCell, 2, core.NotFound)
	d.show(false, member(2, "c2", 9))
	d.after(100 * time.Millisecond)
	if a := d.want(core.Put, core.PlanCell, 0); !slices.Contains(a.Plan.Members, 2) {
		t.Errorf("the plan is over %v", a.Plan.Members)
	}
}

// The record of a member whose rows are reserved is kept, however long that member
// is dead.
func TestKeepsTheRecordOfAMember(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, func(cfg *core.Config) { cfg.Return = time.Hour })
	d.lead(0, nil, in(record.Dead, member(2, "c2", 5)))
	d.after(11 * time.Minute)
	d.wantNone(core.Delete, core.MemberCell, 2)
}

// The record of a leader that no watch has shown is read. If there is none, the
// leader's place is vacant.
func TestLooksForItsLeader(t *testing.T) {
	d := newDesk(t, 2, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
	d.wantNone(core.Get, core.PlanCell, 0)
	d.answer(core.Get, core.MemberCell, 1, core.NotFound)
	d.want(core.Get, core.PlanCell, 0) // to claim it
}

// A session that has declared another dead knows that, and does not do so twice.
func TestDeclaresOnce(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
	d.lead(0, nil, member(2, "c2", 5))
	d.step(core.Event{Kind: core.Proven, Session: 2})
	d.answer(core.Put, core.MemberCell, 2, core.OK)
	d.after(30 * time.Millisecond)
	d.wantNone(core.Put, core.MemberCell, 2)
	d.wantNone(core.Get, core.MemberCell, 2)
	if a := d.want(core.Put, core.PlanCell, 0); len(a.Plan.Members) != 1 {
		t.Errorf("the plan is over %v", a.Plan.Members)
	}
}

// A peer with a call in flight is not forgotten, even if no listing shows it any
// more: if it were seen and read again, one answer would be taken for the other.
// The answer decides.
func TestNobodyIsForgottenInTheMiddleOfACall(t *testing.T) {
	left := func(seq uint64) *record.Member { return in(record.Left, member(2, "c2", seq)) }
	for _, verb := range []core.Verb{core.Get, core.Delete} {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
		d.lead(0, nil, left(5))
		if verb == core.Get {
			d.show(false, left(4))
		} else {
			d.after(10 * time.Minute)
		}
		d.want(verb, core.MemberCell, 2)
		d.after(10 * time.Second)
		d.answer(core.List, core.MemberCell, 0, core.OK)
		d.show(false, left(4)) // a stale version: a reason to read, but not during the call
		d.after(time.Second)
		d.wantNone(core.Get, core.MemberCell, 2)
		if _, known := d.knows(2); !known {
			t.Fatal("it forgets whom it is asking for")
		}
		outcome := core.OK
		if verb == core.Get {
			outcome = core.NotFound
		}
		d.step(core.Event{Kind: core.Answer, Verb: verb, Key: core.Key{Cell: core.MemberCell, Session: 2}, Outcome: outcome})
		if _, known := d.knows(2); known {
			t.Error("it does not forget who is gone")
		}
	}
}

// An owner that has nothing to stop confirms a revoke by its acknowledgement alone.
// The partition is granted to the next owner at once.
func TestRevokeIsAcknowledged(t *testing.T) {
	row := owned(2)
	row.State, row.To = record.Revoking, 1
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}, Rows: []record.Row{row}}, nil)
	m := member(2, "c2", 1)
	m.AckInc, m.AckGen = inc, 4
	d.lead(1, nil, m)
	d.wantNone(core.Put, core.PlanCell, 0)
	next := *m
	next.Seq, next.AckGen = 2, 5
	d.show(false, &next)
	if r := d.want(core.Put, core.PlanCell, 0).Plan.Rows[0]; r.Owner == 2 {
		t.Errorf("the row is %+v", r)
	}
}

// Deputies watch all members. Once a watch has shown all of them, deputies take
// notice of arrivals, so that the one that leads next need not wait for more.
func TestDeputyTakesNotice(t *testing.T) {
	d := newDesk(t, 2, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
	d.answer(core.Get, core.RosterCell, 0, core.OK, core.Entry{Roster: &record.Roster{Ver: 1}})
	d.show(false, member(1, "c1", 3), member(3, "c3", 1))
	d.step(core.Event{Kind: core.Seen, First: true, AllMembers: true})
	d.after(200 * time.Millisecond)
	d.claim(member(1, "c1", 3))
	d.lead(0, nil, member(3, "c3", 1))
	d.answerQuickly()
	if a := d.want(core.Put, core.PlanCell, 0); !slices.Equal(a.Plan.Members, []record.Session{2, 3}) {
		t.Errorf("the plan is over %v", a.Plan.Members)
	}
}

// A deputy takes no notice of members before all are in sight: 8 has the name of 7,
// which is not in sight yet, and must be held until 7 is seen to beat. Only the
// first batch of a watch of all members shows all of them, and only to a session
// that still watches all.
func TestDeputyWaitsForEverybody(t *testing.T) {
	far := []record.Session{1, 3, 4, 2, 7}
	near := []record.Session{1, 2, 7}
	all := core.Event{Kind: core.Seen, First: true, AllMembers: true}
	twin := func() *record.Member { return member(8, "c7", 1) }
	for name, c := range map[string]struct {
		members []record.Session
		before  func(d *desk)
	}{
		"nothing was shown":         {near, func(d *desk) {}},
		"another watch began":       {near, func(d *desk) { d.step(core.Event{Kind: core.Seen, First: true}) }},
		"the watch goes on":         {near, func(d *desk) { d.step(core.Event{Kind: core.Seen, AllMembers: true}) }},
		"it was no deputy":          {far, func(d *desk) { d.step(all); d.replan(near...) }},
		"it was a deputy once":      {near, func(d *desk) { d.step(all); d.replan(far...); d.replan(near...) }},
		"it saw 8 when it was none": {near, func(d *desk) { d.step(all); d.replan(far...); d.show(false, twin()); d.replan(near...) }},
		"it was none, and saw 8":    {far, func(d *desk) { d.show(false, twin()); d.step(all); d.replan(near...) }},
	} {
		d := newDesk(t, 2, &record.Plan{Leader: 1, Members: c.members}, nil)
		d.answer(core.Get, core.RosterCell, 0, core.OK, core.Entry{Roster: &record.Roster{Ver: 1}})
		c.before(d)
		d.show(false, twin())
		d.show(true, member(1, "c1", 3), member(7, "c7", 1))
		d.claim(member(1, "c1", 3))
		d.lead(0, nil, member(7, "c7", 1), twin())
		d.after(200 * time.Millisecond)
		if a := d.want(core.Put, core.PlanCell, 0); !slices.Equal(a.Plan.Members, []record.Session{2, 7}) {
			t.Errorf("%s: the plan is over %v", name, a.Plan.Members)
		}
	}
}

// A deputy lists the members every PollList, since watches miss changes; the time
// counts from when it became a deputy.
func TestDeputyLists(t *testing.T) {
	d := newDesk(t, 2, &record.Plan{Leader: 1, Members: []record.Session{1, 3, 4, 2}}, nil)
	for range 2 {
		d.after(20*time.Second + 500*time.Millisecond)
		d.wantNone(core.List, core.MemberCell, 0)
		d.replan(1, 2)
		for range 2 {
			d.after(10*time.Second - 1)
			d.wantNone(core.List, core.MemberCell, 0)
			d.after(1)
			d.answer(core.List, core.MemberCell, 0, core.OK)
		}
		d.replan(1, 3, 4, 2)
	}
}
