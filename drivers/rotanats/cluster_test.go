package rotanats_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

// A cluster is three servers that are treated as one.
type cluster struct {
	nodes []*rotatest.RealServer
	snaps map[rotatest.Snapshot][]rotatest.Snapshot // the first of each → all
}

func startCluster(t testing.TB) *cluster {
	c := &cluster{rotatest.StartNATSCluster(t, 3), map[rotatest.Snapshot][]rotatest.Snapshot{}}
	if err := c.whole(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cluster) URL() string {
	var urls []string
	for _, n := range c.nodes {
		urls = append(urls, n.URL())
	}
	return strings.Join(urls, ",")
}

func (c *cluster) each(f func(*rotatest.RealServer) error) error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, f(n))
	}
	return errors.Join(errs...)
}

func (c *cluster) Start(ctx context.Context) error {
	if err := c.each(func(n *rotatest.RealServer) error { return n.Start(ctx) }); err != nil {
		return err
	}
	return c.whole(ctx)
}

// whole returns once the bucket has a leader: until then no call is answered.
func (c *cluster) whole(ctx context.Context) error {
	if err := c.each(func(n *rotatest.RealServer) error { return n.Ready(ctx) }); err != nil {
		return err
	}
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
	rotatest.Store(t, func(*testing.T) rota.Store { return rotanats.Store(c.URL() + "?sync=always") }, rotatest.WithServer(c),
		rotatest.WithNodes(c.nodes[0], c.nodes[1], c.nodes[2]))
}
