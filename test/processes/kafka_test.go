//go:build linux

package processes

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rota-dev/rota/rotatest"
)

var kafka = rotatest.Share(rotatest.StartKafka)

// kafkaBroker is a Kafka in which every test has a topic. Where partitions come and go, each is
// the only one of a topic of its own: partitions of a topic are never removed.
func kafkaBroker(t *testing.T) *broker {
	s := kafka.Server(t)
	b := &broker{server: s, addr: s.Addr(), like: "-%d", topics: true, fixed: true, beat: heartbeat, window: 10_000, create: growTopic}
	b.source = func(c *crew, addr string) string { return "kafka://" + addr + "?topic=" + c.stream() }
	lists := *b
	lists.like, lists.topics = ".%d-0", false
	lists.source = func(c *crew, addr string) string {
		return "kafka://" + addr + "?pattern=" + url.QueryEscape(c.stream()+`\.[0-9]+`)
	}
	lists.create = func(c *crew, from, to int) {
		for n := from; n < to; n++ {
			makeTopic(c, fmt.Sprintf("%s.%d", c.stream(), n), 1)
		}
	}
	lists.remove = func(c *crew, n int) {
		c.Helper()
		if got, err := kafkaAdmin(c).DeleteTopics(c.Context(), fmt.Sprintf("%s.%d", c.stream(), n)); err != nil || got.Error() != nil {
			c.Fatal(errors.Join(err, got.Error()))
		}
	}
	b.lists = &lists
	return b
}

// growTopic gives the test's topic more partitions, and makes it first if it has none.
func growTopic(c *crew, from, to int) {
	c.Helper()
	if from == 0 {
		makeTopic(c, c.stream(), to)
		return
	}
	if got, err := kafkaAdmin(c).UpdatePartitions(c.Context(), to, c.stream()); err != nil || got.Error() != nil {
		c.Fatal(errors.Join(err, got.Error()))
	}
}

func kafkaAdmin(c *crew) *kadm.Client {
	c.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.host.broker.addr), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// makeTopic makes a topic and waits until it can be used. One that was deleted a moment ago may
// still be there.
func makeTopic(c *crew, name string, partitions int) {
	c.Helper()
	admin := kafkaAdmin(c)
	made := func() bool {
		_, err := admin.CreateTopic(c.Context(), int32(partitions), 1, nil, name)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			c.Fatal(err)
		}
		return err == nil
	}
	c.until("topic "+name+" to be made", made)
	c.until("topic "+name+" to have leaders", func() bool {
		got, err := admin.ListEndOffsets(c.Context(), name)
		return err == nil && got.Error() == nil && len(got[name]) == partitions
	})
	c.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience) // that of the test has ended
		defer cancel()
		admin.DeleteTopics(ctx, name)
	})
}
