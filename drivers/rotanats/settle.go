package rotanats

import (
	"context"
	"fmt"
	"time"
)

// An acknowledgement costs the broker as much as a delivery. Where one covers all messages
// before it, and messages are quick, that of a small batch is delayed until there are
// maxBatch of them, or for delayTime.
const (
	delayTime = 20 * time.Millisecond
	delayEach = 200 * time.Microsecond // slower messages are not delayed
)

// delayed are messages that were handled, and whose acknowledgement was not sent.
type delayed struct {
	ack   string // the subject of the last one; "" if there is none
	n     int
	since time.Time
}

// settle acknowledges messages, at once or soon.
func (p *pump) settle(ctx context.Context, acks []string) error {
	if !p.claim.all {
		return p.acknowledge(ctx, acks)
	}
	if p.delayed.n == 0 {
		p.delayed.since = time.Now()
	}
	p.delayed.ack, p.delayed.n = acks[len(acks)-1], p.delayed.n+len(acks)
	if p.proven && p.delayed.n < mostDelayed(p.s.set.Prefetch) && (p.stopping() || p.mayDelay()) {
		return nil
	}
	return p.sendDelayed(ctx)
}

// mostDelayed is how many messages may wait for their acknowledgement. With those that are
// fetched they are fewer than a consumer permits: otherwise it would deliver nothing until
// delayTime is over.
func mostDelayed(prefetch int) int { return min(maxBatch, prefetch/2) }

func (p *pump) mayDelay() bool {
	return !p.claim.Paced && p.each <= delayEach && time.Since(p.delayed.since) < delayTime
}

// stopping tells whether stop will send what is delayed: when the broker knows that it is to
// deliver no more. Before that, an acknowledgement may bring a message that comes too late.
func (p *pump) stopping() bool {
	select {
	case <-p.own.Stop():
		return true
	default:
		return false
	}
}

// sendDelayed sends the acknowledgement that is delayed.
func (p *pump) sendDelayed(ctx context.Context) error {
	if p.delayed.n == 0 {
		return nil
	}
	ack := p.delayed.ack
	p.delayed = delayed{}
	return p.acknowledge(ctx, []string{ack})
}

// acknowledge sends acknowledgements. The first of a pump is confirmed: otherwise an owner
// whose acknowledgements go nowhere would handle all that it may fetch, and again at each
// attempt.
func (p *pump) acknowledge(ctx context.Context, acks []string) error {
	err := p.own.Settle(func() error {
		if p.epoch.Err() != nil {
			return errGone // and a publication would wait for the next connection
		}
		for _, ack := range acks {
			if err := p.nc.Publish(ack, nil); err != nil {
				return err
			}
			p.last = ack
		}
		return nil
	})
	if err == nil && !p.proven {
		err = p.prove(ctx)
	}
	if err != nil {
		return err
	}
	if info, err := readAckInfo(p.last); err == nil && p.claim.all {
		p.claim.settled = mark{p.claim.Stream, info.sequence, info.time}
	}
	return nil
}

// prove waits for the confirmation of the first acknowledgement.
func (p *pump) prove(ctx context.Context) error {
	brief, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	if err := p.confirm(brief); err != nil {
		return fmt.Errorf("rotanats: settle messages of %s: %w", p.own.Partition(), err)
	}
	p.proven = true
	return nil
}
