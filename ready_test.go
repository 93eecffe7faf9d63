package rota_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// readiness is what Ready says: "ready", or the reason.
func readiness(t *testing.T, m *rota.Member) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := m.Ready(ctx); err != nil {
		return err.Error()
	}
	return "ready"
}

func wantReadiness(t *testing.T, m *rota.Member, when, begins string) {
	t.Helper()
	if got := readiness(t, m); !strings.HasPrefix(got, begins) || strings.Contains(got, "\n") {
		t.Errorf("%s: %q, want one line that begins with %q", when, got, begins)
	}
}

// A member is ready from the plan it has applied until it is asked to leave, except
// while the store is away for longer than its lease.
func TestReadyMeansJoinedLeasedAndApplied(t *testing.T) {
	for _, choice := range []rota.OnStoreLoss{rota.StopAll, rota.Continue} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, 3)
			store := rotatest.Faulty(g.store, 1)
			store.Fail()
			m, leave := g.start("c1", func(c *rota.Config) {
				c.Store, c.OnStoreLoss, c.Orphan, c.NewGroup = store, choice, time.Minute, false
				c.Handle = g.handle("c1", 3*time.Second)
			})
			wantReadiness(t, m, "before Run", "rota: it has not begun to join")
			time.Sleep(time.Second)
			wantReadiness(t, m, "without a store", "rota: it has not joined: the store does not answer: ")
			store.Heal()
			time.Sleep(2 * time.Second)
			wantReadiness(t, m, "in a new group", "rota: a hold: nothing is granted until every lease that the store may have forgotten is over")
			time.Sleep(8 * time.Second)
			wantReadiness(t, m, "with a plan applied", "ready")
			store.Cut()
			time.Sleep(2 * time.Second)
			wantReadiness(t, m, "a short outage", "ready")
			time.Sleep(8 * time.Second)
			wantReadiness(t, m, "an outage longer than the lease", "rota: it has no lease: the store does not answer: ")
			store.Heal()
			time.Sleep(10 * time.Second)
			wantReadiness(t, m, "after the outage", "ready")
			_, leaveOther := g.start("c2", nil) // takes over, so that leaving takes time
			time.Sleep(5 * time.Second)
			for _, q := range rotatest.Names(3) {
				g.src.Publish(q, []byte("x"))
			}
			time.Sleep(time.Second)
			left := make(chan error)
			go func() { left <- leave() }()
			time.Sleep(time.Nanosecond)
			wantReadiness(t, m, "asked to leave", "rota: it leaves")
			if err := <-left; err != nil {
				t.Error(err)
			}
			wantReadiness(t, m, "after Run", "rota: it has ended")
			if err := leaveOther(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A plan is applied when the source has confirmed what it gives, and what it takes has
// stopped.
func TestReadyWaitsForStartsAndStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		src := &sluggish{g.src, make(chan struct{})}
		m1, leave1 := g.start("c1", func(c *rota.Config) { c.Source = src })
		time.Sleep(time.Second)
		wantReadiness(t, m1, "before the starts", "rota: plan 1 is not applied: q0 waits for the source to confirm its start, and 1 more wait")
		close(src.opens)
		time.Sleep(time.Millisecond)
		wantReadiness(t, m1, "after the starts", "ready")
		m2, leave2 := g.start("c2", nil)
		time.Sleep(time.Second)
		wantReadiness(t, m1, "before the stop", "rota: plan 2 is not applied: q1 waits for its owner to stop")
		wantReadiness(t, m2, "a member that is given nothing yet", "ready")
		time.Sleep(4 * time.Second)
		wantReadiness(t, m1, "after the stop", "ready")
		wantReadiness(t, m2, "a member that runs", "ready")
		for _, leave := range []func() error{leave1, leave2} {
			if err := leave(); err != nil {
				t.Error(err)
			}
		}
	})
}

// sluggish takes long to stop, and does not start before it opens.
type sluggish struct {
	*rotatest.MemSource
	opens chan struct{}
}

func (s *sluggish) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	select {
	case <-s.opens:
	case <-own.Stop():
		return nil
	}
	err := s.MemSource.Consume(ctx, own, deliver)
	time.Sleep(3 * time.Second)
	return err
}

// A loop that is held up, by a pipe of Config.Trace that nobody reads for instance, is
// told apart from a member that is not ready.
func TestReadyDoesNotWaitForALoopThatIsHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		goOn := make(chan struct{})
		m, leave := g.start("c1", func(c *rota.Config) {
			c.Trace = func(e rota.Event) {
				if e.Kind == rota.EventJoined {
					<-goOn
				}
			}
		})
		time.Sleep(100 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the loop is held up: %v", err)
		}
		close(goOn)
		time.Sleep(time.Second)
		wantReadiness(t, m, "later", "ready")
		if err := leave(); err != nil {
			t.Error(err)
		}
	})
}

// The answer of a store that gave up on a call is no answer about the caller's context.
func TestReadyTellsATimeoutOfTheStoreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		store := rotatest.Faulty(g.store, 1)
		store.Cut()
		m, leave := g.start("c1", func(c *rota.Config) { c.Store = store })
		time.Sleep(5 * time.Second)
		if err := m.Ready(t.Context()); err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "context deadline exceeded") {
			t.Errorf("a store that does not answer: %v", err)
		}
		store.Heal()
		if err := leave(); err != nil {
			t.Error(err)
		}
	})
}
