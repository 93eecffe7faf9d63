package rota

import (
	"context"
	"sync"
	"time"
)

// How far one partition may be ahead of the slowest, and how long that one may
// be silent before it is not waited for: an empty queue, a busy or a hung
// handler.
const (
	ahead    = 64
	patience = 50 * time.Millisecond
)

// pacer serves backlogged partitions of one member at an equal rate.
type pacer struct {
	mu    sync.Mutex
	seats []*seat
	low   int64         // the slowest count when last looked: it has only grown since
	wake  chan struct{} // closed when somebody may pass who could not before
}

// A seat is one partition's place. All of it is guarded by the pacer's lock,
// which is never held across anything that blocks.
type seat struct {
	p     *pacer
	count int64     // messages passed, on a scale that all seats share
	last  time.Time // of the last one
	idle  bool      // resting: nobody waits for it
}

func (p *pacer) join() *seat {
	s := &seat{p: p, idle: true}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.count = p.slowest(time.Now(), nil)
	p.seats = append(p.seats, s)
	return s
}

func (s *seat) leave() {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	for i, x := range s.p.seats {
		if x == s {
			s.p.seats = append(s.p.seats[:i], s.p.seats[i+1:]...)
			break
		}
	}
	s.p.alarm()
}

func (p *pacer) alarm() {
	if p.wake != nil {
		close(p.wake)
		p.wake = nil
	}
}

// slowest is the lowest count among the seats that are worth waiting for; the
// highest of all if there is none.
func (p *pacer) slowest(now time.Time, but *seat) int64 {
	low, high, found := int64(0), int64(0), false
	for _, s := range p.seats {
		high = max(high, s.count)
		if s == but || s.idle || now.Sub(s.last) > patience {
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

// wait blocks while this seat is too far ahead of one that is ready.
func (s *seat) wait(ctx context.Context) error {
	for {
		s.p.mu.Lock()
		now := time.Now()
		if !s.idle && s.count-s.p.low <= ahead && now.Sub(s.last) <= patience {
			s.last = now // the usual case: nobody has to be looked at
			s.p.mu.Unlock()
			return ctx.Err()
		}
		low := s.p.slowest(now, s)
		s.p.low = low
		if s.idle || now.Sub(s.last) > patience {
			s.count = max(s.count, low) // it was away: nobody has to wait until it has caught up
		}
		s.idle, s.last = false, now
		if s.count-low <= ahead {
			s.p.mu.Unlock()
			return ctx.Err()
		}
		if s.p.wake == nil {
			s.p.wake = make(chan struct{})
		}
		wake := s.p.wake
		s.p.mu.Unlock()
		select {
		case <-wake:
		case <-time.After(patience / 2): // the slow one may have stopped being ready
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// moved counts messages that were handled.
func (s *seat) moved(n int) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.count += int64(n)
	s.last = time.Now()
	s.p.alarm()
}

// rest says that the partition is not ready for a while.
func (s *seat) rest() {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.idle = true
	s.p.alarm()
}
