package record

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// These are the sizes that the design promises: 10 000 partitions on 1000 members.
const (
	bigRows    = 10_000
	bigMembers = 1000
	bigLimit   = 100_000 // bytes
)

// atRest is a large plan at rest: every row is owned, tokens are spread over 200
// values and revs over 60 000.
func atRest() *Plan {
	rnd := rand.New(rand.NewPCG(1, 2))
	p := &Plan{
		Incarnation: 29_000_000, Gen: 1_000_000, Write: rnd.Uint64(), Decided: 999_999,
		Server: "NDZ4Q7XQ2VJ5", Term: 17, ID: 4711, Roster: 12, Orders: 3,
	}
	for range bigMembers {
		p.Members = append(p.Members, Session(rnd.Uint64()|1))
	}
	p.Leader = p.Members[0]
	for i := range bigRows {
		p.Rows = append(p.Rows, Row{
			State: Owned,
			Owner: p.Members[i%bigMembers],
			Token: MakeToken(p.Incarnation, 100+rnd.Uint32N(200)),
			Rev:   p.Gen - rnd.Uint64N(60_000),
		})
	}
	return p
}

// burst is the largest plan there is: every row is revoked and has another target.
func burst() *Plan {
	p := atRest()
	for i := range p.Rows {
		p.Rows[i].State = Revoking
		p.Rows[i].To = p.Members[(i*7+1)%bigMembers]
	}
	return p
}

// churn has a bit of everything: 400 of the owners are no longer members, some rows
// are free, paused or never granted, some tokens are of an older incarnation.
func churn() *Plan {
	p := atRest()
	rnd := rand.New(rand.NewPCG(3, 4))
	p.Members = p.Members[400:]
	for i := range p.Rows {
		r := &p.Rows[i]
		switch rnd.IntN(10) {
		case 0:
			*r = Row{Reason: Paused, To: r.Owner, Token: r.Token, Rev: r.Rev}
		case 1:
			*r = Row{Reason: Unplaced, Rev: r.Rev}
		case 2, 3, 4:
			r.State, r.To = Revoking, p.Members[rnd.IntN(600)]
		case 5:
			r.Token = MakeToken(p.Incarnation-1, r.Token.Counter())
		}
	}
	return p
}

var bigPlans = []struct {
	name string
	make func() *Plan
}{{"at rest", atRest}, {"burst", burst}, {"churn", churn}}

func TestBigPlansStaySmall(t *testing.T) {
	for _, c := range bigPlans {
		p := c.make()
		b, err := Encode(p)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		t.Logf("%s: %d bytes", c.name, len(b))
		if len(b) >= bigLimit && c.name != "churn" { // no size is promised for churn
			t.Errorf("%s: %d bytes, want less than %d", c.name, len(b), bigLimit)
		}
		if q, err := DecodePlan(b); err != nil || !reflect.DeepEqual(p, q) {
			t.Errorf("%s: does not come back: %v", c.name, err)
		}
	}
}

func TestForeignRowsAllocateNothing(t *testing.T) {
	for _, c := range bigPlans {
		p := c.make()
		b := p.Append(nil)
		me := p.Members[7]
		held := make([]OwnRow, 0, 100)
		allocs := testing.AllocsPerRun(20, func() {
			p, err := OpenPlan(b)
			if err != nil {
				t.Fatal(err)
			}
			held = p.Mine(me, held[:0])
		})
		if len(held) == 0 {
			t.Fatalf("%s: nothing is mine", c.name)
		}
		// The reader, the plan, its columns and their bytes, the server's name, the
		// sessions, the hash table that finds duplicates, and the marks of sessions
		// that are no members.
		if allocs > 8 {
			t.Errorf("%s: %v allocations for %d rows, want at most 8", c.name, allocs, p.Len())
		}
	}
}

func BenchmarkOpenMine(b *testing.B) {
	for _, c := range bigPlans {
		b.Run(c.name, func(b *testing.B) {
			p := c.make()
			enc := p.Append(nil)
			held := make([]OwnRow, 0, 100)
			b.ReportAllocs()
			for b.Loop() {
				p, err := OpenPlan(enc)
				if err != nil {
					b.Fatal(err)
				}
				held = p.Mine(p.Members[7], held[:0])
			}
		})
	}
}

func BenchmarkDecodePlan(b *testing.B) {
	for _, c := range bigPlans {
		b.Run(c.name, func(b *testing.B) {
			enc := c.make().Append(nil)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodePlan(enc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncodePlan(b *testing.B) {
	for _, c := range bigPlans {
		b.Run(c.name, func(b *testing.B) {
			p := c.make()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Encode(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
