package rota

import (
	"context"
	"slices"
	"sync"
	"time"
)

// patience is how long a partition may be away from the gate, fetching or
// handling, before nobody waits for it: its queue is empty, or its handler is
// busy or hangs.
const patience = 50 * time.Millisecond

// ahead is how many messages one partition may be ahead of the slowest that is
// worth waiting for. Changed by tests only.
var ahead int64 = 64

// pacer serves backlogged partitions of one member at an equal rate.
type pacer struct {
	mu    sync.Mutex
	seats []*seat
	low   int64         // the slowest count when last looked: it only grows
	seen  time.Time     // when that was
	wake  chan struct{} // if anybody waits: closed when low has reached goal, or may have
	goal  int64
}

// A seat is one partition's place. All of it is guarded by the pacer's lock,
// which is never held across anything that blocks.
type seat struct {
	p     *pacer
	count int64     // messages passed, on a scale that all seats share
	last  time.Time // when it was last at the gate
	slow  bool      // it came late, or said that it would: nobody waits for it
}

// join takes a seat next to the slowest. It is expected at the gate at once.
func (p *pacer) join() *seat {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &seat{p: p, count: p.slowest(now), last: now}
	p.seats = append(p.seats, s)
	return s
}

func (s *seat) leave() {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.p.seats = slices.DeleteFunc(s.p.seats, func(x *seat) bool { return x == s })
	s.p.alarm()
}

// rest says that the partition will not be at the gate for a while.
func (s *seat) rest() {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.slow, s.last = true, time.Time{}
	s.p.alarm()
}

// alarm lets everybody look again.
func (p *pacer) alarm() {
	if p.wake != nil {
		close(p.wake)
		p.wake = nil
	}
}

// slowest is the lowest count among the seats that are worth waiting for; the
// highest of all if there is none.
func (p *pacer) slowest(now time.Time) int64 {
	low, high, found := int64(0), p.low, false
	for _, s := range p.seats {
		high = max(high, s.count)
		if s.slow || now.Sub(s.last) > patience {
			continue
		}
		if !found || s.count < low {
			low, found = s.count, true
		}
	}
	if !found {
		return high
	}
	return low
}

// wait blocks while this seat is too far ahead of one that is ready, unless the
// partition is to stop: then what was fetched is finished without delay.
func (s *seat) wait(ctx context.Context, stop <-chan struct{}) error {
	for wake := s.look(true); wake != nil; wake = s.look(false) {
		select {
		case <-wake:
		case <-time.After(patience / 2): // the slow one may have stopped being ready
		case <-stop:
			return ctx.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// look returns nil if the seat may pass, otherwise what to wait for. Those who
// wait are woken for half of ahead at a time, not for every message.
func (s *seat) look(arriving bool) (wake chan struct{}) {
	now, p := time.Now(), s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if arriving {
		s.arrive(now)
	}
	s.last = now
	if s.count-p.low > ahead && (p.wake == nil || now.Sub(p.seen) > patience/4) {
		p.low, p.seen = p.slowest(now), now
	}
	if s.count-p.low <= ahead {
		return nil
	}
	if p.wake == nil {
		p.wake, p.goal = make(chan struct{}), p.low+(ahead+1)/2
	}
	return p.wake
}

// arrive: who was away for long joins the slowest, so that nobody has to wait
// until it has caught up. It is waited for only when it comes back soon.
func (s *seat) arrive(now time.Time) {
	late := now.Sub(s.last) > patience
	if late || s.slow {
		s.slow = true // not to count itself
		s.count = max(s.count, s.p.slowest(now))
	}
	s.slow = late
}

// moved counts messages that were handled.
func (s *seat) moved(n int) {
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	was := s.count
	s.count += int64(n)
	if p.wake == nil || was > p.low {
		return // it holds up nobody
	}
	if p.low = p.slowest(time.Now()); p.low >= p.goal {
		p.alarm()
	}
}
