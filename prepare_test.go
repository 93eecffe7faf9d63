package rota_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// warming is a source that notes its Prepares.
type warming struct {
	*rotatest.MemSource
	mu    sync.Mutex
	began map[string]time.Time
	ended map[string]time.Time
	fails bool
}

func (w *warming) Prepare(ctx context.Context, p rota.Partition) error {
	w.mu.Lock()
	if _, twice := w.began[p.Name]; twice {
		w.mu.Unlock()
		return errors.New("prepared twice")
	}
	w.began[p.Name] = time.Now()
	w.mu.Unlock()
	if w.fails {
		return errors.New("no room")
	}
	<-ctx.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended[p.Name] = time.Now()
	return ctx.Err()
}

// While the old owner finishes, the next one warms up for just what it gets; when
// the partition is granted that is over.
func TestNextOwnerPreparesWhileTheOldOneFinishes(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, 4)
			for _, q := range rotatest.Names(4) {
				g.src.Publish(q, []byte("x"))
			}
			_, leave1 := g.start("c1", func(c *rota.Config) { c.Handle = g.handle("c1", 4*time.Second) })
			pass(time.Second)
			w := &warming{MemSource: g.src, began: map[string]time.Time{}, ended: map[string]time.Time{}, fails: fails}
			m2, leave2 := g.start("c2", func(c *rota.Config) { c.Source = w })
			var starts []rota.Event
			var conditions []string
			events := m2.Events(context.Background())
			g.wg.Go(func() {
				for e := range events {
					switch e.Kind {
					case rota.EventStart:
						starts = append(starts, e)
					case rota.EventCondition:
						conditions = append(conditions, e.Because)
					}
				}
			})
			pass(6 * time.Second)
			if err := leave2(); err != nil {
				t.Error(err)
			}
			if err := leave1(); err != nil {
				t.Error(err)
			}
			g.wg.Wait()
			if len(starts) != 2 || len(w.began) != 2 {
				t.Fatalf("%d started, %d prepared, want 2", len(starts), len(w.began))
			}
			for _, e := range starts {
				if lead := e.Time.Sub(w.began[e.Partition]); w.began[e.Partition].IsZero() || lead < 2*time.Second {
					t.Errorf("%s: prepared %v before its start", e.Partition, lead)
				}
				if late := w.ended[e.Partition].Sub(e.Time); !fails && (late < -time.Second || late > 10*time.Millisecond) {
					t.Errorf("%s: the preparation ended %v after the start", e.Partition, late)
				}
			}
			told := slices.ContainsFunc(conditions, func(s string) bool { return strings.Contains(s, "cannot prepare for it: no room") })
			if told != fails {
				t.Errorf("conditions: %q", conditions)
			}
		})
	}
}

// opened is a source that notes when it is opened.
type opened struct {
	*rotatest.MemSource
	at []time.Time
}

func (o *opened) Open(ctx context.Context) error {
	o.at = append(o.at, time.Now())
	<-ctx.Done()
	return ctx.Err()
}

// A source is opened once, as soon as its member runs; nothing waits for it, and it does not outlive
// the member.
func TestSourceIsOpenedWhileItsMemberJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		g.src.Publish(rotatest.Names(1)[0], []byte("x"))
		o, began := &opened{MemSource: g.src}, time.Now()
		m, leave := g.start("c1", func(c *rota.Config) { c.Source = o })
		started := first(m, kind(rota.EventStart))
		pass(10 * time.Second)
		if len(o.at) != 1 || o.at[0].After(began.Add(time.Millisecond)) || started().IsZero() {
			t.Errorf("begun at %v, opened at %v, a partition started at %v", began, o.at, started())
		}
		if err := leave(); err != nil {
			t.Error(err)
		}
	})
}

// fresh is a store that knows whether it is new.
type fresh struct {
	rota.Store
	is  bool
	err error
}

func (f fresh) Fresh(context.Context) (bool, error) { return f.is, f.err }

// A group in a store that is known to be new does not wait for leases that it
// might have forgotten; in any other it does.
func TestNewStoreNeedsNoWait(t *testing.T) {
	for _, c := range []struct {
		store fresh
		waits bool
	}{
		{fresh{is: true}, false},
		{fresh{is: false}, true},
		{fresh{is: true, err: errors.New("no answer")}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, 1)
			c.store.Store = g.store
			m, leave := g.start("c1", func(cfg *rota.Config) { cfg.Store, cfg.NewGroup = c.store, false })
			started := first(m, kind(rota.EventStart))
			begun := time.Now()
			pass(10 * time.Second)
			if got := started().Sub(begun); got > 5*time.Second != c.waits || started().IsZero() {
				t.Errorf("%v, %v: started after %v", c.store.is, c.store.err, got)
			}
			if err := leave(); err != nil {
				t.Error(err)
			}
		})
	}
}
