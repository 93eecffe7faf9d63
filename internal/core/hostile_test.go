package core_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

const me record.Session = 1

// victim is a node that is shown any records that the store may hold. It remembers
// the ownerships that it was shown, and fails the test when another one is started.
type victim struct {
	t     *testing.T
	n     *core.Node
	now   core.Time
	calls []core.Action
	shown map[string]bool
}

func newVictim(t *testing.T, mode record.Mode) *victim {
	cfg := &core.Config{Session: me, Name: "c1", Timing: core.DefaultTiming(), Mode: mode, Era: 7}
	cfg.Return = 3 * time.Second
	v := &victim{t: t, n: core.New(cfg), now: 1, shown: map[string]bool{}}
	v.step(core.Event{Kind: core.Begin})
	return v
}

func (v *victim) step(ev core.Event) { v.steps([]core.Event{ev}) }

func (v *victim) steps(evs []core.Event) {
	for _, ev := range evs {
		v.see(ev)
	}
	for _, a := range v.n.Steps(v.now, evs) {
		v.do(a)
	}
}

func (v *victim) see(ev core.Event) {
	for i := range ev.Entries {
		if p := ev.Entries[i].Plan; p != nil {
			for _, h := range p.Mine(me, nil) {
				if h.State == record.Owned {
					v.shown[fmt.Sprint(h.ID, h.Token)] = true
				}
			}
		}
	}
}

func (v *victim) do(a core.Action) {
	switch a.Do {
	case core.DoCall:
		v.calls = append(v.calls, a)
		if p := a.Plan; p != nil { // its own plans count as shown as soon as it writes them
			for _, h := range p.Mine(me, nil) {
				v.shown[fmt.Sprint(h.ID, h.Token)] = true
			}
			if _, err := record.Encode(p); err != nil {
				v.t.Fatalf("it writes a plan that nobody could read: %v", err)
			}
		}
		if m := a.Member; m != nil {
			if _, err := record.Encode(m); err != nil {
				v.t.Fatalf("it writes a record that nobody could read: %v", err)
			}
		}
		if r := a.Roster; r != nil {
			if _, err := record.Encode(r); err != nil {
				v.t.Fatalf("it writes a roster that nobody could read: %v", err)
			}
		}
	case core.DoStart:
		if !v.shown[fmt.Sprint(a.ID, a.Token)] {
			v.t.Fatalf("it starts %d@%v, which it was never granted", a.ID, a.Token)
		}
	}
}

// answer answers the oldest call in flight with the entries at hand.
func (v *victim) answer(o core.Outcome, es []core.Entry) {
	if len(v.calls) == 0 {
		return
	}
	c := v.calls[0]
	v.calls = v.calls[1:]
	ev := core.Event{Kind: core.Answer, Verb: c.Verb, Key: c.Key, Outcome: o}
	switch {
	case c.Verb == core.Put:
		ev.Rev = core.Rev(v.now)
		if o == core.NotFound {
			ev.Outcome = core.Conflict
		}
	case c.Verb == core.List:
		if o != core.Unknown {
			ev.Outcome = core.OK
		}
		for _, e := range es {
			if e.Cell == core.MemberCell {
				ev.Entries = append(ev.Entries, e)
			}
		}
	case c.Verb == core.Get && o == core.OK:
		for _, e := range es {
			if e.Key == c.Key {
				ev.Entries = []core.Entry{e}
			}
		}
		if len(ev.Entries) == 0 {
			ev.Outcome = core.NotFound
		}
	case o == core.Conflict:
		ev.Outcome = core.Unknown
	}
	v.step(ev)
}

// FuzzStep shows a node any sequence of records that decode.
func FuzzStep(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 40 {
		var b []byte
		for range 1 + rng.IntN(12) {
			e := hostileRecord(rng)
			b = append(b, byte(rng.IntN(256)), byte(len(e)>>8), byte(len(e)))
			b = append(b, e...)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v := newVictim(t, record.Mode(len(b)%2))
		v.answer(core.OK, nil)
		rev := core.Rev(100)
		for len(b) >= 3 {
			op, n := b[0], int(b[1])<<8|int(b[2])
			b = b[3:]
			raw := b[:min(n, len(b))]
			b = b[len(raw):]
			v.now += core.Time(op&0x0f) * core.Time(400*time.Millisecond)
			rev++
			es := entries(raw, rev)
			switch {
			case op&0x80 != 0 && len(es) > 0:
				v.step(core.Event{Kind: core.Seen, Entries: es, First: op&0x40 != 0})
			case op&0x40 != 0:
				v.answer(core.OK, es)
			case op&0x20 != 0:
				v.answer(core.Outcome(op>>4&3), es)
			default:
				v.step(core.Event{Kind: core.Tick})
			}
		}
	})
}

// entries decodes raw as a record of its kind.
func entries(raw []byte, rev core.Rev) []core.Entry {
	if p, err := record.DecodePlan(raw); err == nil {
		return []core.Entry{{Key: core.Key{Cell: core.PlanCell}, Rev: rev, Plan: p}}
	}
	if r, err := record.DecodeRoster(raw); err == nil {
		return []core.Entry{{Key: core.Key{Cell: core.RosterCell}, Rev: rev, Roster: r}}
	}
	if o, err := record.DecodeOrders(raw); err == nil {
		return []core.Entry{{Key: core.Key{Cell: core.OrdersCell}, Rev: rev, Orders: o}}
	}
	if m, err := record.DecodeMember(raw); err == nil {
		return []core.Entry{{Key: core.Key{Cell: core.MemberCell, Session: m.Session}, Rev: rev, Member: m}}
	}
	return nil
}

// hostileRecord makes a record that decodes and has arbitrary content.
func hostileRecord(rng *rand.Rand) []byte {
	session := func() record.Session { return record.Session(rng.IntN(4)) }
	var rec record.Record
	switch rng.IntN(5) {
	case 0, 1:
		p := &record.Plan{Incarnation: 5 + rng.Uint32N(4), Gen: 1 + rng.Uint64N(9), Write: rng.Uint64(), Term: 1 + rng.Uint64N(3),
			Leader: session(), ID: rng.Uint64N(3), Mode: record.Mode(rng.IntN(2)), Hold: rng.IntN(4) == 0,
			Roster: rng.Uint64N(4), Orders: rng.Uint64N(3)}
		for s := record.Session(1); s < 4; s++ {
			if rng.IntN(2) == 0 {
				p.Members = append(p.Members, s)
			}
		}
		for range rng.IntN(5) {
			r := record.Row{State: record.RowState(rng.IntN(3)), Reason: record.Reason(rng.IntN(6)), To: session(),
				Token: record.MakeToken(p.Incarnation, rng.Uint32N(4)), Rev: rng.Uint64N(p.Gen + 1)}
			if r.State != record.Free {
				r.Owner = 1 + session()%3
				r.Token = record.MakeToken(p.Incarnation, 1+rng.Uint32N(4))
			}
			p.Rows = append(p.Rows, r)
		}
		rec = p
	case 2:
		r := &record.Roster{Ver: rng.Uint64N(5)}
		for i := range rng.IntN(5) {
			r.Entries = append(r.Entries, record.Partition{Name: fmt.Sprint("q", i), Removed: rng.IntN(4) == 0})
		}
		rec = r
	case 3:
		rec = &record.Orders{Ver: rng.Uint64N(5), Freeze: rng.IntN(2) == 0, Pauses: []string{"q1"}, Drains: []string{"c2"},
			Add: []string{"x"}, Pins: []record.Pin{{Partition: "q0", Member: "c2"}}}
	default:
		m := &record.Member{Session: 1 + session()%3, State: record.MemberState(rng.IntN(5)), Lease: 5 * time.Second, Beat: 2 * time.Second,
			Seq: rng.Uint64N(6), AckInc: 5 + rng.Uint32N(4), AckGen: rng.Uint64N(12), Name: fmt.Sprint("c", 1+rng.IntN(2)), Returning: rng.IntN(2) == 0,
			Bug: rng.Uint64N(4)}
		if rng.IntN(2) == 0 {
			m.GaveUp = []record.GaveUp{{ID: 1, Token: record.MakeToken(5, 1)}}
			m.Stopping = []record.ID{0, 900}
		}
		rec = m
	}
	b, err := record.Encode(rec)
	if err != nil {
		return nil
	}
	return b
}

// TestNoRecordMakesItActWrongly plays long random sequences of hostile records,
// answers and time.
func TestNoRecordMakesItActWrongly(t *testing.T) {
	n := 4000
	if testing.Short() {
		n = 400
	}
	starts := 0
	for seed := range uint64(n) {
		rng := rand.New(rand.NewPCG(seed, 9))
		v := newVictim(t, record.Mode(rng.IntN(2)))
		v.answer(core.OK, nil)
		for i := range 120 {
			v.now += core.Time(rng.Int64N(int64(600 * time.Millisecond)))
			es := entries(hostileRecord(rng), core.Rev(1000+i))
			switch rng.IntN(8) {
			case 0, 1:
				v.step(core.Event{Kind: core.Seen, Entries: es, First: rng.IntN(3) == 0})
			case 2:
				v.answer(core.Outcome(rng.IntN(4)), es)
			case 3:
				v.step(core.Event{Kind: core.Listed, Listing: []record.Partition{{Name: "q0"}, {Name: "q1"}}, Complete: rng.IntN(2) == 0})
			case 4:
				v.step(core.Event{Kind: core.Proven, Session: record.Session(rng.IntN(5))})
			case 5:
				kinds := []core.Kind{core.Tick, core.Gap, core.Started, core.Stopped, core.Retrying, core.GivenUp, core.Closed, core.Leave, core.Jumped, core.Server}
				v.step(core.Event{Kind: kinds[rng.IntN(len(kinds))], ID: record.ID(rng.IntN(3)), Token: record.MakeToken(5, 1), Text: "s"})
			default:
				v.answer(core.OK, es)
			}
		}
		starts += len(v.shown)
	}
	if starts == 0 {
		t.Error("nothing was ever granted: the test says nothing")
	}
}
