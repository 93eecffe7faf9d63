package rotaactive

import (
	"net"
	"sync"
	"testing"
)

// A gate is a TCP proxy that can stop forwarding while its connections stay open, as if the
// client's process had been stopped by a signal.
type gate struct {
	t    testing.TB
	to   string
	l    net.Listener
	mu   sync.Mutex
	shut bool
	cond *sync.Cond
	ends []net.Conn
}

func newGate(t testing.TB, to string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, to: to, l: l}
	g.cond = sync.NewCond(&g.mu)
	go g.accept()
	t.Cleanup(func() {
		l.Close()
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, c := range g.ends {
			c.Close()
		}
		g.shut = false
		g.cond.Broadcast()
	})
	return g
}

func (g *gate) addr() string { return g.l.Addr().String() }

// freeze stops forwarding until the test ends.
func (g *gate) freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

func (g *gate) accept() {
	for {
		near, err := g.l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", g.to)
		if err != nil {
			near.Close()
			continue
		}
		g.mu.Lock()
		g.ends = append(g.ends, near, far)
		g.mu.Unlock()
		go g.carry(near, far)
		go g.carry(far, near)
	}
}

func (g *gate) carry(from, to net.Conn) {
	buf := make([]byte, 1<<15)
	for {
		n, err := from.Read(buf)
		g.mu.Lock()
		for g.shut {
			g.cond.Wait()
		}
		g.mu.Unlock()
		if err != nil {
			to.Close()
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			from.Close()
			return
		}
	}
}
