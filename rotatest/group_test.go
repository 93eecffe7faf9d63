package rotatest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

func TestGroupOnMemStore(t *testing.T) {
	t.Parallel()
	s := NewMemStore()
	Group(t, func(*testing.T) rota.Store { return s.Open() })
}

// TestGroupSuiteBites gives the suite stores and members that each have one flaw.
func TestGroupSuiteBites(t *testing.T) {
	for _, f := range []struct {
		name, says string
		store      func() func() rota.Store
		source     func(rota.Source) rota.Source
	}{
		{"who loses its lease goes on", "at once", with(func(*odd) {}), func(s rota.Source) rota.Source { return lingering{s} }},
		{"plans are acknowledged, not written", "has its share", with(func(o *odd) {
			o.put = func(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
				if strings.HasSuffix(key, "/plan") && prev != 0 {
					return prev + 1, nil
				}
				return o.MemStore.Put(ctx, key, value, prev)
			}
		}), nil},
		{"nobody sees what others write", "has its share", func() func() rota.Store {
			return func() rota.Store { return NewMemStore() }
		}, nil},
		{"nothing can be written", "has its share", with(func(o *odd) {
			o.put = func(context.Context, string, []byte, rota.Rev) (rota.Rev, error) { return 0, errOdd }
		}), nil},
	} {
		t.Run(f.name, func(t *testing.T) {
			bites(t, f.says, func(tb testing.TB) {
				g := newGroupTest(tb, f.store())
				g.odd, g.bound = f.source, 10*time.Second
				groupLives(g)
			})
		})
	}
}

func TestGroupSuiteSeesWhoIsLeft(t *testing.T) {
	bites(t, "its record says LIVE", func(tb testing.TB) {
		mem := NewMemStore()
		g := newGroupTest(tb, func() rota.Store { return mem.Open() })
		g.shares(groupPartitions, g.join("c1"))
		g.rest()
	})
}

// lingering is a source that returns late when its ctx has ended.
type lingering struct{ rota.Source }

func (s lingering) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	err := s.Source.Consume(ctx, own, deliver)
	if ctx.Err() != nil {
		<-time.After(2 * time.Second)
	}
	return err
}

// TestAGroupLivesOnABadNetwork shows that on a faulty network no two members consume a
// partition at once and no message is lost, and that all members get their share when
// the faults end.
func TestAGroupLivesOnABadNetwork(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { badNetwork(t, seed) })
		})
	}
}

func badNetwork(t *testing.T, seed uint64) {
	mem := NewMemStore()
	seeds := seed * 10
	g := newGroupTest(t, func() rota.Store {
		seeds++
		return Faulty(mem.Open(), seeds)
	})
	defer g.checkDeliveries(false)
	ebb := g.flow(1, 100*time.Millisecond)
	var members []*testMember
	for i := range 3 {
		members = append(members, g.join(fmt.Sprint("c", i+1), func(c *rota.Config) {
			c.Rejoin, c.Orphan = true, 0
			c.Quarantine = -1 // one that is cut off looks like one that was killed
		}))
	}
	faults := map[Fault]float64{LostRequest: 0.1, LostAnswer: 0.1, Repeated: 0.1, LateWrite: 1, BrokenWatch: 0.1, DroppedBatch: 0.1}
	for _, m := range members {
		m.store.Delay(50 * time.Millisecond)
		for f, p := range faults {
			m.store.Chance(f, p)
		}
	}
	r := rand.New(rand.NewPCG(seed, 2))
	for range 10 {
		time.Sleep(2 * time.Second)
		for _, m := range members { // one, several, all of them
			switch r.IntN(4) {
			case 0:
				m.store.Cut()
			case 1:
				m.store.Fail()
			}
		}
		time.Sleep(time.Duration(r.IntN(5000)) * time.Millisecond)
		for _, m := range members {
			m.store.Heal()
		}
	}
	for f := range faults {
		n := 0
		for _, m := range members {
			m.store.Chance(f, 0)
			n += m.store.Count(f)
		}
		if n == 0 {
			t.Errorf("there was no %s", f)
		}
	}
	ebb()
	g.shares(groupPartitions/3, members...)
	g.wait("all messages are handled", g.all)
	for _, m := range members {
		m.cancel()
		<-m.ended
		if m.err != nil && !errors.Is(m.err, rota.ErrFenced) {
			t.Errorf("%s left: %v", m.name, m.err)
		}
	}
}
