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

// Store is the suite for the contract of rota.Store. Each call of open makes a new
// connection to the same store; the suite closes it. Each case has a key prefix of its
// own, so the store may be a server that others use too.
func Store(t *testing.T, open func(t *testing.T) rota.Store, opts ...StoreOption) {
	cases := storeCases
	with := newStoreTest(t, nil, opts...)
	if with.server != nil {
		cases = slices.Concat(cases, serverCases)
	}
	if with.wired != nil {
		cases = slices.Concat(cases, wireCases)
	}
	if with.nodes != nil {
		cases = slices.Concat(cases, nodeCases)
	}
	if with.compact != nil {
		cases = slices.Concat(cases, compactionCases)
	}
	if with.lie != nil {
		cases = slices.Concat(cases, liarCases)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.run(newStoreTest(t, func() rota.Store { return open(t) }, opts...))
		})
	}
}

// A StoreOption gives the suite more access to a store.
type StoreOption interface{ store(*storeTest) }

type storeOption func(*storeTest)

func (o storeOption) store(t *storeTest) { o(t) }

// WithServer gives a suite the server behind a store or the brokers of a source. Store then
// also stops, kills and freezes it. Source then has the cases for a server alone, see there.
func WithServer(s Server) ServerOption { return ServerOption{s} }

// A ServerOption is an option of Store and of Source.
type ServerOption struct{ server Server }

func (o ServerOption) store(t *storeTest) { t.server = o.server }

func (o ServerOption) source(s *sourceSuite) { s.server = o.server }

// A Server is the server behind a store or a source. It runs when a case begins and
// when it ends.
type Server interface {
	Start(ctx context.Context) error // returns once it serves
	Stop(ctx context.Context) error  // in good order
	Kill() error                     // as by SIGKILL
	Freeze() error                   // as by SIGSTOP; connections stay open
	Thaw() error                     // as by SIGCONT
	Snapshot() (Snapshot, error)     // while it is stopped or frozen
	Restore(Snapshot) error          // while it is stopped
}

var _ Server = (*servers.Server)(nil)

// A Snapshot is the disk of a Server at one moment. The suite restores the newest one
// only, so a Server of your own may keep it itself and return the zero Snapshot.
type Snapshot = servers.Snapshot

type storeCase struct {
	name string
	run  func(*storeTest)
}

// storeTest is the state of one case.
type storeTest struct {
	testing.TB
	dial    func() rota.Store
	server  Server
	nodes   []Server                                 // of the cluster
	leader  func(context.Context) (CutServer, error) // nil if it cannot be cut off
	wired   func() (c *client, w cord)               // a connection that can be cut
	lie     Liar                                     // forges changes
	compact func(testing.TB)                         // makes the server forget former versions
	prefix  string                                   // of every key
	bound   time.Duration                            // timeout of every wait
	prompt  time.Duration                            // timeout of calls that need not wait for anything

	staleReads, falseRefusals bool // permitted, see the options of these names
}

func newStoreTest(t testing.TB, dial func() rota.Store, opts ...StoreOption) *storeTest {
	st := &storeTest{TB: t, dial: dial, prefix: "t" + rand.Text()[:8] + "/", bound: 10 * time.Second, prompt: 2 * time.Second}
	for _, o := range opts {
		o.store(st)
	}
	return st
}

// client is a connection. Its methods without try fail the case on an error.
type client struct {
	t *storeTest
	rota.Store
}

func (t *storeTest) open() *client {
	c := &client{t, t.dial()}
	t.Cleanup(func() { c.Store.Close() })
	return c
}

// key is the key of a name, with the prefix of the case.
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

// refused expects ErrConflict from a put or delete.
func (t *storeTest) refused(what string, err error) {
	t.Helper()
	if !errors.Is(err, rota.ErrConflict) {
		t.Errorf("%s: %v, want ErrConflict", what, err)
	}
}

// nothing expects that there is no such cell.
func (c *client) nothing(key string) {
	c.t.Helper()
	ctx, cancel := c.t.timeout()
	defer cancel()
	e, err := c.read(ctx, key, func(_ rota.Entry, err error) bool { return errors.Is(err, rota.ErrNotFound) })
	if !errors.Is(err, rota.ErrNotFound) {
		c.t.Errorf("Get(%s) found %.20q, error %v; want ErrNotFound", key, e.Value, err)
	}
}

// has expects the cell to have this value and revision.
func (c *client) has(key, value string, rev rota.Rev) {
	c.t.Helper()
	ctx, cancel := c.t.timeout()
	defer cancel()
	is := func(e rota.Entry, err error) bool { return err == nil && string(e.Value) == value && e.Rev == rev }
	if e, err := c.read(ctx, key, is); err != nil {
		c.t.Fatalf("Get(%s): %v", key, err)
	} else if !is(e, err) {
		c.t.Errorf("%s holds %s at %d, want %s at %d", key, brief(string(e.Value)), e.Rev, brief(value), rev)
	}
}

// read gets a cell: with StaleReads again and again, for a while, until it is as it should be.
func (c *client) read(ctx context.Context, key string, is func(rota.Entry, error) bool) (e rota.Entry, err error) {
	for end := time.Now().Add(staleTime); ; time.Sleep(time.Millisecond) {
		e, err = c.Get(ctx, key)
		if is(e, err) || !c.t.staleReads || time.Now().After(end) {
			return e, err
		}
	}
}

// staleTime is how long reads may be stale, see StaleReads.
const staleTime = 2 * time.Second

func brief(s string) string {
	if len(s) <= 40 {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%.40q… (%d bytes)", s, len(s))
}

// eventually polls cond until it is true.
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

// within fails the test if f does not return in time; f then goes on in its goroutine.
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
