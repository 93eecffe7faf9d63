package rota

import (
	"context"
	"slices"
	"sync"
	"time"
)

// How long a partition may be away from the gate before nobody waits for it any
// more: its queue is empty, or its handler hangs. And how long its handler may
// take before nobody waits for the partition at all: it is busy. Where handlers
// take longer than that, both are so many times what the others' take.
const (
	patience = 50 * time.Millisecond
	handling = 5 * time.Millisecond
	slower   = 4
)

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
	took  time.Duration // the sum of the seats'
	timed int           // how many seats that is of
}

// A seat is one partition's place. All of it is guarded by the pacer's lock,
// which is never held across anything that blocks.
type seat struct {
	p     *pacer
	count int64         // messages passed, on a scale that all seats share
	last  time.Time     // when it was last at the gate, or came back from a handler
	slow  bool          // it was away for too long last time: nobody waits for it
	took  time.Duration // what its handler took, lately; 0 if that is not known
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
	s.time(0)
	s.p.alarm()
}

// rest says that the partition will not be at the gate for a while.
func (s *seat) rest() {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.slow = true
	s.p.alarm()
}

// alarm lets everybody look again.
func (p *pacer) alarm() {
	if p.wake != nil {
		close(p.wake)
		p.wake = nil
	}
}

// away: nobody waits for the seat now.
func (s *seat) away(now time.Time) bool {
	gone := now.Sub(s.last)
	return s.slow || gone > patience && gone > slower*s.others()
}

// others is what the handlers of the other seats take.
func (s *seat) others() time.Duration {
	n := s.p.timed
	if s.took > 0 {
		n--
	}
	if n == 0 {
		return 0
	}
	return (s.p.took - s.took) / time.Duration(n)
}

// time notes what the seat's handler takes.
func (s *seat) time(took time.Duration) {
	p := s.p
	if s.took > 0 {
		p.timed--
	}
	if took > 0 {
		p.timed++
	}
	p.took += took - s.took
	s.took = took
}

// slowest is the lowest count among the seats that are worth waiting for; the
// highest of all if there is none.
func (p *pacer) slowest(now time.Time) int64 {
	low, high, found := int64(0), p.low, false
	for _, s := range p.seats {
		high = max(high, s.count)
		if !s.away(now) && (!found || s.count < low) {
			low, found = s.count, true
		}
	}
	if !found {
		return high
	}
	return low
}

// wait blocks while this seat is too far ahead of one that is worth waiting for,
// unless the partition is to stop: then what was fetched is finished without
// delay. It returns when it let the seat pass.
func (s *seat) wait(ctx context.Context, stop <-chan struct{}) (time.Time, error) {
	now := time.Now()
	for wake := s.look(now, true); wake != nil; wake = s.look(now, false) {
		select {
		case <-wake:
		case <-time.After(patience / 2): // the slow one may not be worth it any more
		case <-stop:
			return time.Now(), ctx.Err()
		case <-ctx.Done():
			return now, ctx.Err()
		}
		now = time.Now()
	}
	return now, ctx.Err()
}

// look returns nil if the seat may pass, otherwise what to wait for. Those who
// wait are woken for half of ahead at a time, not for every message.
func (s *seat) look(now time.Time, arriving bool) (wake chan struct{}) {
	p := s.p
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
// until it has caught up.
func (s *seat) arrive(now time.Time) {
	if s.away(now) {
		s.slow = true
		s.count = max(s.count, s.p.slowest(now))
	}
}

// back: a handler that was let in at the given time has returned, n messages are
// done. The seat is waited for again once it was quick.
func (s *seat) back(at time.Time, n int) {
	now, p := time.Now(), s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	took := now.Sub(at)
	s.slow = took > handling && took > slower*s.others()
	if s.took == 0 {
		s.time(took)
	} else {
		s.time(s.took + (took-s.took)/8)
	}
	s.last = now
	was := s.count
	s.count += int64(n)
	if p.wake == nil || was > p.low {
		return // it holds up nobody
	}
	if p.low = p.slowest(now); p.low >= p.goal {
		p.alarm()
	}
}
