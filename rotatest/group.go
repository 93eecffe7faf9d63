package rotatest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// Group shows that members can share work over a store: with a source in memory
// and real time. open makes a new connection to one and the same store each time
// it is called; the suite closes it.
func Group(t *testing.T, open func(t *testing.T) rota.Store) {
	groupLives(newGroupTest(t, func() rota.Store { return open(t) }))
}

const groupPartitions = 12

// groupTest is a crew whose members watch each other's fingers.
type groupTest struct {
	*sourceTest
	dial func() rota.Store
	odd  func(rota.Source) rota.Source // for tests of the suite itself

	guard sync.Mutex
	held  map[string]string // partition → member whose source runs it
	high  map[string]rota.Token
}

func newGroupTest(t testing.TB, dial func() rota.Store) *groupTest {
	return &groupTest{sourceTest: newSourceTest(t, memBroker{NewMemSource(8, Names(groupPartitions)...)}), dial: dial,
		held: map[string]string{}, high: map[string]rota.Token{}}
}

func (g *groupTest) join(name string, tune ...func(*rota.Config)) *hand {
	g.Helper()
	s := g.dial()
	g.Cleanup(func() { s.Close() })
	busy := func(context.Context, *hand, rota.Message) error {
		time.Sleep(time.Millisecond) // work
		return nil
	}
	src := g.broker.Source()
	if g.odd != nil {
		src = g.odd(src)
	}
	return g.crew.join(name, s, &guarded{wrapped{src}, g, name}, busy, tune...)
}

// guarded is a source that complains when two members run a partition at once.
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
	if other := g.held[p]; other != "" {
		g.Errorf("%s and %s run %s at once", other, name, p)
	}
	if own.Token() < g.high[p] {
		g.Errorf("%s runs %s under token %d, and there was %d", name, p, own.Token(), g.high[p])
	}
	g.held[p] = name
	g.high[p] = max(g.high[p], own.Token())
}

func (g *groupTest) exit(own rota.Ownership) {
	g.guard.Lock()
	defer g.guard.Unlock()
	delete(g.held, own.Partition())
}

// shares waits until the members hold this many partitions each.
func (g *groupTest) shares(each int, hands ...*hand) {
	g.Helper()
	what := "each of"
	for _, h := range hands {
		what += " " + h.name
	}
	g.wait(what+" has its share", func() bool {
		for _, h := range hands {
			if h.held != each {
				return false
			}
		}
		return true
	})
}

// groupLives: three come, one leaves, one is cut off and comes back, the one that
// was first is cut off, and what remains ends in good order. Messages flow all
// the while.
func groupLives(g *groupTest) {
	const n = groupPartitions
	defer g.judge(false)
	ebb := g.flow(1, 20*time.Millisecond)
	c1, c2, c3 := g.join("c1"), g.join("c2"), g.join("c3")
	g.shares(n/3, c1, c2, c3)

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

// rest: nobody is left in the store who seems to live.
func (g *groupTest) rest() {
	g.Helper()
	s := g.dial()
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), g.bound)
	defer cancel()
	st, err := rota.Inspect(ctx, s, g.group)
	if err != nil {
		g.Fatalf("inspecting what is left: %v", err)
	}
	for _, m := range st.Members {
		if m.State != rota.MemberLeft && m.State != rota.MemberDead {
			g.Errorf("%s has ended, and its record says %s", m.Name, m.State)
		}
	}
	if len(st.Partitions) != groupPartitions {
		g.Errorf("the group has %d partitions, want %d", len(st.Partitions), groupPartitions)
	}
}

// memBroker is a MemSource from both ends.
type memBroker struct{ *MemSource }

func (b memBroker) Source() rota.Source { return b.MemSource }

func (b memBroker) Partitions() []string { return b.names }

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
