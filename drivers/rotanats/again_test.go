package rotanats

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota"
)

// TestWritesAreSentAgain writes to a bucket with replicas whose leader answers the third time
// only: it is the same write each time. If the answer is a refusal, the write may have happened
// before: a read tells, or nobody can. A server that stands alone is not asked twice.
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
	const accepted, refused = `{"stream":"KV_b","seq":8}`, `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 9"}}`
	for _, c := range []struct {
		what     string
		replicas int
		answer   string // to the third attempt
		writer   string // of the record that is read then; "" if it is this write
		over     string
		rev      rota.Rev
		err      error // errors.Is; nil for any
		fails    bool
	}{
		{what: "accepted", replicas: 3, answer: accepted, rev: 8},
		{what: "refused, since it had been accepted", replicas: 3, answer: refused, over: "7", rev: 9},
		{what: "refused, since another was first", replicas: 3, answer: refused, writer: "another", over: "7", err: rota.ErrConflict, fails: true},
		{what: "refused, and replaced more than once", replicas: 3, answer: refused, writer: "another", over: "8", err: errDeposed, fails: true},
		{what: "not answered", replicas: 1, err: context.DeadlineExceeded, fails: true},
	} {
		t.Run(c.what, func(t *testing.T) {
			sent := make(chan *nats.Msg, 10)
			writes, err := nc.ChanSubscribe("$KV.b.key", sent)
			if err != nil {
				t.Fatal(err)
			}
			defer writes.Unsubscribe()
			ids := make(chan string, 1)
			reads, err := nc.Subscribe("$JS.API.STREAM.MSG.GET.KV_b", func(m *nats.Msg) {
				if c.writer == "" {
					c.writer = <-ids
				}
				var got storedMessage
				got.Message.Subject, got.Message.Seq = "$KV.b.key", 9
				got.Message.Hdrs = []byte("NATS/1.0\r\n" + headerWrite + ": " + c.writer + "\r\n" + headerExpected + ": " + c.over + "\r\n\r\n")
				b, err := json.Marshal(&got)
				if err != nil {
					t.Error(err)
				}
				m.Respond(b)
			})
			if err != nil {
				t.Fatal(err)
			}
			defer reads.Unsubscribe()
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			s := newStore(newLink(ns.ClientURL(), nil), "b")
			defer s.Close()
			s.bucket = &bucket{replicas: c.replicas}
			ctx, cancel := context.WithCancel(t.Context())
			if c.replicas == 1 {
				ctx, cancel = context.WithTimeout(t.Context(), 3*replyTimeout)
			} else {
				go answerThird(t, sent, ids, c.answer)
			}
			defer cancel()
			rev, err := s.write(ctx, "key", []byte("value"), 7, nil)
			if rev != c.rev || c.fails != (err != nil) || !errors.Is(err, c.err) {
				t.Errorf("revision %d, %v, want %d, %v", rev, err, c.rev, c.err)
			}
			if n := len(sent); c.replicas == 1 && n != 1 {
				t.Errorf("it was sent %d times, want once", n)
			}
		})
	}
}

// answerThird answers the third of three writes, which must be the same.
func answerThird(t *testing.T, sent <-chan *nats.Msg, ids chan<- string, answer string) {
	first := <-sent
	for range 2 {
		m := <-sent
		for _, name := range []string{headerWrite, headerExpected, nats.MsgIdHdr} {
			if got, want := m.Header.Get(name), first.Header.Get(name); got != want || got == "" {
				t.Errorf("%s is %q, of the first write %q", name, got, want)
			}
		}
		first = m
	}
	ids <- first.Header.Get(headerWrite)
	first.Respond([]byte(answer))
}
