package rotaactive

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/go-stomp/stomp/v3/frame"
)

// A stompFeed is one subscription by STOMP.
type stompFeed struct {
	c      *stompConn
	id     string
	in     chan *delivery
	remove func() // of the sink

	prefetch       int64
	settled, asked int64         // messages, and those of them up to which a receipt was asked for; settle's alone
	stored         atomic.Int64  // up to which a receipt has come
	more           chan struct{} // has an element when one has

	gone   chan struct{}
	finish sync.Once
	reason error // set before gone is closed

	ending sync.Once
}

// prepare does nothing: all that a subscription takes is one request.
func (c *stompConn) prepare(context.Context) error { return nil }

func (c *stompConn) consume(ctx context.Context, queue string, prefetch int) (feed, error) {
	return c.subscribe(ctx, queue, prefetch, "activemq.exclusive", "true")
}

// subscribe subscribes to a queue, with further headers. One acknowledgement covers all
// messages before it.
func (c *stompConn) subscribe(ctx context.Context, queue string, prefetch int, headers ...string) (*stompFeed, error) {
	s := &stompFeed{c: c, id: c.name(), in: make(chan *delivery, 2*prefetch+spare), gone: make(chan struct{}), prefetch: int64(prefetch), more: make(chan struct{}, 1)}
	s.remove = c.listen(s.id, s.sink)
	f := frame.New(frame.SUBSCRIBE, append([]string{frame.Id, s.id, frame.Destination, destination(queue), frame.Ack, frame.AckClient,
		"activemq.prefetchSize", strconv.Itoa(prefetch)}, headers...)...)
	if err := c.call(ctx, f); err != nil {
		s.abandon()
		return nil, err
	}
	return s, nil
}

// spare is room for messages beyond the prefetch: if a broker sends more than that, it
// does not obey the prefetch, and the connection ends.
const spare = 16

func (s *stompFeed) sink(f *frame.Frame, err error) {
	if err != nil {
		s.fail(err)
		return
	}
	select {
	case s.in <- readFrame(f):
	default:
		s.c.fail(fmt.Errorf("the broker has sent more than %d messages that are not acknowledged", cap(s.in)))
	}
}

func (s *stompFeed) fail(err error) {
	s.finish.Do(func() {
		s.reason = err
		close(s.gone)
	})
}

func (s *stompFeed) arrived() <-chan *delivery { return s.in }
func (s *stompFeed) failed() <-chan struct{}   { return s.gone }
func (s *stompFeed) err() error                { return s.reason }
func (s *stompFeed) together() bool            { return true }

// settle acknowledges the last message, and with it all before. Every so often it asks for a
// receipt, and waits only if as many messages as are fetched ahead have none: that bounds what a
// broker that dies has forgotten. A receipt for each would be too many: the broker syncs its
// disk before it sends one, and everything else on the connection waits for that. With twelve
// busy queues it was a tenth of a second behind, in which a queue that was to move was idle.
// A refusal shows as the end of the feed, or of the connection where there was no receipt.
func (s *stompFeed) settle(ctx context.Context, all []*delivery) error {
	select {
	case <-s.gone:
		return s.reason
	default:
	}
	brief, cancel := within(ctx, callTime)
	defer cancel()
	ack := frame.New(frame.ACK, frame.Id, all[len(all)-1].ack.(string))
	s.settled += int64(len(all))
	if err := s.acknowledge(brief, ack); err != nil {
		return err
	}
	for s.settled-s.stored.Load() >= s.prefetch {
		select {
		case <-s.more:
		case <-s.gone:
			return s.reason
		case <-brief.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("the broker has not confirmed acknowledgements of %d messages for %v: is its disk full?", s.settled-s.stored.Load(), callTime)
		}
	}
	return nil
}

// acknowledge posts an acknowledgement, and asks for a receipt if it is time to.
func (s *stompFeed) acknowledge(ctx context.Context, ack *frame.Frame) error {
	settled := s.settled
	if s.asked > 0 && settled-s.asked < s.prefetch/3 {
		return s.c.post(ctx, ack)
	}
	s.asked = settled
	return s.c.request(ctx, ack, func(err error) {
		if err != nil {
			s.fail(err)
			return
		}
		s.stored.Store(settled) // receipts come in order
		select {
		case s.more <- struct{}{}:
		default:
		}
	})
}

// end waits for the receipt of UNSUBSCRIBE. The broker carries out the frames of a
// connection in order, so it has carried out all acknowledgements by then.
func (s *stompFeed) end(ctx context.Context) (err error) {
	err = errEnded
	s.ending.Do(func() {
		s.remove()
		err = s.c.call(ctx, frame.New(frame.UNSUBSCRIBE, frame.Id, s.id))
	})
	select {
	case <-s.gone:
		return errors.Join(err, s.reason)
	default:
		return err
	}
}

var errEnded = errors.New("the subscription was abandoned")

func (s *stompFeed) abandon() {
	s.ending.Do(func() {
		s.remove()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), callTime)
			defer cancel()
			err := s.c.call(ctx, frame.New(frame.UNSUBSCRIBE, frame.Id, s.id))
			if ctx.Err() != nil {
				s.c.fail(fmt.Errorf("a subscription does not end: %w", err))
			}
		}()
	})
}
