package rotatest

import (
	"bufio"
	"io"
	"net"
	"testing"
)

// TestAWireCanBePulledOut shows that a cut breaks connections, and that none can be
// made until it ends.
func TestAWireCanBePulledOut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	w := newWire(t, l.Addr().String())
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", w.addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	says := func(c net.Conn) bool {
		io.WriteString(c, "hello\n")
		line, err := bufio.NewReader(c).ReadString('\n')
		return err == nil && line == "hello\n"
	}
	c := dial()
	if !says(c) {
		t.Fatal("nothing comes through")
	}
	w.plug(false)
	if says(c) || says(dial()) {
		t.Error("something comes through a wire that is out")
	}
	w.plug(true)
	if says(c) || !says(dial()) {
		t.Error("a wire that is in again carries what was cut, or nothing new")
	}
}
