package rota

import (
	"context"
	"iter"
	"sync"
	"time"
)

// EventKind says what happened.
type EventKind string

// The events of a member, roughly in the order in which they happen.
const (
	EventJoined     EventKind = "joined"      // the group can see this member
	EventLeader     EventKind = "leader"      // this member leads
	EventPlan       EventKind = "plan"        // this member, leading, made a plan
	EventSize       EventKind = "size"        // this member, leading, wants another number of members: Want, Have, Going
	EventGrant      EventKind = "grant"       // this member owns a partition
	EventStarting   EventKind = "starting"    // Source.Consume is called, the first time or again
	EventStart      EventKind = "start"       // the source confirmed the subscription
	EventMeta       EventKind = "meta"        // metadata of a partition that this member owns has changed: Meta
	EventRevoke     EventKind = "revoke"      // the plan takes a partition from this member
	EventStop       EventKind = "stop"        // a partition was told to stop
	EventStopped    EventKind = "stopped"     // the partition has stopped
	EventLapsed     EventKind = "lapsed"      // no lease: everything has stopped
	EventWorksOn    EventKind = "works_on"    // no lease, and work goes on: Config.OnStoreLoss
	EventResumed    EventKind = "resumed"     // the lease is back
	EventDead       EventKind = "dead"        // this member declared another dead
	EventEvicted    EventKind = "evicted"     // this member, leading, evicted another
	EventLeaving    EventKind = "leaving"     // Run was asked to end: partitions are being handed over
	EventLeft       EventKind = "left"        // everything is handed over; Run returns nil
	EventFenced     EventKind = "fenced"      // the group has ended this session: ErrFenced
	EventOrphaned   EventKind = "orphaned"    // no lease for too long: ErrOrphaned
	EventStoreLost  EventKind = "store_lost"  // the store does not answer
	EventStoreBack  EventKind = "store_back"  // the store answers again
	EventWritesLost EventKind = "writes_lost" // the store has lost acknowledged writes: ErrStoreLost
	EventError      EventKind = "error"       // the handler failed; of many failures of one message the 1st, 2nd, 4th, 8th, …
	EventDeadLetter EventKind = "dead_letter" // a message was stored as a dead letter
	EventCondition  EventKind = "condition"   // something an operator should know: Condition
	EventMissed     EventKind = "missed"      // the reader was too slow: N events are gone
)

// The events that only Config.Trace gets, with Config.TraceMessages.
const (
	EventHandle  EventKind = "handle"  // the handler is called
	EventHandled EventKind = "handled" // the handler returned
	EventSettled EventKind = "settled" // the source settled messages; Time is when it began to
	EventRefused EventKind = "refused" // the source was not allowed to settle: ErrLost
	EventLease   EventKind = "lease"   // the lease was renewed or withdrawn
)

// An Event is something that happened to a member. A field that does not apply to
// the kind is empty.
type Event struct {
	Kind      EventKind
	Time      time.Time
	Member    string // name of the member it happened to
	Session   string // session of that member
	Partition string // of events about one: grant, starting, start, revoke, stop, stopped, error, handle, …
	Token     Token  // of that ownership
	Topic     string // grant, meta: the partition's topic
	Meta      Meta   // grant, meta: the partition's metadata
	Message   string // error, dead_letter, handle, handled: ID of the message
	Attempt   int    // error, dead_letter, handle, handled: how often the message was tried, this time included
	Plan      uint64 // EventPlan: its number; otherwise the newest plan known, as Gen and Term
	Gen       uint64
	Term      uint64
	Remaining time.Duration // time until the lease expires; negative if it has, zero without a lease
	About     string        // session of another member
	AboutName string        // the name of that member, if its record is known
	Condition Condition     // EventCondition: its code
	Causes    []Cause       // EventPlan: the reasons for the plan
	Because   string        // for people: programs read the fields above
	Moved     int           // EventPlan: partitions taken from their owners
	Placed    int           // EventPlan: partitions without an owner that get one
	Want      int           // EventSize: how many members are wanted
	Have      int           // EventSize: how many there are
	Going     []string      // EventSize: names of members that are to go
	N         int           // EventMissed: how many events
}

// ringSize is how many events are kept for slow readers.
const ringSize = 1024

// ring keeps the newest events for any number of readers and never blocks the
// writer: a reader that falls behind gets the number of events it missed. Events before
// the first reader are not kept: most members have none.
type ring struct {
	mu   sync.Mutex
	buf  []Event
	next uint64        // number of the next event
	wake chan struct{} // nil before the first reader
}

// join returns the number of the next event, for a reader.
func (r *ring) join() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wake == nil {
		r.wake = make(chan struct{})
	}
	return r.next
}

func (r *ring) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wake == nil {
		return
	}
	if len(r.buf) < ringSize { // most members have few events
		r.buf = append(r.buf, e)
	} else {
		r.buf[r.next%ringSize] = e
	}
	r.next++
	close(r.wake)
	r.wake = make(chan struct{})
}

// read returns event number at and the number to read next. If that event is gone,
// it returns an EventMissed; if it has not happened yet, a channel that closes at the
// next event.
func (r *ring) read(at uint64) (e Event, next uint64, wait chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if oldest := r.next - min(r.next, ringSize); at < oldest {
		return Event{Kind: EventMissed, N: int(oldest - at)}, oldest, nil
	}
	if at == r.next {
		return Event{}, at, r.wake
	}
	return r.buf[at%ringSize], at + 1, nil
}

// Events yields the events of the member from the call on, until ctx ends, or until
// Run has returned and the last event was read. A slow reader gets one EventMissed
// with a count in place of the events it missed.
func (m *Member) Events(ctx context.Context) iter.Seq[Event] {
	at := m.ring.join()
	return func(yield func(Event) bool) {
		for {
			e, next, wait := m.ring.read(at)
			if wait == nil {
				at = next
				if e.Kind == EventMissed {
					e.Member, e.Time = m.name, time.Now()
				}
				if !yield(e) {
					return
				}
				continue
			}
			select {
			case <-wait:
			case <-ctx.Done():
				return
			case <-m.ended:
				if _, _, wait := m.ring.read(at); wait != nil {
					return
				}
			}
		}
	}
}
