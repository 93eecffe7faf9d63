package rotanats_test

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// An impostor listens where a server is expected: it sends the first line of a server and
// keeps everything that it receives.
type impostor struct {
	net.Listener
	mu   sync.Mutex
	all  strings.Builder
	open sync.WaitGroup
}

func newImpostor(t testing.TB) *impostor {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &impostor{Listener: l}
	t.Cleanup(func() { l.Close() })
	e.open.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			e.open.Go(func() { e.listen(conn) })
		}
	})
	return e
}

func (e *impostor) listen(conn net.Conn) {
	defer conn.Close()
	conn.Write([]byte(`INFO {"server_id":"x","version":"2.11.0","proto":1,"headers":true,"max_payload":1048576,"auth_required":true,"nonce":"abcdefghijk"}` + "\r\n"))
	buf := make([]byte, 4<<10)
	n, _ := conn.Read(buf) // a client sends CONNECT in one write
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all.Write(buf[:n])
}

// received closes the impostor and returns everything it has received.
func (e *impostor) received() string {
	e.Close()
	e.open.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all.String()
}
