package rotaetcd_test

import (
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaetcd"
	"github.com/rota-dev/rota/rotatest"
)

// A cluster is nodes that are treated as one.
type cluster struct{ rotatest.Cluster }

func startCluster(t testing.TB) *cluster { return startNodes(t, 3) }

func startNodes(t testing.TB, n int) *cluster {
	return &cluster{rotatest.Cluster{Nodes: rotatest.StartEtcdCluster(t, n)}}
}

// url is the address of all nodes, with a prefix.
func (c *cluster) url(prefix string) string { return "etcd://" + c.Addrs() + "/" + prefix }

func TestStoreCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	rotatest.Store(t, func(*testing.T) rota.Store { return rotaetcd.Store(c.url("suite")) }, rotatest.WithServer(c), c.withNodes())
}

// withNodes lets the suite take away one node at a time.
func (c *cluster) withNodes() rotatest.StoreOption {
	var nodes []rotatest.Server
	for _, n := range c.Nodes {
		nodes = append(nodes, n)
	}
	return rotatest.WithNodes(nodes...)
}
