package rotarabbit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rota-dev/rota"
)

// A pump consumes one queue by a channel of its own, delivers and settles its messages.
type pump struct {
	s     *source
	own   rota.Ownership
	facts facts
	ch    *amqp.Channel
	ends  chan *amqp.Error // why the channel was closed
	gone  chan string      // the broker has ended the consumer
	calls sync.Mutex       // the client confuses the answers of two calls on one channel

	arrivals *arrivals
	buf      []rota.Message
	tags     []uint64
	acks     acks
	each     time.Duration // recent average of the time that a message takes
	settled  bool
}

const (
	// A batch is settled as a whole, so it is what a kill can repeat. It is smaller where
	// messages take long.
	mostBatch = 64
	batchTime = 20 * time.Millisecond

	// stopTime is how long a stop waits for the broker.
	stopTime = 5 * time.Second
)

// consumerTag is the name of the only consumer of each channel.
const consumerTag = "rota"

// newPump consumes the queue of a channel.
func (s *source) newPump(ctx context.Context, own rota.Ownership, ch *amqp.Channel, f facts) (*pump, error) {
	p := &pump{s: s, own: own, facts: f, ch: ch, arrivals: newArrivals(f.kind)}
	p.ends = ch.NotifyClose(make(chan *amqp.Error, 1))
	p.gone = ch.NotifyCancel(make(chan string, 1))
	in, err := call(ctx, func() (<-chan amqp.Delivery, error) {
		return ch.Consume(own.Partition(), consumerTag, false, f.fence() == exclusive, false, false, nil)
	}, func(<-chan amqp.Delivery) {})
	if err != nil {
		return nil, err
	}
	go p.arrivals.receive(in)
	return p, nil
}

// inExclusiveUse tells whether a refusal is about another consumer, and not about a right.
func inExclusiveUse(err error) bool { return strings.HasSuffix(plain(err).Error(), "in exclusive use") }

// run delivers messages until the ownership stops; then it ends the consumer, finishes those
// that have arrived and are quick, and closes the channel, which gives the others back.
func (p *pump) run(ctx context.Context, deliver rota.Deliver) error {
	// The channel is closed although the handler hangs: nothing is settled by it any more,
	// and the next owner gets in.
	defer context.AfterFunc(ctx, func() { p.close(context.Background()) })()
	told := time.Now()
	for {
		// A select chooses at random among ready channels, so a stop is looked for first.
		select {
		case <-p.own.Stop():
			return p.stop(ctx, deliver)
		default:
		}
		if now := time.Now(); now.Sub(told) > tellEvery {
			told = now
			p.s.warn(p.own, p.facts)
		}
		over, wait := p.batch()
		switch {
		case p.ch.IsClosed():
			return p.failed(ctx) // what has arrived will be redelivered
		case len(p.buf) > 0:
			if err := p.deliverBatch(ctx, deliver); err != nil {
				return p.ended(ctx, err)
			}
			continue
		case over:
			return p.failed(ctx)
		}
		select {
		case <-p.arrivals.more:
		case <-p.own.Stop():
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(orElse(wait, tellEvery)):
		}
	}
}

// orElse returns a time, or another one if it is zero.
func orElse(wait, other time.Duration) time.Duration {
	if wait > 0 {
		return wait
	}
	return other
}

// failed returns why nothing more arrives, and closes the channel.
func (p *pump) failed(ctx context.Context) error {
	defer func() { go p.close(context.Background()) }()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case tag, ok := <-p.gone:
		if ok && tag != "" {
			p.s.lose(p.own.Partition())
			return fmt.Errorf("the broker has ended the consumer of queue %s: the queue was deleted, or its node is down", p.own.Partition())
		}
	default:
	}
	select {
	case err := <-p.ends:
		if err != nil {
			return p.closedError(err)
		}
	case <-time.After(100 * time.Millisecond):
	}
	return errGone
}

// closedError puts the broker's reason for closing a channel into words.
func (p *pump) closedError(err *amqp.Error) error {
	switch {
	case err.Server && err.Code == amqp.PreconditionFailed && strings.Contains(err.Reason, "timed out"):
		return said(err, "a message was not settled within the broker's consumer_timeout: raise it, or lower prefetch")
	case err.Server:
		return said(err, "the broker has closed the channel")
	}
	return said(err, "the connection was lost")
}

// batch moves what has arrived into buf, as many messages as take batchTime. over tells that
// nothing more arrives, and wait how long to wait for more, if that is known.
func (p *pump) batch() (over bool, wait time.Duration) {
	most := mostBatch
	if p.each > 0 {
		most = int(min(max(batchTime/p.each, 1), mostBatch))
	}
	p.buf, p.tags = p.buf[:0], p.tags[:0]
	over, wait = p.arrivals.next(most, time.Now(), func(d *amqp.Delivery) {
		p.buf = append(p.buf, readMessage(d))
		p.tags = append(p.tags, d.DeliveryTag)
	})
	if p.arrivals.reordered() {
		p.own.Tell(conditionReordered, "the broker has delivered a message that a former owner returned after messages that came later")
	}
	return over, wait
}

// deliverBatch delivers the batch and settles the messages that are done, until all are.
func (p *pump) deliverBatch(ctx context.Context, deliver rota.Deliver) error {
	msgs, tags := p.buf, p.tags
	for len(msgs) > 0 {
		begun := time.Now()
		n, err := deliver(ctx, msgs...)
		p.learn(time.Since(begun), max(n, 1))
		if errors.Is(err, rota.ErrLost) {
			return err
		}
		if n > 0 {
			if err := p.settle(tags[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, rota.ErrDead) {
			if err := p.storeDead(ctx, msgs[n], err); err != nil {
				return err
			}
			if err := p.settle(tags[n : n+1]); err != nil {
				return err
			}
			n++
		} else if err != nil {
			return err
		}
		msgs, tags = msgs[n:], tags[n:]
	}
	return nil
}

// settle acknowledges messages, by one request if they are all that arrived since the last
// one.
func (p *pump) settle(tags []uint64) error {
	last, all := p.acks.settle(tags)
	err := p.own.Settle(func() error {
		if all {
			return p.ch.Ack(last, true)
		}
		for _, tag := range tags {
			if err := p.ch.Ack(tag, false); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		p.settled = true
	}
	return plain(err)
}

// acks know which messages of a channel were settled. The broker numbers them in the order in
// which it sends them, which may not be the order in which they are delivered.
type acks struct {
	floor uint64          // all up to here were settled
	above map[uint64]bool // settled, and above the floor
}

// settle notes that messages are settled. all tells that they, and those that were settled
// before, are all up to last.
func (a *acks) settle(tags []uint64) (last uint64, all bool) {
	if a.above == nil {
		a.above = map[uint64]bool{}
	}
	for _, tag := range tags {
		last = max(last, tag)
		a.above[tag] = true
	}
	for a.above[a.floor+1] {
		a.floor++
		delete(a.above, a.floor)
	}
	return last, a.floor >= last
}

func (p *pump) storeDead(ctx context.Context, msg rota.Message, because error) error {
	return p.own.DeadLetter(msg, because, func(l rota.Letter) error { return p.s.letters.store(ctx, &l) })
}

// learn adapts the size of batches to the time that a message takes, as a moving average.
func (p *pump) learn(took time.Duration, n int) {
	each := max(took/time.Duration(n), 1)
	if p.each == 0 {
		p.each = each
	}
	p.each += (each - p.each) / 4
}

// ended is the result of run after a delivery ended early. ErrStop ends it in good order:
// closing the channel gives the rest back, in order, which a rejection would not. The broker
// answers after it has processed what was settled before.
func (p *pump) ended(ctx context.Context, err error) error {
	if !errors.Is(err, rota.ErrStop) {
		if p.ch.IsClosed() && !errors.Is(err, rota.ErrLost) && ctx.Err() == nil {
			return p.failed(ctx)
		}
		go p.close(context.Background())
		return err
	}
	return p.close(ctx)
}

// stop ends the consumer, finishes the messages that have arrived, and closes the channel.
func (p *pump) stop(ctx context.Context, deliver rota.Deliver) error {
	brief, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	err := do(brief, func() error {
		p.calls.Lock()
		defer p.calls.Unlock()
		return p.ch.Cancel(consumerTag, false)
	})
	if err != nil {
		go p.close(context.Background())
		return fmt.Errorf("stop to consume queue %s: %w", p.own.Partition(), plain(err))
	}
	for {
		over, wait := p.batch()
		switch {
		case p.ch.IsClosed():
			return p.failed(ctx)
		case len(p.buf) > 0:
			if err := p.deliverBatch(ctx, deliver); err != nil {
				return p.ended(ctx, err)
			}
			continue
		case over:
			return p.close(ctx)
		}
		select {
		case <-p.arrivals.more:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(orElse(wait, stopTime)):
		}
	}
}

// close closes the channel, and waits until the broker has confirmed that, or for stopTime.
func (p *pump) close(ctx context.Context) error {
	brief, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	err := do(brief, func() error {
		p.calls.Lock()
		defer p.calls.Unlock()
		return p.ch.Close()
	})
	if err != nil {
		return fmt.Errorf("close the channel of queue %s: %w", p.own.Partition(), plain(err))
	}
	return nil
}
