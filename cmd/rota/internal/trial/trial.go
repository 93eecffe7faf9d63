// Package trial is what the tests of several rooms share. Nothing but tests imports
// it.
package trial

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Buffer is one that several may write to.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Patience is how long tests wait for what must come: machines are slow at times.
const Patience = 60 * time.Second

// Until waits for a condition that real processes bring about.
func Until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", Patience, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// In asks that all of want stand in got, in that order.
func In(t *testing.T, got string, want ...string) {
	t.Helper()
	rest := got
	for _, w := range want {
		_, after, ok := strings.Cut(rest, w)
		if !ok {
			t.Errorf("no %q, or not in its place, in\n%s", w, got)
			return
		}
		rest = after
	}
}

// FreePort is an address of this machine that nobody listens at.
func FreePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
