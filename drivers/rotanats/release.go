package rotanats

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota"
)

// ended is the result of run after a delivery ended early. ErrStop ends it in good order:
// what is left goes back. On a work queue the consumer is not released then: it has
// delivered messages which nobody settled, and would keep them from the next owner, who
// replaces it by one that begins after the last settled message. What was settled must have
// reached the broker by then, or it would be delivered again.
func (p *pump) ended(ctx context.Context, deliver rota.Deliver, err error) error {
	if !errors.Is(err, rota.ErrStop) {
		return err
	}
	if p.claim.all {
		return p.stop(ctx, deliver, false)
	}
	brief, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	return p.logUnreleased(p.confirmFloor(brief))
}

// confirmFloor waits until the broker shows the last settled message as acknowledged,
// which is what the next owner reads. The answer to an acknowledgement is not enough: a
// replicated consumer answers a repeated one before it has stored the first.
func (p *pump) confirmFloor(ctx context.Context) error {
	if p.last == "" {
		return nil
	}
	last, err := readAckInfo(p.last)
	for wait := time.Millisecond; err == nil; wait = min(2*wait, 50*time.Millisecond) {
		var info *consumerInfo
		info, err = p.s.info(ctx, p.claim.Consumer)
		if err != nil || info == nil || info.AckFloor.Consumer >= last.delivery {
			return err
		}
		select {
		case <-time.After(wait):
			err = p.confirm(ctx) // the acknowledgement may be lost
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return err
}

// stop ends the subscription and releases the consumer. If finish is set, and the messages
// that have arrived are quick, it delivers them first. What is left goes back.
func (p *pump) stop(ctx context.Context, deliver rota.Deliver, finish bool) error {
	brief, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	p.ending = true
	if err := p.sub.Drain(); err != nil {
		return errGone
	}
	counted := p.counted(brief)
	if err := p.nc.FlushWithContext(brief); err != nil {
		return errGone
	}
	for finish && len(p.in) > 0 && p.quick() { // after the flush nothing more arrives
		if err := p.batch(ctx, <-p.in); err != nil {
			return err
		}
		err := p.deliverBatch(ctx, deliver)
		if finish = !errors.Is(err, rota.ErrStop) || !p.claim.all; finish && err != nil {
			return p.ended(ctx, deliver, err)
		}
	}
	if err := p.sendDelayed(ctx); err != nil {
		return err
	}
	info := <-counted
	if info == nil {
		p.leaveMark(brief)
		return p.logUnreleased(errNoConsumer)
	}
	return p.release(brief, p.left(info))
}

// quick tells whether what has arrived is to be finished at a stop. On a work queue nothing
// can be given back: there it is finished, unless rota says otherwise.
func (p *pump) quick() bool {
	return !p.claim.all || p.owed() == 0 && time.Duration(len(p.in))*p.each <= giveBackTime
}

// counted asks the broker for its last delivery, after the subscription has ended: it counts
// none after that. The answer is not awaited here, since it takes as long as a flush. If it
// is not known, deliveries that went astray show to the next owner, as a gap. It is nil if
// somebody has deleted the consumer. That must not be handed over: nobody answers pulls of
// it, and an owner that soon stops again would not notice, nor would the next.
func (p *pump) counted(ctx context.Context) <-chan *consumerInfo {
	got := make(chan *consumerInfo, 1)
	if !p.claim.all {
		got <- &consumerInfo{} // there the next owner asks
		return got
	}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, countTime)
		defer cancel()
		info, err := p.s.info(ctx, p.claim.Consumer)
		if err != nil {
			info = &consumerInfo{}
		}
		got <- info
	}()
	return got
}

// release lets the next owner use the consumer. The last acknowledgement and the note
// are sent at the same time, so the note may be stored although the acknowledgement
// was lost. Then the next owner's first acknowledgement covers all messages before it.
// On a work queue it covers only its own message, so there the next owner asks the
// broker whether messages are unacknowledged; so it does if deliveries go back, and then
// the broker has to show what was settled.
func (p *pump) release(ctx context.Context, back bool) error {
	select {
	case p.s.slots <- struct{}{}:
		defer func() { <-p.s.slots }()
	case <-ctx.Done():
		return p.logUnreleased(ctx.Err())
	}
	confirm := p.confirm
	if back {
		confirm = p.confirmFloor
	}
	settled := make(chan error, 1)
	go func() { settled <- confirm(ctx) }()
	noted := p.note(ctx, true, back)
	return p.logUnreleased(errors.Join(<-settled, noted))
}

// note writes the note in memory for the next owner.
func (p *pump) note(ctx context.Context, released, back bool) error {
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	n := p.claim.note
	n.Token, n.Released, n.Back, n.Former, n.Each = p.own.Token(), released, back, "", p.each
	if p.claim.all {
		n.Next, n.Reply, n.Settled, n.SettledTime = p.unsettled(), p.reply, 0, 0
		if m := p.claim.settled; m.stream.Equal(n.Stream) {
			n.Settled, n.SettledTime = m.sequence, m.time
		}
	}
	return p.s.record(ctx, p.s.memoryNotes, p.own, p.claim, n, &p.claim.memoryRev)
}

// leaveMark notes what was settled after the pump has failed: if its consumer was deleted,
// nothing else says so, and the partition may have another owner before this one has
// attached again.
func (p *pump) leaveMark(ctx context.Context) {
	if !p.proven || !p.claim.all || p.epoch.Err() != nil {
		return
	}
	brief, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := p.note(brief, false, false); err != nil {
		p.s.set.Log.Debug("not noted", "partition", p.own.Partition(), "token", p.own.Token(), "err", err)
	}
}

// confirm waits until the broker has processed all acknowledgements: it repeats the
// last one as a request, which the broker answers after those before it. A consumer whose
// leader changes does not answer, so confirm retries.
func (p *pump) confirm(ctx context.Context) error {
	if p.last == "" {
		return nil
	}
	msg := nats.NewMsg(p.last)
	msg.Data = []byte("+ACK")
	for wait := replyTimeout; ; wait = longer(wait, replyTimeout) {
		once, cancel := context.WithTimeout(ctx, wait)
		err := p.own.Settle(func() error { _, err := p.s.request(once, msg); return err })
		silence := once.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !silence {
			return err
		}
	}
}

// logUnreleased keeps run from failing when the consumer could not be released: all
// messages are settled, and the next owner replaces the consumer.
func (p *pump) logUnreleased(err error) error {
	if errors.Is(err, rota.ErrLost) {
		return err
	}
	if err != nil {
		p.s.set.Log.Debug("not released", "partition", p.own.Partition(), "token", p.own.Token(), "err", err)
	}
	return nil
}
