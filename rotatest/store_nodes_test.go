package rotatest

import (
	"context"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

const stays = "stays with its node, whatever becomes of that"

// nodeFlaws maps case → flaw → complaint of the case.
var nodeFlaws = map[string]map[string]string{
	"histories are right while a node is killed":              {stays: "calls of each client succeed", forgets: "got one revision"},
	"histories are right while a node is frozen":              {stays: "calls of each client succeed"},
	"a watch shows everything or ends while a node is killed": {stays: "calls succeed again"},
	"a watch shows everything or ends while a node is frozen": {stays: "what happened during the freeze"},
}

// TestMemNodes gives the suite a cluster without a flaw.
func TestMemNodes(t *testing.T) {
	for _, c := range nodeCases {
		t.Run(c.name, func(t *testing.T) {
			m := newMemCluster("")
			c.run(newStoreTest(t, m.open, m.nodes()))
		})
	}
}

// TestNodeCasesBite gives the suite clusters and clients that each have one flaw.
func TestNodeCasesBite(t *testing.T) {
	for _, c := range nodeCases {
		t.Run(c.name, func(t *testing.T) {
			flaws := nodeFlaws[c.name]
			if len(flaws) == 0 {
				t.Error("nothing shows that it can fail")
			}
			for flaw, says := range flaws {
				m := newMemCluster(flaw)
				bites(t, says, func(tb testing.TB) { c.run(newStoreTest(tb, m.open, m.nodes())) })
			}
		})
	}
}

// leaderFlaws maps case → flaw → complaint of the case.
var leaderFlaws = map[string]map[string]string{
	"the store goes on while nothing arrives at the leader": {stays: "calls of each client succeed", forgets: "a write succeeds"},
	"the store goes on while nothing of the leader arrives": {stays: "calls of each client succeed", forgets: "a write succeeds"},
}

// TestMemLeader gives the suite a cluster whose leader can be cut off.
func TestMemLeader(t *testing.T) {
	for _, c := range leaderCases {
		t.Run(c.name, func(t *testing.T) {
			m := newMemCluster("")
			c.run(newStoreTest(t, m.open, m.led()))
		})
	}
}

// TestLeaderCasesBite gives the suite clusters and clients that each have one flaw. Six clients
// work until the suite gives up, as fast as they can, so it is to give up soon.
func TestLeaderCasesBite(t *testing.T) {
	hasty := storeOption(func(t *storeTest) { t.bound = 2 * time.Second })
	for _, c := range leaderCases {
		t.Run(c.name, func(t *testing.T) {
			flaws := leaderFlaws[c.name]
			if len(flaws) == 0 {
				t.Error("nothing shows that it can fail")
			}
			for flaw, says := range flaws {
				for _, opts := range [][]StoreOption{nil, {StaleReads(), FalseRefusals()}} {
					m := newMemCluster(flaw)
					bites(t, says, func(tb testing.TB) { c.run(newStoreTest(tb, m.open, append(opts, m.led(), hasty)...)) })
				}
			}
		})
	}
}

// memCluster is three nodes with one memory.
type memCluster struct {
	list []*memNode
	next int
}

// memNode is a server whose connections move to another node when it goes away, unless
// they have the flaw that they stay.
type memNode struct{ *memServer }

func newMemCluster(flaw string) *memCluster {
	m := &memCluster{}
	mem := NewMemStore()
	for range 3 {
		s := newMemServer(flaw)
		s.mem, s.begun, s.delay = mem, mem.Snapshot(), time.Millisecond
		m.list = append(m.list, &memNode{s})
	}
	return m
}

func (m *memCluster) open() rota.Store {
	m.next++
	return m.list[m.next%len(m.list)].open()
}

func (m *memCluster) nodes() StoreOption {
	var all []Server
	for _, n := range m.list {
		all = append(all, n)
	}
	return WithNodes(all...)
}

// led gives the suite the first node as the leader.
func (m *memCluster) led() StoreOption {
	return storeOption(func(t *storeTest) {
		t.leader = func(context.Context) (CutServer, error) { return m.list[0], nil }
	})
}

// CutOff makes no difference between the directions.
func (n *memNode) CutOff(deaf, mute bool) error {
	if !deaf && !mute {
		return n.Thaw()
	}
	if n.flaw == forgets {
		n.mem.Restore(n.begun)
	}
	return n.Freeze()
}

func (n *memNode) Kill() error   { return n.moving(n.memServer.Kill()) }
func (n *memNode) Freeze() error { return n.moving(n.memServer.Freeze()) }

func (n *memNode) moving(err error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		if n.flaw != stays {
			c.Heal()
		}
	}
	return err
}
