package rotatest

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// A crew is the members of one group in a test. Their leases are short, for time
// is real.
type crew struct {
	testing.TB
	group string
	bound time.Duration // how long to wait for what must come

	mu      sync.Mutex
	changed chan struct{} // closed when something was logged
	log     []delivery
	good    map[string]map[string]bool // partition → values that were handled well
	hands   []*hand
}

const (
	crewLease     = 2 * time.Second
	crewHeartbeat = 600 * time.Millisecond
)

func newCrew(t testing.TB) *crew {
	c := &crew{TB: t, group: "g" + rand.Text()[:8], bound: 30 * time.Second, changed: make(chan struct{}), good: map[string]map[string]bool{}}
	t.Cleanup(c.dismiss)
	return c
}

// A delivery is one call of a handler.
type delivery struct {
	by    string // member
	life  int    // which call of Consume it came by, counted per member and partition
	msg   rota.Message
	began time.Time
	good  bool // it succeeded while the partition was still its own
}

// A hand is one member of a crew.
type hand struct {
	c      *crew
	name   string
	store  *FaultyStore
	member *rota.Member
	cancel context.CancelFunc
	ended  chan struct{} // Run has returned, and all events were seen
	err    error         // of Run
	events []rota.Event
	held   int             // partitions that it has started and not stopped
	in     map[string]bool // partitions where it is in the middle of a message
	given  int             // messages
	lives  map[string]int  // partition → calls of Consume
}

// counted is a source that counts the calls of Consume.
type counted struct {
	wrapped
	h *hand
}

func (s *counted) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	s.h.c.note(func() { s.h.lives[own.Partition()]++ })
	return s.Source.Consume(ctx, own, deliver)
}

// handler is a rota handler that knows whose it is.
type handler func(ctx context.Context, h *hand, msg rota.Message) error

func quick(context.Context, *hand, rota.Message) error { return nil }

// join starts a member.
func (c *crew) join(name string, store rota.Store, source rota.Source, handle handler, tune ...func(*rota.Config)) *hand {
	c.Helper()
	h := &hand{c: c, name: name, ended: make(chan struct{}), in: map[string]bool{}, lives: map[string]int{}}
	if f, ok := store.(*FaultyStore); ok {
		h.store = f
	} else {
		h.store = Faulty(store, 1)
	}
	cfg := rota.Config{
		Group: c.group, Name: name, Store: h.store, Source: &counted{wrapped{source}, h}, NewGroup: true,
		Lease: crewLease, Heartbeat: crewHeartbeat, Orphan: rota.AtOnce,
		Handle: func(ctx context.Context, msg rota.Message) error { return c.handle(ctx, h, msg, handle) },
		Abort:  func(err error) { c.Errorf("abort: %v", err) },
	}
	for _, f := range tune {
		f(&cfg)
	}
	var err error
	if h.member, err = rota.New(cfg); err != nil {
		c.Fatal(err)
	}
	c.mu.Lock()
	c.hands = append(c.hands, h)
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	events := h.member.Events(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { h.err = h.member.Run(ctx) })
	wg.Go(func() {
		for e := range events {
			c.note(func() { h.hear(e) })
		}
	})
	go func() {
		defer close(h.ended)
		wg.Wait()
	}()
	return h
}

// note changes what is logged and tells those who wait.
func (c *crew) note(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *crew) handle(ctx context.Context, h *hand, msg rota.Message, handle handler) error {
	var i int
	c.note(func() {
		i = len(c.log)
		c.log = append(c.log, delivery{by: h.name, life: h.lives[msg.Partition], msg: msg, began: time.Now()})
		h.given++
		h.in[msg.Partition] = true
	})
	err := handle(ctx, h, msg)
	good := err == nil && ctx.Err() == nil
	c.note(func() {
		c.log[i].good = good
		delete(h.in, msg.Partition)
		if good {
			if c.good[msg.Partition] == nil {
				c.good[msg.Partition] = map[string]bool{}
			}
			c.good[msg.Partition][string(msg.Value)] = true
		}
	})
	return err
}

// wait waits until what is logged satisfies cond.
func (c *crew) wait(what string, cond func() bool) {
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
			c.Fatalf("after %v still not: %s", c.bound, what)
		}
	}
}

// leave makes the member leave and waits until it has.
func (h *hand) leave() {
	h.c.Helper()
	h.cancel()
	select {
	case <-h.ended:
		if h.err != nil {
			h.c.Errorf("%s left: %v", h.name, h.err)
		}
	case <-time.After(h.c.bound):
		h.c.Fatalf("%s did not leave within %v", h.name, h.c.bound)
	}
}

// orphaned waits for the end of a member that was cut off.
func (h *hand) orphaned() {
	h.c.Helper()
	select {
	case <-h.ended:
		if !errors.Is(h.err, rota.ErrOrphaned) {
			h.c.Errorf("%s was cut off and returned: %v, want ErrOrphaned", h.name, h.err)
		}
	case <-time.After(h.c.bound):
		h.c.Fatalf("%s was cut off and did not end itself within %v", h.name, h.c.bound)
	}
}

// dismiss ends what still runs, by whatever means: the store is back for all.
func (c *crew) dismiss() {
	c.mu.Lock()
	hands := slices.Clone(c.hands)
	c.mu.Unlock()
	for _, h := range hands {
		h.cancel()
		h.store.Heal()
	}
	for _, h := range hands {
		select {
		case <-h.ended:
		case <-time.After(c.bound):
			c.Errorf("%s does not end", h.name)
		}
	}
}

func (h *hand) hear(e rota.Event) {
	h.events = append(h.events, e)
	switch e.Kind {
	case rota.EventStart:
		h.held++
	case rota.EventStopped:
		h.held--
	}
}
