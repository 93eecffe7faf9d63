package rotarabbit

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rota-dev/rota"
)

// An early is a channel that is opened while the former owner of a queue stops. Of the five
// requests of an attach, for whose answers the queue is idle, that leaves two: whether the
// queue is still what it was, and the consumer itself.
type early struct {
	done chan struct{}
	ch   *amqp.Channel // nil if it could not be opened; set before done is closed
}

// earlyTime is how long such a channel is kept for an owner that does not come. It is brief, since
// another group may take the queue over meanwhile.
const earlyTime = 2 * time.Second

// Prepare does what an attach would otherwise wait for. What is wrong with a queue is
// Consume's to tell.
func (s *source) Prepare(ctx context.Context, p rota.Partition) error {
	if s.bad != nil {
		return permanent{s.bad}
	}
	if _, err := s.consuming.conn(ctx); err != nil {
		return fmt.Errorf("rotarabbit: %w", err)
	}
	e := &early{done: make(chan struct{})}
	s.mu.Lock()
	if s.early == nil {
		s.early = map[string]*early{}
	}
	if s.early[p.Name] != nil {
		s.mu.Unlock()
		return nil
	}
	s.early[p.Name] = e
	s.mu.Unlock()
	e.ch, _, _, _ = s.open(ctx, p.Name)
	close(e.done)
	time.AfterFunc(earlyTime, func() {
		s.mu.Lock()
		kept := s.early[p.Name] == e
		if kept {
			delete(s.early, p.Name)
		}
		s.mu.Unlock()
		if kept && e.ch != nil {
			closeChannel(e.ch)
		}
	})
	return nil
}

// prepared returns the channel that Prepare has opened, once; nil if there is none.
func (s *source) prepared(ctx context.Context, queue string) *amqp.Channel {
	s.mu.Lock()
	e := s.early[queue]
	delete(s.early, queue)
	s.mu.Unlock()
	if e == nil {
		return nil
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		go func() {
			if <-e.done; e.ch != nil {
				closeChannel(e.ch)
			}
		}()
		return nil
	}
	if e.ch == nil || e.ch.IsClosed() {
		return nil
	}
	return e.ch
}

// open opens a channel for a queue, looks at the queue, and notes that our group reads it.
func (s *source) open(ctx context.Context, queue string) (*amqp.Channel, facts, int, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	ch, err := s.channel(ctx, &s.consuming)
	if err != nil {
		return nil, facts{}, 0, err
	}
	f, consumers, err := s.find(ctx, ch, queue)
	if err == nil {
		if err = s.claim(ctx, ch, queue); err != nil {
			err = s.claimAgain(ctx, queue, err)
		}
	}
	if err == nil {
		err = plain(do(ctx, func() error { return ch.Qos(s.set.prefetch, 0, false) }))
	}
	if err != nil {
		closeChannel(ch)
		return nil, facts{}, 0, err
	}
	return ch, f, consumers, nil
}
