package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// A source that has not answered yet is not asked again. One that has answered is
// asked again every cfg.Ask.
func TestSourceIsAskedOnce(t *testing.T) {
	l := newLone(t, nil)
	l.takes(names("q0"))
	l.takes(shows(aPlan(1, me, record.Owned, 1, 0)))
	asks := 0
	// answers answers every call as soon as it is made.
	answers := func() {
		for {
			for _, a := range l.acts {
				if a.Do == core.DoAsk {
					asks++
				}
			}
			if len(l.calls) == 0 {
				return
			}
			a := l.calls[0]
			l.calls = l.calls[1:]
			ev := core.Event{Kind: core.Answer, Verb: a.Verb, Key: a.Key}
			switch {
			case a.Verb == core.Put:
				ev.Rev = core.Rev(l.now)
			case a.Verb == core.List:
			case a.Key.Cell == core.PlanCell:
				ev.Entries = []core.Entry{{Key: a.Key, Rev: 101, Plan: l.n.Plan()}}
			case a.Key.Cell == core.RosterCell:
				ev.Entries = names("q0").Entries
			default:
				ev.Outcome = core.NotFound
			}
			l.takes(ev)
		}
	}
	answers()
	for range 80 {
		l.waits(time.Second)
		answers()
	}
	if asks != 1 {
		t.Errorf("it asked %d times", asks)
	}
	l.takes(core.Event{Kind: core.Listed, Listing: []record.Partition{{Name: "q0"}}})
	answers()
	if asks != 2 {
		t.Errorf("it asked %d times, with an answer after 80 s", asks)
	}
}

// The roster is written over the newest version known, with a higher version; and
// plans follow it without waiting for a watch to show it.
func TestRosterIsWrittenOverTheNewest(t *testing.T) {
	entries := []record.Partition{{Name: "a"}}
	for _, c := range []struct {
		name  string
		shown []record.Roster
		at    int // which of them is the newest; -1: the one read before
		ver   uint64
	}{
		{"an old one", []record.Roster{{Ver: 0}}, -1, inc<<32 + 1},
		{"the same in another revision", []record.Roster{{Ver: 1, Entries: entries}}, 0, inc<<32 + 1},
		{"a newer one, and an old one", []record.Roster{{Ver: inc<<32 + 5, Entries: entries}, {Ver: 1, Entries: entries}}, 0, inc<<32 + 6},
	} {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}, Rows: []record.Row{owned(1)}}, nil)
		at := d.rev + 1 // of the answer that comes next
		d.lead(1, nil)
		for i := range c.shown {
			d.showRoster(&c.shown[i])
			if i == c.at {
				at = d.rev
			}
		}
		d.showOrders(&record.Orders{Ver: 1, Add: []string{"b"}})
		a := d.answer(core.Put, core.RosterCell, 0, core.OK)
		if a.Prev != at || a.Roster.Ver != c.ver || len(a.Roster.Entries) != 2 {
			t.Errorf("%s: it writes %+v over %d, not version %d over %d", c.name, a.Roster, a.Prev, c.ver, at)
		}
		d.after(100 * time.Millisecond)
		if p := d.want(core.Put, core.PlanCell, 0).Plan; p.Roster != c.ver || len(p.Rows) != 2 {
			t.Errorf("%s: the plan obeys roster %d and has the rows %v", c.name, p.Roster, p.Rows)
		}
	}
}

// A roster that somebody else wrote is compared with source and orders like the
// leader's own; and after a conflict the roster in the store is read first.
func TestForeignRosterIsCorrected(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	d.lead(1, nil)
	d.showRoster(&record.Roster{Ver: 2, Entries: []record.Partition{{Name: "a", Removed: true}}})
	a := d.answer(core.Put, core.RosterCell, 0, core.Conflict)
	if len(a.Roster.Entries) != 1 || a.Roster.Entries[0].Removed {
		t.Errorf("it writes %+v", a.Roster)
	}
	d.wantNone(core.Put, core.RosterCell, 0)
	d.answer(core.Get, core.RosterCell, 0, core.OK, core.Entry{Roster: &record.Roster{Ver: 3, Entries: []record.Partition{{Name: "a", Removed: true}}}})
	at := d.rev
	if a := d.want(core.Put, core.RosterCell, 0); a.Prev != at {
		t.Errorf("it writes over %d, not %d", a.Prev, at)
	}
}

// A roster older than the plan's is a loss, for a leader too, unless a hold makes
// sure that nobody runs anything.
func TestOldRosterIsALoss(t *testing.T) {
	for _, hold := range []bool{true, false} {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}, Hold: hold}, nil)
		d.answer(core.Get, core.RosterCell, 0, core.NotFound)
		if lost := slices.Contains(d.notes, core.NoteLost); lost == hold {
			t.Errorf("hold %v, lost %v", hold, lost)
		}
	}
}

// Plans wait one heartbeat for a roster that cannot be written, each time anew.
func TestPlansWaitForTheRosterEachTime(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	d.lead(1, nil)
	d.after(10 * time.Second)
	d.showOrders(&record.Orders{Ver: 1, Add: []string{"b"}})
	d.want(core.Put, core.RosterCell, 0) // it stays in flight
	d.after(2*time.Second - 1)
	d.wantNone(core.Put, core.PlanCell, 0)
	d.after(1)
	d.want(core.Put, core.PlanCell, 0)
}

// Orders that a watch has shown during the read are not lost if the read returns
// the same version in another revision: they are read again.
func TestOrdersSeenDuringTheRead(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}, Orders: 1}, nil)
	d.lead(0, &record.Orders{Ver: 1})
	d.step(core.Event{Kind: core.Gap})
	d.showOrders(&record.Orders{Ver: 2})
	at := d.rev
	d.answer(core.Get, core.OrdersCell, 0, core.OK, core.Entry{Orders: &record.Orders{Ver: 2}, Rev: at - 1})
	d.running("another revision")
	d.answer(core.Get, core.OrdersCell, 0, core.OK, core.Entry{Orders: &record.Orders{Ver: 2}, Rev: at})
	d.running("the same revision")
}

// Orders without a version were written by something else: they are ignored, and
// are no loss.
func TestOrdersWithoutAVersionAreNoLoss(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	d.lead(1, &record.Orders{Add: []string{"b"}})
	d.after(time.Second)
	d.running("orders of version 0")
	d.wantNone(core.Put, core.RosterCell, 0)
}

// A partition counts as removed when several listings of the broker in a row lack
// it. The listings of a source that does not ask its broker do not count, nor do
// those from the time when the partition was already removed.
func TestMissesCount(t *testing.T) {
	l := newLeader(record.Partition{Name: "a"}, record.Partition{Name: "b"})
	listed := func(complete bool, want bool) {
		t.Helper()
		l.step(core.Event{Kind: core.Listed, Complete: complete, Listing: []record.Partition{{Name: "a"}}})
		l.advance(time.Second)
		if got := l.entries(); len(got) != 2 || got[1].Removed == want {
			t.Errorf("the roster is %v", got)
		}
	}
	for range 4 {
		listed(false, true)
	}
	listed(true, true)
	listed(true, true)
	listed(true, false)
	for range 4 {
		listed(true, false)
	}
	l.order(record.Orders{Add: []string{"b"}})
	l.order(record.Orders{})
	if got := l.entries(); len(got) != 2 || got[1].Removed {
		t.Errorf("the roster is %v", got)
	}
}
