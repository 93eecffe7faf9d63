package rota_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// group is members of one process on one store and one source, for tests.
type group struct {
	t     *testing.T
	store *rotatest.MemStore
	src   *rotatest.MemSource
	wg    sync.WaitGroup
	// prepare, if set, gets a member before it runs.
	prepare func(*rota.Member)
	mu      sync.Mutex
	owner   map[string]string // partition → member that handles it now
	count   map[string]int
}

func newGroup(t *testing.T, partitions int) *group {
	return &group{t: t, store: rotatest.NewMemStore(), src: rotatest.NewMemSource(8, rotatest.Names(partitions)...),
		owner: map[string]string{}, count: map[string]int{}}
}

// handle fails the test when two members handle one partition at once.
func (g *group) handle(name string, work time.Duration) func(context.Context, rota.Message) error {
	return func(ctx context.Context, msg rota.Message) error {
		g.mu.Lock()
		if o := g.owner[msg.Partition]; o != "" {
			g.t.Errorf("%s and %s handle %s at once", o, name, msg.Partition)
		}
		g.owner[msg.Partition] = name
		g.mu.Unlock()
		time.Sleep(work)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.owner[msg.Partition] = ""
		g.count[msg.Partition]++
		return nil
	}
}

// start runs a member until leave is called; err then holds what Run returned.
func (g *group) start(name string, tune func(*rota.Config)) (m *rota.Member, leave func() error) {
	cfg := rota.Config{Group: "test", Store: g.store, Source: g.src, Name: name, NewGroup: true, Handle: g.handle(name, time.Millisecond),
		Abort: func(err error) { g.t.Errorf("abort: %v", err) }}
	if tune != nil {
		tune(&cfg)
	}
	m, err := rota.New(cfg)
	if err != nil {
		g.t.Fatal(err)
	}
	if g.prepare != nil {
		g.prepare(m)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	g.wg.Go(func() {
		time.Sleep(time.Nanosecond) // the test goes on first: it may want to see every event
		done <- m.Run(ctx)
	})
	var once sync.Once
	var end error
	return m, func() error {
		once.Do(func() { cancel(); end = <-done })
		return end
	}
}

func counts(st rota.Status) string {
	by := map[string]int{}
	for _, m := range st.Members {
		by[m.Name] = m.Partitions
	}
	return fmt.Sprint(by)
}

func TestAGroupShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 6)
		for i := range 6 {
			for j := range 200 {
				g.src.Publish(fmt.Sprintf("q%d", i), []byte(fmt.Sprint(j)))
			}
		}
		m1, leave1 := g.start("c1", nil)
		time.Sleep(300 * time.Millisecond)
		if got := counts(m1.Status()); got != "map[c1:6]" {
			t.Errorf("alone: %s", got)
		}
		m2, leave2 := g.start("c2", nil)
		time.Sleep(300 * time.Millisecond)
		if got := counts(m1.Status()); got != "map[c1:3 c2:3]" {
			t.Errorf("with a second: %s", got)
		}
		if got := len(m2.Status().Waits); got != 0 {
			t.Errorf("%d partitions wait", got)
		}
		if err := leave1(); err != nil {
			t.Errorf("leaving: %v", err)
		}
		time.Sleep(300 * time.Millisecond)
		if got := counts(m2.Status()); got != "map[c1:0 c2:6]" {
			t.Errorf("after the leader left: %s", got)
		}
		time.Sleep(5 * time.Second)
		if err := leave2(); err != nil {
			t.Errorf("leaving: %v", err)
		}
		for i := range 6 {
			if n := g.src.Backlog(fmt.Sprintf("q%d", i)); n != 0 {
				t.Errorf("q%d: %d messages are left", i, n)
			}
		}
		g.wg.Wait()
	})
}

// A fullStore answers reads and refuses writes.
type fullStore struct{ rota.Store }

var errFull = errors.New("no space left")

func (fullStore) Put(context.Context, string, []byte, rota.Rev) (rota.Rev, error) { return 0, errFull }

// A member that cannot write its heartbeats says why, although its reads are answered.
func TestAnOrphanOfAFullStoreSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		_, leave := g.start("c1", func(c *rota.Config) { c.Store = fullStore{g.store} })
		time.Sleep(time.Minute)
		if err := leave(); !errors.Is(err, rota.ErrOrphaned) || !errors.Is(err, errFull) {
			t.Errorf("Run returned %v, want ErrOrphaned with the cause", err)
		}
		g.wg.Wait()
	})
}

// A narrowStore refuses large values.
type narrowStore struct{ rota.Store }

func (n narrowStore) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	if len(value) > 300 {
		return 0, errFull
	}
	return n.Store.Put(ctx, key, value, prev)
}

// A leader whose store refuses some writes and answers everything else reports that
// with growing pauses.
func TestRefusedWritesAreReportedWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 500)
		var mu sync.Mutex // Trace is called from many goroutines
		counted := map[rota.EventKind]int{}
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Store = narrowStore{g.store}
			c.Trace = func(e rota.Event) {
				mu.Lock()
				defer mu.Unlock()
				counted[e.Kind]++
			}
		})
		time.Sleep(5 * time.Minute)
		leave()
		g.wg.Wait()
		if n := counted[rota.EventStoreLost]; n < 2 || n > 20 || counted[rota.EventStoreBack] != n {
			t.Errorf("in 5 minutes the store was lost %d times and back %d times", n, counted[rota.EventStoreBack])
		}
	})
}

func TestStoreGoneMeansOrphaned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		_, leave := g.start("c1", nil)
		time.Sleep(time.Second)
		g.store.Close()
		time.Sleep(time.Minute)
		if err := leave(); !errors.Is(err, rota.ErrOrphaned) {
			t.Errorf("Run returned %v, want ErrOrphaned", err)
		}
		g.wg.Wait()
	})
}
