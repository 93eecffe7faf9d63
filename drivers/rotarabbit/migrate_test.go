package rotarabbit_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// TestMigrate does what docs/migrate.md says of RabbitMQ: consumers of the AMQP client consume
// queues for a while, are stopped while messages flow, and a group goes on. Each message is
// handled once, and in order.
func TestMigrate(t *testing.T) {
	t.Parallel()
	t.Run("classic queues", func(t *testing.T) {
		t.Parallel()
		b, n := newBroker(t, rabbit.Server(t), "classic"), newNumbers(t)
		halt := b.flow("", b.names)
		stop := b.plain(n, b.names, b.names)
		n.flows(b.names)
		stop()
		joinGroup(t, "orders", rotatest.NewMemStore(), b.Source(), n.message)
		n.flows(b.names)
		n.complete(b.names, halt())
	})
	// Queues that have no fence are replaced by others without a pause of the publishers.
	t.Run("quorum queues without a single active consumer", func(t *testing.T) {
		t.Parallel()
		b, n := newBroker(t, rabbit.Server(t), "quorum"), newNumbers(t)
		old := b.oldQueues()
		halt := b.flow(b.user, b.names)
		stop := b.plain(n, old, b.names)
		n.flows(b.names)

		b.declare(b.user + ".next")
		b.each(func(ch *amqp.Channel, i int) error {
			return ch.QueueBind(b.names[i], b.names[i], b.user+".next", false, nil)
		})
		b.alternate(b.user + ".next")
		b.each(func(ch *amqp.Channel, i int) error { return ch.QueueUnbind(old[i], b.names[i], b.user, nil) })
		eventually(t, "the old queues are empty", func() error {
			return b.with(func(ch *amqp.Channel) error {
				for _, name := range old {
					q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
					if err != nil {
						return err
					}
					if q.Messages > 0 {
						return &amqp.Error{Server: true, Reason: fmt.Sprintf("%s has %d messages", name, q.Messages)}
					}
				}
				return nil
			})
		})
		stop()
		joinGroup(t, "orders", rotatest.NewMemStore(), b.Source(), n.message)
		n.flows(b.names)

		b.each(func(ch *amqp.Channel, i int) error { return ch.QueueBind(b.names[i], b.names[i], b.user, false, nil) })
		b.alternate("")
		n.flows(b.names)
		n.complete(b.names, halt())
	})
}

// numbers are those of the messages that were handled of each partition, from 1 on.
type numbers struct {
	testing.TB
	mu      sync.Mutex
	handled map[string]int
}

func newNumbers(t testing.TB) *numbers { return &numbers{TB: t, handled: map[string]int{}} }

func (n *numbers) message(msg rota.Message) { n.handle(msg.Partition, msg.Value) }

func (n *numbers) handle(partition string, value []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handled[partition]++
	if want := fmt.Sprint(n.handled[partition]); string(value) != want {
		n.Errorf("%s: message %s is handled, want %s", partition, value, want)
	}
}

// flows waits until more messages of each partition are handled.
func (n *numbers) flows(partitions []string) {
	n.Helper()
	for _, p := range partitions {
		n.mu.Lock()
		before := n.handled[p]
		n.mu.Unlock()
		n.reaches(p, before+20)
	}
}

func (n *numbers) reaches(partition string, number int) {
	n.Helper()
	eventually(n, fmt.Sprintf("%d messages of %s are handled", number, partition), func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if got := n.handled[partition]; got < number {
			return fmt.Errorf("%d are", got)
		}
		return nil
	})
}

// complete waits until all messages of each partition are handled.
func (n *numbers) complete(partitions []string, sent int) {
	n.Helper()
	for _, p := range partitions {
		n.reaches(p, sent)
	}
}

// flow publishes numbered messages to an exchange, with each partition as the routing key, until
// halt is called, which returns the last number.
func (b *broker) flow(exchange string, keys []string) (halt func() int) {
	ctx, stop := context.WithCancel(context.Background())
	last, ended := 0, make(chan struct{})
	go func() {
		defer close(ended)
		ch, err := b.channel()
		if err == nil {
			err = ch.Confirm(false)
		}
		for err == nil && ctx.Err() == nil {
			last++
			for _, key := range keys {
				var c *amqp.DeferredConfirmation
				if c, err = ch.PublishWithDeferredConfirm(exchange, key, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: fmt.Append(nil, last)}); err == nil {
					_, err = c.WaitContext(b.t.Context())
				}
			}
			time.Sleep(time.Millisecond) // the rate of the publisher
		}
		if err != nil {
			b.t.Errorf("publish: %v", err)
		}
	}()
	halt = sync.OnceValue(func() int { stop(); <-ended; return last })
	b.t.Cleanup(func() { halt() })
	return halt
}

// plain consumes queues as a program does that knows nothing of rota. stop is what the page says:
// it cancels the consumers, handles what has arrived, and closes the channels.
func (b *broker) plain(n *numbers, queues, names []string) (stop func()) {
	b.t.Helper()
	var channels []*amqp.Channel
	var all sync.WaitGroup
	for i, q := range queues {
		ch, err := b.channel()
		if err == nil {
			err = ch.Qos(50, 0, false)
		}
		var in <-chan amqp.Delivery
		if err == nil {
			in, err = ch.Consume(q, "plain", false, false, false, false, nil)
		}
		if err != nil {
			b.t.Fatal(err)
		}
		channels = append(channels, ch)
		all.Go(func() {
			for d := range in {
				n.handle(names[i], d.Body)
				if err := d.Ack(false); err != nil {
					b.t.Error(err)
				}
			}
		})
	}
	return func() {
		for _, ch := range channels {
			if err := ch.Cancel("plain", false); err != nil {
				b.t.Error(err)
			}
		}
		all.Wait()
		for _, ch := range channels {
			if err := ch.Close(); err != nil {
				b.t.Error(err)
			}
		}
	}
}

// oldQueues makes a queue without a fence for each partition, and the exchange that feeds them.
func (b *broker) oldQueues() (old []string) {
	b.t.Helper()
	b.declare(b.user)
	for _, name := range b.names {
		old = append(old, name+".old")
	}
	b.each(func(ch *amqp.Channel, i int) error {
		if _, err := ch.QueueDeclare(old[i], true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
			return err
		}
		return ch.QueueBind(old[i], b.names[i], b.user, false, nil)
	})
	b.t.Cleanup(func() {
		b.with(func(ch *amqp.Channel) error {
			for _, name := range old {
				ch.QueueDelete(name, false, false, false)
			}
			return nil
		})
	})
	return old
}

// declare makes a direct exchange.
func (b *broker) declare(exchange string) {
	b.t.Helper()
	if err := b.with(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(exchange, "direct", true, false, false, false, nil)
	}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { b.with(func(ch *amqp.Channel) error { return ch.ExchangeDelete(exchange, false, false) }) })
}

// each does something for each partition.
func (b *broker) each(do func(ch *amqp.Channel, i int) error) {
	b.t.Helper()
	for i := range b.names {
		if err := b.with(func(ch *amqp.Channel) error { return do(ch, i) }); err != nil {
			b.t.Fatal(err)
		}
	}
}

// alternate lets the exchange give what it cannot route to another, or to none, by a policy, and
// waits until it does so.
func (b *broker) alternate(to string) {
	b.t.Helper()
	path := "/api/policies/%2F/" + b.user
	if to == "" {
		b.admin.do("DELETE", path, nil)
	} else {
		b.admin.do("PUT", path, map[string]any{"pattern": "^" + b.user + "$", "apply-to": "exchanges", "definition": map[string]string{"alternate-exchange": to}})
		b.t.Cleanup(func() { b.admin.try("DELETE", path, nil) })
	}
	eventually(b.t, "the policy is applied", func() error {
		got, err := b.admin.try("GET", "/api/exchanges/%2F/"+b.user, nil)
		if err == nil && strings.Contains(string(got), `"policy":"`+b.user+`"`) != (to != "") {
			err = fmt.Errorf("the exchange is %s", got)
		}
		return err
	})
}
