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

func startCluster(t testing.TB) *cluster {
	c := &cluster{rotatest.Cluster{Nodes: rotatest.StartNATSCluster(t, 3)}}
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

// TestStoreCluster takes the whole cluster away, and not one node at a time
// (rotatest.WithNodes): docs/stores/nats.md says what a frozen leader does when it wakes.
func TestStoreCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	rotatest.Store(t, func(*testing.T) rota.Store { return rotanats.Store(c.URL() + "?sync=always") }, rotatest.WithServer(c))
}
