package rota_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// Tests of what an owner and an observer learn.

// wire is one member's connection to the store: it can be cut. Calls then stay
// without an answer.
type wire struct {
	*rotatest.MemStore
	mu   sync.Mutex
	ctx  context.Context // until the next cut
	down context.CancelFunc
}

func newWire(s *rotatest.MemStore) *wire {
	w := &wire{MemStore: s}
	w.heal()
	return w
}

func (w *wire) cut() { w.down() }

func (w *wire) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx, w.down = context.WithCancel(context.Background())
}

func (w *wire) up() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ctx
}

func (w *wire) Get(ctx context.Context, key string) (rota.Entry, error) {
	if w.up().Err() != nil {
		<-ctx.Done()
	}
	return w.MemStore.Get(ctx, key)
}

func (w *wire) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	if w.up().Err() != nil {
		<-ctx.Done()
	}
	return w.MemStore.Put(ctx, key, value, prev)
}

func (w *wire) Delete(ctx context.Context, key string, prev rota.Rev) error {
	if w.up().Err() != nil {
		<-ctx.Done()
	}
	return w.MemStore.Delete(ctx, key, prev)
}

func (w *wire) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		up := w.up()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(up, cancel)()
		for batch, err := range w.MemStore.Watch(ctx, prefix) {
			if up.Err() != nil {
				break
			}
			if !yield(batch, err) {
				return
			}
		}
		yield(nil, errors.New("cut off"))
	}
}

// A leave closes Stop and leaves ctx alone; a lost lease ends ctx half a second
// before the lease ends. Func is told like any source.
func TestStopIsAskedForAndContextIsTaken(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, 1)
			net := newWire(g.store)
			var stopped, ended time.Time
			m, leave := g.start("c1", func(c *rota.Config) {
				c.Store, c.Handle = net, nil
				c.Source = rota.Func([]string{"work"}, func(ctx context.Context, own rota.Ownership) error {
					select {
					case <-own.Stop():
						stopped = time.Now()
						if lost {
							return nil
						}
						time.Sleep(20 * time.Second) // there is time to finish
						if ctx.Err() != nil || own.Check() != nil {
							t.Errorf("after a stop: ctx %v, check %v", ctx.Err(), own.Check())
						}
					case <-ctx.Done():
					}
					if ctx.Err() != nil {
						ended = time.Now()
						if err := own.Check(); !errors.Is(err, rota.ErrLost) {
							t.Errorf("ctx has ended and Check says %v", err)
						}
					}
					return nil
				})
			})
			pass(time.Second)
			if !lost {
				asked := time.Now()
				if err := leave(); err != nil {
					t.Error(err)
				}
				if !stopped.Equal(asked) || !ended.IsZero() {
					t.Errorf("asked at %v, stopped at %v, ended at %v", asked, stopped, ended)
				}
				return
			}
			net.cut()
			end := time.Now().Add(m.LeaseRemaining())
			pass(10 * time.Second)
			if at := max(stopped.UnixNano(), ended.UnixNano()); at != end.Add(-500*time.Millisecond).UnixNano() {
				t.Errorf("stopped at %v, ended at %v, the lease ends at %v", stopped, ended, end)
			}
			leave()
			g.wg.Wait()
		})
	}
}

// blocking is a log that blocks its callers on demand.
type blocking struct {
	slog.Handler
	on      *atomic.Bool
	release chan struct{}
}

func (b blocking) Handle(ctx context.Context, r slog.Record) error {
	if b.on.Load() && r.Message == string(rota.EventStop) {
		<-b.release
	}
	return nil
}

// After the lease end nothing is delivered and nothing settled, also when the
// goroutine that would have stopped everything stands still.
func TestLeaseEndNeedsNobodyToSayIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		var on atomic.Bool
		release := make(chan struct{})
		var mu sync.Mutex
		var last time.Time
		lost := map[string]time.Time{}
		endless := func(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
			own.Started()
			for {
				_, err := deliver(ctx, rota.Message{})
				if err == nil {
					continue
				}
				mu.Lock()
				lost[own.Partition()] = time.Now()
				mu.Unlock()
				if serr := own.Settle(func() error { t.Error("settled"); return nil }); !errors.Is(err, rota.ErrLost) || !errors.Is(serr, rota.ErrLost) {
					t.Errorf("deliver says %v, Settle %v", err, serr)
				}
				if ctx.Err() != nil {
					t.Error("somebody ended ctx: this test is about nobody doing so")
				}
				<-ctx.Done()
				return nil
			}
		}
		m1, leave1 := g.start("c1", func(c *rota.Config) {
			c.Source = &source{MemSource: g.src, consume: endless}
			c.Log = slog.New(blocking{slog.NewTextHandler(io.Discard, nil), &on, release})
			c.Handle = func(context.Context, rota.Message) error {
				mu.Lock()
				last = time.Now()
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				return nil
			}
		})
		pass(time.Second)
		on.Store(true)
		_, leave2 := g.start("c2", nil)
		pass(200 * time.Millisecond) // by now c1 was told to stop one, and stands still saying so
		end := time.Now().Add(m1.LeaseRemaining())
		pass(10 * time.Second)
		mu.Lock()
		if len(lost) != 2 || last.Before(end.Add(-20*time.Millisecond)) || !last.Before(end) {
			t.Errorf("lost %v; the last delivery was at %v, the lease ended at %v", lost, last, end)
		}
		for name, at := range lost {
			if at.Before(end) || at.After(end.Add(10*time.Millisecond)) {
				t.Errorf("%s was lost at %v, the lease ended at %v", name, at, end)
			}
		}
		mu.Unlock()
		close(release)
		if err := leave1(); !errors.Is(err, rota.ErrFenced) {
			t.Errorf("Run returned %v", err)
		}
		leave2()
		g.wg.Wait()
	})
}

// An Ownership that was kept says that it is over, even while the lease lasts: the
// next owner may have started.
func TestOwnershipEndsWithConsume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		var kept []rota.Ownership
		var handed rota.Deliver
		_, leave1 := g.start("c1", nil)
		pass(time.Second)
		_, leave2 := g.start("c2", func(c *rota.Config) {
			c.Source = &source{MemSource: g.src, consume: func(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
				own.Started()
				kept, handed = append(kept, own), deliver
				if err := own.Check(); err != nil {
					t.Error(err)
				}
				<-own.Stop()
				return nil
			}}
		})
		pass(time.Second)
		leave1()
		pass(time.Second)
		_, leave3 := g.start("c3", nil)
		pass(time.Second)
		if len(kept) != 1 {
			t.Fatalf("c2 owned it %d times", len(kept))
		}
		own := kept[0]
		if own.Partition() != "q0" || own.Token() == 0 || len(own.Session()) != 16 || !strings.HasPrefix(own.String(), "q0@") {
			t.Errorf("%v: partition %q, token %d, session %q", own, own.Partition(), own.Token(), own.Session())
		}
		if err := own.Check(); err != nil {
			t.Errorf("c2 still owns it, and Check says %v", err)
		}
		leave2()
		if n, err := handed(context.Background(), rota.Message{}); n != 0 || !errors.Is(err, rota.ErrLost) {
			t.Errorf("deliver after Consume has returned: %d, %v", n, err)
		}
		if err := own.Settle(func() error { t.Error("settled"); return nil }); !errors.Is(err, rota.ErrLost) {
			t.Errorf("Settle after Consume has returned: %v", err)
		}
		leave3()
		g.wg.Wait()
	})
}

// The same while the member lives on and its lease holds.
func TestOwnershipEndsWithARevoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		var mu sync.Mutex
		kept := map[string]rota.Ownership{}
		m1, leave1 := g.start("c1", func(c *rota.Config) {
			c.Source = &source{MemSource: g.src, consume: func(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
				mu.Lock()
				kept[own.Partition()] = own
				mu.Unlock()
				return g.src.Consume(ctx, own, deliver)
			}}
		})
		pass(time.Second)
		_, leave2 := g.start("c2", nil)
		pass(time.Second)
		for _, p := range m1.Status().Partitions {
			own := kept[p.Name]
			mine := p.Owner == own.Session()
			if err := own.Check(); mine && err != nil || !mine && !errors.Is(err, rota.ErrLost) {
				t.Errorf("%s: mine %v, Check says %v", p.Name, mine, err)
			}
			if mine != (p.Token == own.Token()) || p.Token < own.Token() {
				t.Errorf("%s: my token %d, the plan's %d, mine %v", p.Name, own.Token(), p.Token, mine)
			}
		}
		leave1()
		leave2()
		g.wg.Wait()
	})
}

// Metadata that the source changes reaches the running owner without a restart,
// whichever member leads.
func TestS1_Meta_ReachesTheRunningOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		var win atomic.Int64
		win.Store(1)
		var mu sync.Mutex
		seen, calls := map[string][]string{}, map[string]int{}
		src := &lists{
			Source: &source{MemSource: g.src, consume: func(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
				own.Started()
				mu.Lock()
				calls[own.Partition()]++
				mu.Unlock()
				for {
					meta, changed := own.Meta()
					mu.Lock()
					seen[own.Partition()] = append(seen[own.Partition()], meta["win"])
					mu.Unlock()
					meta["win"] = "mine to change"
					select {
					case <-changed:
					case <-own.Stop():
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
			}},
			answers: []func() ([]rota.Partition, error){func() ([]rota.Partition, error) {
				return []rota.Partition{
					{Name: "q0", Meta: rota.Meta{"win": fmt.Sprint(win.Load()), "team": "a"}},
					{Name: "q1", Meta: rota.Meta{"win": "always 7"}},
				}, nil
			}},
		}
		tune := func(c *rota.Config) { c.Source = src }
		m1, leave1 := g.start("c1", tune)
		pass(time.Second)
		_, leave2 := g.start("c2", tune)
		pass(time.Second)
		mu.Lock()
		clear(seen)
		clear(calls)
		mu.Unlock()
		for i := int64(2); i <= 3; i++ {
			win.Store(i)
			pass(31 * time.Second)
		}
		mu.Lock()
		if got := fmt.Sprint(seen); got != "map[q0:[2 3]]" || len(calls) != 0 {
			t.Errorf("owners were shown %s and started %v", got, calls)
		}
		mu.Unlock()
		for _, p := range m1.Status().Partitions {
			if p.Name == "q0" && !maps.Equal(p.Meta, rota.Meta{"win": "3", "team": "a"}) {
				t.Errorf("Status shows %v", p.Meta)
			}
		}
		leave1()
		leave2()
		g.wg.Wait()
	})
}

// Members see the same group as Inspect.
func TestStatusAndInspectAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 5)
		if _, err := rota.Inspect(context.Background(), g.store, "test"); !errors.Is(err, rota.ErrNotFound) {
			t.Errorf("Inspect of a group that is not there: %v", err)
		}
		m1, leave1 := g.start("c1", func(c *rota.Config) { c.Labels = map[string]string{"pod": "p1"} })
		m2, leave2 := g.start("c2", nil)
		_, leave3 := g.start("c3", nil)
		pass(time.Second)
		leave3()
		pass(3 * time.Second)
		want, err := rota.Inspect(context.Background(), g.store, "test")
		if err != nil {
			t.Fatal(err)
		}
		if len(want.Partitions) != 5 || len(want.Members) != 3 || want.Phase != rota.Sentinel || want.Class != rota.ClassB || len(want.Waits) != 0 {
			t.Errorf("Inspect: %+v", want)
		}
		for _, m := range want.Members {
			if m.Name == "c3" != (m.State == rota.MemberLeft) || m.Name == "c3" == m.Planned || m.Name == "c1" != (m.Labels["pod"] == "p1") ||
				m.Lease != 5*time.Second || m.Heartbeat != 2*time.Second || m.Sent.IsZero() {
				t.Errorf("Inspect: %+v", m)
			}
		}
		if h := want.History; len(h) != 2 || fmt.Sprint(h[0].Causes, h[1].Causes) != "[{joined [c1 c2 c3] 0} {roster [] 0}] [{left [c3] 0}]" || h[1].Moves == 0 || h[1].Members != 2 || !h[1].Time.After(h[0].Time) {
			t.Errorf("the past: %+v", h)
		}
		want.History, want.PhaseSince = []rota.PlanInfo{}, time.Time{}
		want.Orders = m1.Status().Orders
		for i := range want.Partitions { // only Inspect knows the past
			p := &want.Partitions[i]
			if p.Since.IsZero() || len(p.Causes) == 0 || (p.Plan == 2) != (p.Gen > 2) {
				t.Errorf("the past of a partition: %+v", p)
			}
			p.Plan, p.Since, p.Causes = 0, time.Time{}, nil
		}
		for _, m := range []*rota.Member{m1, m2} {
			got := m.Status()
			for _, st := range []*rota.Status{&got, &want} {
				for i := range st.Members {
					st.Members[i].Sent, st.Members[i].Age = time.Time{}, 0 // a member does not read its own
				}
			}
			if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); a != b {
				t.Errorf("%s sees\n%s\nin the store is\n%s", m.Name(), a, b)
			}
		}
		leave1()
		leave2()
		if st := m1.Status(); st.Group != "test" || st.Plan != 0 {
			t.Errorf("Status after Run: %+v", st)
		}
		g.wg.Wait()
	})
}

// A member that was declared dead comes back under a new session, if it may.
func TestRejoinComesBackUnderANewSession(t *testing.T) {
	for _, rejoin := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, 2)
			g.src.Publish("q0", make([][]byte, 1000)...)
			g.src.Publish("q1", make([][]byte, 1000)...)
			m2, leave2 := g.start("c2", func(c *rota.Config) { c.Handle = g.handle("c2", 20*time.Millisecond) })
			pass(time.Second)
			net := newWire(g.store)
			m1, leave1 := g.start("c1", func(c *rota.Config) {
				c.Store, c.Rejoin, c.Handle = net, rejoin, g.handle("c1", 20*time.Millisecond)
			})
			events := m1.Events(context.Background())
			pass(time.Second)
			net.cut()
			pass(7 * time.Second)
			if got := counts(m2.Status()); got != "map[c1:0 c2:2]" {
				t.Errorf("cut off: %s", got)
			}
			net.heal()
			pass(2 * time.Second)
			if got := counts(m2.Status()); rejoin != strings.HasSuffix(got, "c2:1]") {
				t.Errorf("rejoin %v: healed: %s", rejoin, got)
			}
			err := leave1()
			if rejoin && err != nil || !rejoin && !errors.Is(err, rota.ErrFenced) {
				t.Errorf("rejoin %v: Run returned %v", rejoin, err)
			}
			var told []string
			sessions := map[string]bool{}
			for e := range events {
				if e.Partition == "" {
					told = append(told, string(e.Kind))
				}
				sessions[e.Session] = true
			}
			want, n := "joined store_lost lapsed store_back fenced", 1
			if rejoin {
				want, n = "joined store_lost lapsed store_back fenced joined leaving left", 2
			}
			if got := strings.Join(told, " "); !strings.HasPrefix(got, want) || len(sessions) != n {
				t.Errorf("rejoin %v: told %s in %d sessions, want %s", rejoin, got, len(sessions), want)
			}
			leave2()
			g.wg.Wait()
		})
	}
}

func TestRunIsForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		m, leave := g.start("c1", nil)
		pass(time.Second)
		if err := m.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "make another Member") {
			t.Errorf("a second Run returned %v", err)
		}
		if err := leave(); err != nil {
			t.Error(err)
		}
	})
}
