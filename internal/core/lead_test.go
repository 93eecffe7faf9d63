package core_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// Only in a hold is a member evicted because it knows only another incarnation.
func TestOnlyAHoldEvictsWhoIsBehind(t *testing.T) {
	for _, hold := range []bool{true, false} {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Hold: hold, Members: []record.Session{1, 2}}, nil)
		m := acks(2, "c2", 1, 5)
		m.AckInc = inc - 1
		d.lead(0, nil, m)
		for seq := range uint64(4) {
			next := *m
			next.Seq = 2 + seq
			d.show(false, &next)
			d.after(1500 * time.Millisecond)
		}
		a, ok := d.call(core.Put, core.MemberCell, 2)
		if ok != hold || ok && a.Member.State != record.Evicted {
			t.Errorf("hold %v: evicted: %v", hold, ok)
		}
	}
}

// In a hold a member is evicted only if it is known to beat now.
func TestAHoldEvictsOnlyWhoBeats(t *testing.T) {
	const w = 5200 * time.Millisecond
	begin := func(m *record.Member) *desk {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Hold: true, Members: []record.Session{1, 2}}, nil)
		m.AckInc, m.Lease = inc-1, 4*time.Second // a member with this lease is overdue after 1.5 s
		d.lead(0, nil)
		return d
	}
	for _, c := range []struct {
		silent time.Duration
		evicts bool
	}{{1500*time.Millisecond - 1, true}, {1500 * time.Millisecond, false}} {
		m := member(2, "c2", 2)
		d := begin(m)
		d.after(w - c.silent)
		d.show(false, m)
		d.after(c.silent)
		if _, ok := d.call(core.Put, core.MemberCell, 2); ok != c.evicts {
			t.Errorf("silent for %v: evicted: %v", c.silent, ok)
		}
	}

	// Its record was just found, and may come from a backup.
	m := member(2, "c2", 2)
	d := begin(m)
	d.after(w - 100*time.Millisecond)
	d.show(true, m)
	d.after(settles)
	d.wantNone(core.Put, core.MemberCell, 2)

	// A stale version makes the leader read the record, and the answer has not come
	// yet.
	m = member(2, "c2", 5)
	d = begin(m)
	d.after(w - 500*time.Millisecond)
	d.show(false, m)
	rev, old := d.rev, *m
	old.Seq = 4
	d.show(false, &old)
	d.after(450 * time.Millisecond)
	d.answer(core.Get, core.MemberCell, 2, core.Unknown)
	d.after(60 * time.Millisecond)
	d.wantNone(core.Put, core.MemberCell, 2)
	d.after(50 * time.Millisecond)
	d.wantNone(core.Put, core.MemberCell, 2)
	d.answer(core.Get, core.MemberCell, 2, core.OK, core.Entry{Member: m, Rev: rev})
	d.want(core.Put, core.MemberCell, 2)

	// It is evicted once.
	d.order(record.Orders{Ver: 1})
	d.wantNone(core.Put, core.MemberCell, 2)
}

// A leaver that does not stop a revoked partition is evicted like any other member,
// after the stop time; the row that it keeps does not count as stuck.
func TestALeaverIsEvicted(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}, Rows: []record.Row{revoking(2, 1)}}, nil)
	d.lead(1, nil, in(record.Leaving, member(2, "c2", 1)))
	for seq := range uint64(16) {
		d.after(beat)
		d.wantNone(core.Put, core.MemberCell, 2)
		d.call(core.Put, core.PlanCell, 0)
		d.show(false, in(record.Leaving, member(2, "c2", 2+seq)))
	}
	d.after(2500 * time.Millisecond)
	if a := d.want(core.Put, core.MemberCell, 2); a.Member.State != record.Evicted {
		t.Errorf("it writes %v", a.Member)
	}
	if slices.Contains(d.notes, core.NoteStuck) {
		t.Error("a row that is revoked counts as stuck")
	}
}

// The stop time counts from the revoke, not from an earlier grant that had not been
// started.
func TestTheTimeToDrainCountsFromTheRevoke(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}, Rows: []record.Row{owned(1), owned(2)}}, nil)
	d.lead(2, nil, member(2, "c2", 1))
	for seq := range uint64(20) {
		d.after(beat)
		d.show(false, member(2, "c2", 2+seq))
		if seq == 5 {
			d.order(record.Orders{Ver: 1, Drains: []string{"c2"}})
			d.after(settles)
			d.wrote()
		}
		d.wantNone(core.Put, core.MemberCell, 2)
	}
}

// A start that is stuck is reported with the ID of its partition.
func TestStuckIsToldByID(t *testing.T) {
	m := acks(2, "c2", 1, 5)
	m.Starting = []record.ID{1}
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}, Rows: []record.Row{owned(2), owned(2)}}, nil)
	d.lead(2, nil, m)
	for seq := range uint64(16) {
		d.after(beat)
		next := *m
		next.Seq = 2 + seq
		d.show(false, &next)
	}
	i := slices.IndexFunc(d.told, func(a core.Action) bool { return a.Note == core.NoteStuck })
	if i < 0 || d.told[i].ID != 1 || d.told[i].Name != "b" {
		t.Errorf("told: %v", d.notes)
	}
}

// A leader does not evict itself: it aborts handlers that do not stop.
func TestALeaderDoesNotEvictItself(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}, Rows: []record.Row{owned(1)}}, nil)
	d.lead(1, nil, member(2, "c2", 1))
	d.order(record.Orders{Ver: 1, Drains: []string{"me"}})
	d.after(settles)
	d.wrote()
	d.after(33 * time.Second)
	d.mute = true
	d.after(3 * time.Second)
	if d.saysOfItself(record.Evicted) {
		t.Error("it evicts itself")
	}
}

// An ended session whose record is not listed any more is forgotten, unless the
// plan names it: then its rows stay reserved.
func TestForgetsWhoIsListedNoMore(t *testing.T) {
	for _, planned := range []bool{true, false} {
		p := &record.Plan{Leader: 1, Members: []record.Session{1}}
		if planned {
			p.Members = append(p.Members, 2)
		}
		d := newDesk(t, 1, p, returnsIn(time.Minute))
		left := in(record.Left, member(2, "c2", 5))
		left.Returning = true
		d.lead(0, nil, left)
		d.after(10 * time.Second)
		d.answer(core.List, core.MemberCell, 0, core.OK)
		if got := len(d.n.Members()) == 2; got != planned {
			t.Errorf("in the plan: %v, remembered: %v", planned, got)
		}
		d.after(settles)
		d.wantNone(core.Put, core.PlanCell, 0)
	}
}

// A partition is kept away from the member that gave it up for a second from then
// on, however often the write of the plan that frees it is retried.
func TestAGraceCountsFromTheFirst(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Orders: 1, Members: []record.Session{1, 2}, Rows: []record.Row{owned(2)}}, nil)
	d.lead(1, &record.Orders{Ver: 1, Drains: []string{"me"}}, acks(2, "c2", 1, 5))
	d.after(settles)
	m := acks(2, "c2", 2, 5)
	m.GaveUp = []record.GaveUp{{Token: owned(2).Token}}
	d.show(false, m)
	d.after(500 * time.Millisecond)
	d.answer(core.Put, core.PlanCell, 0, core.Unknown)
	d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: d.n.Plan()})
	d.after(100 * time.Millisecond)
	if r := d.wrote().Rows[0]; r.State != record.Free {
		t.Fatalf("the row is %v", r)
	}
	d.after(399 * time.Millisecond)
	d.wantNone(core.Put, core.PlanCell, 0)
	d.after(2 * time.Millisecond)
	if r := d.wrote().Rows[0]; r.Owner != 2 {
		t.Errorf("the row is %v", r)
	}
}

// A session whose lease is too long for the leader does not join as an heir either.
func TestNoHeirWithALongLease(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
	long := member(3, "c2", 1)
	long.Lease = time.Minute
	d.lead(0, nil, in(record.Left, member(2, "c2", 5)), long)
	d.after(settles)
	if p := d.wrote(); !slices.Equal(p.Members, []record.Session{1}) {
		t.Errorf("the plan is over %v", p.Members)
	}
}

// An heir that arrives together with the end of the former session gets its rows in
// one plan.
func TestAnHeirThatIsThereAlready(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}, Rows: []record.Row{owned(2)}}, returnsIn(time.Minute))
	d.lead(1, nil, member(2, "c2", 1))
	d.after(settles)
	left := in(record.Left, member(2, "c2", 2))
	left.Returning = true
	d.show(false, left, member(3, "c2", 1))
	d.wantNone(core.Put, core.PlanCell, 0)
	d.after(settles)
	if p := d.wrote(); p.Rows[0].Owner != 3 {
		t.Errorf("the row is %v", p.Rows[0])
	}
}

// No rows are reserved for a member that was evicted, even if it meant to return.
func TestNoPlaceForTheEvicted(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, returnsIn(time.Minute))
	d.lead(0, nil, member(2, "c2", 1))
	d.after(settles)
	m := in(record.Evicted, member(2, "c2", 2))
	m.Returning = true
	d.show(false, m)
	d.after(settles)
	if p := d.wrote(); len(p.Members) != 1 {
		t.Errorf("the plan is over %v", p.Members)
	}
}

// A new leader decides nothing before it has read roster, orders and members,
// whatever the order of the answers.
func TestALeaderReadsEverythingFirst(t *testing.T) {
	for last := range 3 {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}, Rows: []record.Row{revoking(2, 1)}}, nil)
		answers := []func(){
			func() {
				r := &record.Roster{Ver: 1, Entries: []record.Partition{{Name: "a"}}}
				d.answer(core.Get, core.RosterCell, 0, core.OK, core.Entry{Roster: r})
			},
			func() { d.answer(core.Get, core.OrdersCell, 0, core.NotFound) },
			func() {
				d.rev++
				d.answer(core.List, core.MemberCell, 0, core.OK, entry(acks(2, "c2", 1, 5), d.rev))
			},
		}
		for i, answer := range answers {
			if i != last {
				answer()
			}
		}
		d.after(time.Second)
		d.wantNone(core.Put, core.PlanCell, 0)
		answers[last]()
		if r := d.wrote().Rows[0]; r.Owner != 1 {
			t.Errorf("the row is %v", r)
		}
	}
}

// A listing does not tell a leader that it is dead: only a read of its own record
// does, and until then the leader keeps its own rows.
func TestAListingSaysNothingOfTheOwnRecord(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}, Rows: []record.Row{owned(1)}}, nil)
	d.show(false, member(2, "c2", 1))
	d.lead(1, nil, in(record.Dead, member(1, "me", 100)), member(2, "c2", 2))
	d.after(settles)
	d.wantNone(core.Put, core.PlanCell, 0)
}

// A session that is ending, and waits for a handler, declares nobody dead and
// writes no plan.
func TestEndingLeadsNobody(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}, Rows: []record.Row{owned(1)}}, nil)
	d.lead(1, nil, member(2, "c2", 1))
	me := in(record.Dead, member(1, "me", 100))
	d.show(false, me)
	d.answer(core.Get, core.MemberCell, 1, core.OK, core.Entry{Member: me})
	d.after(8 * time.Second)
	d.wantNone(core.Put, core.MemberCell, 2)
	d.show(false, member(3, "c3", 1))
	d.after(settles)
	d.wantNone(core.Put, core.PlanCell, 0)
}

// A leader that is alone and says LEFT writes no more plans.
func TestWhoLeftLeadsNobody(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	d.lead(0, nil)
	d.after(settles)
	d.step(core.Event{Kind: core.Leave})
	d.mute = true
	d.step(core.Event{Kind: core.Closed})
	if a := d.want(core.Put, core.MemberCell, 1); a.Member.State != record.Left {
		t.Fatalf("it says %v", a.Member.State)
	}
	d.order(record.Orders{Ver: 1, Freeze: true})
	d.after(settles)
	d.wantNone(core.Put, core.PlanCell, 0)
}

// A leader whose plans could not be written for W ends, and does not retry any
// more.
func TestAFailingLeaderTriesNoMore(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}, Rows: []record.Row{owned(2)}}, nil)
	fails := func() {
		d.answer(core.Put, core.PlanCell, 0, core.Unknown)
		d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: d.n.Plan()})
	}
	d.lead(1, &record.Orders{Ver: 1, Drains: []string{"c2"}}, member(2, "c2", 1))
	d.after(settles)
	fails()
	d.after(5100 * time.Millisecond)
	fails()
	d.after(100 * time.Millisecond)
	if cause, _ := d.n.Ended(); cause != core.ByFailure {
		t.Fatalf("it ends: %v", cause)
	}
	d.wantNone(core.Put, core.PlanCell, 0)
}

// After a leader has ended on a bug, the next one waits for a change. The end of a
// session that is in no plan is none; a newcomer is one.
func TestWhatBreaksTheSpell(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}, Rows: []record.Row{{Reason: record.Unplaced, Rev: 5}}}, nil)
	bug := in(record.Left, member(9, "c9", 5))
	bug.Bug = 5
	d.lead(1, nil, bug)
	d.after(settles)
	d.show(false, in(record.Left, member(8, "c8", 5)))
	d.after(settles)
	d.wantNone(core.Put, core.PlanCell, 0)
	d.show(false, member(3, "c3", 1))
	d.after(settles)
	d.want(core.Put, core.PlanCell, 0)
}

// However fast members arrive, a plan follows within QuietMax of the first arrival.
func TestArrivalsDoNotPutOffThePlan(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	d.lead(0, nil)
	d.after(settles)
	for s := record.Session(2); s < 30; s++ {
		d.show(false, member(s, fmt.Sprint("c", s), 1))
		d.after(80 * time.Millisecond)
	}
	d.want(core.Put, core.PlanCell, 0)
}

// The wait set holds rows that are being revoked and free rows that have a target.
func TestWhatIsWaitedFor(t *testing.T) {
	rows := []record.Row{revoking(2, 3), {To: 3, Rev: 5}, {Rev: 5}, {To: 1, Rev: 5}, {To: 1, Reason: record.Paused, Rev: 5}}
	d := newDesk(t, 1, &record.Plan{Leader: 1, Mode: record.Eager, Members: []record.Session{1, 2, 3}, Rows: rows}, eager)
	d.lead(5, nil, member(2, "c2", 1), member(3, "c3", 1))
	got := ""
	for _, w := range d.n.Waits() {
		got += w.Name
	}
	if got != "abd" {
		t.Errorf("it waits for %s", got)
	}
}

// Plans wait while the roster has to be read again, but no longer than a heartbeat.
func TestPlansWaitForTheRoster(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	d.lead(0, nil)
	d.after(settles)
	d.step(core.Event{Kind: core.Gap})
	d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: d.n.Plan()})
	d.show(false, member(2, "c2", 1))
	d.after(time.Second)
	d.wantNone(core.Put, core.PlanCell, 0)
	d.after(1100 * time.Millisecond)
	d.want(core.Put, core.PlanCell, 0)
}

// A former leader reads nobody's record by name.
func TestAFormerLeaderAsksForNobody(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
	d.lead(1, nil, member(2, "c2", 1))
	d.after(settles)
	for gen := uint64(6); gen < 8; gen++ {
		p := *d.n.Plan()
		p.Gen, p.Write, p.Leader, p.Term, p.Rows = gen, gen, 2, 2, []record.Row{owned(9)}
		d.seePlan(&p)
	}
	d.after(0)
	d.wantNone(core.Get, core.MemberCell, 9)
}
