package rotarabbit

import (
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// arrivals are the messages of one consumer that have arrived and are not delivered yet.
//
// A quorum queue gives a new consumer first what the former owner has returned, marked as
// redelivered, and then what nobody has had. At the border between the two RabbitMQ 3.10 was
// seen to send the last of the first kind behind the first of the second: both in one moment,
// since the broker finds a gap and fills it. So the first message that is not redelivered
// waits for a while, and what was returned goes before it.
type arrivals struct {
	sorts bool // the queue is a quorum queue

	mu       sync.Mutex
	queue    []amqp.Delivery
	over     bool          // nothing more arrives
	more     chan struct{} // has an element when queue or over has changed
	returned int           // how many of queue, from the front, were returned by a former owner
	some     bool          // at least one was
	border   time.Time     // when the first one arrived that was not; zero until then
	passed   bool          // messages of the second kind were delivered
	broken   bool          // a message of the first kind came after that
}

// How long the first message that is not redelivered waits: short if nothing shows that a
// former owner has returned something.
const (
	borderTime = 50 * time.Millisecond
	noneTime   = 20 * time.Millisecond
)

func newArrivals(kind string) *arrivals {
	return &arrivals{sorts: kind == quorum, more: make(chan struct{}, 1)}
}

// receive queues what arrives until the consumer, or the channel, ends. The client would hold
// up all partitions of its connection otherwise.
func (a *arrivals) receive(in <-chan amqp.Delivery) {
	for d := range in {
		a.add(d, time.Now())
		a.signal()
	}
	a.mu.Lock()
	a.over = true
	a.mu.Unlock()
	a.signal()
}

func (a *arrivals) signal() {
	select {
	case a.more <- struct{}{}:
	default:
	}
}

// add queues one message.
func (a *arrivals) add(d amqp.Delivery, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue = append(a.queue, d)
	switch {
	case !a.sorts:
	case !d.Redelivered:
		if a.border.IsZero() {
			a.border = now
		}
	default:
		copy(a.queue[a.returned+1:], a.queue[a.returned:])
		a.queue[a.returned] = d
		a.returned++
		a.some = true
		a.broken = a.broken || a.passed
	}
}

// next moves at most so many messages from the front to show. over tells that nothing more
// arrives, and wait how long to wait for more, if that is known.
func (a *arrivals) next(most int, now time.Time, show func(*amqp.Delivery)) (over bool, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(most, len(a.queue))
	if wait = a.waits(now); wait > 0 {
		n = min(n, a.returned)
	} else if n > a.returned {
		a.passed = true
	}
	for i := range a.queue[:n] {
		show(&a.queue[i])
		a.queue[i] = amqp.Delivery{}
	}
	a.returned = max(a.returned-n, 0)
	if a.queue = a.queue[n:]; len(a.queue) == 0 {
		a.queue = nil
	}
	return a.over, wait
}

// waits returns how long the first message that is not redelivered still waits.
func (a *arrivals) waits(now time.Time) time.Duration {
	if !a.sorts || a.passed || a.over || a.border.IsZero() {
		return 0
	}
	time := noneTime
	if a.some {
		time = borderTime
	}
	return max(a.border.Add(time).Sub(now), 0)
}

// reordered tells, once, that the broker has delivered messages out of order.
func (a *arrivals) reordered() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	broken := a.broken
	a.broken = false
	return broken
}
