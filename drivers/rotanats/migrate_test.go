package rotanats_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// TestMigrate does what docs/migrate.md says of NATS: a durable consumer of the NATS client reads
// a stream for a while, is stopped while messages flow, and a group goes on. Each message is
// handled once.
func TestMigrate(t *testing.T) {
	t.Parallel()
	for name, retention := range map[string]jetstream.RetentionPolicy{"limits": jetstream.LimitsPolicy, "interest": jetstream.InterestPolicy, "work queue": jetstream.WorkQueuePolicy} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, l := newBroker(t, serve(t).URL(), func(c *jetstream.StreamConfig) { c.Retention = retention }), newLedger(t)
			stop := b.plain(l)
			halt := b.keepPublishing(t, b.names)
			handled := func(n int) func() bool {
				return func() bool { return !slices.ContainsFunc(b.names, func(p string) bool { return l.done[p] < n }) }
			}
			l.wait("the client handles messages", 30*time.Second, handled(20))
			found, group, mem := newFindings(), b.with("after=plain"), rotatest.NewMemStore()
			if retention == jetstream.WorkQueuePolicy {
				group = b
			}
			l.member("m", mem.Open(), group.Source(), found.tune)
			if retention == jetstream.WorkQueuePolicy {
				found.wait(t, "consumer plain, which no group of rota has made, reads it: remove that consumer")
			} else {
				found.wait(t, "after=plain: that consumer is in use: stop its clients")
			}
			stop()
			if retention == jetstream.WorkQueuePolicy {
				b.removePlain()
			}
			l.mu.Lock()
			least := slices.Max([]int{l.done[b.names[0]], l.done[b.names[1]], l.done[b.names[2]]})
			l.mu.Unlock()
			l.wait("the group goes on", time.Minute, handled(least+20))
			if retention == jetstream.InterestPolicy {
				b.removePlain()
			}
			sent := halt()
			l.wait("everything is handled", time.Minute, func() bool {
				return l.done[b.names[0]] == sent[0] && l.done[b.names[1]] == sent[1] && l.done[b.names[2]] == sent[2]
			})
			if l.again > 0 {
				t.Errorf("%d messages were handled twice", l.again)
			}
		})
	}
}

// plain consumes all partitions by a durable of the NATS client. stop is what the page says: the
// message in hand is finished and its acknowledgement confirmed, and no other is begun.
func (b *broker) plain(l *ledger) (stop func()) {
	b.t.Helper()
	c, err := b.js.CreateConsumer(b.t.Context(), b.stream, jetstream.ConsumerConfig{Durable: "plain", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		b.t.Fatal(err)
	}
	var mu sync.Mutex // of the message in hand
	var stopped bool
	run, err := c.Consume(func(m jetstream.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		l.handle(context.Background(), rota.Message{Partition: m.Subject(), Value: m.Data()})
		if err := m.DoubleAck(context.Background()); err != nil {
			b.t.Error(err)
		}
	}, jetstream.PullMaxMessages(5000)) // so many that a request is always open
	if err != nil {
		b.t.Fatal(err)
	}
	return func() {
		mu.Lock()
		stopped = true
		mu.Unlock()
		run.Stop()
	}
}

func (b *broker) removePlain() {
	b.t.Helper()
	if err := b.js.DeleteConsumer(b.t.Context(), b.stream, "plain"); err != nil {
		b.t.Fatal(err)
	}
}
