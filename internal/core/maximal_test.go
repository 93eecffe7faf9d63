package core_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// A draw takes numbers from a fuzzer's bytes, one byte each: small numbers, and
// numbers near the ends of counters. Without bytes all are 0.
type draw struct{ b []byte }

func (d *draw) byte() byte {
	if len(d.b) == 0 {
		return 0
	}
	x := d.b[0]
	d.b = d.b[1:]
	return x
}

// number is below 16, or within 4 of 2^31, 2^32, 2^63 or 2^64, or a little below
// 2^62. A writer that has reached 2^62 itself cannot count on, and a record beyond
// it is refused.
func (d *draw) number() uint64 {
	x := d.byte()
	if x < 128 {
		return uint64(x & 15)
	}
	ends := [...]uint64{1 << 31, 1 << 32, 1<<62 - 1<<20, 1 << 63, 0, 0, 0, 0} // 0 is 2^64
	return ends[x>>4&7] - 4 + uint64(x&7)
}

// short is a number of 32 bits, near zero or near the point where it wraps.
func (d *draw) short() uint32 {
	x := d.byte()
	if x < 128 {
		return uint32(x & 15)
	}
	return math.MaxUint32 - uint32(x&7)
}

func (d *draw) flag() bool              { return d.byte()&1 != 0 }
func (d *draw) session() record.Session { return record.Session(d.byte() & 3) }

// plan makes a plan, which decodes if its numbers allow it.
func (d *draw) plan() *record.Plan {
	p := &record.Plan{Incarnation: d.short(), Gen: max(d.number(), 1), Write: d.number(), Term: max(d.number(), 1), Leader: d.session(),
		ID: d.number(), Mode: record.Mode(d.byte() & 1), Hold: d.byte() > 200, Roster: d.number(), Orders: d.number()}
	p.Decided = min(d.number(), p.Gen)
	for members, s := d.byte(), record.Session(1); s < 4; s++ {
		if members>>s&1 != 0 {
			p.Members = append(p.Members, s)
		}
	}
	for i := range d.byte() & 3 {
		r := record.Row{State: record.RowState(d.byte() % 3), Reason: record.Reason(d.byte() % 6), To: d.session(),
			Token: record.MakeToken(p.Incarnation-min(p.Incarnation, uint32(d.byte()>>6)), d.short()), Rev: min(d.number(), p.Gen)}
		if r.State != record.Free {
			r.Owner = 1 + d.session()%3
		}
		if d.flag() {
			p.Kills = append(p.Kills, record.Kill{ID: record.ID(i), Count: d.short(), Last: d.session()})
		}
		p.Rows = append(p.Rows, r)
	}
	if d.flag() {
		p.Returns = []record.Return{{Name: "c1", Count: d.short()}}
	}
	return p
}

func (d *draw) member() *record.Member {
	period := func() time.Duration {
		return [...]time.Duration{1, 100 * time.Millisecond, 2 * time.Second, 5 * time.Second, 24 * time.Hour}[d.byte()%5]
	}
	m := &record.Member{Session: 1 + d.session()%3, State: record.MemberState(d.byte() % 5), Lease: period(), Beat: period(), Seq: d.number(),
		AckInc: d.short(), AckGen: d.number(), Bug: d.number(), Proof: d.flag(), Returning: d.flag(), Was: d.session() % 3, Name: fmt.Sprint("c", 1+d.byte()&1),
		Sent: int64(d.number()), Host: record.Host{PID: d.short(), Start: d.number(), Namespace: d.number()}}
	for i := range record.ID(d.byte() & 3) {
		switch d.byte() & 3 {
		case 0:
			m.Stopping = append(m.Stopping, i)
		case 1:
			m.Starting = append(m.Starting, i)
		case 2:
			m.GaveUp = append(m.GaveUp, record.GaveUp{ID: i, Token: record.Token(d.number()), Cause: "x"})
		case 3:
			m.Load = append(m.Load, record.Load{ID: i, Handled: d.number()})
		}
	}
	return m
}

func (d *draw) record() record.Record {
	switch kind := d.byte() & 7; kind {
	case 0, 1, 2:
		return d.plan()
	case 3:
		r := &record.Roster{Ver: d.number()}
		for i := range d.byte() & 3 {
			r.Entries = append(r.Entries, record.Partition{Name: fmt.Sprint("q", i), Removed: d.byte()&7 == 0})
		}
		return r
	case 4:
		o := &record.Orders{Ver: d.number(), Freeze: d.flag()}
		if d.flag() {
			o.Release = []record.Release{{Partition: "q0", Kills: d.short()}}
		}
		if d.flag() {
			o.Pauses = []string{"q1"}
		}
		return o
	}
	return d.member()
}

// play shows a victim records with arbitrary numbers, in the order that the bytes
// give.
func play(t *testing.T, b []byte) {
	d := &draw{b}
	v := newVictim(t, record.Mode(d.byte()&1))
	v.answer(core.OK, nil)
	for rev := core.Rev(100); len(d.b) > 0; rev++ {
		op := d.byte()
		v.now += core.Time(op&7) * core.Time(900*time.Millisecond)
		var es []core.Entry
		if op&0x08 == 0 {
			if raw, err := record.Encode(d.record()); err == nil {
				es = entries(raw, rev)
			}
		}
		switch op >> 4 {
		case 0, 1, 2, 3, 4:
			if len(es) > 0 {
				v.step(core.Event{Kind: core.Seen, Entries: es, First: op>>4 == 0})
			}
		case 5, 6, 7, 8:
			v.answer(core.OK, es)
		case 9:
			v.answer(core.Outcome(d.byte()&3), es)
		case 10:
			v.step(core.Event{Kind: core.Listed, Listing: []record.Partition{{Name: "q0"}, {Name: "q1"}}, Complete: d.flag()})
		case 11:
			v.step(core.Event{Kind: core.Proven, Session: d.session()})
		case 12:
			v.step(core.Event{Kind: core.Stopped, ID: record.ID(d.byte() & 3), Token: record.Token(d.number())})
		case 13:
			v.step(core.Event{Kind: core.GivenUp, ID: record.ID(d.byte() & 3), Token: record.Token(d.number()), Text: "s"})
		case 14:
			v.step(core.Event{Kind: core.Started, ID: record.ID(d.byte() & 3), Token: record.Token(d.number())})
		default:
			v.step(core.Event{Kind: core.Tick})
		}
	}
}

// FuzzStepMaximal shows a node records whose counters are at their ends: it may
// refuse them, hold, or end its session, but neither break an assertion nor write a
// record that nobody could read.
func FuzzStepMaximal(f *testing.F) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 200 {
		f.Add(randomBytes(rng, 400))
	}
	f.Fuzz(play)
}

// A prey is a leader whose records are altered. It remembers the alterations.
type prey struct {
	*leader
	t   *testing.T
	log []string
}

// put writes a record, if it is valid, shows it, and lets a second pass.
func (l *prey) put(rec record.Record, e core.Entry) {
	if _, err := record.Encode(rec); err != nil {
		return
	}
	if e.Plan != nil {
		full := *e.Plan
		l.log = append(l.log, fmt.Sprintf("plan %+v", full))
	} else {
		l.log = append(l.log, fmt.Sprintf("%v: roster %+v, orders %+v, member %+v", e.Key, e.Roster, e.Orders, e.Member))
	}
	l.step(core.Event{Kind: core.Seen, Entries: []core.Entry{l.set(e)}})
	l.pass(time.Second)
}

// pass lets time pass. It fails the test if the node never comes to rest.
func (l *prey) pass(d time.Duration) {
	l.t.Helper()
	end := l.now.Add(d)
	for n := 0; l.now < end; n++ {
		l.now = min(end, max(l.n.Next(), l.now+1))
		l.step(core.Event{Kind: core.Tick})
		if l.calls > 10_000 || n > 10_000 {
			l.t.Fatalf("within %v it has called the store %d times and was woken %d times\n%s", d, l.calls, n, strings.Join(l.log, "\n"))
		}
	}
}

// alter changes the numbers of one record in a leader's store, as anybody who can
// write there may do.
func (l *prey) alter(d *draw) {
	var e core.Entry
	var rec record.Record
	switch d.byte() & 7 {
	case 0, 1, 2, 3:
		was := l.plan()
		if was == nil {
			return
		}
		p, q := *was.Full(), d.plan()
		fields := d.number() | uint64(d.byte())<<4
		for i, set := range []func(){
			func() { p.Incarnation = q.Incarnation }, func() { p.Gen = q.Gen }, func() { p.Term = q.Term }, func() { p.ID = q.ID },
			func() { p.Roster = q.Roster }, func() { p.Orders = q.Orders }, func() { p.Leader = q.Leader }, func() { p.Members = q.Members },
			func() { p.Rows, p.Kills = q.Rows, q.Kills }, func() { p.Decided = q.Decided }, func() { p.Hold = q.Hold }, func() { p.Returns = q.Returns },
		} {
			if fields>>i&1 != 0 {
				set()
			}
		}
		p.Write, p.Decided, p.Rows = q.Write, min(p.Decided, p.Gen), slices.Clone(p.Rows)
		for i := range p.Rows {
			r := &p.Rows[i]
			counter := r.Token.Counter()
			if d.flag() {
				counter = d.short()
			}
			r.Token, r.Rev = record.MakeToken(min(r.Token.Incarnation(), p.Incarnation), counter), min(r.Rev, p.Gen)
		}
		rec, e = &p, core.Entry{Key: core.Key{Cell: core.PlanCell}, Plan: &p}
	case 4:
		r := &record.Roster{Ver: d.number(), Entries: l.entries()}
		rec, e = r, core.Entry{Key: core.Key{Cell: core.RosterCell}, Roster: r}
	case 5:
		o := &record.Orders{Ver: d.number(), Freeze: d.byte()&7 == 0}
		if d.flag() {
			o.Pauses = []string{"q1"}
		}
		if d.flag() {
			o.Release = []record.Release{{Partition: "q0", Kills: d.short()}}
		}
		rec, e = o, core.Entry{Key: core.Key{Cell: core.OrdersCell}, Orders: o}
	default:
		m := d.member()
		rec, e = m, core.Entry{Key: core.Key{Cell: core.MemberCell, Session: m.Session}, Member: m}
	}
	l.put(rec, e)
}

// lead lets a node lead a group while its records are altered and members come and
// go.
func lead(t *testing.T, b []byte) {
	d := &draw{b}
	l := &prey{newLeader(record.Partition{Name: "q0"}, record.Partition{Name: "q1"}, record.Partition{Name: "q2"}), t, nil}
	for len(d.b) > 0 {
		l.calls = 0
		switch op := d.byte(); op & 7 {
		case 0, 1:
			m := &record.Member{Session: 2 + d.session()&1, State: record.MemberState(d.byte() % 5), Seq: d.number(), Name: "c2",
				Lease: 5 * time.Second, Beat: 2 * time.Second, AckInc: l.plan().Incarnation, AckGen: l.plan().Gen}
			l.put(m, core.Entry{Key: core.Key{Cell: core.MemberCell, Session: m.Session}, Member: m})
		case 2:
			o := &record.Orders{Ver: 1, Pauses: [][]string{nil, {"q0"}, {"q1", "q2"}}[d.byte()%3]}
			if was := l.cells[core.Key{Cell: core.OrdersCell}].Orders; was != nil {
				o.Ver += was.Ver
			}
			l.put(o, core.Entry{Key: core.Key{Cell: core.OrdersCell}, Orders: o})
		case 3:
			l.pass(time.Duration(d.byte()&15) * time.Second)
		case 4: // another process takes its place, and reads the store
			cfg := &core.Config{Session: record.Session(op>>3) + 4, Name: "c1", Timing: core.DefaultTiming(), Era: 7}
			l.log = append(l.log, fmt.Sprintf("session %v begins", cfg.Session))
			l.n = core.New(cfg)
			l.step(core.Event{Kind: core.Begin})
			l.pass(12 * time.Second)
		default:
			l.alter(d)
		}
		for k, e := range l.cells {
			for _, rec := range []record.Record{e.Plan, e.Roster, e.Orders, e.Member} {
				if reflect.ValueOf(rec).IsNil() {
					continue
				}
				if _, err := record.Encode(rec); err != nil {
					t.Fatalf("it writes %v, which nobody could read: %v\n%s", k, err, strings.Join(l.log, "\n"))
				}
			}
		}
	}
}

// FuzzLeadMaximal alters the counters of a group's records while a node leads it.
func FuzzLeadMaximal(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(randomBytes(rand.New(rand.NewPCG(seed, 4)), 200))
	}
	f.Fuzz(lead)
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.UintN(256))
	}
	return b
}

// TestDrawReachesTheEnds: a fuzz target whose records never decode would test
// nothing.
func TestDrawReachesTheEnds(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	decoded, high := 0, 0
	for range 1000 {
		rec := (&draw{randomBytes(rng, 60)}).record()
		if _, err := record.Encode(rec); err != nil {
			continue
		}
		decoded++
		if p, ok := rec.(*record.Plan); ok && p.Gen > math.MaxUint32 {
			high++
		}
	}
	if decoded < 200 || high == 0 {
		t.Errorf("of 1000 records %d can be written, %d of them are plans with a high generation", decoded, high)
	}
}
