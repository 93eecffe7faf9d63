package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// A crew is a group whose members all run in this process, on a store and queues
// in memory. Messages keep arriving, so that there is something to do.
type crew struct {
	store *rotatest.MemStore
	queue *rotatest.MemSource
	names []string
	began time.Time
	at    time.Duration // how far the show has come
	stop  context.CancelFunc
	wg    sync.WaitGroup
	say   func(time.Duration, string)

	mu    sync.Mutex
	hands []*deckhand
	heard []event
}

// A deckhand is one member of the crew.
type deckhand struct {
	c       *crew
	name    string
	m       *rota.Member
	line    *wire
	leave   context.CancelFunc
	up      atomic.Bool
	gone    chan struct{} // killed
	handled atomic.Int64

	mu   sync.Mutex
	owns map[string]rota.Token
}

// arrivals is how often each queue gets a message.
const arrivals = 200 * time.Millisecond

func newCrew(partitions int) *crew {
	names := rotatest.Names(partitions)
	c := &crew{store: rotatest.NewMemStore(), queue: rotatest.NewMemSource(16, names...), names: names, began: time.Now()}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.wg.Go(func() { c.publish(ctx) })
	return c
}

func (c *crew) publish(ctx context.Context) {
	tick := time.NewTicker(arrivals)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, n := range c.names {
				c.queue.Publish(n, []byte("work"))
			}
		case <-ctx.Done():
			return
		}
	}
}

// Close waits until nothing of the crew is left.
func (c *crew) Close() {
	c.stop()
	for _, h := range c.all() {
		h.leave()
	}
	c.wg.Wait()
	c.store.Close()
}

func (c *crew) Say(f func(time.Duration, string)) { c.say = f }

func (c *crew) Now() time.Duration { return c.at }

// Advance waits until d more has passed and says what happened meanwhile.
func (c *crew) Advance(d time.Duration) {
	c.at += d
	time.Sleep(time.Until(c.began.Add(c.at)))
	c.mu.Lock()
	heard := c.heard
	c.heard = nil
	c.mu.Unlock()
	for _, e := range inOrder(heard) {
		c.say(e.at, e.line)
	}
}

// inOrder tells what happened within one millisecond as a person would: what was
// decided, what stopped, what started, who ended; a member's deeds together.
func inOrder(heard []event) []event {
	rank := func(e event) string {
		w := strings.Fields(e.line + " - -")
		switch w[1] {
		case "stops":
			return "1" + w[0] + fmt.Sprintf("%4d", len(w[2])) + w[2]
		case "starts":
			return "2" + w[0] + fmt.Sprintf("%4d", len(w[2])) + w[2]
		case "ends:":
			return "3" + w[0]
		}
		return "0"
	}
	slices.SortStableFunc(heard, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(rank(a), rank(b)))
	})
	return heard
}

// Seen is where a stage would tell of a broken promise; real members have none
// who watches them here.
func (c *crew) Seen() ([]string, error) { return nil, nil }

func (c *crew) hear(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = append(c.heard, event{time.Since(c.began).Round(time.Millisecond), fmt.Sprintf(format, args...)})
}

func (c *crew) all() []*deckhand {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.hands)
}

func (c *crew) find(name string) *deckhand {
	for _, h := range c.all() {
		if h.name == name && h.up.Load() {
			return h
		}
	}
	return nil
}

func (c *crew) nameOf(session string) string {
	for _, h := range slices.Backward(c.all()) {
		for _, s := range h.m.Status().Members {
			if s.Session == session {
				return s.Name
			}
		}
	}
	return session
}

// Join starts a member.
func (c *crew) Join(name string) {
	h := &deckhand{c: c, name: name, line: &wire{Store: c.store, broken: make(chan struct{})}, gone: make(chan struct{}), owns: map[string]rota.Token{}}
	m, err := rota.New(rota.Config{Group: "up", Store: h.line, Source: h, Name: name, NewGroup: true, Orphan: time.Minute,
		Handle: func(context.Context, rota.Message) error { h.handled.Add(1); return nil },
		Abort:  func(err error) { c.hear("%s would end its process now: %v", name, err) }})
	if err != nil {
		c.hear("%s cannot start: %v", name, err)
		return
	}
	h.m = m
	h.up.Store(true)
	ctx, leave := context.WithCancel(context.Background())
	h.leave = leave
	c.mu.Lock()
	c.hands = append(c.hands, h)
	c.mu.Unlock()
	events := m.Events(context.Background())
	c.wg.Go(func() {
		for e := range events {
			if h.up.Load() {
				h.tell(e)
			}
		}
	})
	c.wg.Go(func() {
		err := m.Run(ctx)
		if h.up.Swap(false) {
			c.hear("%s ends: %s", name, ending(err))
		}
	})
	time.Sleep(time.Millisecond) // so that the first of several becomes the leader
}

func ending(err error) string {
	switch {
	case err == nil:
		return "left"
	case errors.Is(err, rota.ErrFenced):
		return "fenced"
	case errors.Is(err, rota.ErrOrphaned):
		return "orphaned"
	}
	return err.Error()
}

func (h *deckhand) tell(e rota.Event) {
	c := h.c
	switch e.Kind {
	case rota.EventLeader:
		c.hear("%s leads", h.name)
	case rota.EventPlan:
		what := e.Because
		if e.Moved > 0 {
			what += fmt.Sprintf("; %d moved", e.Moved)
		}
		if e.Placed > 0 {
			what += fmt.Sprintf("; %d placed", e.Placed)
		}
		c.hear("%s makes plan %d (%s)", h.name, e.Plan, what)
	case rota.EventDead:
		c.hear("%s declares %s dead", h.name, c.nameOf(e.About))
	case rota.EventPaused:
		c.hear("%s pauses: no lease", h.name)
	case rota.EventResumed:
		c.hear("%s resumes: its lease is back", h.name)
	case rota.EventLeaving:
		c.hear("%s is leaving", h.name)
	}
}

// Kill ends a member as far as one process can do that to a part of itself:
// nothing it sends arrives any more, and its queues are let go at once.
func (c *crew) Kill(name string) bool {
	h := c.find(name)
	if h == nil {
		return false
	}
	h.up.Store(false)
	h.line.cut()
	close(h.gone)
	h.leave()
	c.say(c.at, name+" is killed")
	return true
}

func (c *crew) Cut(name string) bool {
	h := c.find(name)
	if h != nil {
		h.line.cut()
	}
	return h != nil
}

func (c *crew) Heal(name string) bool {
	h := c.find(name)
	if h != nil {
		h.line.heal()
	}
	return h != nil
}

func (c *crew) Leave(name string) bool {
	h := c.find(name)
	if h != nil {
		h.leave()
	}
	return h != nil
}

// Owners is one line per member: who leads, who owns what.
func (c *crew) Owners() []string {
	var out []string
	leader := ""
	if st, err := rota.Inspect(context.Background(), c.store, "up"); err == nil {
		leader = st.Leader
	}
	for _, h := range c.all() {
		if !h.up.Load() {
			continue
		}
		head := h.name + ":"
		for _, m := range h.m.Status().Members {
			if m.Session == leader && m.Name == h.name {
				head = h.name + " leads:"
			}
		}
		var items []string
		h.mu.Lock()
		for n, t := range h.owns {
			items = append(items, fmt.Sprintf("%s@%d", n, uint32(t)))
		}
		h.mu.Unlock()
		slices.SortFunc(items, func(a, b string) int {
			if len(a) != len(b) {
				return len(a) - len(b)
			}
			return strings.Compare(a, b)
		})
		if len(items) == 0 {
			items = []string{"stands by"}
		}
		out = append(out, head+" "+strings.Join(items, " "))
	}
	return out
}

// Partitions and Consume make a deckhand a source: the crew's queues, with a look at
// what is owned.
func (h *deckhand) Partitions(ctx context.Context) ([]rota.Partition, error) {
	return h.c.queue.Partitions(ctx)
}

func (h *deckhand) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.c.wg.Go(func() {
		select {
		case <-h.gone:
			cancel()
		case <-ctx.Done():
		}
	})
	item := fmt.Sprintf("%s@%d", own.Partition(), uint32(own.Token()))
	h.mu.Lock()
	h.owns[own.Partition()] = own.Token()
	h.mu.Unlock()
	if h.up.Load() {
		h.c.hear("%s starts %s", h.name, item)
	}
	err := h.c.queue.Consume(ctx, own, deliver)
	h.mu.Lock()
	delete(h.owns, own.Partition())
	h.mu.Unlock()
	if h.up.Load() {
		h.c.hear("%s stops %s", h.name, item)
	}
	return err
}

// wire is a member's way to the store, which can be cut.
type wire struct {
	rota.Store
	mu     sync.Mutex
	isCut  bool
	broken chan struct{} // closed when it is cut
}

var errCut = errors.New("cut off from the store")

func (l *wire) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isCut {
		l.isCut = true
		close(l.broken)
	}
}

func (l *wire) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		l.isCut, l.broken = false, make(chan struct{})
	}
}

func (l *wire) state() (cut bool, broken chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isCut, l.broken
}

// reach waits for nothing in vain: a request of a member that is cut off does
// not come back before its caller gives up.
func (l *wire) reach(ctx context.Context) error {
	if cut, _ := l.state(); !cut {
		return nil
	}
	<-ctx.Done()
	return errCut
}

func (l *wire) Get(ctx context.Context, key string) (rota.Entry, error) {
	if err := l.reach(ctx); err != nil {
		return rota.Entry{}, err
	}
	return l.Store.Get(ctx, key)
}

func (l *wire) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	if err := l.reach(ctx); err != nil {
		return 0, err
	}
	return l.Store.Put(ctx, key, value, prev)
}

func (l *wire) Delete(ctx context.Context, key string, prev rota.Rev) error {
	if err := l.reach(ctx); err != nil {
		return err
	}
	return l.Store.Delete(ctx, key, prev)
}

func (l *wire) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		cut, broken := l.state()
		if cut {
			yield(nil, errCut)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		done := make(chan struct{})
		defer func() { <-done }()
		go func() {
			defer close(done)
			select {
			case <-broken:
				cancel()
			case <-ctx.Done():
			}
		}()
		for batch, err := range l.Store.Watch(ctx, prefix) {
			if !yield(batch, err) {
				cancel()
				return
			}
		}
		if cut, _ := l.state(); cut {
			yield(nil, errCut)
		}
		cancel()
	}
}

// Class is the store's.
func (l *wire) Class() rota.Class { return rota.ClassB }
