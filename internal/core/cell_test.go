package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// gone is the record of a session that has left.
func gone(s record.Session, name string, seq uint64) *record.Member {
	m := member(s, name, seq)
	m.State = record.Left
	return m
}

// showPlan lets the watch show a plan.
func (d *desk) showPlan(p *record.Plan) {
	d.rev++
	d.step(core.Event{Kind: core.Seen, Entries: []core.Entry{{Key: core.Key{Cell: core.PlanCell}, Rev: d.rev, Plan: p}}})
}

// showRoster lets the watch show a roster.
func (d *desk) showRoster(r *record.Roster) {
	d.rev++
	d.step(core.Event{Kind: core.Seen, Entries: []core.Entry{{Key: core.Key{Cell: core.RosterCell}, Rev: d.rev, Roster: r}}})
}

// showOrders lets the watch show orders.
func (d *desk) showOrders(o *record.Orders) {
	d.rev++
	d.step(core.Event{Kind: core.Seen, Entries: []core.Entry{{Key: core.Key{Cell: core.OrdersCell}, Rev: d.rev, Orders: o}}})
}

// readPlan answers the read of the plan with the plan that is known.
func (d *desk) readPlan() {
	d.t.Helper()
	d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: d.n.Plan()})
}

// readRoster answers the read of the roster with these partitions.
func (d *desk) readRoster(parts ...string) {
	d.t.Helper()
	r := &record.Roster{Ver: 1}
	for _, p := range parts {
		r.Entries = append(r.Entries, record.Partition{Name: p})
	}
	d.answer(core.Get, core.RosterCell, 0, core.OK, core.Entry{Roster: r})
}

// running tells that the session has not ended.
func (d *desk) running(what string) {
	d.t.Helper()
	if cause, _ := d.n.Ended(); cause != core.NotEnded {
		d.t.Fatalf("%s: it ends: %v", what, cause)
	}
}

// unjoined begins a session that has not joined: the write of its first record has
// no answer yet.
func unjoined(t *testing.T) *desk {
	cfg := &core.Config{Session: 1, Name: "me", Timing: core.DefaultTiming(), Era: inc, Fresh: true}
	d := &desk{t: t, n: core.New(cfg), now: 1e9, rev: 100, mute: true}
	d.step(core.Event{Kind: core.Begin})
	return d
}

// joined begins a session that has joined, and reads the plan for the first time.
func joined(t *testing.T) *desk {
	d := unjoined(t)
	d.mute = false
	d.answer(core.Put, core.MemberCell, 1, core.OK)
	return d
}

// A session that has not joined reads nothing: it would not notice a loss.
func TestNothingIsReadBeforeJoining(t *testing.T) {
	d := unjoined(t)
	d.step(core.Event{Kind: core.Gap})
	d.wantNone(core.Get, core.PlanCell, 0)
	d.answer(core.Put, core.MemberCell, 1, core.OK)
	d.want(core.Get, core.PlanCell, 0)
}

// The first plan of a group is the first in everything, and its author leads.
func TestFirstPlan(t *testing.T) {
	d := joined(t)
	d.answer(core.Get, core.PlanCell, 0, core.NotFound)
	a := d.want(core.Put, core.PlanCell, 0)
	p := *a.Plan
	if p.Write == 0 || a.Prev != 0 {
		t.Errorf("it writes number %d over %d", p.Write, a.Prev)
	}
	if p.Incarnation != inc || p.Gen != 1 || p.Decided != 1 || p.Term != 1 || p.Hold || p.Leader != 1 {
		t.Errorf("it makes %+v", p)
	}
}

// A session that has to read again, because of a gap during its read, makes no
// first plan before that; and none at all if a watch has shown one by then.
func TestNoFirstPlanBeforeTheLastRead(t *testing.T) {
	for _, shown := range []bool{false, true} {
		d := joined(t)
		d.step(core.Event{Kind: core.Gap})
		d.answer(core.Get, core.PlanCell, 0, core.NotFound)
		d.wantNone(core.Put, core.PlanCell, 0)
		p := &record.Plan{Incarnation: inc, Gen: 5, Decided: 5, Term: 1, Write: 1, Leader: 2, Members: []record.Session{2}}
		if shown {
			d.showPlan(p)
			d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: p, Rev: d.rev})
			d.after(100 * time.Millisecond)
			d.wantNone(core.Put, core.PlanCell, 0)
		} else {
			d.answer(core.Get, core.PlanCell, 0, core.NotFound)
			d.want(core.Put, core.PlanCell, 0)
		}
	}
}

// Each write of a plan has an identity of its own, even within one generation: by
// that a reader knows whether the store still has the write that it saw.
func TestEachWriteOfAPlanIsAnother(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	at := d.rev
	d.lead(0, nil)
	d.show(false, member(2, "c2", 1))
	d.after(100 * time.Millisecond)
	a := d.answer(core.Put, core.PlanCell, 0, core.Unknown)
	d.readPlan()
	d.after(100 * time.Millisecond)
	b := d.want(core.Put, core.PlanCell, 0)
	if a.Prev != at {
		t.Errorf("it writes over %d, not over %d, which it has read", a.Prev, at)
	}
	if a.Plan.Gen != b.Plan.Gen || a.Plan.Write == b.Plan.Write || a.Plan.Write == d.n.Plan().Write || b.Plan.Write == d.n.Plan().Write {
		t.Errorf("number %d, then %d", a.Plan.Write, b.Plan.Write)
	}
}

// After a write with unknown outcome nothing is written before the plan has been
// read, however often the read fails.
func TestNoPlanInDoubt(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	d.lead(0, nil)
	d.show(false, member(2, "c2", 1))
	d.after(100 * time.Millisecond)
	d.answer(core.Put, core.PlanCell, 0, core.Unknown)
	d.slow = true
	for range 5 {
		d.after(150 * time.Millisecond)
		d.answer(core.Get, core.PlanCell, 0, core.Unknown)
		d.wantNone(core.Put, core.PlanCell, 0)
	}
	d.after(150 * time.Millisecond)
	d.readPlan()
	d.want(core.Put, core.PlanCell, 0)
}

// A leader whose writes fail for W ends. A write that succeeds, or conflicts,
// resets the count.
func TestOneFailedWriteEndsNobody(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(d *desk, late *record.Plan)
	}{
		{"its next write arrives", func(d *desk, late *record.Plan) {
			d.readPlan()
			d.after(100 * time.Millisecond)
			d.answer(core.Put, core.PlanCell, 0, core.OK)
		}},
		{"the first arrived late, so the next conflicts", func(d *desk, late *record.Plan) {
			d.readPlan()
			d.after(100 * time.Millisecond)
			d.answer(core.Put, core.PlanCell, 0, core.Conflict)
			d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: late})
		}},
	} {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
		d.lead(0, nil)
		d.show(false, member(2, "c2", 1))
		d.after(100 * time.Millisecond)
		late := d.answer(core.Put, core.PlanCell, 0, core.Unknown).Plan
		c.play(d, late)
		for i := range 10 {
			d.after(time.Second)
			d.show(false, member(2, "c2", uint64(2+i)))
		}
		d.running(c.name)
	}

	// Failures from before it led do not count.
	d := newDesk(t, 1, &record.Plan{Members: []record.Session{1}}, nil)
	d.readRoster()
	d.readPlan()
	claim := d.answer(core.Put, core.PlanCell, 0, core.Unknown).Plan
	d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: claim})
	d.lead(0, nil)
	d.after(10 * time.Second)
	d.running("its claim arrived")
}

// A claim begins a new term, over the plan just read.
func TestClaim(t *testing.T) {
	d := newDesk(t, 2, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
	d.show(true, gone(1, "c1", 3))
	d.readPlan()
	read := d.rev
	a := d.want(core.Put, core.PlanCell, 0)
	if p := a.Plan; p.Leader != 2 || p.Term != 2 || p.Gen != 6 || a.Prev != read {
		t.Errorf("it claims with %+v over %d, not %d", p, a.Prev, read)
	}
}

// A leader whose record was not found, and is there after all, keeps its place: a
// claim that failed is not repeated.
func TestNoSecondClaimOnALeaderThatIsThere(t *testing.T) {
	d := newDesk(t, 2, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
	d.answer(core.Get, core.MemberCell, 1, core.NotFound)
	d.show(false, member(1, "c1", 3))
	d.readPlan() // to claim it
	d.answer(core.Put, core.PlanCell, 0, core.Conflict)
	next := *d.n.Plan()
	next.Gen, next.Write = 6, 2
	d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: &next})
	d.wantNone(core.Put, core.PlanCell, 0)
}

// A new leader decides nothing by records that it read before: not by a roster that
// it knew, nor by the answer to a read or listing that it sent before its claim.
func TestNewLeaderReadsEverythingAnew(t *testing.T) {
	roster := &record.Roster{Ver: 1, Entries: []record.Partition{{Name: "a"}}}
	for _, early := range []bool{true, false} { // whether it has the roster before it claims
		d := newDesk(t, 2, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
		if early {
			d.answer(core.Get, core.RosterCell, 0, core.OK, core.Entry{Roster: roster})
		}
		d.show(true, gone(1, "c1", 3))
		d.readPlan()
		d.answer(core.Put, core.PlanCell, 0, core.OK)
		d.wantNone(core.Get, core.PlanCell, 0) // the claim is known to be in the store
		d.answer(core.Get, core.OrdersCell, 0, core.NotFound)
		d.answer(core.List, core.MemberCell, 0, core.OK)
		if !early {
			d.answer(core.Get, core.RosterCell, 0, core.OK, core.Entry{Roster: roster})
		}
		d.after(4 * time.Second)
		d.wantNone(core.Put, core.PlanCell, 0)
		d.answer(core.Get, core.RosterCell, 0, core.OK, core.Entry{Roster: roster})
		d.after(4 * time.Second)
		d.want(core.Put, core.PlanCell, 0)
	}

	d := newDesk(t, 2, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
	d.step(core.Event{Kind: core.Gap}) // a gap makes a deputy list the members
	d.readPlan()
	d.show(true, gone(1, "c1", 3))
	d.readPlan() // to claim it
	d.answer(core.Put, core.PlanCell, 0, core.OK)
	d.answer(core.List, core.MemberCell, 0, core.OK)
	d.want(core.List, core.MemberCell, 0)
}

// A leader that reads its claim back after an unknown outcome has all rows of the
// plan, although members read only their own.
func TestLeaderHasAllRows(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Members: []record.Session{1}, Rows: []record.Row{owned(1), owned(1)}}, nil)
	d.readRoster("a", "b")
	d.readPlan()
	claim := d.answer(core.Put, core.PlanCell, 0, core.Unknown).Plan
	d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: encoded(t, claim)})
	d.lead(2, nil)
	d.show(false, member(2, "c2", 1))
	d.after(100 * time.Millisecond)
	if p := d.want(core.Put, core.PlanCell, 0).Plan; len(p.Rows) != 2 || p.Rows[0].Owner != 1 || p.Rows[1].Owner != 1 {
		t.Errorf("its plan has the rows %+v", p.Rows)
	}
}

// encoded returns p as a store gives it: with its rows still encoded.
func encoded(t *testing.T, p *record.Plan) *record.Plan {
	t.Helper()
	b, err := record.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	p, err = record.OpenPlan(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A leader's plan arrives late and grants a partition to a member whose record has
// been deleted meanwhile: the leader reads that record and acts on the answer.
func TestLatePlanNamesSomebodyForgotten(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}, Orders: 1, Rows: []record.Row{{Reason: record.Unplaced, Rev: 5}}}, nil)
	d.lead(1, &record.Orders{Ver: 1, Drains: []string{"me"}})
	d.show(false, member(2, "c2", 1))
	d.after(100 * time.Millisecond)
	late := d.answer(core.Put, core.PlanCell, 0, core.Unknown).Plan
	if late.Rows[0].Owner != 2 {
		t.Fatalf("it grants %+v", late.Rows[0])
	}
	d.step(core.Event{Kind: core.Seen, Entries: []core.Entry{{Key: core.Key{Cell: core.MemberCell, Session: 2}, Deleted: true}}})
	d.answer(core.Get, core.MemberCell, 2, core.NotFound)
	d.showPlan(late)
	d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: late, Rev: d.rev})
	d.answer(core.Get, core.MemberCell, 2, core.NotFound)
	d.after(100 * time.Millisecond)
	if !slices.Contains(d.notes, core.NoteLost) {
		t.Errorf("it does not notice the loss: %v", d.notes)
	}
}

// The plan is polled although the watch is quiet: seldom while the leader's
// heartbeats come in, often when they do not.
func TestPlanIsPolled(t *testing.T) {
	d := newDesk(t, 6, &record.Plan{Leader: 1, Members: []record.Session{1, 2, 3, 4, 5, 6}}, nil)
	d.answer(core.Get, core.RosterCell, 0, core.OK, core.Entry{Roster: &record.Roster{Ver: 1}})
	d.show(false, member(1, "c1", 1))
	d.after(2 * time.Second) // nothing was known of the leader yet
	d.show(false, member(1, "c1", 2))
	d.readPlan()
	for i := range 19 {
		d.after(time.Second)
		d.wantNone(core.Get, core.PlanCell, 0)
		d.show(false, member(1, "c1", uint64(3+i)))
	}
	d.after(time.Second)
	d.readPlan()
	d.after(3 * time.Second) // the leader is silent
	next := *d.n.Plan()
	next.Gen, next.Write = 6, 2
	d.showPlan(&next)
	d.after(2*time.Second - 1)
	d.wantNone(core.Get, core.PlanCell, 0)
	d.after(1)
	d.want(core.Get, core.PlanCell, 0)
}

// The claim delay counts from the instant at which the leader of this very plan was
// seen to be gone.
func TestVacancyCountsFromItsBeginning(t *testing.T) {
	// The leader's record was not found, but is there after all.
	d := newDesk(t, 3, &record.Plan{Leader: 1, Members: []record.Session{1, 2, 3}}, nil)
	d.show(false, member(2, "c2", 1))
	d.answer(core.Get, core.MemberCell, 1, core.NotFound)
	d.after(50 * time.Millisecond)
	d.show(false, member(1, "c1", 3))
	d.after(time.Second)
	d.show(false, gone(1, "c1", 4))
	d.after(99 * time.Millisecond)
	d.wantNone(core.Get, core.PlanCell, 0)
	d.after(time.Millisecond)
	d.want(core.Get, core.PlanCell, 0)

	// The leader's successor has left as well.
	d = newDesk(t, 4, &record.Plan{Leader: 1, Members: []record.Session{1, 2, 3, 4}}, nil)
	d.show(false, gone(1, "c1", 1), member(2, "c2", 1), member(3, "c3", 1))
	d.after(50 * time.Millisecond)
	d.show(false, gone(2, "c2", 2))
	d.after(25 * time.Millisecond)
	next := *d.n.Plan()
	next.Gen, next.Write, next.Leader = 6, 2, 2
	d.showPlan(&next)
	d.after(99 * time.Millisecond)
	d.wantNone(core.Get, core.PlanCell, 0)
	d.after(time.Millisecond)
	d.want(core.Get, core.PlanCell, 0)
}

// A member that has been silent for O does not count in the claim delay.
func TestOverdueAreNotWaitedFor(t *testing.T) {
	const o = 2600 * time.Millisecond
	for silent, waits := range map[time.Duration]bool{o: false, o - 1: true} {
		d := newDesk(t, 3, &record.Plan{Leader: 1, Members: []record.Session{1, 2, 3}}, nil)
		d.show(false, member(2, "c2", 1), member(1, "c1", 1))
		d.after(time.Second)
		d.show(false, member(1, "c1", 2))
		d.after(silent - time.Second)
		if _, ok := d.call(core.Get, core.PlanCell, 0); ok {
			d.step(core.Event{Kind: core.Answer, Verb: core.Get, Key: core.Key{Cell: core.PlanCell}, Entries: []core.Entry{{Key: core.Key{Cell: core.PlanCell}, Rev: d.rev, Plan: d.n.Plan()}}})
		}
		d.show(false, gone(1, "c1", 3))
		if _, ok := d.call(core.Get, core.PlanCell, 0); ok == waits {
			t.Errorf("silent for %v: it claims at once: %v", silent, ok)
		}
	}
}

// The record of a silent leader is read before the leader is declared dead: while
// that read fails, the leader may be alive.
func TestSilentLeaderIsReadFirst(t *testing.T) {
	d := newDesk(t, 2, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
	d.show(true, member(1, "c1", 3))
	for range 100 {
		d.after(100 * time.Millisecond)
		if _, ok := d.call(core.Get, core.MemberCell, 1); ok {
			d.step(core.Event{Kind: core.Answer, Verb: core.Get, Key: core.Key{Cell: core.MemberCell, Session: 1}, Outcome: core.Unknown})
		}
		d.wantNone(core.Put, core.MemberCell, 1)
	}
}

// No leader declares itself dead, not even with a proof of its death.
func TestNoLeaderDeclaresItselfDead(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	d.lead(0, nil)
	d.mute = true
	d.step(core.Event{Kind: core.Proven, Session: 1})
	if a, ok := d.call(core.Put, core.MemberCell, 1); ok && a.Member.State != record.Live {
		t.Errorf("it writes %+v", a.Member)
	}
}

// A plan of an earlier incarnation or generation, which a watch shows late, is only
// a reason to read the plan.
func TestOldPlansAreLate(t *testing.T) {
	for _, c := range []record.Plan{
		{Incarnation: inc - 1, Gen: 9, Write: 9},
		{Incarnation: inc, Gen: 4, Write: 1}, // whatever it says of itself
	} {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
		at := d.rev
		d.lead(0, nil)
		d.after(100 * time.Millisecond)
		c.Leader = 1
		d.showPlan(&c)
		d.running("an old plan")
		d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: d.n.Plan(), Rev: at})
		d.running("an old plan")
		d.show(false, member(2, "c2", 1))
		d.after(100 * time.Millisecond)
		if a := d.want(core.Put, core.PlanCell, 0); a.Prev != at {
			t.Errorf("it writes over %d, not %d", a.Prev, at)
		}
	}
}

// The known plan in another revision is the same plan: the next write replaces that
// revision.
func TestSamePlanInAnotherRevision(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	d.lead(0, nil)
	d.showPlan(d.n.Plan())
	at := d.rev
	d.show(false, member(2, "c2", 1))
	d.after(100 * time.Millisecond)
	if a := d.want(core.Put, core.PlanCell, 0); a.Prev != at {
		t.Errorf("it writes over %d, not %d", a.Prev, at)
	}
}

// After a loss the plan has a new incarnation, a hold and no leader; if the plan
// itself is lost, it is a first plan.
func TestNewIncarnation(t *testing.T) {
	for _, found := range []bool{true, false} {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}, Mode: record.Eager, Rows: []record.Row{owned(1)}}, func(c *core.Config) {
			c.Era, c.Mode = 3, record.Eager
		})
		other := *d.n.Plan()
		other.Write, other.Term, other.Gen = 99, 8, 4
		d.step(core.Event{Kind: core.Gap})
		d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: &other})
		if !slices.Contains(d.notes, core.NoteLost) {
			t.Fatal("it does not notice the loss")
		}
		want := record.Plan{Incarnation: inc + 1, Gen: 1, Decided: 1, Term: 1, Hold: true, Mode: record.Eager}
		if found {
			d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: &other})
			want.Gen, want.Decided, want.Term = 5, 5, 8
		} else {
			d.answer(core.Get, core.PlanCell, 0, core.NotFound)
		}
		p := d.want(core.Put, core.PlanCell, 0).Plan
		if p.Incarnation != want.Incarnation || p.Gen != want.Gen || p.Decided != want.Decided || p.Term != want.Term ||
			!p.Hold || p.Leader != 0 || p.Mode != want.Mode || found != (len(p.Rows) == 1) {
			t.Errorf("found %v: it writes %+v", found, p)
		}
	}
}

// A session that is ending, and waits for a handler, reads nothing more, adopts no
// plan, and neither claims nor creates one.
func TestEndingSessionLetsThePlanBe(t *testing.T) {
	fence := func(d *desk) {
		me := member(3, "me", 100)
		me.State = record.Dead
		d.show(false, me)
		d.answer(core.Get, core.MemberCell, 3, core.OK, core.Entry{Member: me})
		if cause, ended := d.n.Ended(); cause != core.ByFence || ended {
			t.Fatalf("it is %v, over: %v", cause, ended)
		}
	}
	start := func() *desk {
		d := newDesk(t, 3, &record.Plan{Leader: 1, Members: []record.Session{1, 3}, Rows: []record.Row{owned(3)}}, nil)
		d.readRoster("a")
		return d
	}

	d := start()
	fence(d)
	d.after(4 * time.Second)
	d.wantNone(core.Get, core.PlanCell, 0)
	d.show(false, gone(1, "c1", 2))
	d.after(time.Second)
	d.wantNone(core.Get, core.PlanCell, 0)
	next := *d.n.Plan()
	next.Gen, next.Write, next.Leader = 6, 2, 3
	d.showPlan(&next)
	if slices.Contains(d.notes, core.NoteLead) || d.n.Leads() {
		t.Error("it leads")
	}
	d.step(core.Event{Kind: core.Gap})
	d.wantNone(core.Get, core.RosterCell, 0)
	d.wantNone(core.List, core.MemberCell, 0)

	d = start()
	d.show(false, gone(1, "c1", 2))
	d.want(core.Get, core.PlanCell, 0) // to claim it
	fence(d)
	d.step(core.Event{Kind: core.Answer, Verb: core.Get, Key: core.Key{Cell: core.PlanCell}, Entries: []core.Entry{{Key: core.Key{Cell: core.PlanCell}, Rev: d.rev, Plan: d.n.Plan()}}})
	d.wantNone(core.Put, core.PlanCell, 0)
}

// Granted partitions are started at once, even if another read of the plan was
// asked for during this one. A session whose lease is back starts them after the
// first read that was sent since, even if the read before failed.
func TestStartsWithTheFirstRead(t *testing.T) {
	read := core.Event{Kind: core.Answer, Verb: core.Get, Key: core.Key{Cell: core.PlanCell}}
	l := newLone(t, nil)
	l.takes(names("q0"))
	l.takes(core.Event{Kind: core.Gap})
	found := read
	found.Entries = shows(aPlan(1, 2, record.Owned, 1, 1)).Entries
	l.takes(found)
	l.ask(l.did(core.DoStart), "it does not start what it owns")

	l = newLone(t, nil)
	l.takes(names("q0"))
	l.takes(found)
	l.takes(core.Event{Kind: core.Jumped})
	l.takes(core.Event{Kind: core.Stopped, Token: record.MakeToken(7, 1)})
	l.reply(core.Put, core.Event{Rev: 2})
	l.reply(core.Put, core.Event{Rev: 3})
	l.ask(l.noted(core.NoteResumed), "it does not resume")
	failed := read
	failed.Outcome = core.Unknown
	l.takes(failed)
	l.waits(100 * time.Millisecond)
	l.takes(found)
	l.ask(l.did(core.DoStart), "it does not start again")

	// The same holds if that read also serves to claim the plan.
	l = newLone(t, nil)
	l.takes(names("q0"))
	l.takes(found)
	l.takes(core.Event{Kind: core.Jumped})
	l.takes(core.Event{Kind: core.Stopped, Token: record.MakeToken(7, 1)})
	l.takes(core.Event{Kind: core.Seen, Entries: []core.Entry{isMember(2, 1, record.Left)}})
	l.reply(core.Put, core.Event{Rev: 2})
	l.reply(core.Put, core.Event{Rev: 3})
	l.ask(l.noted(core.NoteResumed), "it does not resume")
	l.takes(core.Event{Kind: core.Server, Text: "s1"})
	l.takes(found)
	l.ask(l.did(core.DoStart), "it does not start again")
	claims := func(a core.Action) bool { return a.Plan != nil && a.Plan.Leader == me }
	l.ask(slices.ContainsFunc(l.acts, claims), "it does not claim the plan")
}

// A deputy forgets sessions that have ended and are not listed any more, even an
// owner that is no member: the next leader reads that record by name.
func TestDeputyForgetsTheEnded(t *testing.T) {
	p := &record.Plan{Incarnation: inc, Gen: 6, Decided: 5, Term: 1, Write: 2, Leader: 1, Members: []record.Session{1, 2}, Roster: 1, Rows: []record.Row{owned(9)}}
	d := newDesk(t, 2, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
	d.showPlan(encoded(t, p))
	d.show(false, member(1, "c1", 1), gone(9, "c9", 4))
	d.step(core.Event{Kind: core.Gap})
	d.answer(core.List, core.MemberCell, 0, core.OK, entry(member(1, "c1", 1), d.rev-1))
	if slices.ContainsFunc(d.n.Members(), func(m *record.Member) bool { return m.Session == 9 }) {
		t.Error("it still knows session 9")
	}
}

// A claim or a first plan that could not be written is retried after a back-off,
// however quickly the store answers.
func TestFailedClaimIsPaced(t *testing.T) {
	for _, first := range []bool{false, true} {
		var d *desk
		look := func() {
			if first {
				d.answer(core.Get, core.PlanCell, 0, core.NotFound)
			} else {
				d.readPlan()
			}
		}
		if first {
			d = joined(t)
		} else {
			d = newDesk(t, 2, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
			d.show(true, gone(1, "c1", 3))
		}
		look()
		for range 3 {
			d.answer(core.Put, core.PlanCell, 0, core.Unknown)
			for range 3 { // it reads the plan
				if _, ok := d.call(core.Get, core.PlanCell, 0); ok {
					d.calls = append(d.calls, core.Action{Do: core.DoCall, Verb: core.Get, Key: core.Key{Cell: core.PlanCell}})
					look()
				}
			}
			d.wantNone(core.Put, core.PlanCell, 0)
			d.after(100 * time.Millisecond)
			if !first {
				look()
			}
		}
		d.want(core.Put, core.PlanCell, 0)
	}
}

// A new incarnation that could not be written is retried after a back-off.
func TestFailedIncarnationIsPaced(t *testing.T) {
	d := newDesk(t, 2, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
	d.show(true, member(1, "c1", 3))
	d.step(core.Event{Kind: core.Gap})
	d.answer(core.Get, core.PlanCell, 0, core.NotFound)
	d.answer(core.Get, core.PlanCell, 0, core.NotFound)
	for range 3 {
		d.answer(core.Put, core.PlanCell, 0, core.Unknown)
		d.answer(core.Get, core.PlanCell, 0, core.NotFound)
		d.wantNone(core.Get, core.PlanCell, 0)
		d.wantNone(core.Put, core.PlanCell, 0)
		d.after(100 * time.Millisecond)
		d.answer(core.Get, core.PlanCell, 0, core.NotFound)
	}
	if a := d.want(core.Put, core.PlanCell, 0); a.Plan.Incarnation <= inc || !a.Plan.Hold {
		t.Errorf("it writes %+v", a.Plan)
	}
}
