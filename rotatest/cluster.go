package rotatest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
)

// A Cluster is several servers that WithServer takes away and brings back as one.
type Cluster struct {
	Nodes []*RealServer
	// Whole returns once the nodes serve together. Without it they do when each is ready.
	Whole func(context.Context) error

	snaps map[Snapshot][]Snapshot // the first of each → all
}

// Addrs are the addresses of all nodes, as URLs have them.
func (c *Cluster) Addrs() string {
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr())
	}
	return strings.Join(addrs, ",")
}

// each does something to all nodes at the same time: those that start late are waited
// for by the others, and those that end late would replace the others.
func (c *Cluster) each(do func(i int, n *RealServer) error) error {
	errs := make([]error, len(c.Nodes))
	var wg sync.WaitGroup
	for i, n := range c.Nodes {
		wg.Go(func() { errs[i] = do(i, n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c *Cluster) all(do func(*RealServer) error) error {
	return c.each(func(_ int, n *RealServer) error { return do(n) })
}

// Start implements Server, as the other methods do.
func (c *Cluster) Start(ctx context.Context) error {
	if err := c.all(func(n *RealServer) error { return n.Start(ctx) }); err != nil {
		return err
	}
	return c.serves(ctx)
}

func (c *Cluster) serves(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := c.all(func(n *RealServer) error { return n.Ready(ctx) })
	if err == nil && c.Whole != nil {
		err = c.Whole(ctx)
	}
	return err
}

func (c *Cluster) Stop(ctx context.Context) error {
	return c.all(func(n *RealServer) error { return n.Stop(ctx) })
}

func (c *Cluster) Kill() error   { return c.all((*RealServer).Kill) }
func (c *Cluster) Freeze() error { return c.all((*RealServer).Freeze) }

// Thaw returns when the nodes serve together again: they may have lost each other.
func (c *Cluster) Thaw() error {
	if err := c.all((*RealServer).Thaw); err != nil {
		return err
	}
	return c.serves(context.Background())
}

func (c *Cluster) Snapshot() (Snapshot, error) {
	all := make([]Snapshot, len(c.Nodes))
	err := c.each(func(i int, n *RealServer) (err error) {
		all[i], err = n.Snapshot()
		return err
	})
	if c.snaps == nil {
		c.snaps = map[Snapshot][]Snapshot{}
	}
	c.snaps[all[0]] = all
	return all[0], err
}

func (c *Cluster) Restore(snap Snapshot) error {
	return c.each(func(i int, n *RealServer) error { return n.Restore(c.snaps[snap][i]) })
}
