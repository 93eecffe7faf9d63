package rotaetcd_test

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

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

// TestCutOffLeader cuts the leader off in one direction.
func TestCutOffLeader(t *testing.T) {
	t.Parallel()
	c := &cluster{rotatest.Cluster{Nodes: rotatest.StartEtcdApart(t, 3)}}
	admin, err := clientv3.New(clientv3.Config{Endpoints: []string{c.Nodes[0].URL()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Close() })
	rotatest.CutOffLeader(t, func(*testing.T) rota.Store { return rotaetcd.Store(c.url("suite")) }, func(ctx context.Context) (rotatest.CutServer, error) {
		for {
			for _, n := range c.Nodes {
				st, err := admin.Status(ctx, n.URL())
				if err == nil && st.Leader == st.Header.MemberId {
					return n, nil
				}
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
	})
}
