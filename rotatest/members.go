package rotatest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// testMembers are the members of one group in a test. Their leases are short, since
// the tests run in real time, and long enough for a machine that stands still for a
// while.
type testMembers struct {
	testing.TB
	group string
	bound time.Duration // timeout of every wait

	mu      sync.Mutex
	changed chan struct{}              // closed when something was logged
	log     []delivery                 // oldest first
	good    map[string]map[string]bool // partition → values that were handled
	members []*testMember
}

const (
	testLease     = 4 * time.Second
	testHeartbeat = 1200 * time.Millisecond
)

func newTestMembers(t testing.TB) *testMembers {
	c := &testMembers{TB: t, group: "g" + rand.Text()[:8], bound: 30 * time.Second, changed: make(chan struct{}), good: map[string]map[string]bool{}}
	t.Cleanup(c.dismiss)
	return c
}

// A delivery is one call of a handler.
type delivery struct {
	by    string // member
	call  int    // of Consume that delivered it, counted per member and partition
	msg   rota.Message
	began time.Time
	good  bool // it succeeded while the member still owned the partition
}

// A testMember is one of testMembers.
type testMember struct {
	c      *testMembers
	name   string
	store  *FaultyStore
	member *rota.Member
	cancel context.CancelFunc
	ended  chan struct{} // Run has returned, and all events were seen
	err    error         // of Run
	events []rota.Event
	owned  int              // partitions that it has started and not stopped
	in     map[string]bool  // partitions where its handler is running
	given  int              // messages
	calls  map[string]int   // partition → calls of Consume
	errs   map[string]error // partition → the last error of Consume that nobody had asked for
}

// counted is a source that counts the calls of Consume and keeps their errors.
type counted struct {
	wrapped
	m *testMember
}

func (s *counted) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	s.m.c.note(func() { s.m.calls[own.Partition()]++ })
	err := s.Source.Consume(ctx, own, deliver)
	if err != nil && ctx.Err() == nil {
		s.m.c.note(func() { s.m.errs[own.Partition()] = err })
	}
	return err
}

// handler is a rota handler that also gets its member.
type handler func(ctx context.Context, m *testMember, msg rota.Message) error

func quick(context.Context, *testMember, rota.Message) error { return nil }

// join starts a member.
func (c *testMembers) join(name string, store rota.Store, source rota.Source, handle handler, tune ...func(*rota.Config)) *testMember {
	c.Helper()
	m, err := c.tryJoin(name, store, source, handle, tune...)
	if err != nil {
		c.Fatal(err)
	}
	return m
}

// tryJoin starts a member, unless its source refuses the group.
func (c *testMembers) tryJoin(name string, store rota.Store, source rota.Source, handle handler, tune ...func(*rota.Config)) (*testMember, error) {
	m := &testMember{c: c, name: name, ended: make(chan struct{}), in: map[string]bool{}, calls: map[string]int{}, errs: map[string]error{}}
	if f, ok := store.(*FaultyStore); ok {
		m.store = f
	} else {
		m.store = Faulty(store, 1)
	}
	cfg := rota.Config{
		Group: c.group, Name: name, Store: m.store, Source: &counted{wrapped{source}, m}, NewGroup: true,
		Lease: testLease, Heartbeat: testHeartbeat, Orphan: rota.AtOnce,
		Handle: func(ctx context.Context, msg rota.Message) error { return c.handle(ctx, m, msg, handle) },
		Abort:  func(err error) { c.Errorf("abort: %v", err) },
		Log:    slog.New(slog.DiscardHandler), // a suite makes trouble on purpose
	}
	for _, f := range tune {
		f(&cfg)
	}
	var err error
	if m.member, err = rota.New(cfg); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.members = append(c.members, m)
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	events := m.member.Events(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { m.err = m.member.Run(ctx) })
	wg.Go(func() {
		for e := range events {
			c.note(func() { m.hear(e) })
		}
	})
	go func() {
		defer close(m.ended)
		wg.Wait()
	}()
	return m, nil
}

// note changes the log and wakes all waits.
func (c *testMembers) note(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *testMembers) handle(ctx context.Context, m *testMember, msg rota.Message, handle handler) error {
	var i int
	c.note(func() {
		i = len(c.log)
		c.log = append(c.log, delivery{by: m.name, call: m.calls[msg.Partition], msg: msg, began: time.Now()})
		m.given++
		m.in[msg.Partition] = true
	})
	err := handle(ctx, m, msg)
	good := err == nil && ctx.Err() == nil
	c.note(func() {
		c.log[i].good = good
		delete(m.in, msg.Partition)
		if good {
			if c.good[msg.Partition] == nil {
				c.good[msg.Partition] = map[string]bool{}
			}
			c.good[msg.Partition][string(msg.Value)] = true
		}
	})
	return err
}

// wait waits until the log satisfies cond.
func (c *testMembers) wait(what string, cond func() bool) {
	c.Helper()
	timeout := time.After(c.bound)
	for {
		c.mu.Lock()
		ok, changed := cond(), c.changed
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			c.Fatalf("after %v still not: %s%s", c.bound, what, c.course())
		}
	}
}

// course is what the members have told, for a test that fails.
func (c *testMembers) course() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, m := range c.members {
		fmt.Fprintf(&b, "\n%s owns %d, has been given %d messages and is busy with %v; errors %v", m.name, m.owned, m.given, slices.Sorted(maps.Keys(m.in)), m.errs)
		for _, e := range m.events[max(0, len(m.events)-mostEvents):] {
			fmt.Fprintf(&b, "\n  %s %v %s %v", e.Time.Format("05.000"), e.Kind, e.Partition, e.Because)
		}
	}
	return b.String()
}

// mostEvents is how many events of a member a failed test prints.
const mostEvents = 30

// leave makes the member leave and waits for its end.
func (m *testMember) leave() {
	m.c.Helper()
	m.cancel()
	select {
	case <-m.ended:
		if m.err != nil {
			m.c.Errorf("%s left: %v", m.name, m.err)
		}
	case <-time.After(m.c.bound):
		m.c.Fatalf("%s did not leave within %v", m.name, m.c.bound)
	}
}

// orphaned waits for the end of a member that was cut off.
func (m *testMember) orphaned() {
	m.c.Helper()
	select {
	case <-m.ended:
		if !errors.Is(m.err, rota.ErrOrphaned) {
			m.c.Errorf("%s was cut off and returned: %v, want ErrOrphaned", m.name, m.err)
		}
	case <-time.After(m.c.bound):
		m.c.Fatalf("%s was cut off and did not end itself within %v", m.name, m.c.bound)
	}
}

// dismiss ends the members that still run. It heals their stores first, so that all
// can leave.
func (c *testMembers) dismiss() {
	c.mu.Lock()
	members := slices.Clone(c.members)
	c.mu.Unlock()
	for _, m := range members {
		m.cancel()
		m.store.Heal()
	}
	for _, m := range members {
		select {
		case <-m.ended:
		case <-time.After(c.bound):
			c.Errorf("%s does not end", m.name)
		}
	}
}

func (m *testMember) hear(e rota.Event) {
	m.events = append(m.events, e)
	switch e.Kind {
	case rota.EventStart:
		m.owned++
	case rota.EventStopped:
		m.owned--
	}
}
