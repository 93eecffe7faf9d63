package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// seePlan lets the watch show a plan and, in the same batch, some members.
func (d *desk) seePlan(p *record.Plan, ms ...*record.Member) {
	ev := core.Event{Kind: core.Seen}
	for _, m := range ms {
		d.rev++
		ev.Entries = append(ev.Entries, entry(m, d.rev))
	}
	d.rev++
	ev.Entries = append(ev.Entries, core.Entry{Key: core.Key{Cell: core.PlanCell}, Rev: d.rev, Plan: p})
	d.step(ev)
}

// newDeputy makes session 2 the deputy of the leader, 1. It sees all members.
func newDeputy(t *testing.T, tune func(*core.Config), rows []record.Row, ms ...*record.Member) *desk {
	t.Helper()
	p := &record.Plan{Leader: 1, ID: 1, Members: []record.Session{1, 2}, Rows: rows}
	for _, m := range ms {
		p.Members = append(p.Members, m.Session)
	}
	d := newDesk(t, 2, p, tune)
	r := &record.Roster{Ver: 1}
	for i := range rows {
		r.Entries = append(r.Entries, record.Partition{Name: string(rune('a' + i))})
	}
	d.answer(core.Get, core.RosterCell, 0, core.OK, core.Entry{Roster: r})
	d.show(true, append(ms, member(1, "c1", 1))...)
	return d
}

// claims lets the deputy claim the plan of a leader that is seen to be gone. The
// calls of a new leader lie on the desk afterwards.
func (d *desk) claims() {
	d.t.Helper()
	d.after(0)
	d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: d.n.Plan()})
	if d.wrote(); !d.n.Leads() {
		d.t.Fatal("it does not lead")
	}
}

// planIs makes the next plan of the leader, over these members.
func (d *desk) planIs(members ...record.Session) *record.Plan {
	p := *d.n.Plan()
	p.Gen++
	p.ID++
	p.Write, p.Decided, p.Members = p.Gen, p.Gen, members
	return &p
}

// A deputy that takes over makes a plan with its own reasons. Changes that the
// former leader's last plan has answered are not among them, even if a member in
// sight is in no plan, or left in the same batch.
func TestADeputysNewsAreAnsweredByThePlan(t *testing.T) {
	long := member(6, "c6", 1)
	long.Lease = time.Minute
	for name, c := range map[string]struct {
		seen *record.Member // beside c3, which the plan takes in
		then []*record.Member
		why  core.Why
	}{
		"nobody else":         {nil, nil, core.WhyLeft},
		"a lease too long":    {long, nil, core.WhyLeft},
		"one that is gone":    {member(6, "c6", 1), []*record.Member{in(record.Left, member(6, "c6", 2))}, core.WhyLeft},
		"one that comes late": {member(6, "c6", 1), nil, core.WhyLeft | core.WhyJoined},
	} {
		d := newDeputy(t, nil, nil)
		d.show(false, member(3, "c3", 1))
		if c.seen != nil {
			d.show(false, c.seen)
		}
		d.seePlan(d.planIs(1, 2, 3), c.then...)
		d.show(false, in(record.Left, member(1, "c1", 2)))
		d.claims()
		d.lead(0, nil, member(3, "c3", 1))
		d.after(settles)
		if d.wrote(); d.why() != c.why {
			t.Errorf("%s: the plan is because of: %v", name, d.why())
		}
	}
}

// A deputy keeps changes that no plan has answered.
func TestADeputyKeepsNews(t *testing.T) {
	d := newDeputy(t, nil, nil)
	d.show(false, member(3, "c3", 1))
	d.show(false, in(record.Left, member(3, "c3", 2)))
	d.after(settles)
	d.show(false, in(record.Left, member(1, "c1", 2)))
	d.claims()
	d.lead(0, nil)
	d.after(settles)
	if d.wrote(); d.why() != core.WhyLeft|core.WhyJoined {
		t.Errorf("the plan is because of: %v", d.why())
	}
}

// A session that had ended before the deputy first saw it is no news, even if a
// plan names it later.
func TestALongEndedMemberIsNoNews(t *testing.T) {
	d := newDeputy(t, nil, nil)
	d.show(false, in(record.Dead, member(3, "c3", 1)))
	d.seePlan(d.planIs(1, 2, 3))
	d.show(false, in(record.Left, member(1, "c1", 2)))
	d.claims()
	d.lead(0, nil, in(record.Dead, member(3, "c3", 1)))
	d.after(settles)
	if d.wrote(); d.why() != core.WhyLeft {
		t.Errorf("the plan is because of: %v", d.why())
	}
}

// A plan for orders waits for suspects like any other, even if the rows of the dead
// member are reserved and no member is missing.
func TestOrdersWaitForSuspects(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2, 3}}, returnsIn(time.Minute))
	d.lead(0, nil, member(2, "c2", 1), member(3, "c3", 1))
	d.show(false, member(2, "c2", 2), member(3, "c3", 2))
	d.after(3 * time.Second)
	d.order(record.Orders{Ver: 1, Freeze: true})
	d.after(50 * time.Millisecond)
	d.show(false, in(record.Dead, member(2, "c2", 2)))
	d.after(settles)
	d.wantNone(core.Put, core.PlanCell, 0)
	d.show(false, member(3, "c3", 3))
	d.want(core.Put, core.PlanCell, 0)
}

// After an arrival during a new leader's reads, the quiet time begins when all
// members are in sight.
func TestNewsWhileALeaderReads(t *testing.T) {
	d := newDeputy(t, nil, nil)
	d.show(false, in(record.Left, member(1, "c1", 2)))
	d.claims()
	d.show(false, member(3, "c3", 1))
	d.after(settles)
	d.lead(0, nil, member(3, "c3", 2))
	d.wantNone(core.Put, core.PlanCell, 0)
	d.after(100 * time.Millisecond)
	d.want(core.Put, core.PlanCell, 0)
}

// reads answers the calls of a new leader; nothing has changed since the watch
// showed it.
func (d *desk) reads(es ...core.Entry) {
	d.t.Helper()
	d.answer(core.Get, core.RosterCell, 0, core.OK, core.Entry{Roster: &record.Roster{Ver: 1}})
	d.answer(core.Get, core.OrdersCell, 0, core.NotFound)
	d.answer(core.List, core.MemberCell, 0, core.OK, es...)
	d.step(core.Event{Kind: core.Listed})
}

// The death of a newcomer that no plan has named is over for a deputy. When the
// leader dies later, the deputy notes the suspects anew, and waits for them.
func TestADeputyAsksAnewWhoElseIsSilent(t *testing.T) {
	d := newDeputy(t, nil, nil, member(4, "c4", 1))
	d.show(false, member(5, "c5", 1))
	d.show(false, in(record.Dead, member(5, "c5", 1)))
	d.show(false, member(1, "c1", 2), member(4, "c4", 2))
	lead, other := entry(member(1, "c1", 2), d.rev-1), entry(member(4, "c4", 2), d.rev)
	d.answer(core.Get, core.MemberCell, 1, core.OK, lead) // asked for when the plan came
	d.after(3 * time.Second)
	d.answer(core.Get, core.MemberCell, 1, core.OK, lead)
	d.answer(core.Get, core.MemberCell, 4, core.OK, other)
	d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: d.n.Plan()})
	d.after(1900 * time.Millisecond)
	d.show(false, in(record.Dead, member(1, "c1", 2)))
	d.claims()
	d.reads(other)
	d.after(settles)
	d.wantNone(core.Put, core.PlanCell, 0)
}

// A deputy that sees a new plan no longer waits for the suspects of an earlier
// death, even if that plan lacks a newcomer in sight; the next death notes suspects
// anew.
func TestAPlanEndsADeputysSuspicion(t *testing.T) {
	for _, state := range []record.MemberState{record.Left, record.Dead} {
		d := newDeputy(t, nil, nil, member(3, "c3", 1), member(4, "c4", 1))
		d.show(false, member(3, "c3", 2), member(4, "c4", 2))
		other := entry(member(4, "c4", 2), d.rev)
		d.after(1500 * time.Millisecond)
		d.show(false, member(1, "c1", 2))
		d.after(1400 * time.Millisecond)
		d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: d.n.Plan()})
		d.show(false, member(5, "c5", 1))
		d.show(false, in(record.Dead, member(3, "c3", 2)))
		d.seePlan(d.planIs(1, 2, 4))
		d.show(false, in(state, member(1, "c1", 3)))
		d.claims()
		d.reads(other)
		d.after(settles)
		if _, ok := d.call(core.Put, core.PlanCell, 0); ok != (state == record.Left) {
			t.Errorf("the leader's state is %v: a plan at once: %v", state, ok)
		}
	}
}

// A listing that was sent before the claim may lack members that had joined by
// then: a new leader waits for the next one.
func TestAnOldListingDoesNotCount(t *testing.T) {
	d := listing(t, nil)
	d.show(false, in(record.Left, member(1, "c1", 9)))
	d.claims()
	d.answer(core.Get, core.RosterCell, 0, core.OK, core.Entry{Roster: &record.Roster{Ver: 1}})
	d.answer(core.Get, core.OrdersCell, 0, core.NotFound)
	d.step(core.Event{Kind: core.Listed})
	d.answer(core.List, core.MemberCell, 0, core.OK)
	d.after(settles)
	d.wantNone(core.Put, core.PlanCell, 0)
	d.answer(core.List, core.MemberCell, 0, core.OK)
	d.after(settles)
	d.want(core.Put, core.PlanCell, 0)
}

// If that old listing fails, the next one counts.
func TestAnOldListingThatFails(t *testing.T) {
	d := listing(t, nil)
	d.show(false, in(record.Left, member(1, "c1", 9)))
	d.claims()
	d.answer(core.Get, core.RosterCell, 0, core.OK, core.Entry{Roster: &record.Roster{Ver: 1}})
	d.answer(core.Get, core.OrdersCell, 0, core.NotFound)
	d.step(core.Event{Kind: core.Listed})
	d.answer(core.List, core.MemberCell, 0, core.Unknown)
	d.after(100 * time.Millisecond)
	d.answer(core.List, core.MemberCell, 0, core.OK)
	d.after(settles)
	d.wantNone(core.List, core.MemberCell, 0)
	d.want(core.Put, core.PlanCell, 0)
}

// A deputy reads no owner's record by name: the leader does that.
func TestADeputyAsksForNoOwner(t *testing.T) {
	d := listing(t, []record.Row{owned(9)})
	d.answer(core.List, core.MemberCell, 0, core.OK)
	d.after(0)
	d.wantNone(core.Get, core.MemberCell, 9)
}

// listing brings a deputy to where it lists the members once more.
func listing(t *testing.T, rows []record.Row) *desk {
	t.Helper()
	d := newDeputy(t, nil, rows)
	for seq := range uint64(5) {
		d.after(beat)
		d.show(false, member(1, "c1", 2+seq))
		if slices.ContainsFunc(d.calls, func(a core.Action) bool { return a.Key.Cell == core.PlanCell }) {
			d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: d.n.Plan()})
		}
	}
	return d
}
