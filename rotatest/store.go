package rotatest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/servers"
)

// Store shows that a store driver keeps the contract of rota.Store. open makes a
// new connection to one and the same store each time it is called; the suite
// closes it. Keys have a prefix of their own in each case, so the store may be a
// server that others use too.
func Store(t *testing.T, open func(t *testing.T) rota.Store, opts ...StoreOption) {
	cases := storeCases
	told := newStoreTest(t, nil, opts...)
	if told.server != nil {
		cases = slices.Concat(cases, serverCases)
	}
	if told.wired != nil {
		cases = slices.Concat(cases, wireCases)
	}
	if told.lie != nil {
		cases = slices.Concat(cases, liarCases)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.run(newStoreTest(t, func() rota.Store { return open(t) }, opts...))
		})
	}
}

// A StoreOption tells the suite more about a store.
type StoreOption func(*storeTest)

// WithServer gives the suite the server behind the store, so that it can also
// show what happens when that is stopped, killed and frozen.
func WithServer(s Server) StoreOption { return func(t *storeTest) { t.server = s } }

// A Server is the one behind a store or a source. When a case begins it runs, and
// when it ends it runs again.
type Server interface {
	Start(ctx context.Context) error // returns once it serves
	Stop(ctx context.Context) error  // in good order
	Kill() error                     // like kill -9
	Freeze() error                   // halts it where it is; connections stay open
	Thaw() error                     //
	Snapshot() (Snapshot, error)     // of one that is stopped or frozen
	Restore(servers.Snapshot) error  // while it is stopped
}

var _ Server = (*servers.Server)(nil)

// A Snapshot is what a Server had on disk. The suite restores the one it took
// last, so a Server of your own may keep that itself and return the zero Snapshot.
type Snapshot = servers.Snapshot

type storeCase struct {
	name string
	run  func(*storeTest)
}

// storeTest is what a case works with.
type storeTest struct {
	testing.TB
	dial   func() rota.Store
	server Server
	wired  func() (c *client, plug func(in bool)) // a connection that can be cut
	lie    Liar                                   // tells watches what is not so
	prefix string                                 // of every key
	bound  time.Duration                          // how long to wait for what must come
	prompt time.Duration                          // how long something may take that has no reason to wait
}

func newStoreTest(t testing.TB, dial func() rota.Store, opts ...StoreOption) *storeTest {
	st := &storeTest{TB: t, dial: dial, prefix: "t" + rand.Text()[:8] + "/", bound: 10 * time.Second, prompt: 2 * time.Second}
	for _, o := range opts {
		o(st)
	}
	return st
}

// client is a connection whose calls must succeed, or fail as told.
type client struct {
	t *storeTest
	rota.Store
}

func (t *storeTest) open() *client {
	c := &client{t, t.dial()}
	t.Cleanup(func() { c.Store.Close() })
	return c
}

// key makes a full key of a name.
func (t *storeTest) key(name string) string { return t.prefix + name }

func (t *storeTest) timeout() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), t.bound)
}

func (c *client) get(key string) rota.Entry {
	c.t.Helper()
	ctx, cancel := c.t.timeout()
	defer cancel()
	e, err := c.Get(ctx, key)
	if err != nil {
		c.t.Fatalf("Get(%s): %v", key, err)
	}
	if e.Key != key || e.Deleted {
		c.t.Fatalf("Get(%s) returned the entry of %q, deleted: %v", key, e.Key, e.Deleted)
	}
	return e
}

func (c *client) put(key, value string, prev rota.Rev) rota.Rev {
	c.t.Helper()
	rev, err := c.tryPut(key, value, prev)
	if err != nil {
		c.t.Fatalf("Put(%s over %d): %v", key, prev, err)
	}
	if rev == 0 {
		c.t.Fatalf("Put(%s over %d) returned revision 0", key, prev)
	}
	return rev
}

func (c *client) tryPut(key, value string, prev rota.Rev) (rota.Rev, error) {
	ctx, cancel := c.t.timeout()
	defer cancel()
	return c.Put(ctx, key, []byte(value), prev)
}

func (c *client) delete(key string, prev rota.Rev) {
	c.t.Helper()
	if err := c.tryDelete(key, prev); err != nil {
		c.t.Fatalf("Delete(%s at %d): %v", key, prev, err)
	}
}

func (c *client) tryDelete(key string, prev rota.Rev) error {
	ctx, cancel := c.t.timeout()
	defer cancel()
	return c.Delete(ctx, key, prev)
}

// refused: a put or delete must have ended with ErrConflict.
func (t *storeTest) refused(what string, err error) {
	t.Helper()
	if !errors.Is(err, rota.ErrConflict) {
		t.Errorf("%s: %v, want ErrConflict", what, err)
	}
}

// nothing: there must be no such cell.
func (c *client) nothing(key string) {
	c.t.Helper()
	ctx, cancel := c.t.timeout()
	defer cancel()
	if e, err := c.Get(ctx, key); !errors.Is(err, rota.ErrNotFound) {
		c.t.Errorf("Get(%s) found %.20q, error %v; want ErrNotFound", key, e.Value, err)
	}
}

// holds: the cell must be exactly so.
func (c *client) holds(key, value string, rev rota.Rev) {
	c.t.Helper()
	if e := c.get(key); string(e.Value) != value || e.Rev != rev {
		c.t.Errorf("%s holds %s at %d, want %s at %d", key, brief(string(e.Value)), e.Rev, brief(value), rev)
	}
}

func brief(s string) string {
	if len(s) <= 40 {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%.40q… (%d bytes)", s, len(s))
}

// eventually waits for something that announces itself to nobody.
func eventually(t testing.TB, bound time.Duration, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(bound); !cond(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", bound, what)
		}
	}
}

// within runs f and complains if it takes too long; f is then left behind.
func within(t testing.TB, bound time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(bound):
		t.Fatalf("%s did not return within %v", what, bound)
	}
}
