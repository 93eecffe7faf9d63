package rota_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// The rules of the shell, each as a story that returns what went wrong. The
// tests here want nothing to; with the rule taken out (internal/defect, Outer)
// mutant_test.go wants an error.

// inBubble runs a story in a bubble.
func inBubble(t *testing.T, story func(*testing.T) error) (err error) {
	synctest.Test(t, func(t *testing.T) { err = story(t) })
	return err
}

// faults collects what went wrong, from any goroutine.
type faults struct {
	mu  sync.Mutex
	all []error
}

func (f *faults) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, fmt.Errorf(format, args...))
}

func (f *faults) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.all...)
}

// exclusive is a source of owners that notices two with a valid lease.
type exclusive struct {
	faults
	names []string
	began time.Time
	mu    sync.Mutex
	by    map[string]map[string]rota.Ownership // partition → member
}

func newExclusive(names ...string) *exclusive {
	return &exclusive{names: names, began: time.Now(), by: map[string]map[string]rota.Ownership{}}
}

func (x *exclusive) source(member string) rota.Source {
	return rota.Func(x.names, func(ctx context.Context, own rota.Ownership) error {
		x.begin(member, own)
		own.Started()
		select {
		case <-own.Stop():
		case <-ctx.Done():
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.by[own.Partition()], member)
		return nil
	})
}

func (x *exclusive) begin(member string, own rota.Ownership) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.by[own.Partition()] == nil {
		x.by[own.Partition()] = map[string]rota.Ownership{}
	}
	for other, theirs := range x.by[own.Partition()] {
		if theirs.Check() == nil {
			x.add("%v: %s starts %v while %s has a lease on it for another %v", time.Since(x.began), member, own, other, theirs.Left())
		}
	}
	x.by[own.Partition()][member] = own
}

// owned is how many partitions the member has at work.
func (x *exclusive) owned(member string) (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, by := range x.by {
		if _, ok := by[member]; ok {
			n++
		}
	}
	return n
}

// lot is a store that can be exchanged for an empty one under its users, as by
// an operator who deletes a bucket. Watches do not notice: they stay at the old
// one and are told nothing any more.
type lot struct {
	mu  sync.Mutex
	cur *rotatest.MemStore
}

func (l *lot) now() *rotatest.MemStore {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cur
}

func (l *lot) swap() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cur = rotatest.NewMemStore()
}

// lane is one member's way to a lot. When it is cut its calls stay without an
// answer.
type lane struct {
	*lot
	fresh bool // what it says of itself
	dead  chan struct{}
}

func (l *lane) wait(ctx context.Context) error {
	select {
	case <-l.dead:
		<-ctx.Done()
		return ctx.Err()
	default:
		return nil
	}
}

func (l *lane) Get(ctx context.Context, key string) (rota.Entry, error) {
	if err := l.wait(ctx); err != nil {
		return rota.Entry{}, err
	}
	return l.now().Get(ctx, key)
}

func (l *lane) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	if err := l.wait(ctx); err != nil {
		return 0, err
	}
	return l.now().Put(ctx, key, value, prev)
}

func (l *lane) Delete(ctx context.Context, key string, prev rota.Rev) error {
	if err := l.wait(ctx); err != nil {
		return err
	}
	return l.now().Delete(ctx, key, prev)
}

func (l *lane) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return l.now().Watch(ctx, prefix)
}

func (l *lane) Close() error                        { return nil }
func (l *lane) Class() rota.Class                   { return rota.ClassA }
func (l *lane) Fresh(context.Context) (bool, error) { return l.fresh, nil }

// comesBack: whoever comes back creates a group like anybody else. A process that
// made its store, or was told that the store is new, knows that of the moment it
// began; when it rejoins an emptied store, members that are cut off still have
// their leases.
func comesBack(byStore bool) func(*testing.T) error {
	return func(t *testing.T) error {
		x := newExclusive("a", "b")
		store := &lot{cur: rotatest.NewMemStore()}
		var wg sync.WaitGroup
		ctx, leave := context.WithCancel(context.Background())
		lanes := map[string]*lane{}
		join := func(name string) {
			lanes[name] = &lane{lot: store, fresh: byStore, dead: make(chan struct{})}
			m, err := rota.New(rota.Config{Group: "test", Name: name, Store: lanes[name], Source: x.source(name), NewGroup: !byStore, Rejoin: true,
				Abort: func(err error) { x.add("%s: abort: %w", name, err) }})
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() { m.Run(ctx) })
		}
		join("c1")
		pass(500 * time.Millisecond)
		join("c2")
		pass(500 * time.Millisecond)
		if x.owned("c1") != 1 || x.owned("c2") != 1 {
			x.add("after a second c1 has %d and c2 %d, want one each and no hold", x.owned("c1"), x.owned("c2"))
		}
		close(lanes["c2"].dead)
		store.swap()
		pass(20 * time.Second)
		if x.owned("c1") != 2 {
			x.add("c1 came back and has %d partitions of 2", x.owned("c1"))
		}
		leave()
		wg.Wait()
		return x.err()
	}
}

func TestARejoinedSessionIsNotFresh(t *testing.T) {
	for name, byStore := range map[string]bool{"NewGroup": false, "Fresher": true} {
		t.Run(name, func(t *testing.T) {
			if err := inBubble(t, comesBack(byStore)); err != nil {
				t.Error(err)
			}
		})
	}
}

// drowsy is the drift between two clocks, one of which stands still while the
// machine sleeps.
type drowsy struct{ atomic.Int64 }

func (d *drowsy) apart() time.Duration  { return time.Duration(d.Load()) }
func (d *drowsy) sleep(t time.Duration) { d.Add(int64(t)) }

// lookout shows the newest ownership.
type lookout struct {
	rota.Source
	own *atomic.Pointer[rota.Ownership]
}

func (l lookout) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	l.own.Store(&own)
	return l.Source.Consume(ctx, own, deliver)
}

// oversleeps: where the lease is measured on a clock that stands still in a
// sleep, the lease itself is asked whether there was one. The loop looks too, but
// its timer stood still as well: until its next event, up to a heartbeat later,
// effects would pass on a lease that ended long ago.
func oversleeps(t *testing.T) error {
	var f faults
	var clock drowsy
	g := newGroup(t, 1)
	g.prepare = func(m *rota.Member) { m.Inexact(clock.apart) }
	var own atomic.Pointer[rota.Ownership]
	m, leave := g.start("c1", func(c *rota.Config) {
		c.Source = lookout{c.Source, &own}
		c.Abort = func(err error) { f.add("abort: %w", err) }
	})
	resumed := first(m, kind(rota.EventResumed))
	pass(2500 * time.Millisecond) // the next heartbeat is far
	old := own.Load()
	if err := old.Check(); err != nil {
		f.add("before the sleep: %w", err)
	}
	clock.sleep(time.Minute)
	woke := time.Now()
	if err := old.Settle(func() error { return nil }); !errors.Is(err, rota.ErrLost) {
		f.add("a settlement after the sleep: %v, want ErrLost", err)
	}
	if left := old.Left(); left != 0 {
		f.add("%v of the lease left after the sleep", left)
	}
	pass(20 * time.Second)
	if at := resumed(); at.IsZero() || at.Sub(woke) > 100*time.Millisecond {
		f.add("work went on %v after the sleep, want at once", at.Sub(woke))
	}
	if err := own.Load().Check(); own.Load() == old || err != nil {
		f.add("later: %w", err)
	}
	leave()
	g.wg.Wait()
	return f.err()
}

func TestTheLeaseSeesASleepOnEverySystem(t *testing.T) {
	if err := inBubble(t, oversleeps); err != nil {
		t.Error(err)
	}
}

// Clocks of one machine run at slightly different rates; that is no sleep, however
// much it comes to in a day.
func TestClocksThatDriftSlowlyCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		began := time.Now()
		g.prepare = func(m *rota.Member) { m.Inexact(func() time.Duration { return time.Since(began) / 2000 }) } // the most that NTP slews by
		m, leave := g.start("c1", nil)
		paused := first(m, kind(rota.EventPaused))
		pass(time.Hour)
		if at := paused(); !at.IsZero() {
			t.Errorf("paused after %v", at.Sub(began))
		}
		leave()
		g.wg.Wait()
	})
}
