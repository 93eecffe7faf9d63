package rotatest

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// WithNodes gives the suite the nodes of the cluster behind the store: it then kills and
// freezes one after the other. The store must go on without that one.
func WithNodes(nodes ...Server) StoreOption {
	return storeOption(func(t *storeTest) { t.nodes = nodes })
}

// nodeCases are the cases for stores on a cluster. Each node has its turn, so the leader has:
// it stays the same until it is taken away.
var nodeCases = []storeCase{
	{"histories are right while a node is killed", func(t *storeTest) { historyWithout(t, killing) }},
	{"a watch shows everything or ends while a node is killed", func(t *storeTest) { watchWithout(t, killing) }},
	{"histories are right while a node is frozen", func(t *storeTest) { historyWithout(t, freezing) }},
	{"a watch shows everything or ends while a node is frozen", func(t *storeTest) { watchWithout(t, freezing) }},
}

// A CutServer is a node of a cluster that can be cut off from all others, clients too. deaf:
// nothing arrives at it; mute: nothing of it arrives anywhere; neither: the cut is over.
type CutServer interface {
	Server
	CutOff(deaf, mute bool) error
}

// CutOffLeader is the part of Store for a cluster whose leader can be cut off in one direction.
// leader returns the node that leads. The cluster must go on without it: a leader whose followers
// hear it, and which does not hear them, must not keep them from having another.
func CutOffLeader(t *testing.T, open func(t *testing.T) rota.Store, leader func(context.Context) (CutServer, error), opts ...StoreOption) {
	for _, c := range leaderCases {
		t.Run(c.name, func(t *testing.T) {
			st := newStoreTest(t, func() rota.Store { return open(t) }, opts...)
			st.leader = leader
			c.run(st)
		})
	}
}

// StaleReads is for a store whose page says that reads may be late: a leader which was replaced
// answers them until it notices, or applies a write after a follower has confirmed it. Histories then
// let a read find any version that there was before it returned, and elsewhere a read has a while to
// show the newest. Writes are judged as ever: no acknowledged one is lost, and no two replace one
// version.
func StaleReads() StoreOption { return storeOption(func(t *storeTest) { t.staleReads = true }) }

// FalseRefusals is for a store whose page says that such a leader also refuses writes that the other
// one accepts. CutOffLeader then takes a refusal for an unknown outcome.
func FalseRefusals() StoreOption { return storeOption(func(t *storeTest) { t.falseRefusals = true }) }

// leaderCases are the cases for clusters whose leader can be cut off in one direction.
var leaderCases = []storeCase{
	{"the store goes on while nothing arrives at the leader", func(t *storeTest) { goesOnWithoutLeader(t, cutting("deafness", true, false)) }},
	{"the store goes on while nothing of the leader arrives", func(t *storeTest) { goesOnWithoutLeader(t, cutting("muteness", false, true)) }},
}

func cutting(name string, deaf, mute bool) outage {
	return outage{name, func(_ context.Context, s Server) error { return s.(CutServer).CutOff(deaf, mute) },
		func(_ context.Context, s Server) error { return s.(CutServer).CutOff(false, false) }}
}

// goesOnWithoutLeader checks that clients of any node go on, that watches show everything or end,
// and that the history is right.
func goesOnWithoutLeader(t *storeTest, o outage) {
	ctx, cancel := context.WithTimeout(context.Background(), t.failover())
	defer cancel()
	lead, err := t.leader(ctx)
	if err != nil {
		t.Fatalf("the leader: %v", err)
	}
	t.nodes = []Server{lead}
	historyWithout(t, o, watchers(t, o))
}

// without takes one node away after the other, and calls f while it is away.
func (t *storeTest) without(o outage, f func(i int)) {
	t.Helper()
	for i, node := range t.nodes {
		t.server = node
		back := t.away(o)
		gone := time.Now()
		f(i)
		went := time.Since(gone)
		back()
		t.serve("after "+o.name, func(ctx context.Context, s Server) error {
			if r, ok := s.(interface{ Ready(context.Context) error }); ok {
				return r.Ready(ctx)
			}
			return nil
		})
		t.Logf("the %s of node %d: the others went on after %v, and all are there after %v", o.name, i, went.Round(time.Millisecond), time.Since(gone).Round(time.Millisecond))
	}
}

// failover is the longest time until a cluster without one of its nodes serves again. It takes
// longer to find out about a node that is there and does not hear, or is not heard.
func (t *storeTest) failover() time.Duration {
	if t.leader != nil {
		return 6 * t.bound
	}
	return 3 * t.bound
}

// historyWithout checks that clients of any node go on, and that the history is right. It does
// more while a node is away.
func historyWithout(t *storeTest, o outage, more ...func(i int)) {
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
	t.without(o, func(i int) {
		each()
		for _, f := range more {
			f(i)
		}
	})
	each()
	c.halt()
	c.checkHistory()
}

func watchWithout(t *storeTest, o outage) { t.without(o, watchers(t, o)) }

// watchers watches through several connections, which make no other calls and are connected to
// different nodes if the driver spreads them. The function that it returns writes while the ith
// node is away, and waits until the watches show that or have ended.
func watchers(t *storeTest, o outage) func(i int) {
	w := t.open()
	var conns []*client
	for range 6 {
		conns = append(conns, t.open())
	}
	dir := t.key("dir/")
	a := t.putOver(w, dir+"a", "0", 0) // the cluster may just have got a node back
	views := make([]*view, len(conns))
	for j, r := range conns {
		views[j] = t.view(r, dir)
	}
	return func(i int) {
		w.againFor(t.failover())
		b := t.putOver(w, fmt.Sprintf("%sb%d", dir, i), "x", 0)
		a = t.putOver(w, dir+"a", fmt.Sprint(i+1), a)
		for j, v := range views {
			v.wait(fmt.Sprintf("what happened during the %s of node %d", o.name, i), func() bool {
				return v.err != nil || v.cells[dir+"a"].Rev == a && v.cells[fmt.Sprintf("%sb%d", dir, i)].Rev == b
			})
			if v.over() {
				conns[j].againFor(t.failover())
				views[j] = t.view(conns[j], dir)
				views[j].wait("the newest after a gap", func() bool { return views[j].cells[dir+"a"].Rev == a })
			}
		}
	}
}

// putOver writes a cell whose revision is known, and reads it if the outcome is not.
func (t *storeTest) putOver(c *client, key, value string, prev rota.Rev) (next rota.Rev) {
	t.Helper()
	eventually(t, t.failover(), "a write succeeds", func() bool {
		rev, err := c.tryPut(key, value, prev)
		if err != nil {
			c.againFor(t.failover())
			ctx, cancel := t.timeout()
			defer cancel()
			if e, gerr := c.Get(ctx, key); gerr == nil && string(e.Value) == value {
				rev, err = e.Rev, nil
			}
		}
		next = rev
		return err == nil
	})
	return next
}
