package rotanats_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// TestLargeMessagesAreNotHoarded has a handler that is quick at first, so that much is
// fetched ahead, and then blocks. The broker must have delivered a bounded number of bytes
// by then. A message that is larger than the bound is handled like any other, in order.
func TestLargeMessagesAreNotHoarded(t *testing.T) {
	t.Parallel()
	const (
		mega  = 1 << 20
		count = 150
		quick = 40
		giant = 100      // the number of the largest message
		most  = 3*16 + 2 // megabytes that one partition may hold
	)
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 32 * mega})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server does not start")
	}
	b := newBroker(t, "nats://"+ns.Addr().String(), func(c *jetstream.StreamConfig) { c.MaxMsgSize = 32 * mega })
	b.names = b.names[:1]
	for i := 1; i <= count; i++ {
		size := mega - 1024
		if i == giant {
			size = 20 * mega
		}
		if _, err := b.js.Publish(t.Context(), b.names[0], make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	reached, goOn, sizes := make(chan struct{}), make(chan struct{}), make(chan int, count)
	handled := 0
	newLedger(t).member("a", rotatest.NewMemStore(), b.Source(), func(c *rota.Config) {
		c.Handle = func(ctx context.Context, m rota.Message) error {
			if handled++; handled == quick {
				close(reached)
				select {
				case <-goOn:
				case <-ctx.Done():
				}
			}
			if int(m.Position) != handled {
				t.Errorf("message %d came when %d was expected", m.Position, handled)
			}
			sizes <- len(m.Value)
			return nil
		}
	})
	timeout := time.After(2 * time.Minute)
	select {
	case <-reached:
	case <-timeout:
		t.Fatal("it was not handled")
	}
	ahead := b.settled(timeout) - quick
	t.Logf("%d MB were fetched ahead", ahead)
	if ahead > most {
		t.Errorf("%d MB were fetched ahead, want %d at most", ahead, most)
	}
	close(goOn)
	for i := 1; i <= count; i++ {
		select {
		case size := <-sizes:
			if (size > 16*mega) != (i == giant) {
				t.Errorf("message %d has %d bytes", i, size)
			}
		case <-timeout:
			t.Fatalf("message %d did not come", i)
		}
	}
}

// settled waits until the broker delivers no more messages to the only consumer, and
// returns how many it has delivered.
func (b *broker) settled(timeout <-chan time.Time) int {
	b.t.Helper()
	st, err := b.js.Stream(b.t.Context(), b.stream)
	if err != nil {
		b.t.Fatal(err)
	}
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		for info := range st.ListConsumers(b.t.Context()).Info() {
			if info.NumPending == 0 || info.NumWaiting == 0 {
				return int(info.Delivered.Consumer)
			}
		}
		select {
		case <-tick.C:
		case <-timeout:
			b.t.Fatal("the broker does not come to rest")
		}
	}
}
