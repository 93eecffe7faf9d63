package rotatest

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/rota-dev/rota"
)

// WithNodes gives the suite the nodes of the cluster behind the store: it then kills and
// freezes one after the other. The store must go on without that one.
func WithNodes(nodes ...Server) StoreOption { return func(t *storeTest) { t.nodes = nodes } }

// nodeCases are the cases for stores on a cluster.
var nodeCases = []storeCase{
	{"histories are right while a node is killed", func(t *storeTest) { historyWithout(t, killing) }},
	{"histories are right while a node is frozen", func(t *storeTest) { historyWithout(t, freezing) }},
	{"a watch shows everything or ends while a node is killed", func(t *storeTest) { watchWithout(t, killing) }},
	{"a watch shows everything or ends while a node is frozen", func(t *storeTest) { watchWithout(t, freezing) }},
}

// without takes one node away after the other, and calls f while it is away.
func (t *storeTest) without(o outage, f func(i int)) {
	t.Helper()
	for i, node := range t.nodes {
		t.server = node
		back := t.away(o)
		f(i)
		back()
		t.serve("after "+o.name, func(ctx context.Context, s Server) error {
			if r, ok := s.(interface{ Ready(context.Context) error }); ok {
				return r.Ready(ctx)
			}
			return nil
		})
	}
}

// failover is the longest time until a cluster without one of its nodes serves again.
func (t *storeTest) failover() time.Duration { return 3 * t.bound }

// historyWithout checks that clients of any node go on, and that the history is right.
func historyWithout(t *storeTest, o outage) {
	var h History
	c := t.crowd(&h, 6)
	c.callFor = t.bound / 10
	c.start(math.MaxInt)
	each := func() {
		t.Helper()
		at := c.progressOfEach()
		eventually(t, t.failover(), "calls of each client succeed", func() bool {
			for i, n := range c.progressOfEach() {
				if n < at[i]+10 {
					return false
				}
			}
			return true
		})
	}
	each()
	t.without(o, func(int) { each() })
	each()
	c.halt()
	c.checkHistory()
}

// watchWithout watches through several connections, which make no other calls and are
// connected to different nodes if the driver spreads them, while others write.
func watchWithout(t *storeTest, o outage) {
	w := t.open()
	var watchers []*client
	for range 6 {
		watchers = append(watchers, t.open())
	}
	dir := t.key("dir/")
	a := w.put(dir+"a", "0", 0)
	views := make([]*view, len(watchers))
	for j, r := range watchers {
		views[j] = t.view(r, dir)
	}
	t.without(o, func(i int) {
		w.againFor(t.failover())
		b := t.putOver(w, fmt.Sprintf("%sb%d", dir, i), "x", 0)
		a = t.putOver(w, dir+"a", fmt.Sprint(i+1), a)
		for j, v := range views {
			v.wait(fmt.Sprintf("what happened during the %s of node %d", o.name, i), func() bool {
				return v.err != nil || v.cells[dir+"a"].Rev == a && v.cells[fmt.Sprintf("%sb%d", dir, i)].Rev == b
			})
			if v.over() {
				watchers[j].againFor(t.failover())
				views[j] = t.view(watchers[j], dir)
				views[j].wait("the newest after a gap", func() bool { return views[j].cells[dir+"a"].Rev == a })
			}
		}
	})
}

// putOver writes a cell whose revision is known, and reads it if the outcome is not.
func (t *storeTest) putOver(c *client, key, value string, prev rota.Rev) (next rota.Rev) {
	t.Helper()
	eventually(t, t.failover(), "a write succeeds", func() bool {
		rev, err := c.tryPut(key, value, prev)
		if err != nil {
			c.againFor(t.failover())
			if e := c.get(key); string(e.Value) == value {
				rev, err = e.Rev, nil
			}
		}
		next = rev
		return err == nil
	})
	return next
}
