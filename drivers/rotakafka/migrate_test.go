package rotakafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotakafka"
)

// migrates does what docs/migrate.md says of Kafka: a consumer group of franz-go consumes a topic
// for a while, is stopped while messages flow, and a rota group goes on, under the same name or
// under another one. Each message is handled once.
func migrates(t *testing.T, b *broker) {
	for name, query := range map[string]string{"same name": "every=50ms", "other name": "every=50ms&takeover="} {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t, b.addr)
			l := newLedger(t)
			old := l.group
			if name != "same name" {
				query += old
				l.group = "new-" + old
			}
			halt := b.flow(t)
			stop := b.plain(t, l, old)
			for _, p := range b.names {
				l.handled(p, 20)
			}
			l.member(b.with(query).open())
			l.tells("source-failed", "Kafka group "+old+" has members of its own", "stop them")
			stop()
			for _, p := range b.names {
				l.handled(p, len(l.values(p))+20)
			}
			sent := halt()
			for _, p := range b.names {
				l.handled(p, sent)
				var want []string
				for _, v := range numbered(1, sent) {
					want = append(want, string(v))
				}
				if got := l.values(p); !slices.Equal(got, want) {
					t.Errorf("%s: handled were %v, want each of 1 to %d once", p, got, sent)
				}
			}
		})
	}
}

// flow publishes numbered messages to all partitions until halt is called, which returns the last
// number.
func (b *broker) flow(t *testing.T) (halt func() int) {
	ctx, stop := context.WithCancel(context.Background())
	n, ended := 0, make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			n++
			for _, p := range b.names {
				if err := b.Publish(p, numbered(n, n)...); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	halt = sync.OnceValue(func() int { stop(); <-ended; return n })
	t.Cleanup(func() { halt() })
	return halt
}

// plain is a consumer group of the Kafka client, which commits what it has handled after each
// poll. stop ends it between two polls, and leaves the Kafka group.
func (b *broker) plain(t *testing.T, l *ledger, group string) (stop func()) {
	c := newClient(t, b.addr, kgo.ConsumerGroup(group), kgo.ConsumeTopics(b.topic), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			got := c.PollFetches(ctx)
			if err := got.Err(); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			got.EachRecord(func(r *kgo.Record) {
				l.handle(ctx, rota.Message{Partition: rotakafka.PartitionName(r.Topic, r.Partition), Value: r.Value})
			})
			if err := c.CommitRecords(context.Background(), got.Records()...); err != nil {
				t.Error(fmt.Errorf("the client commits: %w", err))
			}
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended; c.Close() })
	t.Cleanup(stop)
	return stop
}
