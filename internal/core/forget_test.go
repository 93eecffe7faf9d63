package core_test

import (
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// A listing that lacks a member which has just joined is stale: the joiner is not
// forgotten, and the next plan counts on it.
func TestAJoinerIsNotForgotten(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	d.lead(2, nil)
	d.after(10 * time.Second) // a listing is sent
	d.show(false, member(2, "c2", 1))
	d.answer(core.List, core.MemberCell, 0, core.OK)
	if _, known := d.knows(2); !known {
		t.Fatal("it forgets a member that lives")
	}
	d.after(time.Second)
	if p := d.wrote(); len(p.Members) != 2 {
		t.Errorf("the plan counts on %v", p.Members)
	}
}

// An answer that no call is under way for decides nothing: the record is read.
func TestAnAnswerThatNobodyAskedForDecidesNothing(t *testing.T) {
	for _, ev := range []core.Event{
		{Kind: core.Answer, Verb: core.Delete, Outcome: core.OK},
		{Kind: core.Answer, Verb: core.Delete, Outcome: core.NotFound},
	} {
		d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1, 2}}, nil)
		d.lead(1, nil, member(2, "c2", 5))
		ev.Key = core.Key{Cell: core.MemberCell, Session: 2}
		d.step(ev)
		if st, known := d.knows(2); !known || st != record.Live {
			t.Errorf("outcome %d: it is %v, known: %v", ev.Outcome, st, known)
		}
		d.want(core.Get, core.MemberCell, 2)
		ev.Key.Session = 3 // nobody has heard of it
		d.step(ev)
		if _, known := d.knows(3); known {
			t.Errorf("outcome %d: an answer makes a member known", ev.Outcome)
		}
	}
}

// A record that another deleted first may be there again: it is read before anything
// is concluded.
func TestADeletedRecordThatIsNotFoundIsRead(t *testing.T) {
	d := newDesk(t, 1, &record.Plan{Leader: 1, Members: []record.Session{1}}, nil)
	left := func(seq uint64) *record.Member { return in(record.Left, member(2, "c2", seq)) }
	d.lead(0, nil, left(5))
	d.show(false, left(4)) // stale: a reason to read it
	d.answer(core.Get, core.MemberCell, 2, core.OK, core.Entry{Member: left(5)})
	d.after(10 * time.Minute)
	d.answer(core.Delete, core.MemberCell, 2, core.NotFound)
	if _, known := d.knows(2); !known {
		t.Error("it is forgotten without having been read")
	}
	d.answer(core.Get, core.MemberCell, 2, core.NotFound)
	if _, known := d.knows(2); known {
		t.Error("it is not forgotten")
	}
}
