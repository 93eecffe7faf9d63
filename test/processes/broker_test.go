//go:build linux

package processes

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaactive"
	"github.com/rota-dev/rota/drivers/rotakafka"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotarabbit"
	"github.com/rota-dev/rota/rotatest"
)

// A broker is where messages are. Each test has a name of its own there, see crew.stream.
type broker struct {
	addr   string
	like   string                            // how the name of a partition goes on behind that of the test
	source func(c *crew, addr string) string // URL of the test's partitions, at one of the broker's addresses

	server *rotatest.RealServer // nil if it is the store as well
	beat   time.Duration        // how often owners show the broker that they live; where they do not, the group's own heartbeat
	window int                  // messages that an owner may have handled and not settled

	begin  func(c *crew)               // makes what a test needs before it has a partition; nil if there is nothing
	create func(c *crew, from, to int) // makes partitions, the last excluded; nil if members and publishers do
	remove func(c *crew, n int)        // removes a partition with its messages; nil if nobody can
	lists  *broker                     // the broker with a source that finds out which partitions there are; nil if there is none

	topics bool                                   // partitions have a topic, which is called as the test
	fixed  bool                                   // it tells clients where to connect to: they have to find it there
	stream func(t testing.TB) jetstream.JetStream // of NATS alone
}

// brokers are the kinds of broker. NATS comes with the store.
var brokers = map[string]func(*testing.T) *broker{
	"nats":             nil,
	"rabbitmq-classic": rabbitBroker("classic"),
	"rabbitmq-quorum":  rabbitBroker("quorum"),
	"activemq-stomp":   activeBroker("stomp", "stomp"),
	"activemq-amqp":    activeBroker("amqp10", "amqp"),
	"kafka":            kafkaBroker,
}

// natsBroker is a NATS as the broker. user is what stands before its host in a URL.
func natsBroker(addr, user string) *broker {
	return &broker{
		addr: addr, like: ".%d", topics: true, beat: heartbeat, window: 64,
		source: func(c *crew, addr string) string {
			query := "stream=" + c.stream() + "&subject=" + c.stream() + ".*&create=true"
			if !c.finds {
				query += "&partitions=" + strconv.Itoa(c.parts)
			}
			return "nats://" + user + addr + "?" + query
		},
		stream: func(t testing.TB) jetstream.JetStream {
			nc, err := nats.Connect("nats://"+user+addr, nats.MaxReconnects(-1))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			js, err := jetstream.New(nc)
			if err != nil {
				t.Fatal(err)
			}
			return js
		},
	}
}

// openSource opens the source that a URL names.
func openSource(url string) rota.Source {
	switch scheme, _, _ := strings.Cut(url, ":"); scheme {
	case "amqp":
		return rotarabbit.Source(url)
	case "stomp", "amqp10":
		return rotaactive.Source(url)
	case "kafka":
		return rotakafka.Source(url)
	}
	return rotanats.Source(url)
}

// stream is the name of a test at its broker: a stream of NATS and the first word of its
// subjects, a virtual host of RabbitMQ, a topic of Kafka.
func (c *crew) stream() string { return "q" + c.host.bucket(c.T) }

// partition is the name of a partition that scenarios call q and its number.
func (c *crew) partition(n int) string { return c.stream() + fmt.Sprintf(c.host.broker.like, n) }

// part is what scenarios call a partition.
func (c *crew) part(name string) string {
	before, after, _ := strings.Cut(c.host.broker.like, "%d")
	return "q" + strings.TrimSuffix(strings.TrimPrefix(name, c.stream()+before), after)
}

// sourceURL names the test's partitions as somebody sees them who is nowhere special.
func (c *crew) sourceURL() string { return c.host.broker.source(c, c.host.broker.addr) }

// find lets the source find out by itself which partitions there are, where the broker can
// tell: they appear when something is published. Elsewhere they are those of a list.
func (c *crew) find() {
	c.finds = true
	if lists := c.host.broker.lists; lists != nil {
		h := *c.host
		h.broker = lists
		c.host = &h
	}
}

// ready makes what has to be there before members start.
func (c *crew) ready() {
	c.Helper()
	if b := c.host.broker; b.begin != nil && !c.begun {
		b.begin(c)
	}
	c.begun = true
	if !c.finds {
		c.appear()
	}
}

// appear makes the partitions that are not there yet.
func (c *crew) appear() {
	c.Helper()
	if b := c.host.broker; b.create != nil && c.created < c.parts {
		b.create(c, c.created, c.parts)
	}
	c.created = c.parts
}

// numbered is a range of names in the URLs of sources that know such.
func (c *crew) numbered() string { return fmt.Sprintf("%s.{0..%d}", c.stream(), max(c.parts, 1)-1) }

// A publisher appends to partitions. Publish returns when the broker has stored the values.
type publisher interface {
	Publish(ctx context.Context, partition string, values ...[]byte) error
}

// publisher publishes as rota produce does.
func (c *crew) publisher() publisher {
	c.Helper()
	if b := c.host.broker; b.stream != nil {
		return natsPublisher{b.stream(c)}
	}
	s := openSource(c.sourceURL())
	c.Cleanup(func() { s.(interface{ Close() error }).Close() })
	return s.(publisher)
}

type natsPublisher struct{ js jetstream.JetStream }

func (p natsPublisher) Publish(ctx context.Context, partition string, values ...[]byte) error {
	for _, v := range values {
		if _, err := p.js.Publish(ctx, partition, v); err != nil {
			return err
		}
	}
	return nil
}
