package rota_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// heap is what is in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// crowd is many members that own partitions and only check that at every moment at
// most one member runs a partition.
type crowd struct {
	t     *testing.T
	store rota.Store
	names []string
	mu    sync.Mutex
	runs  map[string]string
	plans int
	wg    sync.WaitGroup
}

func (c *crowd) join(name string) (leave context.CancelFunc) {
	m, err := rota.New(rota.Config{Group: "crowd", Store: c.store, Name: name, NewGroup: true, Source: idler{c, name},
		Handle: func(context.Context, rota.Message) error { return nil }})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	events := m.Events(context.Background()) // a leader tells of a plan while it leaves
	c.wg.Go(func() {
		for e := range events {
			if e.Kind == rota.EventPlan {
				c.mu.Lock()
				c.plans++
				c.mu.Unlock()
			}
		}
	})
	c.wg.Go(func() {
		if err := m.Run(ctx); err != nil {
			c.t.Errorf("%s: %v", name, err)
		}
	})
	return cancel
}

// idler is a member's source without messages.
type idler struct {
	c    *crowd
	name string
}

func (i idler) Partitions(context.Context) ([]rota.Partition, error) {
	i.c.mu.Lock()
	defer i.c.mu.Unlock()
	out := make([]rota.Partition, len(i.c.names))
	for k, n := range i.c.names {
		out[k].Name = n
	}
	return out, nil
}

func (i idler) Consume(ctx context.Context, own rota.Ownership, _ rota.Deliver) error {
	c := i.c
	c.mu.Lock()
	if o := c.runs[own.Partition()]; o != "" {
		c.t.Errorf("%s and %s run %s at once", o, i.name, own.Partition())
	}
	c.runs[own.Partition()] = i.name
	c.mu.Unlock()
	own.Started()
	select {
	case <-own.Stop():
	case <-ctx.Done():
	}
	c.mu.Lock()
	c.runs[own.Partition()] = ""
	c.mu.Unlock()
	return nil
}

// checkBurst expects that every partition runs, and so many plans since the last call.
func (c *crowd) checkBurst(what string, plans int) {
	c.t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	run := 0
	for _, o := range c.runs {
		if o != "" {
			run++
		}
	}
	if run != len(c.names) {
		c.t.Errorf("%s: %d of %d partitions run", what, run, len(c.names))
	}
	if c.plans != plans {
		c.t.Errorf("%s: %d plans, want %d", what, c.plans, plans)
	}
	c.plans = 0
}

// TestS0_11_AThousandMembersInABubble runs whole members with all their goroutines,
// over a store in memory and in virtual time: 500 start, 500 more, 600 leave. Each
// burst is one plan, and there are never two owners.
func TestS0_11_AThousandMembersInABubble(t *testing.T) {
	n, parts, more := 500, 1024, 10_000
	if testing.Short() || raceEnabled {
		n, parts, more = 50, 128, 1000
	}
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{t: t, store: rotatest.NewMemStore(), names: rotatest.Names(parts), runs: map[string]string{}}
		began, empty := time.Now(), heap()
		var leaves []context.CancelFunc
		for i := range n {
			leaves = append(leaves, c.join(fmt.Sprintf("m%04d", i)))
		}
		time.Sleep(time.Second)
		c.checkBurst("start", 1)
		for i := range n {
			leaves = append(leaves, c.join(fmt.Sprintf("m%04d", n+i)))
		}
		time.Sleep(time.Second)
		c.checkBurst("more", 1)
		t.Logf("%d bytes of heap per member, store and %d partitions included", (heap()-empty)/uint64(2*n), parts)
		for _, leave := range leaves[n/5 : n/5+n*6/5] {
			leave()
		}
		time.Sleep(2 * time.Second)
		c.checkBurst("leave", 1)
		c.mu.Lock()
		c.names = rotatest.Names(more)
		c.mu.Unlock()
		few := heap()
		time.Sleep(35 * time.Second) // the leader asks its source every 30 s
		c.checkBurst("more partitions", 1)
		t.Logf("%d bytes of heap per partition that is added, over all %d members", int64(heap()-few)/int64(more-parts), n*4/5)
		t.Logf("%v of virtual time", time.Since(began))
		for _, leave := range leaves {
			leave()
		}
		c.wg.Wait()
	})
}
