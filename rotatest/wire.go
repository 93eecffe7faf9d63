package rotatest

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/rota-dev/rota"
)

// WithWire lets the suite cut one connection while others stay. addr is where the
// server listens, host and port; open connects to the server by another address,
// behind which the suite is the wire.
func WithWire(addr string, open func(t testing.TB, addr string) rota.Store) StoreOption {
	return func(t *storeTest) {
		t.wired = func() (*client, func(in bool)) {
			w := newWire(t, addr)
			c := &client{t, open(t.TB, w.addr())}
			t.Cleanup(func() { c.Store.Close() })
			return c, w.plug
		}
	}
}

// wireCases are for stores whose connections the suite may cut one by one.
var wireCases = []storeCase{
	{"a watch whose connection was cut shows everything or ends", watchAcrossCut},
}

// watchAcrossCut changes something while a watch is cut off, and nothing after
// that: a watch that goes on with its next connection as if nothing had been has
// missed it for good. The server was there all the time, for everybody else.
func watchAcrossCut(t *storeTest) {
	w := t.open()
	r, plug := t.wired()
	a := w.put(t.key("dir/a"), "1", 0)
	b := w.put(t.key("dir/b"), "1", 0)
	views := []*view{t.view(r, t.key("dir/")), t.view(r, t.key("dir/a"))}
	plug(false)
	a = w.put(t.key("dir/a"), "2", a)
	w.delete(t.key("dir/b"), b)
	plug(true)
	for _, v := range views {
		v.wait("what happened while it was cut off", func() bool {
			_, hasB := v.first[t.key("dir/b")]
			return v.err != nil || v.cells[t.key("dir/a")].Rev == a && (!hasB || v.cells[t.key("dir/b")].Deleted)
		})
	}
	r.again()
	r.holds(t.key("dir/a"), "2", a)
	v := t.view(r, t.key("dir/"))
	if len(v.first) != 1 || v.first[t.key("dir/a")].Rev != a {
		t.Errorf("a watch after the cut begins with %v", v.first)
	}
}

// A wire is a TCP proxy that can be pulled out.
type wire struct {
	to   string
	l    net.Listener
	wg   sync.WaitGroup
	mu   sync.Mutex
	out  bool
	ends []net.Conn
}

func newWire(t testing.TB, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{to: to, l: l}
	w.wg.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			w.carry(near)
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.plug(false)
		w.wg.Wait()
	})
	return w
}

func (w *wire) addr() string { return w.l.Addr().String() }

// carry joins two connections until one of them ends.
func (w *wire) carry(near net.Conn) {
	far, err := net.Dial("tcp", w.to)
	if err != nil {
		near.Close()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends = append(w.ends, near, far)
	for _, c := range [][2]net.Conn{{near, far}, {far, near}} {
		w.wg.Go(func() {
			io.Copy(c[0], c[1])
			c[0].Close()
			c[1].Close()
		})
	}
	if w.out {
		w.cut()
	}
}

// plug puts the wire in or pulls it out.
func (w *wire) plug(in bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out = !in; w.out {
		w.cut()
	}
}

func (w *wire) cut() {
	for _, c := range w.ends {
		c.Close()
	}
	w.ends = nil
}
