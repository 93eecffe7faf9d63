package rotaactive

import (
	"context"
	"errors"
	"time"

	"github.com/rota-dev/rota"
)

// A pump delivers the messages of one subscription and settles them.
type pump struct {
	s    *source
	own  rota.Ownership
	feed feed

	all   []*delivery    // the batch
	msgs  []rota.Message // the same, for Deliver
	each  time.Duration  // what a message takes, on average
	batch int            // how many messages are delivered at once

	delayed []*delivery // handled, and settled soon
	since   time.Time   // when the first of them was handled
}

// A kill repeats what was handled and not settled: a batch, unless the broker is behind with
// acknowledgements, see docs/sources/activemq.md. A batch is as large as
// what is handled in batchTime.
const (
	batchTime = 50 * time.Millisecond
	mostBatch = 64
)

// stopTime is how long a broker may take to confirm the end of a subscription.
const stopTime = 5 * time.Second

// run delivers messages until the ownership stops.
func (p *pump) run(ctx context.Context, deliver rota.Deliver) error {
	err := p.consume(ctx, deliver)
	if err != nil {
		p.settleDelayed(ctx) // what was handled must not come again; why it ended says more than an error here
	}
	return err
}

func (p *pump) consume(ctx context.Context, deliver rota.Deliver) error {
	looks := p.s.lookForOthers(ctx, p.own)
	defer looks.end()
	delay := time.NewTimer(delayTime)
	defer delay.Stop()
	for {
		// A select chooses at random among ready channels, so a stop is looked for
		// first: otherwise a busy partition would stop late.
		select {
		case <-p.own.Stop():
			return p.stop(ctx, deliver)
		case <-p.feed.failed():
			return p.feed.err()
		default:
		}
		if len(p.delayed) > 0 && len(p.feed.arrived()) == 0 {
			delay.Reset(delayTime)
		}
		select {
		case d := <-p.feed.arrived():
			looks.end() // the broker gives us the queue
			if err := p.deliver(ctx, deliver, d, p.batch); err != nil {
				return p.ended(ctx, err)
			}
		case <-p.own.Stop():
			return p.stop(ctx, deliver)
		case <-ctx.Done():
			return ctx.Err()
		case <-p.feed.failed():
			return p.feed.err()
		case <-delay.C:
			if err := p.settleDelayed(ctx); err != nil {
				return err
			}
		}
	}
}

// stop delivers what has arrived by now, as far as it is quick, and ends the subscription.
// What arrives meanwhile goes back.
func (p *pump) stop(ctx context.Context, deliver rota.Deliver) error {
	for n := len(p.feed.arrived()); n > 0; n -= len(p.all) {
		if err := p.deliver(ctx, deliver, <-p.feed.arrived(), min(n, p.batch)); err != nil {
			return p.ended(ctx, err)
		}
	}
	return p.ended(ctx, rota.ErrStop)
}

// ended is the result of run. ErrStop ends it in good order: the broker has confirmed all
// settlements and given the rest back before Consume returns.
func (p *pump) ended(ctx context.Context, err error) error {
	if !errors.Is(err, rota.ErrStop) {
		return err
	}
	if err := p.settleDelayed(ctx); err != nil {
		return err
	}
	brief, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	if err := p.feed.end(brief); err != nil {
		// Then the connection has ended or will, and the subscription with it. Until the
		// broker has noticed, the next owner waits.
		p.s.set.Log.Debug("not confirmed", "partition", p.own.Partition(), "token", p.own.Token(), "err", err)
	}
	return nil
}

// deliver delivers a message and those that have arrived behind it, and settles what is
// done.
func (p *pump) deliver(ctx context.Context, deliver rota.Deliver, first *delivery, most int) error {
	p.gather(first, most)
	all, msgs := p.all, p.msgs
	for len(msgs) > 0 {
		begun := time.Now()
		n, err := deliver(ctx, msgs...)
		p.learn(time.Since(begun), max(n, 1))
		if errors.Is(err, rota.ErrLost) {
			return err
		}
		if n > 0 {
			if err := p.settle(ctx, all[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, rota.ErrDead) {
			if err := p.storeDead(ctx, all[n], err); err != nil {
				return err
			}
			n++
		} else if err != nil {
			return err
		}
		all, msgs = all[n:], msgs[n:]
	}
	return nil
}

// gather makes a batch of a message and those behind it. With those whose settlement is
// delayed they are no more than mostBatch.
func (p *pump) gather(d *delivery, most int) {
	most = min(most, mostBatch-len(p.delayed))
	clear(p.all) // of the last batch nothing is kept
	clear(p.msgs)
	p.all, p.msgs = p.all[:0], p.msgs[:0]
	for {
		p.all, p.msgs = append(p.all, d), append(p.msgs, d.Message)
		if len(p.all) >= most {
			return
		}
		select {
		case d = <-p.feed.arrived():
		default:
			return
		}
	}
}

// learn adapts the batch to the time that a message takes, as a moving average.
func (p *pump) learn(took time.Duration, n int) {
	each := took / time.Duration(n)
	if p.each == 0 {
		p.each = each
	}
	p.each += (each - p.each) / 4
	p.batch = int(min(max(batchTime/max(p.each, 1), 1), mostBatch))
}
