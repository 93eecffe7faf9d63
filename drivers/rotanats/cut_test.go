package rotanats_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
)

// A cable is a TCP proxy that can be disconnected.
type cable struct {
	to     string
	l      net.Listener
	mu     sync.Mutex
	out    bool
	broken []net.Conn
}

func newCable(t testing.TB, to string) *cable {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{to: to, l: l}
	t.Cleanup(func() { l.Close(); c.plug(false) })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			c.carry(near)
		}
	}()
	return c
}

func (c *cable) carry(near net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	far, err := net.Dial("tcp", c.to)
	if err != nil || c.out {
		near.Close()
		return
	}
	c.broken = append(c.broken, near, far)
	go io.Copy(far, near)
	go io.Copy(near, far)
}

// plug connects or disconnects it.
func (c *cable) plug(in bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = !in
	if c.out {
		for _, conn := range c.broken {
			conn.Close()
		}
		c.broken = nil
	}
}

// TestWatchEndsWithItsConnection disconnects a watch. It must end with an error, since it
// misses the changes until the next connect.
func TestWatchEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	s := serve(t)
	wire := newCable(t, s.Addr())
	w, r := rotanats.Store(s.URL()), rotanats.Store("nats://"+wire.l.Addr().String())
	defer w.Close()
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	rev, err := w.Put(ctx, "k", []byte("1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	var newest rota.Rev
	for batch, err := range r.Watch(ctx, "k") {
		if err != nil {
			break // as it should
		}
		newest = batch[0].Rev
		if newest != rev {
			t.Fatalf("after it was cut off the watch goes on with revision %d", newest)
		}
		wire.plug(false)
		if _, err = w.Put(ctx, "k", []byte("2"), rev); err != nil {
			t.Fatal(err)
		}
		wire.plug(true)
	}
	if ctx.Err() != nil {
		t.Fatal("the watch goes on, and shows nothing")
	}
	e, err := r.Get(ctx, "k") // the link connects again by itself
	if err != nil || string(e.Value) != "2" {
		t.Errorf("%q, %v", e.Value, err)
	}
}
