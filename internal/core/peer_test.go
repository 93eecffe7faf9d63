package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// A desk is one node and the world around it, played by hand. Writes of the node's
// own record succeed at once; its other calls lie on the desk until a test answers
// them.
type desk struct {
	t     *testing.T
	n     *core.Node
	now   core.Time
	rev   core.Rev
	calls []core.Action
	notes []core.Note
	told  []core.Action     // the notes, with all their fields
	mute  bool              // writes of its own record lie on the desk, too
	slow  bool              // reads of the plan that end a quiet time lie on the desk
	plan  core.Rev          // of the plan in the store
	also  func(core.Action) // gets what is neither a note nor a call; nil for nobody
}

const (
	inc  = 7
	beat = 2 * time.Second
)

// newDesk makes a desk for session me, which has joined a group with this plan.
func newDesk(t *testing.T, me record.Session, p *record.Plan, tune func(*core.Config)) *desk {
	t.Helper()
	cfg := &core.Config{Session: me, Name: "me", Timing: core.DefaultTiming(), Era: inc}
	if tune != nil {
		tune(cfg)
	}
	d := &desk{t: t, n: core.New(cfg), now: 1e9, rev: 100}
	d.step(core.Event{Kind: core.Begin})
	p.Incarnation, p.Gen, p.Decided, p.Term, p.Write = inc, 5, 5, 1, 1
	p.Roster = 1
	d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: p})
	return d
}

func (d *desk) step(ev core.Event) {
	if ev.Verb == core.Put && ev.Key.Cell == core.PlanCell && ev.Outcome == core.OK {
		d.plan = ev.Rev
	}
	for _, e := range ev.Entries {
		if e.Cell == core.PlanCell {
			d.plan = e.Rev
		}
	}
	for _, a := range d.n.Step(d.now, ev) {
		switch {
		case a.Do == core.DoNote:
			d.notes = append(d.notes, a.Note)
			d.told = append(d.told, a)
		case a.Do == core.DoCall && a.Verb == core.Put && a.Key.Session == d.n.Session() && !d.mute:
			d.rev++
			d.step(core.Event{Kind: core.Answer, Verb: a.Verb, Key: a.Key, Rev: d.rev})
		case a.Do == core.DoCall:
			d.calls = append(d.calls, a)
		case d.also != nil:
			d.also(a)
		}
	}
}

// after lets time pass, with a tick whenever the node wants one.
func (d *desk) after(by time.Duration) {
	to := d.now.Add(by)
	for d.n.Next() <= to {
		d.now = max(d.now, d.n.Next())
		before := len(d.calls)
		d.step(core.Event{Kind: core.Tick})
		if len(d.calls) == before+1 {
			d.answerQuickly()
		}
	}
	d.now = to
}

// call takes a call off the desk, if it lies there.
func (d *desk) call(v core.Verb, c core.Cell, s record.Session) (core.Action, bool) {
	for i, a := range d.calls {
		if a.Verb == v && a.Key == (core.Key{Cell: c, Session: s}) {
			d.calls = append(d.calls[:i:i], d.calls[i+1:]...)
			return a, true
		}
	}
	return core.Action{}, false
}

func (d *desk) want(v core.Verb, c core.Cell, s record.Session) core.Action {
	d.t.Helper()
	a, ok := d.call(v, c, s)
	if !ok {
		d.t.Fatalf("no call %d on cell %d of %d; there are %+v", v, c, s, d.calls)
	}
	return a
}

func (d *desk) wantNone(v core.Verb, c core.Cell, s record.Session) {
	d.t.Helper()
	if _, ok := d.call(v, c, s); ok {
		d.t.Fatalf("a call %d on cell %d of %d", v, c, s)
	}
}

// answer ends a call that lies on the desk.
func (d *desk) answer(v core.Verb, c core.Cell, s record.Session, o core.Outcome, es ...core.Entry) core.Action {
	d.t.Helper()
	a := d.want(v, c, s)
	d.rev++
	for i := range es {
		if es[i].Key == (core.Key{}) {
			es[i].Key = a.Key
		}
		if es[i].Rev == 0 {
			es[i].Rev = d.rev
		}
	}
	d.step(core.Event{Kind: core.Answer, Verb: v, Key: a.Key, Outcome: o, Rev: d.rev, Entries: es})
	return a
}

// show lets the watch show records; the age of a record in a first batch is
// unknown.
func (d *desk) show(first bool, ms ...*record.Member) {
	ev := core.Event{Kind: core.Seen, First: first, AllMembers: first}
	for _, m := range ms {
		d.rev++
		ev.Entries = append(ev.Entries, entry(m, d.rev))
	}
	d.step(ev)
}

func entry(m *record.Member, rev core.Rev) core.Entry {
	return core.Entry{Key: core.Key{Cell: core.MemberCell, Session: m.Session}, Rev: rev, Member: m}
}

func member(s record.Session, name string, seq uint64) *record.Member {
	return &record.Member{Session: s, Name: name, State: record.Live, Seq: seq, Lease: 5 * time.Second, Beat: beat}
}

// lead answers the calls of a new leader, with these members beside itself.
func (d *desk) lead(parts int, o *record.Orders, ms ...*record.Member) {
	d.t.Helper()
	r := &record.Roster{Ver: 1}
	var listing []record.Partition
	for i := range parts {
		r.Entries = append(r.Entries, record.Partition{Name: string(rune('a' + i))})
		listing = append(listing, record.Partition{Name: string(rune('a' + i))})
	}
	d.answer(core.Get, core.RosterCell, 0, core.OK, core.Entry{Roster: r})
	if o == nil {
		d.answer(core.Get, core.OrdersCell, 0, core.NotFound)
	} else {
		d.answer(core.Get, core.OrdersCell, 0, core.OK, core.Entry{Orders: o})
	}
	var es []core.Entry
	for _, m := range ms {
		d.rev++
		es = append(es, entry(m, d.rev))
	}
	d.answer(core.List, core.MemberCell, 0, core.OK, es...)
	d.step(core.Event{Kind: core.Listed, Listing: listing})
}

func owned(s record.Session) record.Row {
	return record.Row{State: record.Owned, Owner: s, Token: record.MakeToken(inc, 1), Rev: 5}
}

// A member far back in line waits for those ahead of it and then by its hash, so
// that many such members do not all act at once.
func TestPlaceInLine(t *testing.T) {
	for _, c := range []struct {
		me   record.Session
		wait time.Duration
	}{
		{2, 0},
		{5, 300 * time.Millisecond},
		{6, (300 + 200 + 45) * time.Millisecond}, // 345 mod 7 = 2, mod 100 = 45
	} {
		p := &record.Plan{Leader: 1, Members: []record.Session{1, 2, 3, 4, 5, 6}}
		d := newDesk(t, c.me, p, func(cfg *core.Config) { cfg.Hash = 345 })
		d.show(true, member(1, "c1", 3))
		seen, last := d.now, entry(member(1, "c1", 3), d.rev)
		for {
			if _, ok := d.call(core.Put, core.MemberCell, 1); ok {
				break
			}
			if _, ok := d.call(core.Get, core.MemberCell, 1); ok { // it reads the record, which has not changed
				d.step(core.Event{Kind: core.Answer, Verb: core.Get, Key: last.Key, Entries: []core.Entry{last}})
				continue
			}
			d.after(d.n.Next().Sub(d.now))
		}
		if got := d.now.Sub(seen) - core.DefaultTiming().W(); got != c.wait {
			t.Errorf("number %d in line waits %v, not %v", c.me, got, c.wait)
		}
	}
}

// Only the leader and its deputies act on the silence of other members. A member
// that has a proof of a death acts on it in any case.
func TestMindsOwnBusiness(t *testing.T) {
	d := newDesk(t, 6, &record.Plan{Leader: 1, Members: []record.Session{1, 2, 3, 4, 5, 6}}, nil)
	d.show(false, member(1, "c1", 3), member(4, "c4", 1))
	for range 10 {
		d.after(time.Second)
		d.show(false, member(1, "c1", uint64(4+d.rev)))
	}
	d.wantNone(core.Get, core.MemberCell, 4)
	d.step(core.Event{Kind: core.Proven, Session: 3})
	d.answer(core.Get, core.MemberCell, 3, core.OK, core.Entry{Member: member(3, "c3", 9)})
	if a := d.want(core.Put, core.MemberCell, 3); a.Member.State != record.Dead || !a.Member.Proof {
		t.Errorf("it writes %+v", a.Member)
	}
}

// A process dies just after its start. The proof comes before its record is in the
// store; the record arrives while a read of it is in flight.
func TestProofBeforeTheRecord(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	d.lead(0, nil)
	d.step(core.Event{Kind: core.Proven, Session: 9})
	d.after(0)
	d.want(core.Get, core.MemberCell, 9)
	d.show(false, member(9, "c9", 1))
	rev := d.rev
	d.step(core.Event{Kind: core.Answer, Verb: core.Get, Outcome: core.NotFound, Key: core.Key{Cell: core.MemberCell, Session: 9}})
	d.answer(core.Get, core.MemberCell, 9, core.OK, core.Entry{Member: member(9, "c9", 1), Rev: rev})
	if a := d.want(core.Put, core.MemberCell, 9); a.Member.State != record.Dead || a.Prev != rev {
		t.Errorf("it writes %+v over %d", a.Member, a.Prev)
	}
}

// An old record is deleted once, and is not read any more.
func TestCollectsOnce(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	left := member(2, "c2", 5)
	left.State = record.Left
	d.lead(0, nil, left)
	d.after(11 * time.Minute)
	if a := d.want(core.Delete, core.MemberCell, 2); a.Prev == 0 {
		t.Error("it deletes whatever is there")
	}
	d.show(false, member(2, "c2", 4)) // a stale version
	d.after(0)
	d.wantNone(core.Get, core.MemberCell, 2)
	d.step(core.Event{Kind: core.Answer, Verb: core.Delete, Key: core.Key{Cell: core.MemberCell, Session: 2}})
	d.after(30 * time.Second)
	d.wantNone(core.Get, core.MemberCell, 2)
	d.wantNone(core.Delete, core.MemberCell, 2)
	if got := d.n.Members(); len(got) != 1 {
		t.Errorf("it still knows %d members", len(got))
	}
}

// A new leader decides nothing before it has listed the members. A listing that
// failed is retried once, after a back-off.
func TestListsAgain(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}, Rows: []record.Row{{Reason: record.Unplaced, Rev: 5}}}, nil)
	d.answer(core.Get, core.RosterCell, 0, core.OK, core.Entry{Roster: &record.Roster{Ver: 1, Entries: []record.Partition{{Name: "a"}}}})
	d.answer(core.Get, core.OrdersCell, 0, core.NotFound)
	d.answer(core.List, core.MemberCell, 0, core.Unknown)
	d.step(core.Event{Kind: core.Listed, Listing: []record.Partition{{Name: "a"}}})
	d.after(99 * time.Millisecond)
	d.wantNone(core.List, core.MemberCell, 0)
	d.wantNone(core.Put, core.PlanCell, 0)
	d.after(time.Second)
	d.wantNone(core.Put, core.PlanCell, 0)
	d.answer(core.List, core.MemberCell, 0, core.OK)
	d.after(time.Second)
	d.wantNone(core.List, core.MemberCell, 0)
	d.want(core.Put, core.PlanCell, 0)
}

// Two processes of one name are first seen at the same instant: one of them waits.
func TestTwinsOfOneInstant(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	d.lead(0, nil)
	d.show(false, member(8, "c2", 1), member(7, "c2", 1))
	d.after(100 * time.Millisecond)
	p := d.want(core.Put, core.PlanCell, 0).Plan
	if len(p.Members) != 2 {
		t.Errorf("the plan is over %v", p.Members)
	}
}

// The second session of a name is held until the first is seen to beat later than
// any heartbeat that was in flight when the second came.
func TestTwinIsHeldForDelta(t *testing.T) {
	const delta = beat * 15 / 100
	for _, c := range []struct {
		after time.Duration
		joins bool
	}{{delta, false}, {delta + 1, true}} {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
		d.lead(0, nil, member(2, "c2", 1))
		d.show(false, member(3, "c2", 1))
		d.after(c.after)
		d.show(false, member(2, "c2", 2))
		d.after(200 * time.Millisecond)
		if _, ok := d.call(core.Put, core.PlanCell, 0); ok != c.joins {
			t.Errorf("a beat after %v: in the plan: %v", c.after, ok)
		}
	}
}

// A member that has been silent for O when a death is noticed is waited for.
func TestSuspectAtO(t *testing.T) {
	const o = 2600 * time.Millisecond // min(B, W − B) at the defaults
	for _, c := range []struct {
		silent time.Duration
		waits  bool
	}{{o, true}, {o - 1, false}} {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2, 3}}, nil)
		d.lead(0, nil, member(2, "c2", 1), member(3, "c3", 1))
		d.show(false, member(2, "c2", 2), member(3, "c3", 2))
		d.after(time.Second)
		d.show(false, member(3, "c3", 3))
		d.after(c.silent)
		dead := member(2, "c2", 2)
		dead.State = record.Dead
		d.show(false, dead)
		if _, ok := d.call(core.Put, core.PlanCell, 0); ok == c.waits {
			t.Errorf("silent for %v: a plan at once: %v", c.silent, ok)
		}
	}
}

// A record that was absent is there again: its member is one like any other.
func TestAbsentComesBack(t *testing.T) {
	p := &record.Plan{Leader: 1, Members: []record.Session{1, 3}, Orders: 1, Rows: []record.Row{{Reason: record.Unplaced, Rev: 5}}}
	d := newDesk(t, 1, p, nil)
	d.show(false, member(3, "c3", 1))
	d.step(core.Event{Kind: core.Seen, Entries: []core.Entry{{Key: core.Key{Cell: core.MemberCell, Session: 3}, Deleted: true}}})
	d.answer(core.Get, core.MemberCell, 3, core.NotFound)
	d.lead(1, &record.Orders{Ver: 1, Drains: []string{"me"}})
	d.after(100 * time.Millisecond)
	d.answer(core.Put, core.PlanCell, 0, core.OK)
	d.show(false, member(3, "c3", 2))
	d.after(100 * time.Millisecond)
	if a := d.answer(core.Put, core.PlanCell, 0, core.OK); a.Plan.Rows[0].Owner != 3 {
		t.Fatalf("the row is %+v", a.Plan.Rows[0])
	}
	d.after(time.Second)
	if cause, _ := d.n.Ended(); cause != core.NotEnded {
		t.Errorf("it ends: %v", cause)
	}
}

// A session that is ending, and waits for a handler, acts on nobody's silence.
func TestEndingMindsNobody(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}, Rows: []record.Row{owned(1)}}, nil)
	d.lead(1, nil, member(2, "c2", 1))
	me := member(1, "me", 100)
	me.State = record.Dead
	d.show(false, me)
	d.answer(core.Get, core.MemberCell, 1, core.OK, core.Entry{Member: me})
	if cause, ended := d.n.Ended(); cause != core.ByFence || ended {
		t.Fatalf("it is %v, over: %v", cause, ended)
	}
	d.after(4 * time.Second)
	d.wantNone(core.Get, core.MemberCell, 2)
}

// A partition that was granted long ago and does not start is stuck, and still
// waited for.
func TestStuckWaits(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}, Rows: []record.Row{owned(2)}}, nil)
	d.lead(1, nil, member(2, "c2", 1))
	for i := range 31 {
		if w := d.n.Waits(); len(w) != 1 || w[0].Stuck != (i >= 30) {
			t.Fatalf("after %d s it waits for %+v", i, w)
		}
		d.after(time.Second)
		d.show(false, member(2, "c2", uint64(2+i)))
	}
}

// A new leader decides nothing before it has read the record of every owner.
func TestOwnersAreHeardFirst(t *testing.T) {
	p := &record.Plan{Leader: 1, Members: []record.Session{1, 2}, Rows: []record.Row{owned(2), {Reason: record.Unplaced, Rev: 5}}}
	d := newDesk(t, 1, p, nil)
	d.lead(2, nil) // the listing lacks 2
	d.after(time.Second)
	d.wantNone(core.Put, core.PlanCell, 0)
	d.answer(core.Get, core.MemberCell, 2, core.OK, core.Entry{Member: member(2, "c2", 1)})
	if a := d.want(core.Put, core.PlanCell, 0); len(a.Plan.Members) != 2 {
		t.Errorf("the plan is over %v", a.Plan.Members)
	}
}

// The rows of a leaver that means to return are reserved, where the group has a
// return time; the rows of any other are not, as soon as it says that it leaves.
func TestPlaceOfALeaver(t *testing.T) {
	for _, c := range []struct {
		within    time.Duration
		returning bool
		kept      bool
	}{{0, true, false}, {time.Minute, false, false}, {time.Minute, true, true}} {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, func(cfg *core.Config) { cfg.Return = c.within })
		d.lead(0, nil, member(2, "c2", 1))
		m := member(2, "c2", 2)
		m.State, m.Returning = record.Leaving, c.returning
		d.show(false, m)
		d.after(200 * time.Millisecond)
		if _, ok := d.call(core.Put, core.PlanCell, 0); ok == c.kept {
			t.Errorf("return %v, returning %v: a plan without it: %v", c.within, c.returning, ok)
		}
	}
}

// A watch shows another write of the known generation: the store has lost one of
// the two. Nothing is written over it before the plan has been read.
func TestAnotherWriteOfOneGeneration(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	d.lead(0, nil)
	other := *d.n.Plan()
	other.Write = 99
	d.rev++
	d.step(core.Event{Kind: core.Seen, Entries: []core.Entry{{Key: core.Key{Cell: core.PlanCell}, Rev: d.rev, Plan: &other}}})
	d.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: &other})
	if !slices.Contains(d.notes, core.NoteLost) {
		t.Errorf("it does not notice the loss: %v", d.notes)
	}
}

// A session without a lease neither declares a leader dead nor claims its place: it
// may have been declared dead itself. The same holds if the lease has ended since
// the claim began.
func TestNoClaimWithoutALease(t *testing.T) {
	d := newDesk(t, 2, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
	d.show(true, member(1, "c1", 3))
	d.mute = true
	d.after(8 * time.Second)
	d.answer(core.Get, core.MemberCell, 1, core.OK, core.Entry{Member: member(1, "c1", 3), Rev: d.rev})
	d.after(time.Second)
	d.wantNone(core.Put, core.MemberCell, 1)

	d = newDesk(t, 2, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
	gone := member(1, "c1", 3)
	gone.State = record.Left
	d.show(true, gone)
	d.want(core.Get, core.PlanCell, 0) // to claim it
	d.mute = true
	d.after(6 * time.Second)
	d.step(core.Event{Kind: core.Answer, Verb: core.Get, Key: core.Key{Cell: core.PlanCell}, Entries: []core.Entry{{Key: core.Key{Cell: core.PlanCell}, Rev: d.rev, Plan: d.n.Plan()}}})
	d.wantNone(core.Put, core.PlanCell, 0)
}
