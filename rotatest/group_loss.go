package rotatest

import (
	"context"
	"errors"
	"time"

	"github.com/rota-dev/rota"
)

// WithLoss lets the suite make the server behind a store lose acknowledged writes. It
// takes a snapshot while the server is frozen. Later it kills the server, restores the
// snapshot and starts it. A Server of your own may do something else that has the same
// effect, such as a failover to a replica that is behind.
func WithLoss(s Server) GroupOption { return func(g *groupTest) { g.server = s } }

// groupForgets makes a store forget grants. Every session ends by itself, although each
// lease would last. A newcomer gets nothing before every lease is over that may have been
// forgotten, and then tokens that are higher than all before.
func groupForgets(g *groupTest) {
	const n = groupPartitions
	defer g.checkDeliveries(false)
	ebb := g.flow(1, 20*time.Millisecond)
	copied, members := g.grantUnsaved()
	g.periods(2, members)

	forgot := time.Now()
	g.restore(copied)
	heir := g.join("heir", func(c *rota.Config) {
		c.NewGroup, c.Rejoin, c.Orphan = false, true, 0
		if g.heir != nil {
			g.heir(c)
		}
	})
	for _, m := range members {
		m.forgotten()
	}
	g.shares(n, heir)
	if after := heir.firstStart().Sub(forgot); after < testLease {
		g.Errorf("%s runs a partition %v after the store has forgotten leases of %v", heir.name, after.Round(time.Millisecond), testLease)
	}

	ebb()
	g.wait("all messages are handled", g.all)
	heir.leave()
	g.rest()
}

// grantUnsaved returns a snapshot, and members that were granted partitions after it. On a
// store of class C the snapshot tells of no member that lives: the name of the server alone
// shows that something is missing. Other stores name no server that a restored copy
// changes: there the records of living members show it.
func (g *groupTest) grantUnsaved() (Snapshot, []*testMember) {
	const n = groupPartitions
	patient := func(c *rota.Config) { c.Orphan = 0 } // a cluster may take longer than the lease to start
	if g.class() == rota.ClassC {
		c0 := g.join("c0", patient)
		g.shares(n, c0)
		c0.leave()
		snap := g.snapshot()
		c1, c2 := g.join("c1", patient), g.join("c2", patient)
		g.shares(n/2, c1, c2)
		return snap, []*testMember{c1, c2}
	}
	c1, c2 := g.join("c1", patient), g.join("c2", patient)
	g.shares(n/2, c1, c2)
	snap := g.snapshot()
	c3 := g.join("c3", patient)
	g.shares(n/3, c1, c2, c3)
	return snap, []*testMember{c1, c2, c3}
}

// class is that of the store, which may be known after its first call.
func (g *groupTest) class() rota.Class {
	g.Helper()
	s := g.dial()
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), g.bound)
	defer cancel()
	if _, err := s.Get(ctx, g.group+"/plan"); err != nil && !errors.Is(err, rota.ErrNotFound) {
		g.Fatalf("the first call: %v", err)
	}
	return optional{s}.Class()
}

func (g *groupTest) snapshot() (snap Snapshot) {
	g.Helper()
	err := g.server.Freeze()
	if err == nil {
		snap, err = g.server.Snapshot()
		err = errors.Join(err, g.server.Thaw())
	}
	if err != nil {
		g.Fatalf("the snapshot: %v", err)
	}
	return snap
}

func (g *groupTest) restore(snap Snapshot) {
	g.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	err := g.server.Kill()
	if err == nil {
		err = errors.Join(g.server.Restore(snap), g.server.Start(ctx))
	}
	if err != nil {
		g.Fatalf("restoring the snapshot: %v", err)
	}
}

// forgotten waits for the end of a member whose store has lost acknowledged writes. If
// its own record is gone, the member is fenced.
func (m *testMember) forgotten() {
	m.c.Helper()
	select {
	case <-m.ended:
		if !errors.Is(m.err, rota.ErrStoreLost) && !errors.Is(m.err, rota.ErrFenced) {
			m.c.Errorf("%s returned %v, want ErrStoreLost or ErrFenced", m.name, m.err)
		}
	case <-time.After(m.c.bound):
		m.c.Fatalf("%s goes on although its store has lost acknowledged writes", m.name)
	}
}

// firstStart is when the member started its first partition.
func (m *testMember) firstStart() time.Time {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	for _, e := range m.events {
		if e.Kind == rota.EventStart {
			return e.Time
		}
	}
	return time.Time{}
}
