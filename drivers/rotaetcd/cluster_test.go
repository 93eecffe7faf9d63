package rotaetcd_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaetcd"
	"github.com/rota-dev/rota/rotatest"
)

// A cluster is nodes that are treated as one.
type cluster struct {
	nodes []*rotatest.RealServer
	snaps map[rotatest.Snapshot][]rotatest.Snapshot // the first of each → all
}

func startCluster(t testing.TB) *cluster { return startNodes(t, 3) }

func startNodes(t testing.TB, n int) *cluster {
	return &cluster{rotatest.StartEtcdCluster(t, n), map[rotatest.Snapshot][]rotatest.Snapshot{}}
}

// url is the address of all nodes, with a prefix.
func (c *cluster) url(prefix string) string {
	var hosts []string
	for _, n := range c.nodes {
		hosts = append(hosts, n.Addr())
	}
	return "etcd://" + strings.Join(hosts, ",") + "/" + prefix
}

func (c *cluster) each(f func(*rotatest.RealServer) error) error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, f(n))
	}
	return errors.Join(errs...)
}

// Start returns once the cluster has a leader.
func (c *cluster) Start(ctx context.Context) error {
	if err := c.each(func(n *rotatest.RealServer) error { return n.Start(ctx) }); err != nil {
		return err
	}
	return c.each(func(n *rotatest.RealServer) error { return n.Ready(ctx) })
}

func (c *cluster) Stop(ctx context.Context) error {
	return c.each(func(n *rotatest.RealServer) error { return n.Stop(ctx) })
}

func (c *cluster) Kill() error   { return c.each((*rotatest.RealServer).Kill) }
func (c *cluster) Freeze() error { return c.each((*rotatest.RealServer).Freeze) }
func (c *cluster) Thaw() error   { return c.each((*rotatest.RealServer).Thaw) }

func (c *cluster) Snapshot() (rotatest.Snapshot, error) {
	var all []rotatest.Snapshot
	err := c.each(func(n *rotatest.RealServer) error {
		s, err := n.Snapshot()
		all = append(all, s)
		return err
	})
	c.snaps[all[0]] = all
	return all[0], err
}

func (c *cluster) Restore(snap rotatest.Snapshot) error {
	i := 0
	return c.each(func(n *rotatest.RealServer) error {
		i++
		return n.Restore(c.snaps[snap][i-1])
	})
}

func TestStoreCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	rotatest.Store(t, func(*testing.T) rota.Store { return rotaetcd.Store(c.url("suite")) }, rotatest.WithServer(c), c.withNodes())
}

// withNodes lets the suite take away one node at a time.
func (c *cluster) withNodes() rotatest.StoreOption {
	var nodes []rotatest.Server
	for _, n := range c.nodes {
		nodes = append(nodes, n)
	}
	return rotatest.WithNodes(nodes...)
}
