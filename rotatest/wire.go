package rotatest

import (
	"bytes"
	"iter"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// WithWire lets the suite cut one connection while others stay. addr is the server's
// address, host and port; open connects to the address it is given, where a proxy of
// the suite listens.
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

// wireCases are the cases for stores whose connections the suite may cut one by one.
var wireCases = []storeCase{
	{"a watch whose connection was cut shows everything or ends", watchAcrossCut},
}

// watchAcrossCut changes cells while a watch is cut off, and none after that: a watch
// that silently goes on after a reconnect has a gap for good. For all other connections
// the server was there all the time.
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
	r.has(t.key("dir/a"), "2", a)
	v := t.view(r, t.key("dir/"))
	if len(v.first) != 1 || v.first[t.key("dir/a")].Rev != a {
		t.Errorf("a watch after the cut begins with %v", v.first)
	}
}

// A wire is a TCP proxy that can be cut.
type wire struct {
	to        string
	l         net.Listener
	wg        sync.WaitGroup
	mu        sync.Mutex
	out       bool
	ends      []net.Conn
	countdown int           // pieces that clients send until an answer is lost; 0 = no answer is lost
	lost      bool          // an answer was lost
	delay     time.Duration // of what clients send
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

// carry copies between a client's connection and a new one to the server, until one of
// them ends.
func (w *wire) carry(near net.Conn) {
	far, err := net.Dial("tcp", w.to)
	if err != nil {
		near.Close()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends = append(w.ends, near, far)
	var deaf atomic.Bool // the server's answers are lost
	w.wg.Go(func() {
		defer near.Close()
		defer far.Close()
		for piece := range w.delayed(pieces(near)) {
			last := w.count()
			if last {
				deaf.Store(true) // before the piece is sent: its answer may be quick
			}
			if _, err := far.Write(piece); err != nil {
				return
			}
			if last {
				far.SetReadDeadline(time.Now().Add(answerTime)) // its timeout ends both directions
			}
		}
	})
	w.wg.Go(func() {
		defer near.Close()
		defer far.Close()
		for piece := range pieces(far) {
			if deaf.Load() {
				continue
			}
			if _, err := near.Write(piece); err != nil {
				return
			}
		}
	})
	if w.out {
		w.cut()
	}
}

// pieces yields the bytes that arrive on a connection, read by read.
func pieces(c net.Conn) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		buf := make([]byte, 1<<15)
		for {
			n, err := c.Read(buf)
			if n > 0 && !yield(buf[:n]) || err != nil {
				return
			}
		}
	}
}

// delayed yields pieces in order, each after the delay that the wire had when it came.
func (w *wire) delayed(in iter.Seq[[]byte]) iter.Seq[[]byte] {
	type sent struct {
		piece []byte
		due   time.Time
	}
	queue := make(chan sent, 1024)
	w.wg.Go(func() {
		defer close(queue)
		for piece := range in {
			w.mu.Lock()
			due := time.Now().Add(w.delay)
			w.mu.Unlock()
			queue <- sent{bytes.Clone(piece), due}
		}
	})
	return func(yield func([]byte) bool) {
		defer func() {
			for range queue { // its other end must not block
			}
		}()
		for s := range queue {
			time.Sleep(time.Until(s.due))
			if !yield(s.piece) {
				return
			}
		}
	}
}

// slow makes what clients send arrive late from now on.
func (w *wire) slow(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = by
}

// answerTime is how long a server has to act on a request whose answer is lost.
const answerTime = 100 * time.Millisecond

// lose makes the wire lose an answer: the nth piece that clients send reaches the
// server, nothing comes back, and after answerTime the connection ends. Later
// connections lose nothing.
func (w *wire) lose(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.countdown = n
}

// count tells whether this piece is the one whose answer gets lost.
func (w *wire) count() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.countdown == 0 {
		return false
	}
	w.countdown--
	if w.countdown == 0 {
		w.lost = true
	}
	return w.countdown == 0
}

func (w *wire) hasLost() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// plug cuts the wire, or ends the cut.
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
