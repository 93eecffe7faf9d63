package rotatest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// Group is the suite for members that share partitions over a store, with a source in
// memory and in real time. Each call of open makes a new connection to the same store;
// the suite closes it.
func Group(t *testing.T, open func(t *testing.T) rota.Store, opts ...GroupOption) {
	g := newGroupTest(t, func() rota.Store { return open(t) }, opts...)
	groupLives(g)
	if g.server != nil {
		t.Run("acknowledged writes are lost", func(t *testing.T) {
			groupForgets(newGroupTest(t, func() rota.Store { return open(t) }, opts...))
		})
	}
}

// A GroupOption gives the suite more access to the store of a group.
type GroupOption func(*groupTest)

const groupPartitions = 12

// groupTest checks that at most one of its members consumes a partition at a time.
type groupTest struct {
	*sourceTest
	dial   func() rota.Store
	server Server                        // that can lose acknowledged writes
	odd    func(rota.Source) rota.Source // for tests of the suite itself
	heir   func(*rota.Config)            // too

	guard sync.Mutex
	owner map[string]string // partition → member whose source consumes it
	high  map[string]rota.Token
}

func newGroupTest(t testing.TB, dial func() rota.Store, opts ...GroupOption) *groupTest {
	g := &groupTest{sourceTest: newSourceTest(t, memBroker{NewMemSource(8, Names(groupPartitions)...)}), dial: dial,
		owner: map[string]string{}, high: map[string]rota.Token{}}
	for _, o := range opts {
		o(g)
	}
	return g
}

func (g *groupTest) join(name string, tune ...func(*rota.Config)) *testMember {
	g.Helper()
	s := g.dial()
	g.Cleanup(func() { s.Close() })
	busy := func(context.Context, *testMember, rota.Message) error {
		time.Sleep(time.Millisecond) // work
		return nil
	}
	src := g.broker.Source()
	if g.odd != nil {
		src = g.odd(src)
	}
	return g.testMembers.join(name, s, &guarded{wrapped{src}, g, name}, busy, tune...)
}

// guarded is a source that complains when two members consume a partition at once.
type guarded struct {
	wrapped
	g    *groupTest
	name string
}

func (s *guarded) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	s.g.enter(s.name, own)
	defer s.g.exit(own)
	return s.Source.Consume(ctx, own, deliver)
}

func (g *groupTest) enter(name string, own rota.Ownership) {
	g.guard.Lock()
	defer g.guard.Unlock()
	p := own.Partition()
	if other := g.owner[p]; other != "" {
		g.Errorf("%s and %s run %s at once", other, name, p)
	}
	if own.Token() < g.high[p] {
		g.Errorf("%s runs %s under token %d, and there was %d", name, p, own.Token(), g.high[p])
	}
	g.owner[p] = name
	g.high[p] = max(g.high[p], own.Token())
}

func (g *groupTest) exit(own rota.Ownership) {
	g.guard.Lock()
	defer g.guard.Unlock()
	delete(g.owner, own.Partition())
}

// shares waits until each of the members has started this many partitions.
func (g *groupTest) shares(each int, members ...*testMember) {
	g.Helper()
	what := "each of"
	for _, m := range members {
		what += " " + m.name
	}
	g.wait(what+" has its share", func() bool {
		for _, m := range members {
			if m.owned != each {
				return false
			}
		}
		return true
	})
}

// groupLives lets three members join, one leave, one be cut off and come back, and the
// first lose its store. The last one leaves in good order. Messages are published all
// the time.
func groupLives(g *groupTest) {
	const n = groupPartitions
	defer g.checkDeliveries(false)
	ebb := g.flow(1, 20*time.Millisecond)
	c1, c2, c3 := g.join("c1"), g.join("c2"), g.join("c3")
	g.shares(n/3, c1, c2, c3)
	g.steady(c1, c2, c3)

	c2.leave()
	g.shares(n/2, c1, c3)

	c3.store.Chance(LateWrite, 1)
	c3.store.Cut()
	g.shares(n, c1)
	c3.orphaned()
	c3.store.Heal() // its last heartbeats arrive

	c3 = g.join("c3")
	g.shares(n/2, c1, c3)

	c1.store.Fail()
	g.shares(n, c3)
	c1.orphaned()

	ebb()
	g.wait("all messages are handled", g.all)
	c3.leave()
	g.rest()
}

// rest checks that no record in the store says that its member lives. A server that is killed meanwhile
// takes a connection with it: then it is asked again.
func (g *groupTest) rest() {
	g.Helper()
	s := g.dial()
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), g.bound)
	defer cancel()
	var st rota.Status
	told := ""
	eventually(g, g.bound, "what is left is inspected", func() bool {
		var err error
		if st, err = rota.Inspect(ctx, s, g.group); err != nil && err.Error() != told {
			told = err.Error()
			g.Logf("inspecting what is left: %v", err)
		}
		return err == nil
	})
	for _, m := range st.Members {
		if m.State != rota.MemberLeft && m.State != rota.MemberDead {
			g.Errorf("%s has ended, and its record says %s", m.Name, m.State)
		}
	}
	if len(st.Partitions) != groupPartitions {
		g.Errorf("the group has %d partitions, want %d", len(st.Partitions), groupPartitions)
	}
}

// memBroker is a MemSource as a Broker.
type memBroker struct{ *MemSource }

func (b memBroker) Source() rota.Source { return b.MemSource }

func (b memBroker) Partitions() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.names)
}

func (b memBroker) Remove(partition string) error {
	b.MemSource.Remove(partition)
	return nil
}

func (b memBroker) Restore(partition string) error {
	b.Add(partition)
	return nil
}

func (b memBroker) Publish(partition string, values ...[]byte) error {
	b.MemSource.Publish(partition, values...)
	return nil
}

func (b memBroker) Dead() (out [][]byte, err error) {
	for _, m := range b.MemSource.Dead() {
		out = append(out, m.Value)
	}
	return out, nil
}

func (b memBroker) RefuseSettling() (allow func()) { return b.refuse(&b.refuseSettling) }

func (b memBroker) RefuseDead() (allow func()) { return b.refuse(&b.refuseDead) }

func (b memBroker) Withdraw() (restore func()) { return b.refuse(&b.refuseConsuming) }

// Foreign is refused while there is an owner, like a second exclusive consumer.
func (b memBroker) Foreign(partition string) (leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[partition]
	if q.running > 0 {
		return nil, errRefused
	}
	q.foreign = true
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		q.foreign = false
	}, nil
}

func (b memBroker) Delete(partition string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.queues[partition].arrived)
	close(b.queues[partition].gone)
	delete(b.queues, partition)
	return nil
}

func (b memBroker) Create(partition string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queues[partition] = &queue{arrived: make(chan struct{}), gone: make(chan struct{})}
	return nil
}

func (b memBroker) Largest() int { return 10 << 20 }

func (b memBroker) refuse(flag *bool) (allow func()) {
	set := func(to bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		*flag = to
	}
	set(true)
	return func() { set(false) }
}
