package rotatest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

func TestGroupForgetsOnMemStore(t *testing.T) {
	for _, class := range []rota.Class{rota.ClassB, rota.ClassC} {
		synctest.Test(t, func(t *testing.T) {
			s := newMemServer("")
			s.delay, s.class = time.Millisecond, class
			groupForgets(newGroupTest(t, s.open, WithLoss(s)))
		})
	}
}

// TestGroupLossBites gives the suite servers that lose nothing, or more than members are
// prepared for.
func TestGroupLossBites(t *testing.T) {
	t.Run("nothing is lost", func(t *testing.T) {
		bites(t, "goes on although its store has lost acknowledged writes", func(tb testing.TB) {
			s := newMemServer("")
			s.delay = time.Millisecond
			groupForgets(newGroupTest(tb, s.open, WithLoss(faithful{s})))
		})
	})
	t.Run("a newcomer does not wait", func(t *testing.T) {
		bites(t, "after the store has forgotten leases", func(tb testing.TB) {
			s := newMemServer("")
			s.delay = time.Millisecond
			g := newGroupTest(tb, s.open, WithLoss(oblivious{s}))
			g.heir = func(c *rota.Config) { c.NewGroup = true }
			groupForgets(g)
		})
	})
}

// faithful is a server that does not restore its snapshot.
type faithful struct{ *memServer }

func (faithful) Restore(Snapshot) error { return nil }

// oblivious is a server that is empty after a restore.
type oblivious struct{ *memServer }

func (o oblivious) Restore(Snapshot) error {
	o.mem.Restore(NewMemStore().Snapshot())
	return nil
}

// TestSteadyBites gives the suite a member that writes more than its heartbeats.
func TestSteadyBites(t *testing.T) {
	for says, every := range map[string]string{"/history was written": "/history", "want once per 1.2s": "/member/"} {
		bites(t, says, func(tb testing.TB) {
			mem := NewMemStore()
			g := newGroupTest(tb, func() rota.Store { return mem.Open() })
			c1 := g.join("c1")
			g.shares(groupPartitions, c1)
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			go func() {
				for ctx.Err() == nil {
					c1.store.Put(ctx, g.group+every, nil, 1) // refused, and a write all the same
					<-time.After(testHeartbeat / 3)
				}
			}()
			g.steady(c1)
		})
	}
}
