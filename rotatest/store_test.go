package rotatest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

func TestMemStore(t *testing.T) {
	s := newMemServer("")
	Store(t, func(*testing.T) rota.Store { return s.open() }, WithServer(s), storeOption(s.wire))
}

// TestWireCasesBite gives the suite a client that silently goes on with a watch after
// its connection was cut.
func TestWireCasesBite(t *testing.T) {
	for _, c := range wireCases {
		t.Run(c.name, func(t *testing.T) {
			flaws := wireFlaws[c.name]
			if len(flaws) == 0 {
				t.Error("nothing shows that it can fail")
			}
			for flaw, says := range flaws {
				s := newMemServer(flaw)
				s.delay = time.Millisecond
				bites(t, says, func(tb testing.TB) { c.run(newStoreTest(tb, s.open, storeOption(s.wire))) })
			}
		})
	}
}

// wireFlaws maps case → flaw → complaint of the case.
var wireFlaws = map[string]map[string]string{
	"a watch whose connection was cut shows everything or ends":          {skips: "what happened while it was cut off", broken: "calls succeed again"},
	"calls end in time while nothing reaches the server":                 {patient: "did not return", sure: "want an unknown outcome", broken: "calls succeed again", deaf: "a refused write has happened"},
	"calls end in time while no answer comes back":                       {patient: "did not return", sure: "want an unknown outcome", broken: "calls succeed again", deaf: "a refused write has happened"},
	"a watch across a silence in one direction shows everything or ends": {skips: "what happened during the silence", broken: "calls succeed again"},
	"a watch whose session has expired shows everything or ends":         {skips: "what happened during the silence", broken: "calls succeed again"},
}

// TestLiarCasesBite gives the suite a store whose watches believe forged changes.
func TestLiarCasesBite(t *testing.T) {
	for _, c := range liarCases {
		for says, believes := range map[string]bool{"a watch shows a lie about": true, "it warns of the lies": false} {
			t.Run(says, func(t *testing.T) {
				g := &gullible{MemStore: NewMemStore(), believes: believes, lies: make(chan rota.Entry, 16)}
				bites(t, says, func(tb testing.TB) { c.run(newStoreTest(tb, func() rota.Store { return g }, WithLiar(g.lie))) })
			})
		}
	}
}

// gullible is a store that shows forged changes, or does not warn of them.
type gullible struct {
	*MemStore
	believes bool
	lies     chan rota.Entry
}

func (g *gullible) Close() error       { return nil }
func (g *gullible) Warnings() []string { return nil }

func (g *gullible) lie(_ testing.TB, key string, value []byte, rev rota.Rev) {
	if g.believes {
		g.lies <- rota.Entry{Key: key, Value: value, Rev: rev}
	}
}

func (g *gullible) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		for batch, err := range g.MemStore.Watch(ctx, prefix) {
			select {
			case lie := <-g.lies:
				batch = append(batch, lie)
			default:
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

// TestServerCasesBite gives the suite servers and clients that each have one flaw.
func TestServerCasesBite(t *testing.T) {
	for _, c := range serverCases {
		t.Run(c.name, func(t *testing.T) {
			flaws := serverFlaws[c.name]
			if len(flaws) == 0 {
				t.Error("nothing shows that it can fail")
			}
			for flaw, says := range flaws {
				s := newMemServer(flaw)
				s.delay = time.Millisecond // or the clock never moves
				bites(t, says, func(tb testing.TB) { c.run(newStoreTest(tb, s.open, WithServer(s))) })
			}
		})
	}
}

const (
	forgets   = "forgets at a kill what it was told since its start"
	forgotten = "forgets at a stop what it was told since its start"
	patient   = "waits for its server, whatever its ctx says"
	sure      = "takes a server that is away for an empty one"
	broken    = "never connects again"
	skips     = "goes on with a watch as if nothing had been"
	resumes   = "goes on with a watch from the revision it had seen"
	constant  = "has one identity for ever"
	many      = "has an identity per connection"
	deaf      = "takes a write without an answer for one that was refused"
)

// serverFlaws maps case → flaw → complaint of the case.
var serverFlaws = map[string]map[string]string{
	"acknowledged writes survive a stop":                {forgotten: "no such key", broken: "calls succeed again"},
	"acknowledged writes survive a kill":                {forgets: "no such key", broken: "calls succeed again"},
	"calls end in time while the server is stopped":     {sure: "want an unknown outcome", broken: "calls succeed again"},
	"calls end in time while the server is frozen":      {patient: "did not return"},
	"histories are right across kills":                  {forgets: "got one revision", broken: "calls succeed"},
	"histories are right across freezes":                {sure: "can have come before"},
	"a watch across a stop shows everything or ends":    {skips: "what happened after the stop"},
	"a watch across a kill shows everything or ends":    {skips: "what happened after the kill"},
	"a watch across a freeze shows everything or ends":  {skips: "what happened after the freeze"},
	"a watch across a restore shows everything or ends": {resumes: "what happened after the restore"},
	"a restored server has another identity":            {constant: "still", many: "name one server"},
}

// memServer is the Server of a MemStore: connections to it are faulty during an
// outage.
type memServer struct {
	mem   *MemStore
	flaw  string // of it or of its clients; see serverFlaws
	delay time.Duration
	class rota.Class

	mu     sync.Mutex
	starts int
	state  string
	begun  MemSnapshot // at its start
	snap   MemSnapshot
	conns  []*memConn
}

func newMemServer(flaw string) *memServer {
	s := &memServer{mem: NewMemStore(), flaw: flaw, state: "running", starts: 1, class: rota.ClassB}
	s.begun = s.mem.Snapshot()
	return s
}

// memConn is a connection that knows its server.
type memConn struct {
	*FaultyStore
	server *memServer
	number int
}

func (s *memServer) open() rota.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &memConn{Faulty(s.mem.Open(), uint64(len(s.conns))), s, len(s.conns)}
	c.Delay(s.delay)
	c.be(s.state)
	s.conns = append(s.conns, c)
	return c
}

// wire is WithWire without a network: a cut is an outage for one connection.
func (s *memServer) wire(t *storeTest) {
	t.wired = func() (*client, cord) {
		c := s.open().(*memConn)
		t.Cleanup(func() { c.Close() })
		return &client{t, c}, memCord{c}
	}
}

// memCord is the network of a connection in memory.
type memCord struct{ c *memConn }

func (m memCord) plug(in bool) {
	m.c.server.mu.Lock()
	defer m.c.server.mu.Unlock()
	if in && m.c.server.flaw != broken {
		m.c.Heal()
	} else {
		m.c.Fail()
	}
}

// silence makes no difference between the directions, but that what cannot reach the
// server arrives late.
func (m memCord) silence(toServer, toClient bool) {
	m.c.server.mu.Lock()
	defer m.c.server.mu.Unlock()
	switch flaw := m.c.server.flaw; {
	case !toServer && !toClient && flaw == broken:
		m.c.Fail()
	case !toServer && !toClient:
		m.c.Heal()
	default:
		m.c.Chance(LateWrite, 1)
		m.c.Cut()
		if flaw == skips {
			m.c.Gap()
		}
	}
}

func (c *memConn) Class() rota.Class { return c.server.class }

// be gives the connection the faults that its server has now.
func (c *memConn) be(state string) {
	switch {
	case state == "running" && (c.server.flaw != broken || c.server.starts == 1):
		c.Heal()
	case state == "frozen":
		c.Chance(LateWrite, 0.5)
		c.Cut()
		if c.server.flaw == skips {
			c.Gap()
		}
	case state == "stopped":
		c.Fail()
	}
}

func (c *memConn) Get(ctx context.Context, key string) (rota.Entry, error) {
	if c.server.flaw == patient {
		ctx = c.wait(ctx)
	}
	e, err := c.FaultyStore.Get(ctx, key)
	if c.server.flaw == sure && errors.Is(err, errCut) {
		err = rota.ErrNotFound
	}
	return e, err
}

func (c *memConn) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	rev, err := c.FaultyStore.Put(ctx, key, value, prev)
	if c.server.flaw == deaf && errors.Is(err, errCut) {
		err = rota.ErrConflict
	}
	return rev, err
}

// wait is a ctx that ends ten seconds late.
func (c *memConn) wait(ctx context.Context) context.Context {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(10*time.Second, cancel) })
	return late
}

func (c *memConn) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	if c.server.flaw != skips && c.server.flaw != resumes {
		return c.FaultyStore.Watch(ctx, prefix)
	}
	return func(yield func([]rota.Entry, error) bool) {
		var newest rota.Rev
		for tries := 0; ctx.Err() == nil; tries++ {
			first := true
			for batch, err := range c.FaultyStore.Watch(ctx, prefix) {
				if err != nil {
					<-time.After(20 * time.Millisecond)
					break
				}
				if tries > 0 && c.server.flaw == resumes {
					batch = slices.DeleteFunc(batch, func(e rota.Entry) bool { return e.Rev <= newest })
				}
				for _, e := range batch {
					newest = max(newest, e.Rev)
				}
				if (tries == 0 || !first || c.server.flaw == resumes) && !yield(batch, nil) {
					return
				}
				first = false
			}
		}
	}
}

func (c *memConn) Identity(ctx context.Context) (string, error) {
	if _, err := c.Get(ctx, "x"); !errors.Is(err, rota.ErrNotFound) {
		return "", err
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	switch c.server.flaw {
	case constant:
		return "me", nil
	case many:
		return fmt.Sprint("me and ", c.number), nil
	}
	return fmt.Sprint("start ", c.server.starts), nil
}

func (s *memServer) become(state string, from ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(from, s.state) {
		return fmt.Errorf("cannot be %s: it is %s", state, s.state)
	}
	s.state = state
	for _, c := range s.conns {
		c.be(state)
	}
	return nil
}

func (s *memServer) Start(context.Context) error {
	s.mu.Lock()
	s.starts++
	s.begun = s.mem.Snapshot()
	s.mu.Unlock()
	return s.become("running", "stopped")
}

func (s *memServer) Stop(context.Context) error {
	err := s.become("stopped", "running")
	if s.flaw == forgotten {
		s.mem.Restore(s.begun)
	}
	return err
}

func (s *memServer) Kill() error {
	err := s.become("stopped", "running", "frozen")
	if s.flaw == forgets {
		s.mem.Restore(s.begun)
	}
	return err
}

func (s *memServer) Freeze() error { return s.become("frozen", "running") }
func (s *memServer) Thaw() error   { return s.become("running", "frozen") }

// Snapshot keeps the copy itself: there is nothing on disk.
func (s *memServer) Snapshot() (Snapshot, error) {
	s.snap = s.mem.Snapshot()
	return Snapshot{}, nil
}

func (s *memServer) Restore(Snapshot) error {
	s.mem.Restore(s.snap)
	return nil
}
