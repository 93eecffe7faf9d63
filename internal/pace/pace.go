// Package pace serves the backlogged partitions of one member at an equal rate.
// A partition that is far ahead waits at the gate until the slowest has caught up.
// A partition that has nothing to do or no backlog, or whose handler hangs or is much
// slower than the others', is not waited for: pacing never slows a member down to the
// rate of one bad partition. It promises no order and no exact rate.
package pace

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// absent is how long a partition may stay away from the gate. After that the
	// others stop waiting for it: its queue is empty, or its handler hangs.
	absent = 50 * time.Millisecond

	// slow is how long a handler may take. The others do not wait for a partition
	// whose last handler took longer.
	slow = 5 * time.Millisecond

	// slowFactor raises both limits where handlers take long: nothing counts as
	// absent or slow within this many times what the other partitions' handlers take.
	slowFactor = 4

	// defaultAhead is Gate.Ahead if that is 0.
	defaultAhead = 64

	// Where messages are quick, a partition may be further ahead: by aheadTime at the rate
	// of the slowest, but by no more than one part in aheadPart of what that one has
	// handled, so that the rates stay equal. Brokers send what was fetched of one partition
	// in one go. With less, broker and member would wait for each other in turns. It is
	// mostAhead at most, since the rate of a moment may be much too high: when the slowest
	// is waited for no longer, the next one seems to have made a leap.
	aheadTime = 50 * time.Millisecond
	aheadPart = 25
	mostAhead = 1000

	// rateTime is how far two instants are apart that tell the rate of the slowest.
	rateTime = 20 * time.Millisecond

	// recheck is how long a waiting partition sleeps at most before it looks whether
	// the partition it waits for has become absent.
	recheck = absent / 2

	// maxAge is how old Gate.low may be while partitions wait or are far ahead: they need
	// not all search for the slowest.
	maxAge = absent / 4

	// pause is how long the source of a backlogged partition may take to deliver a
	// single message. If it takes longer, it most likely waited for the message.
	pause = 2 * time.Millisecond

	// few is how many times fewer messages than others a partition brings at once
	// when it has no backlog.
	few = 8

	// smoothing makes the newest time of a handler one part in so many of its
	// average.
	smoothing = 8
)

// A Gate keeps the partitions of one member in step. Its zero value is ready. Its
// lock is never held across anything that blocks.
type Gate struct {
	// Ahead is how many messages one partition may be ahead of the slowest that is
	// waited for, in any case; 0 means 64. It must not change once a partition has joined.
	Ahead int64

	mu    sync.Mutex
	turns []*Turn
	low   int64         // the count of the slowest turn, when last searched for
	seen  time.Time     // when that was
	begun int64         // what low was when the measurement of its rate began
	since time.Time     // and when that was
	quick int64         // how many messages the slowest handles in aheadTime
	wake  chan struct{} // nil if nobody waits; closed when low has reached goal, or may have
	goal  int64
	took  time.Duration // the sum of what the turns' handlers take
	timed int           // how many turns have a part in that sum
	most  float64       // how many messages a backlogged turn brings at once; it fades
}

// A Turn is one partition's place at the gate. Several handlers of the partition
// may use it at once.
type Turn struct {
	gate    *Gate         // whose lock guards the fields below
	count   int64         // messages handled, on a scale that all turns share
	last    time.Time     // when it was last at the gate, or its handler returned
	skipped bool          // nobody waits for it: it was absent, slow, or said that it rests
	idle    bool          // nobody waits for it: it has no backlog
	took    time.Duration // the average of what its handler takes; 0 if not known
}

// Join adds a partition, level with the slowest. It is expected at the gate at
// once.
func (g *Gate) Join() *Turn {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	t := &Turn{gate: g, count: g.slowest(now), last: now}
	g.turns = append(g.turns, t)
	return t
}

// Leave removes the partition from the gate.
func (t *Turn) Leave() {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turns = slices.DeleteFunc(g.turns, func(x *Turn) bool { return x == t })
	t.setTook(0)
	g.wakeAll()
}

// Rest says that the partition will not be at the gate for a while, so that nobody
// waits for it.
func (t *Turn) Rest() {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	t.skipped = true
	g.wakeAll()
}

// Bring says that the source delivers n messages at once. If it seems to have waited for
// them, the partition has no backlog, and nobody waits for it: otherwise a partition with
// a backlog could never be faster than messages arrive at the others.
func (t *Turn) Bring(n int) {
	now, g := time.Now(), t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.most = max(float64(n), g.most*(1-1./64))
	was := t.idle
	t.idle = n == 1 && now.Sub(t.last) > pause || float64(n*few) < g.most
	if t.idle && !was {
		g.wakeAll()
	}
}

// Wait blocks while the partition is too far ahead of one that is waited for. A
// closed stop ends the wait without an error: messages that were fetched before a
// stop are handled without delay. Wait returns when it let the partition pass,
// which Done needs, and the error of ctx.
func (t *Turn) Wait(ctx context.Context, stop <-chan struct{}) (time.Time, error) {
	now := time.Now()
	for wake := t.pass(now, true); wake != nil; wake = t.pass(now, false) {
		select {
		case <-wake:
		case <-time.After(recheck):
		case <-stop:
			return time.Now(), ctx.Err()
		case <-ctx.Done():
			return now, ctx.Err()
		}
		now = time.Now()
	}
	return now, ctx.Err()
}

// Done says that a handler that Wait let pass at the given time has returned, with
// n messages handled. The others wait for the partition again if it was quick. Done returns
// how long the handler took.
func (t *Turn) Done(at time.Time, n int) (took time.Duration) {
	now, g := time.Now(), t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	took = now.Sub(at)
	t.skipped = took > slow && took > slowFactor*t.others()
	if t.took == 0 {
		t.setTook(took)
	} else {
		t.setTook(t.took + (took-t.took)/smoothing)
	}
	t.last = now
	was := t.count
	t.count += int64(n)
	if g.wake == nil || was > g.low {
		return took // nobody waits, or not for this one
	}
	if g.low = g.slowest(now); g.low >= g.goal {
		g.wakeAll()
	}
	return took
}

// pass returns nil if the partition may pass, otherwise the channel to wait for.
// Waiting partitions are woken once for half of Ahead, not for every message.
func (t *Turn) pass(now time.Time, arriving bool) (wake chan struct{}) {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if arriving {
		t.arrive(now)
	}
	t.last = now
	ahead, lead := g.ahead(), t.count-g.low
	if lead > ahead && g.wake == nil || lead > g.least() && now.Sub(g.seen) > maxAge {
		g.low, g.seen = g.slowest(now), now
		g.measure(now)
		ahead = g.ahead()
	}
	if t.count-g.low <= ahead {
		return nil
	}
	if g.wake == nil {
		g.wake, g.goal = make(chan struct{}), g.low+(ahead+1)/2
	}
	return g.wake
}

// least is how far a partition may be ahead of the slowest in any case.
func (g *Gate) least() int64 { return cmp.Or(g.Ahead, defaultAhead) }

// ahead is how far it may be ahead now.
func (g *Gate) ahead() int64 {
	return max(g.least(), min(g.quick, g.low/aheadPart, mostAhead))
}

// measure learns the rate of the slowest, when somebody is ahead of it.
func (g *Gate) measure(now time.Time) {
	if passed := now.Sub(g.since); passed >= rateTime {
		g.quick = int64(float64(g.low-g.begun) * float64(aheadTime) / float64(passed))
		g.begun, g.since = g.low, now
	}
}

// arrive moves a partition that comes back after an absence up to the slowest, so
// that nobody waits until it has caught up.
func (t *Turn) arrive(now time.Time) {
	if t.away(now) {
		t.skipped = true
		t.count = max(t.count, t.gate.slowest(now))
	}
}

// away reports that nobody waits for the partition.
func (t *Turn) away(now time.Time) bool {
	gone := now.Sub(t.last)
	return t.skipped || t.idle || gone > absent && gone > slowFactor*t.others()
}

// others is the average of what the handlers of the other partitions take.
func (t *Turn) others() time.Duration {
	n := t.gate.timed
	if t.took > 0 {
		n--
	}
	if n == 0 {
		return 0
	}
	return (t.gate.took - t.took) / time.Duration(n)
}

// setTook notes what the partition's handler takes; 0 means that it is not known.
func (t *Turn) setTook(took time.Duration) {
	g := t.gate
	if t.took > 0 {
		g.timed--
	}
	if took > 0 {
		g.timed++
	}
	g.took += took - t.took
	t.took = took
}

// slowest is the lowest count of the partitions that are waited for; if there are
// none, the highest of all.
func (g *Gate) slowest(now time.Time) int64 {
	low, high, found := int64(0), g.low, false
	for _, t := range g.turns {
		high = max(high, t.count)
		if !t.away(now) && (!found || t.count < low) {
			low, found = t.count, true
		}
	}
	if !found {
		return high
	}
	return low
}

// wakeAll lets every waiting partition look again.
func (g *Gate) wakeAll() {
	if g.wake != nil {
		close(g.wake)
		g.wake = nil
	}
}
