package rotanats_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// TestGracefulHandOverKeepsTheConsumer hands partitions over in good order while messages
// are published to a stream on disk. nats-server sends deliveries in the loop that also
// stores messages, so a delivery may wait behind a write until the owner no longer
// listens. Beside other tests the broker may answer too late, so the share of consumers
// that are kept is checked by make nats-campaign alone.
func TestGracefulHandOverKeepsTheConsumer(t *testing.T) {
	t.Parallel()
	b := newBroker(t, rotatest.StartNATS(t).URL())
	l, mem := newLedger(t), rotatest.NewMemStore()
	for i := range 13 {
		b.names = append(b.names, fmt.Sprintf("%s.in.%d", b.stream, i+3))
	}
	b.pour(t)
	run := func(name string) (leave func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := l.memberUntil(ctx, name, mem.Open(), b.Source(), func(c *rota.Config) { c.Lease, c.Heartbeat = 0, 0 })
		return func() {
			t.Helper()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	everywhere := func() {
		t.Helper()
		l.mu.Lock()
		have := map[string]int{}
		for _, p := range b.names {
			have[p] = l.done[p]
		}
		l.mu.Unlock()
		l.wait("all partitions go on", 60*time.Second, func() bool {
			return !slices.ContainsFunc(b.names, func(p string) bool { return l.done[p] < have[p]+5 })
		})
	}
	leave := run("m0")
	everywhere()
	replaced, handed, rounds := 0, 0, 15
	if os.Getenv("ROTA_CAMPAIGN") != "" {
		rounds = 60
	}
	for i := range rounds {
		before := b.consumers()
		leave()
		leave = run(fmt.Sprint("m", i+1))
		everywhere()
		for _, name := range b.consumers() {
			handed++
			if !slices.Contains(before, name) {
				replaced++
			}
		}
	}
	leave()
	t.Logf("%d of %d hand-overs replaced the consumer; %d messages came again", replaced, handed, l.again)
	if most := handed / 20; os.Getenv("ROTA_CAMPAIGN") != "" && replaced > most || replaced == handed {
		t.Errorf("%d of %d hand-overs replaced the consumer", replaced, handed)
	}
}

// pour publishes to all partitions as fast as the server stores messages, until the test
// ends. Few are in flight at a time: deliveries wait behind all of them.
func (b *broker) pour(t testing.TB) {
	js, err := jetstream.New(b.js.Conn(), jetstream.WithPublishAsyncMaxPending(32))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 1; ctx.Err() == nil; n++ {
			for _, p := range b.names {
				if _, err := js.PublishAsync(p, fmt.Appendf(nil, "%s %d", p, n), jetstream.WithStallWait(30*time.Second)); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

// TestStrayDeliveryIsReadFromTheStream lets another client pull messages of the owner's
// consumer while others follow. The owner handles them in order, and keeps the consumer.
func TestStrayDeliveryIsReadFromTheStream(t *testing.T) {
	t.Parallel()
	b := newBroker(t, serve(t).URL())
	l := newLedger(t)
	l.member("a", rotatest.NewMemStore(), b.Source())
	sent := 5
	b.flow(1, sent)
	l.wait("the first messages", 20*time.Second, l.reached(b, sent))
	consumer := b.consumer(b.names[0])
	thief, err := b.js.Conn().SubscribeSync(nats.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	for stolen := 0; stolen == 0; stolen, _, err = thief.Pending() {
		if err != nil {
			t.Fatal(err)
		}
		// Requests are served in turn.
		if err := b.js.Conn().PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+b.stream+"."+consumer, thief.Subject, []byte(`{"batch":3,"expires":60000000000}`)); err != nil {
			t.Fatal(err)
		}
		b.flow(sent+1, sent+50)
		sent += 50
		l.wait("all messages", 20*time.Second, l.reached(b, sent))
	}
	if now := b.consumer(b.names[0]); now != consumer {
		t.Errorf("consumer %s was replaced by %s", consumer, now)
	}
	if l.again > 0 {
		t.Errorf("%d messages came again", l.again)
	}
}
