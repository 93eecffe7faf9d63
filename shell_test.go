package rota_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/rotatest"
)

// The rules of the shell, each as a story that returns an error if something went
// wrong. The tests here expect none; mutant_test.go takes the rule out (internal/rule)
// and expects one.

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
			x.add("%v: %s starts %v while %s has a lease on it for another %v", time.Since(x.began), member, own, other, theirs.Remaining())
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

// lot is a store that can be replaced by an empty one while it is in use, as by an
// operator who deletes a bucket. Watches do not notice: they stay at the old one and
// show nothing any more.
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

// comesBack lets a member rejoin an emptied store. That the store was new, which the
// process made itself or was told, is true of its first session only: members that
// are cut off may still have their leases now.
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

// oversleeps suspends a machine whose lease clock does not count suspend. The check
// before each effect must notice it. The loop notices it too, but its timer stood
// still as well: until its next event, up to a heartbeat later, effects would pass on
// a lease that ended long ago.
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
	if left := old.Remaining(); left != 0 {
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
		paused := first(m, kind(rota.EventLapsed))
		pass(time.Hour)
		if at := paused(); !at.IsZero() {
			t.Errorf("paused after %v", at.Sub(began))
		}
		leave()
		g.wg.Wait()
	})
}

// slack is a store whose calls may take longer than their ctx allows, and then
// succeed all the same.
type slack struct {
	*rotatest.MemStore
	get  time.Duration // how late the answer to a Get is
	late time.Duration // how late the answer to the next Put of a member is, if not zero
	cut  bool          // no further Put of a member arrives
	mu   sync.Mutex
	sent time.Time // when what the member's record holds was sent
}

func (s *slack) Get(_ context.Context, key string) (rota.Entry, error) {
	e, err := s.MemStore.Get(context.Background(), key)
	time.Sleep(s.get)
	return e, err
}

func (s *slack) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	if !strings.Contains(key, "/member/") {
		return s.MemStore.Put(ctx, key, value, prev)
	}
	s.mu.Lock()
	late, cut := s.late, s.cut
	s.cut = cut || late > 0
	s.mu.Unlock()
	if cut {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	rev, err := s.MemStore.Put(ctx, key, value, prev)
	s.mu.Lock()
	s.sent = time.Now()
	s.mu.Unlock()
	time.Sleep(late)
	return rev, err
}

// answersLate delays the answer to a heartbeat by two seconds, until the next
// heartbeat is in flight, which gets lost. A core that got the stale answer would take
// it for the answer to the second heartbeat.
func answersLate(t *testing.T) error {
	x := newExclusive("a", "b")
	store := &slack{MemStore: rotatest.NewMemStore()}
	var wg sync.WaitGroup
	join := func(name string, st rota.Store) (*rota.Member, func()) {
		m, err := rota.New(rota.Config{Group: "test", Name: name, Store: st, Source: x.source(name), NewGroup: true,
			Abort: func(err error) { x.add("%s: abort: %w", name, err) }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(context.Background())
		wg.Go(func() { m.Run(ctx) })
		pass(500 * time.Millisecond)
		return m, leave
	}
	m1, leave1 := join("c1", store)
	_, leave2 := join("c2", store.MemStore)
	store.mu.Lock()
	store.late = 2100 * time.Millisecond
	store.mu.Unlock()
	var worst time.Duration
	for range 100 {
		pass(100 * time.Millisecond)
		store.mu.Lock()
		most := store.sent.Add(5 * time.Second)
		store.mu.Unlock()
		worst = max(worst, time.Now().Add(m1.LeaseRemaining()).Sub(most))
	}
	if worst > 0 {
		x.add("c1 trusts a lease %v longer than its record in the store gives", worst)
	}
	if x.owned("c2") != 2 {
		x.add("c2 has %d of 2 partitions ten seconds later", x.owned("c2"))
	}
	leave1()
	leave2()
	wg.Wait()
	return x.err()
}

// TestALateAnswerIsNone shows that a call that was answered as unknown is not answered
// again.
func TestALateAnswerIsNone(t *testing.T) {
	if err := inBubble(t, answersLate); err != nil {
		t.Error(err)
	}
	if err := inBubble(t, answersOnce); err != nil {
		t.Error(err)
	}
}

func answersOnce(t *testing.T) error {
	for _, late := range []time.Duration{0, time.Second, 2 * time.Second, 10 * time.Second} {
		m, err := rota.New(rota.Config{Group: "test", Store: &slack{MemStore: rotatest.NewMemStore(), get: late}, Source: rotatest.NewMemSource(1, "a"), Handle: ignore})
		if err != nil {
			t.Fatal(err)
		}
		want := []core.Outcome{core.NotFound}
		if late > 1250*time.Millisecond { // as long as a call may take
			want[0] = core.Unknown
		}
		if got := m.Answers(time.Minute); !slices.Equal(got, want) {
			return fmt.Errorf("an answer after %v is told as %v, want %v", late, got, want)
		}
	}
	return nil
}

// diesEarly ends a member by a bug. It may write LEFT, which frees its rows, only after
// its handlers have returned.
func diesEarly(t *testing.T) error {
	var f faults
	var bug atomic.Bool
	var returned atomic.Int64
	g := newGroup(t, 1)
	g.src.Publish("q0", []byte("x"))
	g.prepare = func(m *rota.Member) {
		m.TestPause(func() {
			if bug.Swap(false) {
				panic(core.Bug("a test"))
			}
		})
	}
	m, leave := g.start("c1", func(c *rota.Config) {
		c.Handle = func(ctx context.Context, _ rota.Message) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			returned.Store(time.Now().UnixNano())
			return ctx.Err()
		}
		c.Abort = func(err error) { f.add("abort: %w", err) }
	})
	pass(time.Second)
	key := "test/member/" + record.Session(m.SessionID()).String()
	bug.Store(true)
	left := false
	for range 100 {
		pass(50 * time.Millisecond)
		e, _ := g.store.Get(context.Background(), key)
		r, err := record.DecodeMember(e.Value)
		if err != nil {
			f.add("its record: %w", err)
			break
		}
		if left = r.State == record.Left; left {
			break
		}
	}
	if !left {
		f.add("it never says that it has ended")
	} else if returned.Load() == 0 {
		f.add("it says LEFT while its handler runs")
	}
	if err := leave(); !errors.Is(err, rota.ErrBug) {
		f.add("Run returned %v, want ErrBug", err)
	}
	g.wg.Wait()
	return f.err()
}

func TestAfterABugLeftMeansThatHandlersHaveReturned(t *testing.T) {
	if err := inBubble(t, diesEarly); err != nil {
		t.Error(err)
	}
}

// aborts is an Abort that records its calls and returns.
type aborts struct {
	mu  sync.Mutex
	at  []time.Time
	err []error
}

func (a *aborts) add(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at, a.err = append(a.at, time.Now()), append(a.err, err)
}

// of are the instants at which the partition was named.
func (a *aborts) of(partition string) (at []time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, err := range a.err {
		if strings.Contains(err.Error(), " "+partition) {
			at = append(at, a.at[i])
		}
	}
	return at
}

// abortsAll has an Abort that returns and ends at most one handler. Each of the other
// handlers that are busy after the lease must be named too, and those that are still
// busy half a second later must be named again.
func abortsAll(t *testing.T) error {
	var f faults
	var told aborts
	g := newGroup(t, 2)
	net := newWire(g.store)
	g.src.Publish("q0", []byte("x"))
	g.src.Publish("q1", []byte("x"))
	end := make(chan struct{})
	m, leave := g.start("c1", func(c *rota.Config) {
		c.Store, c.Handle, c.Abort, c.Orphan = net, g.hang("c1", end), told.add, rota.AtOnce
	})
	pass(time.Second)
	net.cut()
	lease := time.Now().Add(m.LeaseRemaining())
	pass(m.LeaseRemaining() + 1250*time.Millisecond)
	close(end)
	pass(10 * time.Second)
	for _, q := range []string{"q0", "q1"} {
		at := told.of(q)
		if len(at) != 3 {
			f.add("%s: aborted %d times, want at the lease end and twice after it", q, len(at))
			continue
		}
		for i := range at {
			if want := lease.Add(time.Duration(i) * 500 * time.Millisecond); !at[i].Equal(want) {
				f.add("%s: aborted %v after the lease end, want %v", q, at[i].Sub(lease), want.Sub(lease))
			}
		}
	}
	if err := leave(); !errors.Is(err, rota.ErrOrphaned) {
		f.add("Run returned %v, want ErrOrphaned", err)
	}
	g.wg.Wait()
	return f.err()
}

func TestAnAbortThatReturnedIsNotTheLast(t *testing.T) {
	if err := inBubble(t, abortsAll); err != nil {
		t.Error(err)
	}
}

// outlivesBug ends a member by a bug while a handler hangs: the abort comes at the end
// of the lease, which the bug does not extend.
func outlivesBug(t *testing.T) error {
	var f faults
	var bug atomic.Bool
	var told aborts
	g := newGroup(t, 1)
	g.src.Publish("q0", []byte("x"))
	g.prepare = func(m *rota.Member) {
		m.TestPause(func() {
			if bug.Swap(false) {
				panic(core.Bug("a test"))
			}
		})
	}
	end := make(chan struct{})
	m, leave := g.start("c1", func(c *rota.Config) { c.Handle, c.Abort = g.hang("c1", end), told.add })
	pass(3 * time.Second)
	lease := time.Now().Add(m.LeaseRemaining())
	bug.Store(true)
	m.Jump() // an event, so that the loop goes on
	pass(time.Until(lease.Add(250 * time.Millisecond)))
	close(end)
	if at := told.of("q0"); len(at) != 1 || !at[0].Equal(lease) {
		f.add("aborted at %v, want once, at the lease end, %v", at, lease)
	}
	if err := leave(); !errors.Is(err, rota.ErrBug) {
		f.add("Run returned %v, want ErrBug", err)
	}
	g.wg.Wait()
	return f.err()
}

func TestAfterABugAHandlerDoesNotOutliveTheLease(t *testing.T) {
	if err := inBubble(t, outlivesBug); err != nil {
		t.Error(err)
	}
}

// asksBusy stops a delivery between the lease check and the handler until after the
// end of the lease. The abort must see it as busy; otherwise nothing would end the
// process before the handler begins.
func asksBusy(t *testing.T) error {
	var f faults
	var told aborts
	var freeze atomic.Int64
	var began atomic.Bool
	g := newGroup(t, 1)
	net := newWire(g.store)
	g.prepare = func(m *rota.Member) {
		m.AfterClock(func() { time.Sleep(time.Duration(freeze.Swap(0))) })
	}
	m, leave := g.start("c1", func(c *rota.Config) {
		c.Store, c.Orphan, c.Abort = net, rota.AtOnce, told.add
		c.Source = &source{MemSource: g.src, consume: func(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
			own.Started()
			time.Sleep(time.Second)
			net.cut()
			freeze.Store(int64(own.Remaining() + 100*time.Millisecond))
			deliver(ctx, rota.Message{})
			return nil
		}}
		c.Handle = func(context.Context, rota.Message) error {
			began.Store(true)
			return nil
		}
	})
	pass(1500 * time.Millisecond)
	lease := time.Now().Add(m.LeaseRemaining())
	pass(time.Until(lease.Add(250 * time.Millisecond)))
	if at := told.of("q0"); !began.Load() || len(at) != 1 || !at[0].Equal(lease) {
		f.add("a handler begins after the lease end: %v; aborted at %v, want once, at the lease end, %v", began.Load(), at, lease)
	}
	leave()
	g.wg.Wait()
	return f.err()
}

func TestWhoAskedForItsLeaseIsBusy(t *testing.T) {
	if err := inBubble(t, asksBusy); err != nil {
		t.Error(err)
	}
}

// abortsAgain shows that an Abort for one partition does not replace that of another.
func abortsAgain(t *testing.T) error {
	var f faults
	g := newGroup(t, 2)
	net := newWire(g.store)
	drained, over := make(chan struct{}), make(chan struct{})
	end := sync.OnceFunc(func() { close(drained) })
	var told aborts
	m, leave1 := g.start("c1", func(c *rota.Config) {
		c.Store, c.Orphan = net, rota.AtOnce
		c.Handle = func(_ context.Context, msg rota.Message) error {
			if msg.Partition == "q1" { // the one that moves
				<-drained
			} else {
				<-over
			}
			return nil
		}
		c.Abort = func(err error) {
			told.add(err)
			if len(told.of("q1")) > 0 {
				end()
			}
		}
	})
	pass(time.Second)
	g.src.Publish("q1", []byte("x"))
	pass(time.Second)
	_, leave2 := g.start("c2", nil)
	pass(time.Minute)
	if n := len(told.of("q1")); n != 1 {
		f.add("q1 was aborted %d times, want once at the end of its stop time", n)
	}
	g.src.Publish("q0", []byte("x"))
	pass(time.Second)
	net.cut()
	lease := time.Now().Add(m.LeaseRemaining())
	pass(m.LeaseRemaining() + 250*time.Millisecond)
	if at := told.of("q0"); len(at) != 1 || !at[0].Equal(lease) {
		f.add("q0 was aborted at %v, want once, at the lease end, %v", at, lease)
	}
	close(over)
	leave1()
	leave2()
	g.wg.Wait()
	return f.err()
}

func TestASecondPartitionIsAbortedToo(t *testing.T) {
	if err := inBubble(t, abortsAgain); err != nil {
		t.Error(err)
	}
}
