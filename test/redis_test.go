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
	"github.com/rota-dev/rota/drivers/rotaredis"
	"github.com/rota-dev/rota/rotatest"
)

// TestRedisHistories has porcupine judge what clients of Redis hear while servers are
// killed and frozen. There is no replica to fail over to, which would be of class C: a
// server that is back must have everything it has acknowledged.
func TestRedisHistories(t *testing.T) {
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		s := rotatest.StartRedis(t)
		checkReal(t, histories(14), func() rota.Store { return rotaredis.Store(s.URL()) }, []*rotatest.RealServer{s})
	})
	t.Run("a Cluster", func(t *testing.T) {
		t.Parallel()
		nodes := rotatest.StartRedisCluster(t, rotatest.RedisSetup{}, 3, 0)
		var hosts []string
		for _, n := range nodes {
			hosts = append(hosts, n.Addr())
		}
		checkReal(t, histories(6), func() rota.Store { return rotaredis.Store("redis+cluster://" + strings.Join(hosts, ",")) }, nodes)
	})
}

// checkReal has this many histories judged. In each, a server is killed or frozen in turn
// while five clients read and write two cells of one group, and is back before the end.
func checkReal(t *testing.T, histories int, open func() rota.Store, servers []*rotatest.RealServer) {
	calls, unknowns := 0, 0
	for i := range histories {
		s := servers[i/2%len(servers)]
		away, back := s.Kill, func() error { return s.Start(context.Background()) }
		if i%2 == 1 {
			away, back = s.Freeze, s.Thaw
		}
		h := troubled(t, open, fmt.Sprintf("g%d", i), away, back)
		if !possible(t, h.Calls()) || h.Check() != nil {
			t.Errorf("history %d: the store has answered what no store may: %v\n%s", i, h.Check(), notation(h.Calls()))
		}
		n, u := h.Counts()
		calls, unknowns = calls+n, unknowns+u
	}
	t.Logf("%d histories, %d calls, %d of unknown outcome", histories, calls, unknowns)
	if unknowns < histories {
		t.Error("too few of unknown outcome: nobody noticed the trouble")
	}
}

// troubled lets clients call before, during and after an outage.
func troubled(t *testing.T, open func() rota.Store, group string, away, back func() error) *rotatest.History {
	const clients, calls, lost = 5, 12, 2 // with many of unknown outcome, porcupine has too many orders to try
	var h rotatest.History
	var wg, begun, met sync.WaitGroup
	begun.Add(clients)
	met.Add(clients)
	over := make(chan struct{})
	for i := range clients {
		s := open()
		defer s.Close()
		c := &caller{Store: h.Wrap(s), r: rand.New(rand.NewPCG(uint64(i), 5)), name: fmt.Sprint("c", i), keys: []string{group + "/x", group + "/y"}, patience: 300 * time.Millisecond}
		wg.Go(func() {
			settled(c) // however long the server needs after the last trouble
			c.calls(calls)
			begun.Done()
			c.calls(lost)
			met.Done()
			<-over
			settled(c)
			c.calls(calls)
		})
	}
	begun.Wait()
	if err := away(); err != nil {
		t.Fatal(err)
	}
	met.Wait()
	if err := back(); err != nil {
		t.Fatal(err)
	}
	close(over)
	wg.Wait()
	return &h
}

// settled returns when a read succeeds, or after a minute.
func settled(c *caller) {
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := c.Get(ctx, c.keys[0])
		cancel()
		if err == nil || errors.Is(err, rota.ErrNotFound) {
			return
		}
	}
}
