package rotaactive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rota-dev/rota"
)

// By STOMP one settlement covers all messages before it, and costs the broker as much as a
// delivery. A member that is quicker than its broker would settle messages one by one: so where
// messages are quick, the settlement of a small batch is delayed until there are mostBatch of
// them, or for delayTime.
const (
	delayTime = 20 * time.Millisecond
	delayEach = 200 * time.Microsecond // slower messages are not delayed
)

// mostDelayed is how many messages may wait for their settlement. They count as fetched: with
// more than half of the prefetch the broker would have nothing to send meanwhile.
func mostDelayed(prefetch int) int { return min(mostBatch, prefetch/2) }

// settle settles messages, at once or soon.
func (p *pump) settle(ctx context.Context, all []*delivery) error {
	if len(p.delayed) == 0 {
		p.since = time.Now()
	}
	p.delayed = append(p.delayed, all...)
	if p.feed.together() && len(p.delayed) < mostDelayed(p.s.set.prefetch) && p.each <= delayEach && time.Since(p.since) < delayTime {
		return nil
	}
	return p.settleDelayed(ctx)
}

// settleDelayed settles all that was handled.
func (p *pump) settleDelayed(ctx context.Context) error {
	if len(p.delayed) == 0 {
		return nil
	}
	err := p.own.Settle(func() error { return p.feed.settle(ctx, p.delayed) })
	clear(p.delayed)
	p.delayed = p.delayed[:0]
	if err != nil && !errors.Is(err, rota.ErrLost) {
		return fmt.Errorf("settle messages of %s: %w", p.own.Partition(), err)
	}
	return err
}

// storeDead stores a message as a dead letter, then settles it. If the owner dies in
// between, the next one stores it once more.
func (p *pump) storeDead(ctx context.Context, d *delivery, because error) error {
	err := p.own.DeadLetter(d.Message, because, func(l rota.Letter) error { return p.s.storeLetter(ctx, &l) })
	if err != nil {
		return err
	}
	p.delayed = append(p.delayed, d)
	return p.settleDelayed(ctx)
}
