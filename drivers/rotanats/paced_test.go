package rotanats_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
)

// TestSlowMessagesArePaced makes messages slow, hands the partition over and makes them quick
// again. While they are slow, no more than two are unacknowledged, and pulls are few.
func TestSlowMessagesArePaced(t *testing.T) {
	t.Parallel()
	r := newRounds(t, 0)
	r.b.names = r.b.names[:1]
	var slow atomic.Bool
	slow.Store(true)
	r.other = func(rota.Message) bool {
		if slow.Load() {
			time.Sleep(8 * time.Millisecond)
		}
		return false
	}
	var pulls atomic.Int64
	if _, err := r.b.js.Conn().Subscribe("$JS.API.CONSUMER.MSG.NEXT."+r.b.stream+".>", func(*nats.Msg) { pulls.Add(1) }); err != nil {
		t.Fatal(err)
	}
	r.b.flow(1, 300)
	first, leave := "", r.run(20)
	for _, who := range []string{"the first owner", "the next owner"} {
		info := r.limited(t, who, 2)
		if first == "" {
			first = info.Name
		}
		if info.Name != first || info.NumAckPending > 2 {
			t.Errorf("%s: %s instead of %s, %d unacknowledged messages", who, info.Name, first, info.NumAckPending)
		}
		leave()
		before := pulls.Load()
		leave = r.run(40)
		if n := pulls.Load() - before; n > 20 {
			t.Errorf("%d pulls for 40 slow messages", n)
		}
	}
	slow.Store(false)
	r.limited(t, "an owner whose messages are quick", 2*256)
	r.wait("all messages", time.Minute, r.reached(r.b, 300))
	leave()
	if r.again > 0 {
		t.Errorf("%d messages came again", r.again)
	}
}

// limited waits until the partition's consumer permits so many unacknowledged messages.
func (r *rounds) limited(t *testing.T, who string, most int) *jetstream.ConsumerInfo {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		c, err := r.b.js.Consumer(ctx, r.b.stream, r.b.consumer(r.b.names[0]))
		if err != nil {
			t.Fatalf("%s: %v", who, err)
		}
		if info := c.CachedInfo(); info.Config.MaxAckPending == most {
			return info
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s permits %d unacknowledged messages, want %d", who, c.CachedInfo().Config.MaxAckPending, most)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
