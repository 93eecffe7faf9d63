package rotaactive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota"
)

// Source consumes the queues of an ActiveMQ broker, each of which is a partition, at an
// address like
//
//	stomp://user:password@host:61613,standby:61613?queues=orders.{0..63}
//	amqp10s://user@host?password-file=FILE&queues=orders,invoices
//
// Of several hosts the first that accepts the connection serves. Queues that do not exist
// are made by the broker when they are first used.
//
// A source reads for one group: a second group is refused at queues that the first has
// used, see takeover= in docs/sources/activemq.md.
//
// Messages of a partition arrive in order, even after its owner was killed: it is the
// exclusive consumer of the queue, and the broker gives what was not settled to the next
// one, oldest first. A message that was handled but not settled when its owner died is
// redelivered.
func Source(url string, opts ...Option) rota.Source {
	set, err := read(url, opts)
	dial := schemes[set.scheme].dial
	return &source{set: set, bad: err,
		link: &link{set: set, dial: dial}, side: &link{set: set, dial: dial},
		slots: make(chan struct{}, mostAttaching), noted: map[string]bool{}}
}

// mostAttaching limits how many partitions attach at the same time, so that the answer to
// none of them is late.
const mostAttaching = 32

type source struct {
	set *settings
	bad error // the settings are wrong; every call returns it

	link  *link         // for subscriptions
	side  *link         // for everything else: what the broker refuses there ends no subscription
	slots chan struct{} // a semaphore: one element per partition that attaches
	meter meter

	unknown atomic.Bool // the last queue had no note of this group: the next one will have none either

	mu    sync.Mutex
	group string          // "" until Bind
	noted map[string]bool // queues that are known to be this group's
}

// Check implements rota.Checker: it returns what is wrong with the URL or the options.
func (s *source) Check() error { return named(s.bad) }

// Bind implements rota.Binder.
func (s *source) Bind(group string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.group != "" && s.group != group {
		return fmt.Errorf("rotaactive: this source reads for group %s: make another one for group %s", s.group, group)
	}
	s.group = group
	return nil
}

// Close ends the connections. It is for programs that use a source without a member.
func (s *source) Close() error {
	s.link.close()
	s.side.close()
	return nil
}

// connected returns the connection for subscriptions, or that for everything else.
func (s *source) connected(ctx context.Context, l *link) (client, error) {
	if s.bad != nil {
		return nil, permanent{s.bad}
	}
	return l.client(ctx)
}

// Partitions returns the queues of the URL, once the broker has accepted the connection.
func (s *source) Partitions(ctx context.Context) ([]rota.Partition, error) {
	if _, err := s.connected(ctx, s.link); err != nil {
		return nil, named(err)
	}
	out := make([]rota.Partition, len(s.set.queues))
	for i, q := range s.set.queues {
		out[i].Name = q
	}
	return out, nil
}

// Prepare does what an attach would otherwise wait for.
func (s *source) Prepare(ctx context.Context, p rota.Partition) error {
	c, err := s.connected(ctx, s.link)
	if err != nil {
		return named(err)
	}
	if err := s.claim(ctx, p.Name); err != nil {
		return named(err)
	}
	return named(c.prepare(ctx))
}

// Publish sends values to a partition, in order, and returns when the broker has stored
// them. It is for programs that produce; a member does not need it.
func (s *source) Publish(ctx context.Context, partition string, values ...[]byte) error {
	msgs := make([]rota.Message, len(values))
	for i, v := range values {
		msgs[i] = rota.Message{Value: v}
	}
	return s.publish(ctx, partition, msgs...)
}

func (s *source) publish(ctx context.Context, partition string, msgs ...rota.Message) error {
	c, err := s.connected(ctx, s.side)
	if err != nil {
		return named(err)
	}
	out := make([]outgoing, len(msgs))
	for i, m := range msgs {
		out[i] = outgoing{queue: partition, Message: m}
	}
	if err := c.send(ctx, out...); err != nil {
		return fmt.Errorf("rotaactive: publish to %s: %w", partition, err)
	}
	return nil
}

// Consume implements rota.Source.
func (s *source) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	f, err := s.attach(ctx, own.Partition(), own.Stop())
	if err != nil {
		select {
		case <-own.Stop():
			return nil // nothing was delivered
		default:
			return named(err)
		}
	}
	// When ctx ends the subscription has to end at once, even if the handler hangs.
	defer f.abandon()
	defer context.AfterFunc(ctx, f.abandon)()
	own.Started()
	return named((&pump{s: s, own: own, feed: f, batch: 1}).run(ctx, deliver))
}

// awayTime is how long a partition waits for a broker that cannot be reached, before it returns
// the error to rota. A standby needs seconds to take over: errors of every dial until then would
// make rota give the partition up, and grant it anew much later.
const awayTime = 5 * time.Second

// attach subscribes to a queue. It gives up when the partition is to stop.
func (s *source) attach(ctx context.Context, queue string, stop <-chan struct{}) (feed, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	for began := time.Now(); ; { // the link has pauses between its dials
		f, err := s.tryAttach(ctx, queue)
		if !errors.As(err, new(unreachable)) || time.Since(began) > awayTime {
			return f, err
		}
	}
}

func (s *source) tryAttach(ctx context.Context, queue string) (feed, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := s.claim(ctx, queue); err != nil {
		return nil, err
	}
	c, err := s.connected(ctx, s.link)
	if err != nil {
		return nil, err
	}
	f, err := c.consume(ctx, queue, s.set.prefetch)
	if err != nil {
		return nil, fmt.Errorf("consume %s: %w", queue, err)
	}
	return f, nil
}
