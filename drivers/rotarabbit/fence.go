package rotarabbit

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rota-dev/rota"
)

// A fence is the broker's own rule by which one member at a time gets messages of a queue.
type fence int

const (
	none      fence = iota
	exclusive       // the consumer is exclusive: classic queues
	single          // the queue has a single active consumer, since it was declared
)

// The codes of conditions.
const (
	conditionUnfenced rota.Condition = "unfenced"
	conditionForeign  rota.Condition = "foreign-consumer"
	conditionLimit    rota.Condition = "delivery-limit"

	conditionReordered rota.Condition = "reordered"
)

// fence returns the fence that a queue has.
func (f facts) fence() fence {
	switch {
	case f.single:
		return single
	case f.kind == classic:
		return exclusive
	}
	return none
}

// declared are the facts of queues that are declared.
func (s *settings) declared() facts {
	return facts{kind: s.declare, single: s.declare == quorum, limit: s.limit}
}

// arguments are those of queues that are declared.
func (s *settings) arguments() amqp.Table {
	args := amqp.Table{amqp.QueueTypeArg: s.declare}
	if s.declare == quorum {
		args[amqp.SingleActiveConsumerArg] = true
	}
	if s.limit > 0 {
		args["x-delivery-limit"] = int64(s.limit)
	}
	return args
}

// find declares a queue, or checks that it is there, and returns its facts and how many
// consumers it has. The broker refuses to declare a queue that exists with other arguments:
// so those of a queue that was declared are known.
func (s *source) find(ctx context.Context, ch *amqp.Channel, queue string) (f facts, consumers int, err error) {
	if s.set.declare != "" {
		q, err := call(ctx, func() (amqp.Queue, error) {
			return ch.QueueDeclare(queue, true, false, false, false, s.set.arguments())
		}, func(amqp.Queue) {})
		switch {
		case code(err) == amqp.PreconditionFailed:
			return f, 0, said(err, "queue %s exists and is not as declare=%s makes it: leave declare out, or delete the queue", queue, s.set.declare)
		case err != nil:
			return f, 0, queueError(err, queue, "declare queue "+queue)
		}
		return s.set.declared(), q.Consumers, nil
	}
	q, err := inspect(ctx, ch, queue)
	if err != nil {
		return f, 0, queueError(err, queue, "look at queue "+queue)
	}
	f, err = s.facts(ctx, queue)
	return f, q.Consumers, err
}

func inspect(ctx context.Context, ch *amqp.Channel, queue string) (amqp.Queue, error) {
	return call(ctx, func() (amqp.Queue, error) {
		return ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	}, func(amqp.Queue) {})
}

// facts returns the facts of a queue that exists, and an error if it cannot be consumed. What
// was found out before the queue was lost does not count, and a queue that cannot be consumed
// is looked at again.
func (s *source) facts(ctx context.Context, queue string) (facts, error) {
	s.mu.Lock()
	since := s.lost[queue]
	s.mu.Unlock()
	l, err := s.manager.list(ctx, since)
	f, err := s.suits(l, err, queue, since)
	if err == nil || ctx.Err() != nil {
		return f, err
	}
	l, err = s.manager.list(ctx, time.Now())
	return s.suits(l, err, queue, since)
}

// suits returns the facts of a queue, or why it cannot be consumed.
func (s *source) suits(l listing, err error, queue string, since time.Time) (facts, error) {
	f, known := l.queues[queue]
	known = known && !l.at.Before(since)
	switch {
	case !known && s.set.unfenced:
		return facts{kind: "unknown"}, nil
	case !known && err != nil:
		return f, fmt.Errorf("the type of queue %s is not known, and with it what keeps order: %w; name the API with management=URL, or let rota declare the queues with declare=classic or declare=quorum", queue, err)
	case !known:
		return f, fmt.Errorf("the type of queue %s is not known yet: the management API does not list it", queue)
	case f.kind == "stream":
		return f, fmt.Errorf("queue %s is a stream, which settles nothing: use a classic or a quorum queue", queue)
	case f.autoDelete:
		return f, fmt.Errorf("queue %s is deleted with its last consumer (auto-delete), and messages with it, whenever it changes hands: declare it without", queue)
	case f.fence() == none && !s.set.unfenced:
		return f, fmt.Errorf("queue %s is a %s queue without x-single-active-consumer, so nothing keeps its order when it changes hands: declare it anew with that argument, or accept the loss of order with unfenced=true", queue, f.kind)
	}
	return f, nil
}

// lose makes the next attach ask for the facts of a queue anew: it may be another queue.
func (s *source) lose(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		s.lost = map[string]time.Time{}
	}
	s.lost[queue] = time.Now()
}

// warn reports what is odd about a queue, for as long as it is consumed.
func (s *source) warn(own rota.Ownership, f facts) {
	if f.fence() == none {
		own.Tell(conditionUnfenced, "nothing at the broker keeps the order of this queue when it changes hands (unfenced=true)")
	}
	if f.limit > 0 {
		own.Tell(conditionLimit, fmt.Sprintf("the broker drops, or dead-letters, messages of this queue that were returned %d times (x-delivery-limit), and an owner that dies returns all that it has fetched, up to %d: so messages that nobody has handled can be lost after %d deaths; raise the limit, or lower prefetch", f.limit, s.set.prefetch, f.limit))
	}
}
