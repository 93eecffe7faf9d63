package rotaetcd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaetcd"
	"github.com/rota-dev/rota/rotatest"
)

// heartbeats of the default settings.
const (
	beatTime = 1250 * time.Millisecond // the timeout of each
	retry    = 100 * time.Millisecond
	lease    = 5 * time.Second
)

func TestAFrozenNode(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	t.Run("an idle watch leaves it", func(t *testing.T) { idleWatch(t, c) })
	t.Run("heartbeats reach another", func(t *testing.T) { heartbeats(t, c) })
}

// heartbeats freezes each node of three in turn, while a store is connected to it: its
// heartbeats reach another node, and its watch moves there without a gap. While a follower
// is frozen that costs a part of the time of one heartbeat; while the leader is, the others
// elect another before a lease is over.
func heartbeats(t *testing.T, c *cluster) {
	nodes := slices.Clone(c.Nodes)
	slices.SortFunc(nodes, func(a, b *rotatest.RealServer) int { // the leader last: without it there would be another
		if isLeader(t, a) == isLeader(t, b) {
			return 0
		} else if isLeader(t, a) {
			return 1
		}
		return -1
	})
	for i, n := range nodes {
		s := connectedTo(t, c, n)
		led := isLeader(t, n)
		key := fmt.Sprint("beats/", i)
		rev, err := s.Put(t.Context(), key, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		shown := follow(t, s, key)
		shown.wait(t, rev)
		if err := n.Freeze(); err != nil {
			t.Fatal(err)
		}
		b := &beats{t: t, s: s, key: key, rev: rev}
		for range 10 {
			b.next()
		}
		t.Logf("node %d frozen, leader %v: %d heartbeats failed, at most %v without one", i, led, b.failed, b.longest.Round(time.Millisecond))
		if b.longest > 2*lease || !led && b.failed > 3 { // half of that, unless the machine is very busy
			t.Error("that is too long")
		}
		shown.wait(t, b.rev)
		if rotaetcd.NodeOf(s) == n.Addr() {
			t.Errorf("calls still go to the frozen node first")
		}
		if err := errors.Join(n.Thaw(), n.Ready(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}

// connectedTo opens stores until one is connected to this node: they spread at random.
func connectedTo(t *testing.T, c *cluster, n *rotatest.RealServer) rota.Store {
	t.Helper()
	for {
		s := rotaetcd.Store(c.url("node"))
		t.Cleanup(func() { s.Close() })
		if _, err := s.Get(t.Context(), "k"); !errors.Is(err, rota.ErrNotFound) {
			t.Fatal(err)
		}
		if rotaetcd.NodeOf(s) == n.Addr() {
			return s
		}
	}
}

func isLeader(t *testing.T, n *rotatest.RealServer) bool {
	t.Helper()
	conn, err := grpc.NewClient(n.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r, err := pb.NewMaintenanceClient(conn).Status(t.Context(), &pb.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Leader == r.Header.MemberId
}

// beats are the heartbeats of one member.
type beats struct {
	t       *testing.T
	s       rota.Store
	key     string
	rev     rota.Rev
	failed  int
	longest time.Duration // from the sending of one that succeeded to the answer of the next
}

// next sends heartbeats until one has succeeded. After one without a known outcome it reads
// back, as a member does.
func (b *beats) next() {
	b.t.Helper()
	began := time.Now()
	for deadline := began.Add(time.Minute); ; time.Sleep(retry) {
		ctx, cancel := context.WithTimeout(b.t.Context(), beatTime)
		rev, err := b.s.Put(ctx, b.key, []byte(began.String()), b.rev)
		cancel()
		if err == nil {
			b.rev = rev
			break
		}
		b.failed++
		ctx, cancel = context.WithTimeout(b.t.Context(), beatTime)
		e, err2 := b.s.Get(ctx, b.key)
		cancel()
		if err2 == nil {
			b.rev = e.Rev
			if string(e.Value) == began.String() {
				break
			}
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("no heartbeat succeeds: %v, %v", err, err2)
		}
	}
	b.longest = max(b.longest, time.Since(began))
	time.Sleep(retry)
}

// A shown key is what a watch has shown of it.
type shown struct {
	revs  chan rota.Rev
	ended chan error
}

func follow(t *testing.T, s rota.Store, key string) *shown {
	w := &shown{make(chan rota.Rev, 1000), make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		for batch, err := range s.Watch(ctx, key) {
			if err != nil {
				w.ended <- err
				return
			}
			for _, e := range batch {
				w.revs <- e.Rev
			}
		}
	}()
	return w
}

// wait waits until the watch has shown a revision. It must not take as long as a new list
// (15 s at least) or the keepalive of the connection (13 s): those would notice a frozen
// node too, much too late.
func (w *shown) wait(t *testing.T, rev rota.Rev) {
	t.Helper()
	timeout := time.After(8 * time.Second)
	for {
		select {
		case got := <-w.revs:
			if got == rev {
				return
			}
		case err := <-w.ended:
			t.Fatalf("the watch ended: %v", err)
		case <-timeout:
			t.Fatalf("the watch does not show revision %d", rev)
		}
	}
}

// idleWatch freezes the node of a store that makes no calls: nothing but its own questions
// can show that.
func idleWatch(t *testing.T, c *cluster) {
	i := slices.IndexFunc(c.Nodes, func(n *rotatest.RealServer) bool { return !isLeader(t, n) })
	n := c.Nodes[i]
	s, w := connectedTo(t, c, n), connectedTo(t, c, c.Nodes[(i+1)%3])
	rev, err := w.Put(t.Context(), "idle", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	shown := follow(t, s, "idle")
	shown.wait(t, rev)
	if err := n.Freeze(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(n.Thaw(), n.Ready(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	if rev, err = w.Put(t.Context(), "idle", []byte("2"), rev); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	shown.wait(t, rev)
	t.Logf("shown %v after the write", time.Since(began).Round(time.Millisecond))
}
