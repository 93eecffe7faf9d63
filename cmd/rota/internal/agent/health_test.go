package agent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// probe is what a handler answers to one request.
func probe(h http.Handler, method, path string, head ...string) (code int, kind, body string) {
	r, w := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
	for _, accept := range head {
		r.Header.Set("Accept", accept)
	}
	h.ServeHTTP(w, r)
	return w.Code, w.Header().Get("Content-Type"), w.Body.String()
}

func TestProbesAreAnsweredInOneLine(t *testing.T) {
	const text, kind = "text/plain; charset=utf-8", "application/json"
	unready := errors.New("rota: it has no lease: the store does not answer: \x1b[2J\nconnection refused")
	for _, c := range []struct {
		ready               error
		method, path        string
		accept              string
		code                int
		contentType, answer string
	}{
		{nil, "GET", "/readyz", "", 200, text, "ready\n"},
		{nil, "GET", "/healthz", "", 200, text, "alive\n"},
		{nil, "GET", "/readyz?format=json", "", 200, kind, `{"ok":true}` + "\n"},
		{nil, "GET", "/healthz", "application/json", 200, kind, `{"ok":true}` + "\n"},
		{unready, "GET", "/readyz", "", 503, text, `not ready: "it has no lease: the store does not answer: \x1b[2J\nconnection refused"` + "\n"},
		{unready, "GET", "/readyz", "application/json", 503, kind, `{"ok":false,"reason":"\"it has no lease: the store does not answer: \\x1b[2J\\nconnection refused\""}` + "\n"},
		{unready, "GET", "/healthz", "", 200, text, "alive\n"},
		{nil, "POST", "/readyz", "", 405, text, "Method Not Allowed\n"},
		{nil, "DELETE", "/healthz", "", 405, text, "Method Not Allowed\n"},
		{nil, "GET", "/", "", 404, text, "404 page not found\n"},
	} {
		h := (&health{}).handler(func(context.Context) error { return c.ready })
		accept := []string{c.accept}
		if c.accept == "" {
			accept = nil
		}
		code, contentType, answer := probe(h, c.method, c.path, accept...)
		if code != c.code || contentType != c.contentType || answer != c.answer {
			t.Errorf("%s %s with %v, accepting %q: %d %s %q, want %d %s %q", c.method, c.path, c.ready, c.accept, code, contentType, answer, c.code, c.contentType, c.answer)
		}
		if code, _, _ := probe(h, "HEAD", "/readyz"); c.ready == nil && code != 200 {
			t.Errorf("HEAD /readyz: %d", code)
		}
	}
}

// A loop that is held up is asked once at a time, and is the one thing that /healthz
// complains of.
func TestALoopThatIsHeldUpIsNotAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		h := (&health{}).handler(func(ctx context.Context) error {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			<-ctx.Done()
			return ctx.Err()
		})
		var all sync.WaitGroup
		for _, path := range []string{"/healthz", "/readyz", "/healthz", "/readyz"} {
			all.Go(func() {
				began := time.Now()
				code, _, body := probe(h, "GET", path)
				if code != 503 || !strings.HasSuffix(body, ": the loop of this member has not answered for 2s\n") || time.Since(began) > 3*time.Second {
					t.Errorf("%s: %d %q after %v", path, code, body, time.Since(began))
				}
			})
		}
		all.Wait()
		if most.Load() != 1 {
			t.Errorf("the loop was asked %d times at once", most.Load())
		}
	})
}

// Idle connections, however many, do not use up a member's descriptors.
func TestProbesHaveFewConnections(t *testing.T) {
	var h health
	conns := make([]*closing, 2*mostProbes)
	for i := range conns {
		conns[i] = &closing{}
		h.count(conns[i], http.StateNew)
		if conns[i].closed != (i >= mostProbes) {
			t.Fatalf("connection %d is closed: %v", i+1, conns[i].closed)
		}
	}
	for _, c := range conns {
		h.count(c, http.StateClosed)
	}
	last := &closing{}
	if h.count(last, http.StateNew); last.closed {
		t.Error("connections that were closed count")
	}
}

type closing struct {
	net.Conn
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

func TestHealthRefusesBadAddresses(t *testing.T) {
	for _, addr := range []string{"8086", "127.0.0.1", "127.0.0.1:http", ":0", "127.0.0.1:70000", "http://127.0.0.1:8086"} {
		if _, err := listenHealth(addr); err == nil || !strings.Contains(err.Error(), "want HOST:PORT") {
			t.Errorf("%s: %v", addr, err)
		}
	}
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	taken := other.Addr().String()
	if _, err := listenHealth(taken); err == nil || !strings.Contains(err.Error(), "--health "+taken+" cannot be listened on: ") || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a port that is taken: %v", err)
	}
	if h, err := listenHealth(""); h != nil || err != nil {
		t.Errorf("no address: %v, %v", h, err)
	}
}
