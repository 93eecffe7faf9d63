package rotarabbit

import (
	"context"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rota-dev/rota"
)

// Read asks for the number of messages that wait in each queue. RabbitMQ tells that at once,
// without those that an owner has fetched and not settled. It counts arrivals only for the
// management API, and late: so they are unknown. A queue that does not exist is left out.
func (s *source) Read(ctx context.Context, partitions []string) (out []rota.Reading, err error) {
	if s.bad != nil {
		return nil, permanent{s.bad}
	}
	ctx, cancel := within(ctx)
	defer cancel()
	var ch *amqp.Channel
	defer func() {
		if ch != nil {
			closeChannel(ch)
		}
	}()
	for _, p := range partitions {
		if ch == nil {
			if ch, err = s.channel(ctx, &s.consuming); err != nil {
				return nil, fmt.Errorf("rotarabbit: %w", err)
			}
		}
		q, err := inspect(ctx, ch, p)
		switch {
		case code(err) == amqp.NotFound:
			ch = nil // the broker has closed it
			continue
		case err != nil:
			return nil, fmt.Errorf("rotarabbit: %w", queueError(err, p, "look at queue "+p))
		}
		out = append(out, rota.Reading{Partition: p, Backlog: int64(q.Messages), Unknown: true})
	}
	return out, nil
}

// Publish appends messages to a queue, and returns when the broker has stored them. It is for
// tools and tests: publishers usually know an exchange.
func (s *source) Publish(ctx context.Context, partition string, values ...[]byte) error {
	if s.set.declare != "" {
		if err := s.declareQueue(ctx, partition); err != nil {
			return fmt.Errorf("rotarabbit: %w", err)
		}
	}
	for some := range slices.Chunk(values, mostReturned) {
		msgs := make([]amqp.Publishing, len(some))
		for i, v := range some {
			msgs[i] = amqp.Publishing{DeliveryMode: amqp.Persistent, Body: v}
		}
		if err := s.letters.pub.publish(ctx, partition, msgs...); err != nil {
			return fmt.Errorf("rotarabbit: publish to queue %s: %w", partition, err)
		}
	}
	return nil
}

// declareQueue declares a queue that the URL says to declare.
func (s *source) declareQueue(ctx context.Context, queue string) error {
	s.mu.Lock()
	known := s.known[queue]
	s.mu.Unlock()
	if known {
		return nil
	}
	ctx, cancel := within(ctx)
	defer cancel()
	ch, err := s.channel(ctx, &s.consuming)
	if err != nil {
		return err
	}
	defer closeChannel(ch)
	if _, _, err := s.find(ctx, ch, queue); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[string]bool{}
	}
	s.known[queue] = true
	return nil
}
