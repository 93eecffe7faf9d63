package rota_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

// TestAStopCostsTheMessageInHand stops a member whose handler takes a second and whose
// source has fetched ten messages. What is in hand is finished and settled, the rest is
// given back.
func TestAStopCostsTheMessageInHand(t *testing.T) {
	const work = time.Second
	var done atomic.Int64
	slow := func(context.Context, rota.Message) error {
		time.Sleep(work)
		done.Add(1)
		return nil
	}
	for name, c := range map[string]struct {
		tune func(*rota.Config)
		want int64
	}{
		"one by one":  {func(c *rota.Config) { c.Handle = slow }, 3},
		"in parallel": {func(c *rota.Config) { c.Handle, c.Parallel = slow, 2 }, 6},
		"in batches": {func(c *rota.Config) {
			c.Handle, c.HandleBatch = nil, func(context.Context, []rota.Message) (int, error) {
				time.Sleep(work)
				done.Add(1)
				return 1, nil
			}
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				done.Store(0)
				g := newGroup(t, 1)
				for range 10 {
					g.src.Publish("q0", []byte("x"))
				}
				_, leave := g.start("c1", c.tune)
				for done.Load() < c.want*2/3 {
					pass(10 * time.Millisecond)
				}
				pass(work / 2) // the next is in hand
				asked := time.Now()
				if err := leave(); err != nil {
					t.Error(err)
				}
				if took := time.Since(asked); took > work {
					t.Errorf("leaving took %v with messages of %v", took, work)
				}
				if n, left := done.Load(), g.src.Backlog("q0"); n != c.want || left != 10-int(n) {
					t.Errorf("%d were handled and %d are left, want %d and %d", n, left, c.want, 10-c.want)
				}
			})
		})
	}
}

// TestQuickMessagesAreFinishedBeforeAStop: if they went back, most sources would take
// longer to hand the partition over.
func TestQuickMessagesAreFinishedBeforeAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		n := 0
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Handle = func(context.Context, rota.Message) error {
				time.Sleep(time.Millisecond)
				n++
				return nil
			}
		})
		pass(time.Second)
		g.src.Publish("q0", make([][]byte, 8)...) // one batch
		time.Sleep(1500 * time.Microsecond)
		if err := leave(); err != nil {
			t.Error(err)
		}
		if left := g.src.Backlog("q0"); n != 8 || left != 0 {
			t.Errorf("%d were handled and %d are left, want all done", n, left)
		}
	})
}
