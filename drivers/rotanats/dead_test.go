package rotanats_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// poisoned is a handler that fails for poison messages, and counts its calls.
type poisoned struct {
	mu    sync.Mutex
	calls map[string]int
	more  chan struct{} // has one element when the handler was called
}

func (p *poisoned) handle(_ context.Context, m rota.Message) error {
	p.mu.Lock()
	p.calls[string(m.Value)]++
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
	if strings.HasPrefix(string(m.Value), "poison") {
		return errors.New("poison")
	}
	return nil
}

func (p *poisoned) called(value string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[value]
}

func newPoisoned() *poisoned { return &poisoned{calls: map[string]int{}, more: make(chan struct{}, 1)} }

// TestNoOrderToTheServerReachesADeadLetter publishes messages with headers that begin with
// Nats-, which are instructions to the server. They must not be repeated in the dead
// letter: with the headers of an atomic batch the server would refuse it for ever.
func TestNoOrderToTheServerReachesADeadLetter(t *testing.T) {
	t.Parallel()
	b := newBroker(t, serve(t).URL(), func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = true })
	p := b.names[0]
	publish := func(value string, header ...string) {
		t.Helper()
		msg := nats.NewMsg(p)
		msg.Data = []byte(value)
		for i := 0; i < len(header); i += 2 {
			msg.Header.Set(header[i], header[i+1])
		}
		r, err := b.js.Conn().RequestMsg(msg, 10*time.Second)
		if err != nil || strings.Contains(string(r.Data), `"error"`) {
			t.Fatalf("publish %s: %v, %v", value, r, err)
		}
	}
	publish("poison 1", "Nats-Batch-Id", "x", "Nats-Batch-Sequence", "1", "App", "kept")
	publish("poison 2", "Nats-Batch-Id", "x", "Nats-Batch-Sequence", "2", "Nats-Batch-Commit", "1", "App", "kept")
	publish("poison 3", "Nats-Of-Tomorrow", "x", "nats-rollup", "all", "App", "kept")
	publish("sound")
	h, l := newPoisoned(), newLedger(t)
	l.member("a", rotatest.NewMemStore(), b.Source(), func(c *rota.Config) { c.Handle, c.Attempts = h.handle, 2 })
	for timeout := time.After(30 * time.Second); h.called("sound") == 0; {
		select {
		case <-h.more:
		case <-timeout:
			t.Fatalf("the message behind the dead ones does not come; the first was tried %d times", h.called("poison 1"))
		}
	}
	st, err := b.js.Stream(t.Context(), b.stream+"_dead")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"poison 1", "poison 2", "poison 3"} {
		m, err := st.GetMsg(t.Context(), uint64(i+1))
		if err != nil || string(m.Data) != want {
			t.Fatalf("dead letter %d: %v, %v; want %s", i+1, m, err, want)
		}
		if n := h.called(want); n != 2 {
			t.Errorf("%s was tried %d times", want, n)
		}
		if m.Header.Get("App") != "kept" || m.Header.Get("Rota-Error") == "" {
			t.Errorf("dead letter %d has lost headers: %v", i+1, m.Header)
		}
		for k := range m.Header {
			if strings.HasPrefix(strings.ToLower(k), "nats-") && k != nats.MsgIdHdr {
				t.Errorf("dead letter %d has the header %s", i+1, k)
			}
		}
	}
}

// TestRefusedDeadLetterIsTold lets no stream accept the dead letter. The message stays,
// and a condition names the cause.
func TestRefusedDeadLetterIsTold(t *testing.T) {
	t.Parallel()
	b := newBroker(t, serve(t).URL())
	_, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: b.stream + "_dead", Subjects: []string{"dead." + b.stream + ".>"}, MaxMsgSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(b.names[0], []byte("poison")); err != nil {
		t.Fatal(err)
	}
	reported := make(chan string, 1000)
	h, l := newPoisoned(), newLedger(t)
	l.member("a", rotatest.NewMemStore(), b.Source(), func(c *rota.Config) {
		c.Handle, c.Attempts = h.handle, 2
		c.Trace = func(e rota.Event) {
			if e.Kind == rota.EventCondition {
				reported <- e.Partition + ": " + e.Because
			}
		}
	})
	want := b.names[0] + ": the source failed: rotanats: cannot dead-letter: message 1 of it to dead." + b.stream + "." + b.names[0]
	var all []string
	for timeout := time.After(30 * time.Second); ; {
		select {
		case text := <-reported:
			all = append(all, text)
		case <-timeout:
			t.Fatalf("nobody is told, and the message was tried %d times; told: %q", h.called("poison"), all)
		}
		if slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, want) }) {
			return
		}
	}
}
