package rotazk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotazk"
	"github.com/rota-dev/rota/rotatest"
)

// A cluster is three servers that are treated as one.
type cluster struct{ rotatest.Cluster }

func startCluster(t testing.TB) *cluster {
	c := &cluster{rotatest.Cluster{Nodes: rotatest.StartZooKeeperCluster(t, 3)}}
	c.Whole = c.whole
	return c
}

func (c *cluster) URL() string { return "zk://" + c.Addrs() }

// whole returns when one server leads and all others follow. A leader that was frozen
// says for a moment that it leads, too.
func (c *cluster) whole(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		modes := map[string]int{}
		for _, n := range c.Nodes {
			text, _ := word(n.Addr(), "srvr")
			_, mode, _ := strings.Cut(text, "Mode: ")
			mode, _, _ = strings.Cut(mode, "\n")
			modes[mode]++
		}
		if modes["leader"] == 1 && modes["follower"] == len(c.Nodes)-1 {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the ensemble is not whole: %v", modes)
		}
	}
}

func (c *cluster) servers() (all []rotatest.Server) {
	for _, n := range c.Nodes {
		all = append(all, n)
	}
	return all
}

// leader returns the server that leads.
func (c *cluster) leader(t testing.TB) *rotatest.RealServer {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		for _, n := range c.Nodes {
			if mode, err := word(n.Addr(), "srvr"); err == nil && strings.Contains(mode, "Mode: leader") {
				return n
			}
		}
	}
	t.Fatal("the ensemble has no leader")
	return nil
}

func (c *cluster) follower(t testing.TB) *rotatest.RealServer {
	t.Helper()
	lead := c.leader(t)
	if c.Nodes[0] == lead {
		return c.Nodes[1]
	}
	return c.Nodes[0]
}

// word asks a server one of its four-letter words.
func word(addr, word string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, 2*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}

// TestCluster has one ensemble for the suite, and for the faults of single servers after
// that.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	t.Run("store", func(t *testing.T) {
		// A busy machine keeps three servers silent for more than a second, without any fault.
		rotatest.Store(t, func(*testing.T) rota.Store { return rotazk.Store(c.URL() + "?answer=4s") }, rotatest.StaleReads(), rotatest.WithServer(c), rotatest.WithNodes(c.servers()...),
			rotatest.WithWire(c.Nodes[0].Addr(), func(_ testing.TB, addr string) rota.Store { return rotazk.Store("zk://" + addr) }))
	})
	t.Run("class", func(t *testing.T) {
		s := open(t, c.URL())
		if got := class(s); got != rota.ClassB {
			t.Errorf("the class before the first call is %v, want B", got)
		}
		if err := works(t, s); err != nil {
			t.Fatal(err)
		}
		if got := class(s); got != rota.ClassA {
			t.Errorf("the class of three servers is %v, want A", got)
		}
	})
	t.Run("the leader is killed", func(t *testing.T) { c.outlives(t, c.leader(t), killed) })
	t.Run("a follower is killed", func(t *testing.T) { c.outlives(t, c.follower(t), killed) })
	t.Run("the leader is frozen", func(t *testing.T) { c.outlives(t, c.leader(t), frozen) })
	t.Run("a follower is frozen", func(t *testing.T) {
		errs := c.outlives(t, c.follower(t), frozen)
		if !strings.Contains(fmt.Sprint(errs), "no answer within") {
			t.Errorf("no client left the frozen server before its own timeout: %v", errs)
		}
	})
	t.Run("group", func(t *testing.T) {
		rotatest.Group(t, func(*testing.T) rota.Store { return rotazk.Store(c.URL()) }, rotatest.WithLoss(c))
	})
	t.Run("no quorum", c.withoutQuorum)
}

// TestCutOffLeader cuts the leader off in one direction. It answers reads until it notices that
// there is another.
func TestCutOffLeader(t *testing.T) {
	t.Parallel()
	c := &cluster{rotatest.Cluster{Nodes: rotatest.StartZooKeeperApart(t, 3)}}
	rotatest.CutOffLeader(t, func(*testing.T) rota.Store { return rotazk.Store(c.URL()) }, func(ctx context.Context) (rotatest.CutServer, error) {
		if err := c.whole(ctx); err != nil {
			return nil, err
		}
		return c.leader(t), nil
	}, rotatest.StaleReads())
}

// withoutQuorum kills two servers of three. The third ends every connection.
func (c *cluster) withoutQuorum(t *testing.T) {
	s := open(t, c.URL())
	for _, n := range c.Nodes[1:] {
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	m := mistake{name: "no quorum", says: c.Nodes[0].Addr() + ": the server ended the connection before it gave a session: it is not serving, has no quorum"}
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); { // it takes a moment to notice
		if err = reads(t, s); err != nil && strings.Contains(err.Error(), m.says) {
			break
		}
	}
	checkMistake(t, m, err)
	for _, n := range c.Nodes[1:] {
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.whole(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		if err := reads(t, s); err == nil {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("after the quorum came back: %v", err)
		}
	}
}

func class(s rota.Store) rota.Class { return s.(rota.Classifier).Class() }

// A fault is what happens to one server.
type fault struct {
	away, back func(*rotatest.RealServer) error
}

var (
	killed = fault{(*rotatest.RealServer).Kill, func(n *rotatest.RealServer) error { return n.Start(context.Background()) }}
	frozen = fault{(*rotatest.RealServer).Freeze, (*rotatest.RealServer).Thaw}
)

// outlives lets clients write while one server is away, as members do. It returns the
// errors they met.
func (c *cluster) outlives(t *testing.T, n *rotatest.RealServer, f fault) []error {
	t.Helper()
	prefix := fmt.Sprintf("t%d/member/", time.Now().UnixNano())
	var beats []*beat
	for deadline := time.Now().Add(30 * time.Second); clients(t, n) > 0 && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond) // connections of the test before are still closing
	}
	for i := 0; i < 6 || clients(t, n) < 2 && i < 60; i++ { // two at least are connected to the server
		b := &beat{s: open(t, c.URL()), key: fmt.Sprint(prefix, i)}
		b.send(t)
		beats = append(beats, b)
	}
	if err := f.away(n); err != nil {
		t.Fatal(err)
	}
	gone := time.Now()
	var wg sync.WaitGroup
	for _, b := range beats {
		wg.Go(func() { b.send(t) })
	}
	wg.Wait()
	t.Logf("%d clients have written after %v", len(beats), time.Since(gone).Round(time.Millisecond))
	shown := list(t, beats[0].s, prefix)
	var errs []error
	for _, b := range beats {
		if want := fmt.Sprint(b.n); shown[b.key] != want {
			t.Errorf("%s is %q, want %q", b.key, shown[b.key], want)
		}
		errs = append(errs, b.errs...)
	}
	if err := f.back(n); err != nil {
		t.Fatal(err)
	}
	if err := c.whole(t.Context()); err != nil {
		t.Fatal(err)
	}
	return errs
}

// clients counts the connections of a server.
func clients(t *testing.T, n *rotatest.RealServer) int {
	t.Helper()
	text, err := word(n.Addr(), "cons")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(text, "sid=")
}

// list returns the first batch of a watch.
func list(t *testing.T, s rota.Store, prefix string) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	shown := map[string]string{}
	for batch, err := range s.Watch(ctx, prefix) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range batch {
			shown[e.Key] = string(e.Value)
		}
		break
	}
	return shown
}

// A beat is a record that is written again and again. After an unknown outcome it is
// read.
type beat struct {
	s    rota.Store
	key  string
	rev  rota.Rev
	n    int
	errs []error
}

func (b *beat) send(t *testing.T) {
	t.Helper()
	b.n++
	for deadline := time.Now().Add(30 * time.Second); !b.sent(t.Context()); {
		if time.Now().After(deadline) {
			t.Errorf("%s is not written: %v", b.key, b.errs)
			return
		}
	}
}

func (b *beat) sent(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 1250*time.Millisecond) // as a member's call with the default lease
	defer cancel()
	rev, err := b.s.Put(ctx, b.key, fmt.Append(nil, b.n), b.rev)
	if err == nil {
		b.rev = rev
		return true
	}
	b.errs = append(b.errs, err)
	e, err := b.s.Get(ctx, b.key)
	if err != nil {
		b.errs = append(b.errs, err)
		return false
	}
	b.rev = e.Rev
	return string(e.Value) == fmt.Sprint(b.n)
}

func open(t testing.TB, url string, opts ...rotazk.Option) rota.Store {
	s := rotazk.Store(url, opts...)
	t.Cleanup(func() { s.Close() })
	return s
}

// works makes a first call and returns its error.
func works(t testing.TB, s rota.Store) error {
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := s.Get(ctx, "g/anything"); err != nil && !errors.Is(err, rota.ErrNotFound) {
		return err
	}
	return nil
}
