package test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaetcd"
	"github.com/rota-dev/rota/rotatest"
)

// TestEtcdHistories has porcupine judge what clients of etcd have heard while its nodes are
// killed and frozen, on one server and on a cluster.
func TestEtcdHistories(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			t.Parallel()
			list := rotatest.StartEtcdCluster(t, nodes)
			var hosts []string
			for _, n := range list {
				hosts = append(hosts, n.Addr())
			}
			calls, unknowns := 0, 0
			for i := range histories(10) {
				open := func() rota.Store {
					return rotaetcd.Store(fmt.Sprintf("etcd://%s/h%d", strings.Join(hosts, ","), i))
				}
				node := list[rand.N(nodes)]
				h := historyDuring(t, open, func() error {
					if i%2 == 0 {
						return errors.Join(node.Kill(), node.Start(t.Context()), node.Ready(t.Context()))
					}
					err := node.Freeze()
					time.Sleep(500*time.Millisecond + rand.N(time.Second)) // how long it lasts is what the test varies
					return errors.Join(err, node.Thaw(), node.Ready(t.Context()))
				})
				if !agree(t, h.Calls()) {
					t.Errorf("history %d: etcd has answered what no store may: %v\n%s", i, h.Check(), notation(h.Calls()))
				}
				n, u := h.Counts()
				calls, unknowns = calls+n, unknowns+u
			}
			t.Logf("%d calls, %d of unknown outcome", calls, unknowns)
			if unknowns == 0 && nodes == 1 { // a cluster may lose none
				t.Error("no call has met the trouble")
			}
		})
	}
}

// historyDuring is the history of a few clients that read, write and delete before, during
// and after some trouble.
func historyDuring(t *testing.T, open func() rota.Store, trouble func() error) *rotatest.History {
	const clients, calls, lost = 4, 20, 3
	var h rotatest.History
	var wg, half sync.WaitGroup
	half.Add(clients)
	ctx, over := context.WithCancel(t.Context())
	for i := range clients {
		s := open()
		defer s.Close()
		c := &caller{Store: h.Wrap(s), r: rand.New(rand.NewPCG(rand.Uint64(), 2)), name: fmt.Sprint("c", i), keys: []string{"x", "y", "z"}, patience: time.Second}
		wg.Go(func() {
			c.calls(calls)
			half.Done()
			for n := 0; n < lost && ctx.Err() == nil; n++ { // not more: porcupine tries all orders of those without an answer
				c.call()
				time.Sleep(100 * time.Millisecond) // so that some meet the beginning, and others the end
			}
			<-ctx.Done()
			for n := 0; n < 1000; n++ { // until it is connected again
				if _, err := s.Get(t.Context(), "z"); err == nil || errors.Is(err, rota.ErrNotFound) {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			c.calls(calls)
		})
	}
	half.Wait()
	if err := trouble(); err != nil {
		t.Error(err)
	}
	over()
	wg.Wait()
	return &h
}
