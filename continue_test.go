package rota_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// TestB_Loss_StopOrContinue takes the store away for half a minute. By default everything
// stops before the lease is over; with Continue work goes on, which is said, and nothing is
// planned when the store is back.
func TestB_Loss_StopOrContinue(t *testing.T) {
	for _, c := range []struct {
		choice rota.OnStoreLoss
		least  int // messages handled without the store
		most   int
		kind   rota.EventKind // told when the lease is over
	}{
		{"", 20, 60, rota.EventLapsed},
		{rota.StopAll, 20, 60, rota.EventLapsed},
		{rota.Continue, 280, 310, rota.EventWorksOn},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, 2)
			store := rotatest.Faulty(g.store, 1)
			m, leave := g.start("c1", func(cfg *rota.Config) {
				cfg.Store, cfg.OnStoreLoss, cfg.Orphan = store, c.choice, time.Minute
				cfg.Handle = g.handle("c1", 100*time.Millisecond)
			})
			for range 1000 {
				g.src.Publish("q0", []byte("x"))
			}
			time.Sleep(5 * time.Second)
			events := m.Events(t.Context())
			plan := m.Status().Plan
			before := handled(g, "q0")
			store.Cut()
			time.Sleep(30 * time.Second)
			if got := handled(g, "q0") - before; got < c.least || got > c.most {
				t.Errorf("%q: %d messages handled in 30 s without a store, want %d to %d", c.choice, got, c.least, c.most)
			}
			says := func() bool {
				return slices.ContainsFunc(m.Status().Members[0].Conditions, func(x rota.ConditionInfo) bool { return x.Code == rota.ConditionNoLease })
			}
			if says() != (c.choice == rota.Continue) {
				t.Errorf("%q: that work goes on without a lease is said: %v", c.choice, says())
			}
			store.Heal()
			time.Sleep(10 * time.Second)
			if says() || m.Status().Plan != plan {
				t.Errorf("%q: after the outage: plan %d, before %d; conditions %v", c.choice, m.Status().Plan, plan, m.Status().Members[0].Conditions)
			}
			at := handled(g, "q0")
			if time.Sleep(2 * time.Second); handled(g, "q0") == at {
				t.Errorf("%q: nothing is handled after the outage", c.choice)
			}
			if err := leave(); err != nil {
				t.Error(err)
			}
			told := false
			for e := range events {
				told = told || e.Kind == c.kind
			}
			if !told {
				t.Errorf("%q: no event %s", c.choice, c.kind)
			}
		})
	}
}

// TestContinueEndsWhenTheSessionHasEnded cuts off one of two members that may work on. Both
// act on its partition; when the first is back, it is told that its session has ended.
func TestContinueEndsWhenTheSessionHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		store := rotatest.Faulty(g.store, 1)
		_, leave1 := g.start("c1", func(c *rota.Config) {
			c.Store, c.OnStoreLoss = store, rota.Continue
			c.Handle, c.Source = nil, acting(g, "c1")
		})
		time.Sleep(3 * time.Second)
		_, leave2 := g.start("c2", func(c *rota.Config) {
			c.OnStoreLoss = rota.Continue
			c.Handle, c.Source = nil, acting(g, "c2")
		})
		time.Sleep(3 * time.Second)
		store.Cut()
		time.Sleep(20 * time.Second)
		first, second := handled(g, "c1"), handled(g, "c2")
		time.Sleep(time.Second)
		if handled(g, "c1") == first || handled(g, "c2") == second {
			t.Errorf("cut off, c1 acted %d times and c2 %d times more, want both to act", handled(g, "c1")-first, handled(g, "c2")-second)
		}
		store.Heal()
		time.Sleep(5 * time.Second)
		if err := leave1(); !errors.Is(err, rota.ErrFenced) {
			t.Errorf("c1 ended with %v, want %v", err, rota.ErrFenced)
		}
		if err := leave2(); err != nil {
			t.Error(err)
		}
	})
}

// acting is a source whose function acts ten times a second, if it may.
func acting(g *group, name string) rota.Source {
	return rota.Func([]string{"q0"}, func(ctx context.Context, own rota.Ownership) error {
		own.Started()
		for {
			select {
			case <-own.Stop():
				return nil
			case <-ctx.Done():
				return nil
			case <-time.After(100 * time.Millisecond):
			}
			if own.Check() == nil {
				g.mu.Lock()
				g.count[name]++
				g.mu.Unlock()
			}
		}
	})
}

func handled(g *group, what string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count[what]
}
