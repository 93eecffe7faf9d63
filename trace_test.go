package rota_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

// notes collects the events of Config.Trace.
type notes struct {
	mu  sync.Mutex
	all []rota.Event
}

func (n *notes) add(e rota.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, e)
}

// of are the kinds of the events of one partition; consecutive equal kinds count once.
func (n *notes) of(partition string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for _, e := range n.all {
		if e.Partition == partition && (len(out) == 0 || out[len(out)-1] != string(e.Kind)) {
			out = append(out, string(e.Kind))
		}
	}
	return strings.Join(out, " ")
}

func TestTraceTellsEveryMessageAndLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		g := newGroup(t, 1)
		tries := 0
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Trace, c.TraceMessages = n.add, true
			c.Handle = func(context.Context, rota.Message) error {
				if tries++; tries == 1 {
					return errors.New("not yet")
				}
				return nil
			}
		})
		pass(time.Second)
		g.src.Publish("q0", []byte("one"))
		pass(5 * time.Second)
		if err := leave(); err != nil {
			t.Fatal(err)
		}
		if got, want := n.of("q0"), "grant starting start handle handled error handle handled settled stop stopped"; got != want {
			t.Errorf("told of q0: %s\nwant %s", got, want)
		}
		leases := 0
		for _, e := range n.all {
			switch e.Kind {
			case rota.EventLease:
				leases++
			case rota.EventError:
				if e.Because != "not yet" || e.Attempt != 1 || e.Message == "" || e.Token == 0 || e.Gen == 0 || e.Term == 0 || e.Plan == 0 {
					t.Errorf("the failure is told as %+v", e)
				}
			}
			if e.Partition != "" && (e.Remaining <= 0 || e.Remaining > 5*time.Second) {
				t.Errorf("%s with %v of the lease left", e.Kind, e.Remaining)
			}
		}
		if leases < 3 {
			t.Errorf("%d leases in 6 s with a heartbeat every 2 s", leases)
		}
	})
}

func TestTraceIsQuietAboutMessagesUnlessAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		g := newGroup(t, 1)
		_, leave := g.start("c1", func(c *rota.Config) { c.Trace = n.add })
		g.src.Publish("q0", []byte("one"))
		pass(5 * time.Second)
		leave()
		if got, want := n.of("q0"), "grant starting start stop stopped"; got != want || g.count["q0"] != 1 {
			t.Errorf("told of q0: %s, %d handled", got, g.count["q0"])
		}
		for _, e := range n.all {
			if e.Kind == rota.EventLease {
				t.Fatal("told of a lease")
			}
		}
	})
}

// A settlement may take long, and its process may be stopped meanwhile: the event has
// the time and the lease of its beginning.
func TestTraceTellsWhenASettlementBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		var began time.Time
		src := rota.Func([]string{"q0"}, func(_ context.Context, own rota.Ownership) error {
			own.Started()
			began = time.Now()
			err := own.Settle(func() error { time.Sleep(time.Minute); return nil })
			<-own.Stop()
			return err
		})
		g := newGroup(t, 1)
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Source, c.Handle, c.Trace, c.TraceMessages = src, nil, n.add, true
		})
		pass(2 * time.Minute)
		if err := leave(); err != nil {
			t.Fatal(err)
		}
		settled := 0
		for _, e := range n.all {
			if e.Kind == rota.EventSettled {
				settled++
				if !e.Time.Equal(began) || e.Remaining < 2*time.Second {
					t.Errorf("told %v after it began, with %v of the lease left", e.Time.Sub(began), e.Remaining)
				}
			}
		}
		if settled != 1 {
			t.Errorf("told %d times", settled)
		}
	})
}

func TestTraceTellsARevoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		g := newGroup(t, 2)
		_, leave1 := g.start("c1", func(c *rota.Config) { c.Trace = n.add })
		pass(time.Second)
		_, leave2 := g.start("c2", nil)
		pass(2 * time.Second)
		if got := n.of("q0") + "; " + n.of("q1"); strings.Count(got, "revoke stop stopped") != 1 {
			t.Errorf("told: %s", got)
		}
		leave2()
		leave1()
	})
}

func TestLeftIsTheRestOfTheLeaseAndZeroAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		net := newWire(g.store)
		var own rota.Ownership
		var atEnd time.Duration
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Store, c.Handle = net, nil
			c.Source = rota.Func([]string{"q0"}, func(ctx context.Context, o rota.Ownership) error {
				own = o
				select {
				case <-o.Stop():
				case <-ctx.Done():
				}
				atEnd = o.Remaining()
				return nil
			})
		})
		pass(3 * time.Second)
		before := own.Remaining()
		if before <= 0 || before > 5*time.Second {
			t.Errorf("%v left while the store answers", before)
		}
		net.cut()
		pass(time.Second)
		if got := own.Remaining(); got >= before || got <= 0 {
			t.Errorf("%v left a second after the cut, %v before", got, before)
		}
		pass(5 * time.Second)
		if atEnd != 0 || own.Remaining() != 0 {
			t.Errorf("%v left when it was cancelled, %v after it ended", atEnd, own.Remaining())
		}
		net.heal()
		leave()
	})
}

func TestInspectShowsConditionsForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		fail := true
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Handle = nil
			c.Source = rota.Func([]string{"q0"}, func(ctx context.Context, o rota.Ownership) error {
				if fail {
					fail = false
					return errors.New("broken\n" + strings.Repeat("ü", 300))
				}
				select {
				case <-o.Stop():
				case <-ctx.Done():
				}
				return nil
			})
		})
		pass(3 * time.Second)
		st, err := rota.Inspect(t.Context(), g.store, "test")
		if err != nil || len(st.Members) != 1 || len(st.Members[0].Conditions) != 1 ||
			!strings.HasPrefix(st.Members[0].Conditions[0].String(), "q0: its function failed: broken ü") || len(st.Members[0].Conditions[0].Text) > 256 {
			t.Errorf("%v, %+v", err, st.Members)
		}
		if st.LeaderName != "c1" || st.NameOf("nobody") != "nobody" {
			t.Errorf("the leader is called %s", st.LeaderName)
		}
		pass(time.Minute)
		if st, err := rota.Inspect(t.Context(), g.store, "test"); err != nil || len(st.Members[0].Conditions) != 0 {
			t.Errorf("a minute later: %v, %+v", err, st.Members)
		}
		leave()
	})
}

func TestADeadMembersLastHeartbeatStaysItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		net := newWire(g.store)
		_, leave1 := g.start("c1", func(c *rota.Config) { c.Store = net; c.Orphan = rota.AtOnce })
		_, leave2 := g.start("c2", nil)
		pass(3 * time.Second)
		net.cut()
		cut := time.Now()
		pass(8 * time.Second)
		st, err := rota.Inspect(t.Context(), g.store, "test")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range st.Members {
			if m.Name == "c1" && (m.State != rota.MemberDead || m.Sent.After(cut)) {
				t.Errorf("cut off at %v, and %s, last heard of at %v", cut, m.State, m.Sent)
			}
		}
		leave1()
		leave2()
	})
}
