package rotatest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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
	return storeOption(func(t *storeTest) {
		t.wired = func() (*client, cord) {
			w := newWire(t, addr)
			c := &client{t, open(t.TB, w.addr())}
			t.Cleanup(func() { c.Store.Close() })
			return c, w
		}
	})
}

// A cord is the network between one client and its server.
type cord interface {
	plug(in bool)                    // out: connections end, and there are no new ones
	silence(toServer, toClient bool) // connections stay, and what is sent in that direction waits
}

// wireCases are the cases for stores whose connections the suite may cut one by one.
var wireCases = []storeCase{
	{"a watch whose connection was cut shows everything or ends", watchAcrossCut},
	{"calls end in time while nothing reaches the server", func(t *storeTest) { callsAcrossSilence(t, true, false) }},
	{"calls end in time while no answer comes back", func(t *storeTest) { callsAcrossSilence(t, false, true) }},
	{"a watch across a silence in one direction shows everything or ends", func(t *storeTest) {
		watchAcrossSilence(t, true, false, t.bound/10)
		watchAcrossSilence(t, false, true, t.bound/10)
	}},
	{"a watch whose session has expired shows everything or ends", func(t *storeTest) { watchAcrossSilence(t, true, true, sessionTime) }},
}

// sessionTime is longer than any server keeps the session of a silent client in these
// tests: that of ZooKeeper is 6 s.
const sessionTime = 8 * time.Second

// callsAcrossSilence makes calls through a connection that carries one direction only.
// Writes that were given up arrive when the silence is over: the history says whether the
// store took each of them once at most, and where it belongs.
func callsAcrossSilence(t *storeTest, toServer, toClient bool) {
	var h History
	mute, net := t.wired()
	well := t.open()
	mute.put(t.key("k"), "first", 0)
	net.silence(toServer, toClient)
	t.givesUp("silence", map[string]*client{"half-cut": mute})
	key := t.key("counted")
	a, b := &client{t, h.Wrap(mute.Store)}, &client{t, h.Wrap(well.Store)}
	for i := range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), t.bound/50)
		a.Put(ctx, key, fmt.Append(nil, "half-cut ", i), 0)
		cancel()
	}
	net.silence(false, false)
	mute.again()
	eventually(t, t.bound, "a write through each connection", func() bool {
		for i, c := range []*client{a, b} {
			ctx, cancel := t.timeout()
			defer cancel()
			e, err := c.Get(ctx, key)
			if err != nil && !errors.Is(err, rota.ErrNotFound) {
				return false
			}
			if _, err := c.Put(ctx, key, fmt.Append(nil, rand.Text(), i), e.Rev); err != nil {
				return false
			}
		}
		return true
	})
	if err := h.Check(); err != nil {
		t.Error(err)
	}
}

// watchAcrossSilence changes cells while a watch and its server cannot hear each other,
// or only one of them, and none after that. For all other clients the server was there
// all the time.
func watchAcrossSilence(t *storeTest, toServer, toClient bool, lasts time.Duration) {
	w := t.open()
	r, net := t.wired()
	dir := t.key(fmt.Sprintf("%v-%v/", toServer, toClient))
	a, b := w.put(dir+"a", "1", 0), w.put(dir+"b", "1", 0)
	views := []*view{t.view(r, dir), t.view(r, dir+"a")}
	net.silence(toServer, toClient)
	a = w.put(dir+"a", "2", a)
	w.delete(dir+"b", b)
	time.Sleep(lasts) // until the client, the server or both have given up
	a = w.put(dir+"a", "3", a)
	net.silence(false, false)
	for _, v := range views {
		v.wait("what happened during the silence", func() bool {
			_, hasB := v.first[dir+"b"]
			return v.err != nil || v.cells[dir+"a"].Rev == a && (!hasB || v.cells[dir+"b"].Deleted)
		})
	}
	r.again()
	r.has(dir+"a", "3", a)
	r.put(dir+"a", "4", a)
}

// watchAcrossCut changes cells while a watch is cut off, and none after that: a watch
// that silently goes on after a reconnect has a gap for good. For all other connections
// the server was there all the time.
func watchAcrossCut(t *storeTest) {
	w := t.open()
	r, net := t.wired()
	a := w.put(t.key("dir/a"), "1", 0)
	b := w.put(t.key("dir/b"), "1", 0)
	views := []*view{t.view(r, t.key("dir/")), t.view(r, t.key("dir/a"))}
	net.plug(false)
	a = w.put(t.key("dir/a"), "2", a)
	w.delete(t.key("dir/b"), b)
	net.plug(true)
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
	countdown int              // pieces that clients send until an answer is lost; 0 = no answer is lost
	lost      bool             // an answer was lost
	delay     time.Duration    // of what clients send
	waits     [2]chan struct{} // to the server, to the client: closed when the silence is over; nil if there is none
	halted    chan struct{}    // nil unless nothing passes, in either direction, not even the end of a connection
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
		w.silence(false, false)
		w.plug(false)
		w.goOn()
		w.wg.Wait()
	})
	return w
}

func (w *wire) addr() string { return w.l.Addr().String() }

// carry copies between a client's connection and a new one to the server, until one of
// them ends.
func (w *wire) carry(near net.Conn) {
	w.await()
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
		defer w.await()
		for piece := range w.delayed(pieces(near)) {
			w.waitFor(0)
			w.await()
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
		defer w.await()
		for piece := range pieces(far) {
			w.waitFor(1)
			w.await()
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

// halt stops the wire, as if the process of the client was frozen: connections stay open, and
// the server hears no more of them.
func (w *wire) halt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.halted = make(chan struct{})
}

// goOn ends a halt.
func (w *wire) goOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.halted != nil {
		close(w.halted)
		w.halted = nil
	}
}

// await waits for the end of a halt.
func (w *wire) await() {
	w.mu.Lock()
	halted := w.halted
	w.mu.Unlock()
	if halted != nil {
		<-halted
	}
}

// cutOff cuts the wire for good.
func (w *wire) cutOff() { w.plug(false) }

// plug cuts the wire, or ends the cut.
func (w *wire) plug(in bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out = !in; w.out {
		w.cut()
	}
}

// silence makes what is sent in a direction wait from now on, or go on.
func (w *wire) silence(toServer, toClient bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, on := range []bool{toServer, toClient} {
		switch silent := w.waits[i] != nil; {
		case on && !silent:
			w.waits[i] = make(chan struct{})
		case !on && silent:
			close(w.waits[i])
			w.waits[i] = nil
		}
	}
}

// waitFor waits until a direction is not silent.
func (w *wire) waitFor(direction int) {
	w.mu.Lock()
	over := w.waits[direction]
	w.mu.Unlock()
	if over != nil {
		<-over
		w.waitFor(direction)
	}
}

func (w *wire) cut() {
	for _, c := range w.ends {
		c.Close()
	}
	w.ends = nil
}
