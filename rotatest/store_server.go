package rotatest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// serverCases are the cases for stores whose server the suite may stop, kill and
// freeze.
var serverCases = []storeCase{
	{"acknowledged writes survive a stop", func(t *storeTest) { survive(t, stopping) }},
	{"acknowledged writes survive a kill", func(t *storeTest) { survive(t, killing) }},
	{"calls end in time while the server is stopped", func(t *storeTest) { callsEnd(t, stopping) }},
	{"calls end in time while the server is frozen", func(t *storeTest) { callsEnd(t, freezing) }},
	{"histories are right across kills", func(t *storeTest) { historyAcross(t, killing) }},
	{"histories are right across freezes", func(t *storeTest) { historyAcross(t, freezing) }},
	{"a watch across a stop shows everything or ends", func(t *storeTest) { watchAcross(t, stopping) }},
	{"a watch across a kill shows everything or ends", func(t *storeTest) { watchAcross(t, killing) }},
	{"a watch across a freeze shows everything or ends", func(t *storeTest) { watchAcross(t, freezing) }},
	{"a watch across a restore shows everything or ends", watchAcrossRestore},
	{"a restored server has another identity", restoredIdentity},
}

// An outage takes a server away and brings it back.
type outage struct {
	name       string
	away, back func(context.Context, Server) error
}

var (
	stopping = outage{"stop", func(ctx context.Context, s Server) error { return s.Stop(ctx) }, start}
	killing  = outage{"kill", func(_ context.Context, s Server) error { return s.Kill() }, start}
	freezing = outage{"freeze", func(_ context.Context, s Server) error { return s.Freeze() },
		func(_ context.Context, s Server) error { return s.Thaw() }}
)

func start(ctx context.Context, s Server) error { return s.Start(ctx) }

// away begins an outage of a server. back ends it; the end of the case does so at the latest.
func away(t testing.TB, s Server, o outage) (back func()) {
	t.Helper()
	serve(t, s, o.name, o.away)
	done := false
	back = func() {
		t.Helper()
		if !done {
			done = true
			serve(t, s, "after "+o.name, o.back)
		}
	}
	t.Cleanup(back)
	return back
}

func serve(t testing.TB, s Server, what string, f func(context.Context, Server) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := f(ctx, s); err != nil {
		t.Fatalf("the server, %s: %v", what, err)
	}
}

func (t *storeTest) away(o outage) (back func()) {
	t.Helper()
	return away(t, t.server, o)
}

func (t *storeTest) serve(what string, f func(context.Context, Server) error) {
	t.Helper()
	serve(t, t.server, what, f)
}

// again waits until the connection works again.
func (c *client) again() {
	c.t.Helper()
	c.againFor(c.t.bound)
}

func (c *client) againFor(bound time.Duration) {
	c.t.Helper()
	eventually(c.t, bound, "calls succeed again", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := c.Get(ctx, c.t.key("anything"))
		return err == nil || errors.Is(err, rota.ErrNotFound)
	})
}

func survive(t *storeTest, o outage) {
	a := t.open()
	want := map[string]rota.Rev{}
	var gone []string
	for i := range 30 {
		key := t.key(strconv.Itoa(i))
		want[key] = a.put(key, "old", 0)
		want[key] = a.put(key, key, want[key])
		if i%3 == 0 {
			a.delete(key, want[key])
			delete(want, key)
			gone = append(gone, key)
		}
	}
	t.away(o)()
	for _, c := range []*client{a, t.open()} {
		c.again()
		for key, rev := range want {
			c.has(key, key, rev)
		}
		for _, key := range gone {
			c.nothing(key)
		}
	}
	for key, rev := range want { // the revisions are still valid
		if next := a.put(key, "new", rev); next == rev {
			t.Errorf("revision %d of %s came again after the %s", rev, key, o.name)
		}
	}
}

// callsEnd checks that no call waits longer for a server than its ctx allows, neither
// on a connection that was in use nor on a new one.
func callsEnd(t *storeTest, o outage) {
	used, fresh := t.open(), t.open()
	rev := used.put(t.key("k"), "a", 0)
	back := t.away(o)
	t.givesUp(o.name, map[string]*client{"used": used, "fresh": fresh})
	back()
	used.again()
	fresh.again()
	used.has(t.key("k"), "a", rev)
}

// givesUp makes each call on each of the connections, of which none can be answered.
func (t *storeTest) givesUp(during string, conns map[string]*client) {
	t.Helper()
	for name, c := range conns {
		for verb, call := range map[string]func(context.Context) error{
			"Get":    func(ctx context.Context) error { _, err := c.Get(ctx, t.key("k")); return err },
			"Put":    func(ctx context.Context) error { _, err := c.Put(ctx, t.key("k2"), nil, 0); return err },
			"Delete": func(ctx context.Context) error { return c.Delete(ctx, t.key("k3"), 1000) },
			"Watch": func(ctx context.Context) error {
				for _, err := range c.Watch(ctx, t.key("k")) {
					if err == nil {
						return nil
					}
				}
				return errors.New("ended")
			},
		} {
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			within(t, 200*time.Millisecond+t.prompt, fmt.Sprintf("%s on a %s connection", verb, name), func() {
				err := call(ctx)
				if err == nil || errors.Is(err, rota.ErrConflict) || errors.Is(err, rota.ErrNotFound) {
					t.Errorf("%s on a %s connection during the %s: %v, want an unknown outcome", verb, name, during, err)
				}
			})
			cancel()
		}
	}
}

// historyAcross checks that a history is linearizable across outages.
func historyAcross(t *storeTest, o outage) {
	var h History
	c := t.crowd(&h, 5)
	c.callFor = t.bound / 10
	c.start(math.MaxInt)
	more := func(n int) {
		t.Helper()
		at := c.progress()
		eventually(t, t.bound, "calls succeed", func() bool { return c.progress() >= at+n })
	}
	for range 3 {
		more(50)
		_, before := h.Counts()
		back := t.away(o)
		eventually(t, t.bound, "clients notice the "+o.name, func() bool { _, n := h.Counts(); return n >= before+len(c.clients) })
		back()
	}
	more(50)
	c.halt()
	c.checkHistory()
}

// watchAcross changes cells as soon as the server is back, through a new connection.
// The watch's own connection is usually not back yet at that moment; to make that
// likely, it tries three times if the server is quick. There are no later changes that
// could hide a gap.
func watchAcross(t *storeTest, o outage) {
	r := t.open()
	began := time.Now()
	for round := 0; round == 0 || round < 3 && time.Since(began) < t.prompt; round++ {
		dir := fmt.Sprintf("%d/", round)
		w := t.open()
		a := w.put(t.key(dir+"a"), "1", 0)
		b := w.put(t.key(dir+"b"), "1", 0)
		v := t.view(r, t.key(dir))
		t.away(o)()
		w = t.open()
		w.again()
		a = w.put(t.key(dir+"a"), "2", a)
		w.delete(t.key(dir+"b"), b)
		c := w.put(t.key(dir+"c"), "1", 0)
		v.wait("what happened after the "+o.name, func() bool {
			return v.err != nil || v.cells[t.key(dir+"a")].Rev == a && v.cells[t.key(dir+"b")].Deleted && v.cells[t.key(dir+"c")].Rev == c
		})
		v.cancel()
		r.again()
		v = t.view(r, t.key(dir))
		if len(v.first) != 2 || v.first[t.key(dir+"a")].Rev != a || v.first[t.key(dir+"c")].Rev != c {
			t.Errorf("a watch after the %s begins with %v", o.name, v.first)
		}
		v.cancel()
	}
}

// backup takes a snapshot of the server, makes changes and restores the snapshot.
func (t *storeTest) backup(changes func()) {
	t.Helper()
	var snap Snapshot
	back := t.away(stopping)
	t.serve("snapshot", func(_ context.Context, s Server) (err error) {
		snap, err = s.Snapshot()
		return err
	})
	back()
	changes()
	back = t.away(stopping)
	t.serve("restore", func(_ context.Context, s Server) error { return s.Restore(snap) })
	back()
}

func watchAcrossRestore(t *storeTest) {
	w, r := t.open(), t.open()
	rev := w.put(t.key("k"), "1", 0)
	var v *view
	t.backup(func() {
		w.again()
		r.again()
		newer := rev
		for i := range 5 {
			newer = w.put(t.key("k"), fmt.Sprint("lost ", i), newer)
		}
		v = t.view(r, t.key("k"))
	})
	w.again()
	w.has(t.key("k"), "1", rev)
	rev = w.put(t.key("k"), "2", rev)
	v.wait("what happened after the restore", func() bool { return v.err != nil || string(v.cells[t.key("k")].Value) == "2" })
}

// restoredIdentity does nothing if the store is no Identifier.
func restoredIdentity(t *storeTest) {
	identity := func() string {
		t.Helper()
		c := t.open()
		named, ok := c.Store.(rota.Identifier)
		if !ok {
			return ""
		}
		c.again()
		ctx, cancel := t.timeout()
		defer cancel()
		name, err := named.Identity(ctx)
		if err != nil || name == "" {
			t.Fatalf("Identity: %q, %v", name, err)
		}
		return name
	}
	before := identity()
	if before == "" {
		return
	}
	if again := identity(); again != before {
		t.Errorf("two connections name one server %q and %q", before, again)
	}
	t.backup(func() { before = identity() })
	if after := identity(); after == before {
		t.Errorf("a restored server is still %q", after)
	}
}
