package rotanats_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

// A cluster is three servers that are treated as one.
type cluster struct{ rotatest.Cluster }

func startCluster(t testing.TB) *cluster { return joined(t, rotatest.StartNATSCluster(t, 3)) }

// joined is a cluster of servers that have found each other.
func joined(t testing.TB, nodes []*rotatest.RealServer) *cluster {
	c := &cluster{rotatest.Cluster{Nodes: nodes}}
	c.Whole = c.whole
	if err := c.whole(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cluster) URL() string { return "nats://" + c.Addrs() }

// whole returns once the bucket has a leader: until then no call is answered.
func (c *cluster) whole(ctx context.Context) error {
	s := rotanats.Store(c.URL())
	defer s.Close()
	for {
		once, cancel := context.WithTimeout(ctx, time.Second)
		_, err := s.Get(once, "anything")
		if err == nil || errors.Is(err, rota.ErrNotFound) {
			_, err = s.Put(once, "whole", []byte(time.Now().String()), 0)
		}
		cancel()
		if err == nil || errors.Is(err, rota.ErrConflict) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the cluster has no leader: %w", err)
		}
	}
}

// TestStoreCluster takes the whole cluster away, and one node at a time.
func TestStoreCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	rotatest.Store(t, func(*testing.T) rota.Store { return rotanats.Store(c.URL() + "?sync=always") }, rotatest.WithServer(c),
		rotatest.WithNodes(c.Nodes[0], c.Nodes[1], c.Nodes[2]))
}

// TestCutOffLeader cuts the leader of the bucket off in one direction. When the cut is over it
// takes itself for the leader until it hears of the other, and answers.
func TestCutOffLeader(t *testing.T) {
	t.Parallel()
	c := joined(t, rotatest.StartNATSApart(t, 3))
	rotatest.CutOffLeader(t, func(*testing.T) rota.Store { return rotanats.Store(c.URL() + "?sync=always") }, func(ctx context.Context) (rotatest.CutServer, error) {
		if err := c.whole(ctx); err != nil {
			return nil, err
		}
		name := c.leader(t)
		for i, n := range c.Nodes {
			if name == fmt.Sprint("n", i+1) {
				return n, nil
			}
		}
		return nil, fmt.Errorf("%q leads", name)
	}, rotatest.StaleReads(), rotatest.FalseRefusals())
}
