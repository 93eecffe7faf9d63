package test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota/drivers/rotazk"
	"github.com/rota-dev/rota/rotatest"
)

// TestZooKeeperHistories lets clients of an ensemble read and write while one server
// after another is killed or frozen, and has porcupine judge what they heard.
func TestZooKeeperHistories(t *testing.T) {
	t.Parallel()
	nodes := rotatest.StartZooKeeperCluster(t, 3)
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr())
	}
	calls, unknowns := 0, 0
	for i := range histories(20) {
		n, lost := zooKeeperHistory(t, "zk://"+strings.Join(addrs, ","), i, func(lost func() int) { troubleOne(t, nodes, i, lost) })
		calls, unknowns = calls+n, unknowns+lost
	}
	t.Logf("%d calls, %d of unknown outcome", calls, unknowns)
	if unknowns == 0 {
		t.Error("no call met the trouble")
	}
}

// zooKeeperHistory makes one history of five clients, with trouble in the midst of it.
func zooKeeperHistory(t *testing.T, url string, i int, trouble func(lost func() int)) (calls, unknowns int) {
	t.Helper()
	const clients, each = 5, 40
	var keys []string // enough of them that few calls of unknown outcome meet at one: each doubles the work of porcupine
	for k := range 3 {
		keys = append(keys, fmt.Sprintf("h%d/%d", i, k))
	}
	var h rotatest.History
	var wg, begun sync.WaitGroup
	begun.Add(clients)
	over := make(chan struct{})
	for id := range clients {
		s := rotazk.Store(url)
		defer s.Close()
		c := &caller{Store: h.Wrap(s), r: rand.New(rand.NewPCG(uint64(i), uint64(id))), name: fmt.Sprint("c", id),
			keys: keys, patience: time.Second}
		wg.Go(func() {
			c.calls(each / 2)
			begun.Done()
			for range each { // each must be in the midst of it, and nobody for ever
				select {
				case <-over:
					c.calls(each / 2)
					return
				case <-time.After(25 * time.Millisecond): // nobody calls a server that is away in a tight loop
					c.call()
				}
			}
		})
	}
	begun.Wait()
	trouble(func() int { _, n := h.Counts(); return n })
	close(over)
	wg.Wait()
	all := h.Calls()
	for i := range all {
		// A client of the leader may read what was there a moment ago: docs/stores/zookeeper.md.
		// What was there more than thirty calls ago, nobody reads.
		if c := &all[i]; c.Verb == "get" {
			c.Called = max(0, c.Called-60)
		}
	}
	if !agree(t, all) {
		t.Errorf("history %d: the store has answered what no store may: %v", i, h.Check())
	}
	return h.Counts()
}

// troubleOne kills or freezes one server, the leader every other time, until the others
// have a leader and calls were lost. It waits for a lost call only so long: perhaps no
// client is connected to the server.
func troubleOne(t *testing.T, nodes []*rotatest.RealServer, i int, lost func() int) {
	t.Helper()
	victim := nodes[i%len(nodes)]
	for _, n := range nodes {
		if i%2 == 0 && strings.Contains(zooKeeperMode(n), "leader") {
			victim = n
		}
	}
	away, back := (*rotatest.RealServer).Kill, func(n *rotatest.RealServer) error { return n.Start(context.Background()) }
	if i%4 < 2 {
		away, back = (*rotatest.RealServer).Freeze, (*rotatest.RealServer).Thaw
	}
	before := lost()
	if err := away(victim); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(2 * time.Second); lost() == before && time.Now().Before(until); {
		time.Sleep(5 * time.Millisecond)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		leads := false
		for _, n := range nodes {
			leads = leads || n != victim && strings.Contains(zooKeeperMode(n), "leader")
		}
		if leads {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the other servers have no leader")
		}
	}
	if err := back(victim); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if err := n.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// zooKeeperMode asks a server whether it leads or follows.
func zooKeeperMode(n *rotatest.RealServer) string {
	conn, err := net.DialTimeout("tcp", n.Addr(), time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return ""
	}
	text, _ := io.ReadAll(conn)
	_, mode, _ := strings.Cut(string(text), "Mode: ")
	mode, _, _ = strings.Cut(mode, "\n")
	return mode
}
