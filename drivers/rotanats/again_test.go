package rotanats

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// TestWritesAreSentAgain writes to a bucket with replicas whose leader answers the third time
// only: it is the same write each time. A server that stands alone is not asked twice.
func TestWritesAreSentAgain(t *testing.T) {
	t.Parallel()
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	nc, err := nats.Connect(ns.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	sent := make(chan *nats.Msg, 10)
	if _, err := nc.ChanSubscribe("$KV.b.key", sent); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	s := newStore(newLink(ns.ClientURL(), nil), "b")
	t.Cleanup(func() { s.Close() })

	s.bucket = &bucket{replicas: 3}
	go func() {
		first := <-sent
		for n := 2; ; n++ {
			m := <-sent
			for _, name := range []string{headerWrite, headerExpected, nats.MsgIdHdr} {
				if got, want := m.Header.Get(name), first.Header.Get(name); got != want || got == "" {
					t.Errorf("%s is %q, of the first write %q", name, got, want)
				}
			}
			if n == 3 {
				m.Respond([]byte(`{"stream":"KV_b","seq":8}`))
				return
			}
		}
	}()
	if rev, err := s.write(t.Context(), "key", []byte("value"), 7, nil); err != nil || rev != 8 {
		t.Errorf("revision %d, %v, want 8", rev, err)
	}

	s.bucket = &bucket{replicas: 1}
	ctx, cancel := context.WithTimeout(t.Context(), 3*replyTimeout)
	defer cancel()
	if _, err := s.write(ctx, "key", []byte("value"), 8, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody answers: %v", err)
	}
	if n := len(sent); n != 1 {
		t.Errorf("it was sent %d times, want once", n)
	}
}
