package core_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// answerQuickly answers the read of the plan that ends a quiet time, if a leader has
// just put it on the desk.
func (d *desk) answerQuickly() {
	if last := d.calls[len(d.calls)-1]; d.n.Leads() && !d.slow && last.Verb == core.Get && last.Key.Cell == core.PlanCell {
		d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: d.n.Plan(), Rev: d.plan})
	}
}

// wrote takes the plan that lies on the desk, and answers that it was written.
func (d *desk) wrote() *record.Plan {
	d.t.Helper()
	return d.answer(core.Put, core.PlanCell, 0, core.OK).Plan
}

// why returns the reasons of the last plan.
func (d *desk) why() (w core.Why) {
	for _, a := range d.told {
		if a.Note == core.NotePlan {
			w = a.Why
		}
	}
	return w
}

// saysOfItself tells whether a record of the node with this state lies on the desk.
func (d *desk) saysOfItself(state record.MemberState) bool {
	return slices.ContainsFunc(d.calls, func(a core.Action) bool {
		return a.Key.Session == d.n.Session() && a.Verb == core.Put && a.Member.State == state
	})
}

// order lets the watch show orders.
func (d *desk) order(o record.Orders) {
	d.rev++
	d.step(core.Event{Kind: core.Seen, Entries: []core.Entry{{Key: core.Key{Cell: core.OrdersCell}, Rev: d.rev, Orders: &o}}})
}

// acks is the record of member s after it has applied a plan.
func acks(s record.Session, name string, seq, gen uint64) *record.Member {
	m := member(s, name, seq)
	m.AckInc, m.AckGen = inc, gen
	return m
}

func revoking(s, to record.Session) record.Row {
	r := owned(s)
	r.State, r.To = record.Revoking, to
	return r
}

func eager(cfg *core.Config) { cfg.Mode = record.Eager }

func returnsIn(d time.Duration) func(*core.Config) {
	return func(cfg *core.Config) { cfg.Return = d }
}

const settles = 200 * time.Millisecond // more than Timing.Quiet

// A free row beside a running one has missed the barrier of an eager plan: it is
// not granted, and everything stops for the next plan.
func TestLateForTheBarrier(t *testing.T) {
	p := &record.Plan{Leader: 1, Mode: record.Eager, Members: []record.Session{1, 2}, Rows: []record.Row{owned(2), {To: 2, Rev: 5}}}
	d := newDesk(t, 1, p, eager)
	d.lead(2, nil, member(2, "c2", 1))
	d.after(settles)
	if rows := d.wrote().Rows; rows[0].State != record.Revoking || rows[1].State != record.Free {
		t.Errorf("the rows are %v", rows)
	}
}

// A member that is leaving is granted nothing more, even if it is the target of a
// row. The freed row has no owner, and the generation in which it became free.
func TestALeaverIsGrantedNothing(t *testing.T) {
	p := &record.Plan{Leader: 1, Mode: record.Eager, Members: []record.Session{1, 2, 3}, Rows: []record.Row{revoking(2, 3)}}
	d := newDesk(t, 1, p, eager)
	d.lead(1, nil, member(2, "c2", 1), member(3, "c3", 1))
	d.after(settles)
	d.show(false, acks(2, "c2", 2, 5), in(record.Leaving, member(3, "c3", 2)))
	got := d.wrote()
	if want := (record.Row{To: 3, Token: record.MakeToken(inc, 1), Rev: 6}); got.Gen != 6 || got.Rows[0] != want {
		t.Errorf("version %d says %v, not %v", got.Gen, got.Rows[0], want)
	}
}

// A name has returned only if its former session had ended, not while that was
// still leaving. A session that the plan names and nobody has ever seen has not
// returned either.
func TestAReturnFollowsAnEnd(t *testing.T) {
	for _, state := range []record.MemberState{record.Leaving, record.Left} {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2, 9}}, returnsIn(time.Minute))
		d.lead(0, nil, in(state, member(2, "c2", 5)), member(3, "c2", 1))
		d.after(settles)
		p := d.wrote()
		if want := state == record.Left; slices.Contains(d.notes, core.NoteReturned) != want || len(p.Returns) > 0 != want {
			t.Errorf("state %v: returns %v, told %v", state, p.Returns, d.notes)
		}
		if !slices.Equal(p.Members, []record.Session{1, 3}) {
			t.Errorf("state %v: the plan is over %v", state, p.Members)
		}
	}
}

// When a hold ends, every row is granted anew, with a higher token, to its owner or
// its target; the hold of a plan without rows ends, too.
func TestWhatAHoldGivesBack(t *testing.T) {
	for _, c := range []struct {
		name string
		rows []record.Row
	}{
		{"nothing", nil},
		{"what it has", []record.Row{owned(3)}},
		{"what it was to have", []record.Row{revoking(2, 3)}},
	} {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Hold: true, Members: []record.Session{1, 2, 3}, Rows: c.rows}, nil)
		d.lead(len(c.rows), nil, member(2, "c2", 1), member(3, "c3", 1))
		for seq := range uint64(3) {
			d.wantNone(core.Put, core.PlanCell, 0)
			d.show(false, member(2, "c2", 2+seq), member(3, "c3", 2+seq))
			d.after(beat)
		}
		p := d.wrote()
		if p.Hold || !slices.Contains(d.notes, core.NoteCleared) {
			t.Errorf("%s: held: %v, told: %v", c.name, p.Hold, d.notes)
		}
		for _, r := range p.Rows {
			if r.State != record.Owned || r.Owner != 3 || r.Token != record.MakeToken(inc, 2) {
				t.Errorf("%s: the row is %v", c.name, r)
			}
		}
	}
}

// A hold does not end, however long it has lasted, while a record in sight may come
// from a backup, or belong to a member that will beat soon.
func TestAGhostKeepsTheHold(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Hold: true, Members: []record.Session{1, 2}}, nil)
	d.after(time.Second)
	d.lead(0, nil, member(2, "c2", 1))
	d.after(4500 * time.Millisecond)
	d.wantNone(core.Put, core.PlanCell, 0)
	d.show(false, member(2, "c2", 2))
	d.after(beat)
	d.want(core.Put, core.PlanCell, 0)
}

// The row of a paused partition remembers its home, however many plans are made
// meanwhile.
func TestAPausedRowRemembersItsHome(t *testing.T) {
	row := record.Row{To: 2, Reason: record.Paused, Token: record.MakeToken(inc, 1), Rev: 5}
	d := newDesk(t, 1, &record.Plan{Leader: 1, Orders: 1, Members: []record.Session{1, 2}, Rows: []record.Row{row}}, nil)
	d.lead(1, &record.Orders{Ver: 1, Pauses: []string{"a"}}, member(2, "c2", 1))
	d.order(record.Orders{Ver: 2, Pauses: []string{"a"}, Drains: []string{"x"}})
	d.after(settles)
	if p := d.wrote(); p.Orders != 2 || p.Rows[0] != row {
		t.Errorf("the row was %v and is %v", row, p.Rows[0])
	}
}

// An owner that the plan does not name as a member becomes one, and keeps its row.
func TestAnOwnerOutsideThePlanKeepsItsRow(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}, Rows: []record.Row{owned(2)}}, nil)
	d.lead(1, nil, member(2, "c2", 1))
	d.after(settles)
	if p := d.wrote(); len(p.Members) != 2 || p.Rows[0] != owned(2) {
		t.Errorf("the plan is over %v with %v", p.Members, p.Rows)
	}
}

// The next session of a name gets the rows of the one that ended; rows without an
// owner go to the other members first. A new row has the generation in which it was
// added.
func TestAnHeirGetsWhatThereWas(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Orders: 1, Members: []record.Session{1, 2}, Rows: []record.Row{owned(2), owned(2), owned(1)}}, nil)
	d.lead(5, &record.Orders{Ver: 1, Pauses: []string{"e"}}, in(record.Left, member(2, "c2", 5)), member(3, "c2", 1))
	d.after(settles)
	p := d.wrote()
	for i, want := range []record.Session{3, 3, 1, 1, 0} {
		if p.Rows[i].Owner != want {
			t.Errorf("row %d is %v, not %d's", i, p.Rows[i], want)
		}
	}
	if r := p.Rows[4]; r.Reason != record.Paused || r.Rev != p.Gen {
		t.Errorf("the paused row is %v in version %d", r, p.Gen)
	}
}

// A pin that cannot be obeyed is reported, however many others can be.
func TestALostPinIsTold(t *testing.T) {
	for _, lost := range []string{"me", "nobody"} {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
		d.lead(2, &record.Orders{Ver: 1, Pins: []record.Pin{{Partition: "a", Member: lost}, {Partition: "b", Member: "me"}}})
		d.after(settles)
		d.wrote()
		if slices.Contains(d.notes, core.NotePin) != (lost == "nobody") {
			t.Errorf("pinned to %s: told %v", lost, d.notes)
		}
	}
}

// Paused partitions do not count as load: their home has room for others.
func TestPausedPartitionsWeighNothing(t *testing.T) {
	paused := record.Row{To: 1, Reason: record.Paused, Token: record.MakeToken(inc, 1), Rev: 5}
	rows := []record.Row{paused, paused, owned(1), owned(2)}
	d := newDesk(t, 1, &record.Plan{Leader: 1, Orders: 1, Members: []record.Session{1, 2}, Rows: rows}, nil)
	d.lead(4, &record.Orders{Ver: 1, Pauses: []string{"a", "b"}}, member(2, "c2", 1))
	d.order(record.Orders{Ver: 2, Pauses: []string{"a", "b"}, Drains: []string{"x"}})
	d.after(settles)
	if p := d.wrote(); !slices.Equal(p.Rows, rows) {
		t.Errorf("the rows were %v and are %v", rows, p.Rows)
	}
}

// A freeze keeps running partitions where they are; free ones go where there is
// room.
func TestAFreezeKeepsOnlyWhatRuns(t *testing.T) {
	rows := []record.Row{{To: 1, Reason: record.Paused, Token: record.MakeToken(inc, 1), Rev: 5}, owned(1), owned(1)}
	d := newDesk(t, 1, &record.Plan{Leader: 1, Orders: 1, Members: []record.Session{1, 2}, Rows: rows}, nil)
	d.lead(3, &record.Orders{Ver: 1, Freeze: true, Pauses: []string{"a"}}, member(2, "c2", 1))
	d.order(record.Orders{Ver: 2, Freeze: true})
	d.after(settles)
	if p := d.wrote(); p.Rows[0].Owner != 2 || p.Rows[1] != rows[1] || p.Rows[2] != rows[2] {
		t.Errorf("the rows are %v", p.Rows)
	}
}

// The rows of a member that has left for good wait for the next plan, which waits
// for the quiet time: no version of the plan is written before.
func TestALeaversRowsWaitForThePlan(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}, Rows: []record.Row{owned(2)}}, nil)
	d.lead(1, nil, member(2, "c2", 1))
	d.after(settles)
	d.show(false, in(record.Left, member(2, "c2", 2)))
	d.wantNone(core.Put, core.PlanCell, 0)
	d.after(settles)
	if p := d.wrote(); p.Rows[0].Owner != 1 {
		t.Errorf("the row is %v", p.Rows[0])
	}
}

// The rows of a member that means to return are free at once and reserved for it;
// it gets no others while it is away.
func TestAPlaceThatIsKept(t *testing.T) {
	rows := []record.Row{owned(2), owned(1), owned(1), {Reason: record.Paused, Rev: 5}}
	d := newDesk(t, 1, &record.Plan{Leader: 1, Orders: 1, Members: []record.Session{1, 2}, Rows: rows}, returnsIn(time.Minute))
	d.lead(4, &record.Orders{Ver: 1, Pauses: []string{"d"}}, member(2, "c2", 1))
	d.after(settles)
	m := in(record.Left, member(2, "c2", 2))
	m.Returning = true
	d.show(false, m)
	kept := record.Row{To: 2, Reason: record.Returning, Token: record.MakeToken(inc, 1), Rev: 6}
	if p := d.wrote(); p.Rows[0] != kept {
		t.Fatalf("the row is %v, not %v", p.Rows[0], kept)
	}
	d.order(record.Orders{Ver: 2})
	d.after(settles)
	if p := d.wrote(); p.Rows[0] != kept || p.Rows[3].Owner != 1 {
		t.Errorf("the rows are %v", p.Rows)
	}
}

// An eager plan that has not granted anything yet gets new targets and stays the
// same plan; under a leader that is not eager the next one is another plan.
func TestAimedAnewIsTheSamePlan(t *testing.T) {
	for mode, id := range map[record.Mode]uint64{record.Eager: 3, record.Incremental: 4} {
		p := &record.Plan{Leader: 1, ID: 3, Mode: record.Eager, Members: []record.Session{1, 2}, Rows: []record.Row{revoking(2, 1)}}
		d := newDesk(t, 1, p, func(cfg *core.Config) { cfg.Mode = mode })
		d.lead(1, &record.Orders{Ver: 1, Drains: []string{"c2"}}, member(2, "c2", 1))
		d.after(settles)
		if got := d.wrote(); got.ID != id || got.Mode != mode {
			t.Errorf("mode %v: plan %d of mode %v", mode, got.ID, got.Mode)
		}
	}
}

// A plan is reported with its own reasons, not with those of an earlier one.
func TestReasonsOfAPlanAreItsOwn(t *testing.T) {
	p := &record.Plan{Leader: 1, Mode: record.Eager, Members: []record.Session{1, 2, 3, 4}, Rows: []record.Row{revoking(2, 1), revoking(3, 1)}}
	d := newDesk(t, 1, p, eager)
	d.lead(2, nil, member(2, "c2", 1), member(3, "c3", 1), member(4, "c4", 1))
	d.after(settles)
	d.show(false, in(record.Leaving, member(4, "c4", 2)))
	d.after(settles)
	if d.wrote(); d.why() != core.WhyLeft {
		t.Fatalf("the plan is because of: %v", d.why())
	}
	d.show(false, acks(2, "c2", 2, 5))
	if p := d.wrote(); p.Rows[0].State != record.Free {
		t.Fatalf("the row is %v", p.Rows[0])
	}
	d.order(record.Orders{Ver: 1, Drains: []string{"x"}})
	d.after(settles)
	if d.wrote(); d.why() != core.WhyOrders {
		t.Errorf("the plan is because of: %v", d.why())
	}
}

// An arrival while a plan is in flight, however long that takes, is followed by a
// quiet time of its own: more may follow.
func TestArrivalsWhileAPlanIsWritten(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	d.lead(0, nil)
	d.after(settles)
	d.show(false, member(2, "c2", 1))
	d.after(100 * time.Millisecond)
	d.after(1950 * time.Millisecond)
	d.show(false, member(3, "c3", 1))
	d.wrote()
	d.wantNone(core.Put, core.PlanCell, 0)
	d.after(100 * time.Millisecond)
	if p := d.wrote(); len(p.Members) != 3 {
		t.Errorf("the plan is over %v", p.Members)
	}
}

// A partition does not stay with a member that it is banned from, whatever the
// order of many bans.
func TestManyBans(t *testing.T) {
	p := &record.Plan{Leader: 1, Members: []record.Session{1}, Rows: []record.Row{owned(2)}}
	o := &record.Orders{Ver: 1, Freeze: true, Drains: []string{"me"}}
	var ms []*record.Member
	for s := record.Session(2); s <= 21; s++ {
		p.Members = append(p.Members, s)
		ms = append(ms, member(s, fmt.Sprintf("c%02d", 50-s), 1))
	}
	for s := record.Session(20); s >= 2; s-- {
		o.Bans = append(o.Bans, record.Pin{Partition: "a", Member: fmt.Sprintf("c%02d", 50-s)})
	}
	d := newDesk(t, 1, p, nil)
	d.lead(1, o, ms...)
	d.after(settles)
	if p := d.wrote(); p.Rows[0].State != record.Revoking || p.Rows[0].To != 21 {
		t.Errorf("the row is %v", p.Rows[0])
	}
}

// A leader's own record does not prolong a hold, even if it has been written only
// once.
func TestTheOwnRecordIsNoGhost(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Hold: true, Members: []record.Session{1}}, nil)
	d.mute = true
	d.lead(0, nil)
	d.after(6 * time.Second)
	d.want(core.Put, core.PlanCell, 0)
}

// A LIVE record is not deleted, whatever was known of its session before.
func TestNoLiveRecordIsDeleted(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
	d.lead(0, nil, in(record.Left, member(2, "c2", 5)))
	d.step(core.Event{Kind: core.Seen, Entries: []core.Entry{{Key: core.Key{Cell: core.MemberCell, Session: 2}, Deleted: true}}})
	d.answer(core.Get, core.MemberCell, 2, core.NotFound)
	d.after(settles)
	d.wrote()
	for seq := range uint64(330) {
		d.show(false, member(2, "c2", 6+seq))
		d.after(beat)
		d.wantNone(core.Delete, core.MemberCell, 2)
	}
}

// A leader does not suspect itself, however long its last heartbeat takes.
func TestALeaderDoesNotSuspectItself(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
	d.lead(0, nil, member(2, "c2", 1))
	d.mute = true
	d.after(3 * time.Second)
	d.show(false, in(record.Dead, member(2, "c2", 1)))
	d.want(core.Put, core.PlanCell, 0)
}

// Members that are overdue when the first of several dies are waited for. Members
// that become overdue later are not, or two that flap could stall the plan for
// ever.
func TestNobodyIsSuspectedLater(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2, 3, 4}}, nil)
	d.lead(0, nil, member(2, "c2", 1), member(3, "c3", 1), member(4, "c4", 1))
	d.after(settles)
	d.show(false, member(2, "c2", 2), member(3, "c3", 2))
	d.after(time.Second)
	d.show(false, member(4, "c4", 2))
	d.after(2 * time.Second)
	d.show(false, in(record.Dead, member(2, "c2", 2)))
	d.wantNone(core.Put, core.PlanCell, 0) // 3 is silent for 3 s, 4 for 2 s
	d.after(time.Second)
	d.show(false, in(record.Dead, member(3, "c3", 2)))
	if p := d.wrote(); !slices.Equal(p.Members, []record.Session{1, 4}) {
		t.Errorf("the plan is over %v", p.Members)
	}
}

// A suspect with a long lease is not waited for until that lease is over: the time
// of one heartbeat is enough.
func TestASuspectIsWaitedForOneHeartbeat(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2, 3}}, nil)
	slow := member(3, "c3", 1)
	slow.Lease = 15 * time.Second
	d.lead(0, nil, member(2, "c2", 1), slow)
	next := *slow
	next.Seq = 2
	d.show(false, &next)
	d.after(3 * time.Second)
	d.show(false, in(record.Dead, member(2, "c2", 2)))
	d.after(2500 * time.Millisecond)
	d.wantNone(core.Put, core.PlanCell, 0)
	d.after(settles)
	d.want(core.Put, core.PlanCell, 0)
}

// Plans that have waited for a roster since the group began do not wait again: the
// first write of it was refused, and the outcome of the second is unknown.
func TestPlansHaveWaitedForTheFirstRoster(t *testing.T) {
	cfg := &core.Config{Session: me, Name: "c1", Timing: core.DefaultTiming(), Fresh: true, Era: inc}
	l := &leader{n: core.New(cfg), now: 1, cells: map[core.Key]core.Entry{}, listing: []record.Partition{{Name: "a"}}, refuses: true}
	l.step(core.Event{Kind: core.Begin})
	l.advance(4 * time.Second)
	l.refuses, l.forgets, l.deaf = false, true, true
	l.step(core.Event{Kind: core.Listed, Complete: true, Listing: l.listing})
	l.show(core.Entry{Key: core.Key{Cell: core.RosterCell}, Roster: &record.Roster{Ver: inc<<32 + 1, Entries: l.listing}})
	if p := l.plan(); len(p.Rows) != 1 || p.Rows[0].Owner != me {
		t.Errorf("the rows are %v", p.Rows)
	}
}

// The record of an ended session is kept as long as the plan names it.
func TestWhoIsNamedIsNotDeleted(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, returnsIn(time.Hour))
	m := in(record.Left, member(2, "c2", 5))
	m.Returning = true
	d.lead(0, nil, m)
	d.after(11 * time.Minute)
	d.wantNone(core.Delete, core.MemberCell, 2)
}

// If the tokens of several rows are used up, the first row is reported, by number
// and name.
func TestTheFirstWornRowIsTold(t *testing.T) {
	worn := record.Row{To: 1, Token: record.MakeToken(inc, 1<<32-1), Rev: 5}
	fresh := record.Row{To: 1, Rev: 5}
	for first, rows := range [][]record.Row{{worn, worn}, {fresh, worn}} {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}, Rows: rows}, nil)
		d.lead(2, nil)
		i := slices.IndexFunc(d.told, func(a core.Action) bool { return a.Note == core.NoteWorn })
		if i < 0 || d.told[i].ID != record.ID(first) || d.told[i].Name != string(rune('a'+first)) {
			t.Errorf("row %d is worn; told: %v", first, d.notes)
		}
	}
}

// A leader does not declare itself dead, however long no record of it is written.
func TestALeaderDoesNotDeclareItselfDead(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	d.lead(0, nil)
	d.mute = true
	d.after(8 * time.Second)
	if d.saysOfItself(record.Dead) {
		t.Error("it declares itself dead")
	}
}

// Only the leader reports a lease that is too long.
func TestADeputyDoesNotTellOfLongLeases(t *testing.T) {
	d := newDeputy(t, nil, nil)
	long := member(6, "c6", 1)
	long.Lease = time.Minute
	d.show(false, long)
	if slices.Contains(d.notes, core.NoteLongLease) {
		t.Error("a deputy tells of it")
	}
}

// No rows are reserved for a member whose record is gone.
func TestNoPlaceForTheAbsent(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, returnsIn(time.Minute))
	d.lead(0, nil, member(2, "c2", 1))
	d.after(settles)
	d.step(core.Event{Kind: core.Seen, Entries: []core.Entry{{Key: core.Key{Cell: core.MemberCell, Session: 2}, Deleted: true}}})
	d.answer(core.Get, core.MemberCell, 2, core.NotFound)
	d.after(settles)
	if p := d.wrote(); len(p.Members) != 1 {
		t.Errorf("the plan is over %v", p.Members)
	}
}

// An heir takes one place, even if two sessions of its name have ended.
func TestOneHeirOnePlace(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2, 3}}, nil)
	d.lead(0, nil, in(record.Left, member(2, "c2", 5)), in(record.Left, member(3, "c2", 5)), member(4, "c2", 1))
	d.after(settles)
	if p := d.wrote(); !slices.Equal(p.Members, []record.Session{1, 4}) {
		t.Errorf("the plan is over %v", p.Members)
	}
}
