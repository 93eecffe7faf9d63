package rotarabbit

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A publisher publishes messages to queues, and waits until the broker has stored them.
type publisher struct {
	link  *link
	turns chan struct{} // a semaphore of one
	ch    *amqp.Channel // nil until it is needed, and after an error
	ends  chan *amqp.Error
	back  chan amqp.Return // messages that no queue has got
}

func newPublisher(l *link) *publisher { return &publisher{link: l, turns: make(chan struct{}, 1)} }

// errNoQueue means that there is no such queue to publish to.
var errNoQueue = errors.New("there is no such queue")

// mostReturned is how many messages that no queue has got are noticed at once.
const mostReturned = 256

// publish publishes messages to one queue, in order.
func (p *publisher) publish(ctx context.Context, queue string, msgs ...amqp.Publishing) error {
	ctx, cancel := within(ctx)
	defer cancel()
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
	case <-ctx.Done():
		return ctx.Err()
	}
	err := p.open(ctx)
	if err == nil {
		err = p.send(ctx, queue, msgs)
	}
	if err == nil {
		return nil
	}
	if p.ch != nil { // a later answer must not be taken for that of the next message
		closeChannel(p.ch)
		p.ch = nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("the broker does not confirm it in time; it blocks publishers when it is short of memory or disk: %w", err)
	}
	return queueError(err, queue, "write to queue "+queue+" through the default exchange")
}

func (p *publisher) open(ctx context.Context) error {
	if p.ch != nil && !p.ch.IsClosed() {
		return nil
	}
	ch, err := p.link.channel(ctx, &p.link.publishing)
	if err != nil {
		return err
	}
	p.ch = ch
	p.ends = ch.NotifyClose(make(chan *amqp.Error, 1))
	p.back = ch.NotifyReturn(make(chan amqp.Return, mostReturned))
	return do(ctx, func() error { return ch.Confirm(false) })
}

// send sends the messages and waits for all confirmations. The broker returns a message that
// no queue has got before it confirms it.
func (p *publisher) send(ctx context.Context, queue string, msgs []amqp.Publishing) error {
	ch := p.ch
	confirms, err := call(ctx, func() (all []*amqp.DeferredConfirmation, err error) {
		for _, m := range msgs {
			c, err := ch.PublishWithDeferredConfirm("", queue, true, false, m)
			if err != nil {
				return nil, err
			}
			all = append(all, c)
		}
		return all, nil
	}, func([]*amqp.DeferredConfirmation) {})
	if err != nil {
		return p.why(err)
	}
	for _, c := range confirms {
		stored, err := c.WaitContext(ctx)
		if err != nil {
			return err
		}
		if !stored {
			return p.why(errors.New("the broker has not stored it"))
		}
	}
	select {
	case <-p.back:
		return errNoQueue
	default:
		return nil
	}
}

// why returns the reason for which the channel was closed, or err.
func (p *publisher) why(err error) error {
	select {
	case closed := <-p.ends:
		if closed != nil {
			return closed
		}
		return errGone
	default:
		return err
	}
}
