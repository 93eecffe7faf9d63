package rota

import (
	"context"
	"iter"
	"sync"
	"time"
)

// EventKind says what an Event tells.
type EventKind string

// What happens to a member, roughly in the order of its life.
const (
	EventJoined     EventKind = "joined"      // the group can see this member
	EventLeader     EventKind = "leader"      // this member leads
	EventPlan       EventKind = "plan"        // this member, leading, made a plan
	EventGrant      EventKind = "grant"       // a partition is ours
	EventStarting   EventKind = "starting"    // its source is asked for it, the first time or again
	EventStart      EventKind = "start"       // the source confirmed it
	EventRevoke     EventKind = "revoke"      // the plan takes a partition from us
	EventStop       EventKind = "stop"        // a partition is to be given up
	EventStopped    EventKind = "stopped"     // it has stopped
	EventLapsed     EventKind = "lapsed"      // no lease: everything has stopped
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
	EventError      EventKind = "error"       // the handler failed
	EventCondition  EventKind = "condition"   // something a person should know: Condition
	EventMissed     EventKind = "missed"      // the reader was too slow: N events are gone
)

// What Config.Trace is told besides, with Config.TraceMessages.
const (
	EventHandle  EventKind = "handle"  // the handler is called
	EventHandled EventKind = "handled" // it returned
	EventSettled EventKind = "settled" // the source settled what it delivered; its time is when it began to
	EventRefused EventKind = "refused" // the source wanted to settle and may not any more
	EventLease   EventKind = "lease"   // the lease is a new one
)

// An Event is something that happened to a member. What does not belong to its
// kind is empty.
type Event struct {
	Kind      EventKind
	Time      time.Time
	Member    string // the name of whom it happened to
	Session   string // and its session
	Partition string // what is about one: grant, starting, start, revoke, stop, drained, error, handle, …
	Token     Token  // of that ownership
	Message   string // error, handle, handled: its ID
	Attempt   int    // and how often it was tried, this time included
	Plan      uint64 // EventPlan: its number; otherwise the newest plan known, as Gen and Term
	Gen       uint64
	Term      uint64
	Remaining time.Duration // what was left of the lease; negative when it was over, zero without one
	About     string        // another member's session
	Condition Condition     // EventCondition: its code
	Causes    []Cause       // EventPlan: why it was made
	Because   string        // for people: programs read the fields above
	Moved     int           // EventPlan: partitions taken from one that has them
	Placed    int           // EventPlan: partitions given to somebody, having nobody
	N         int           // EventMissed: how many
}

// ringSize is how many events are kept for slow readers.
const ringSize = 1024

// ring keeps the newest events for any number of readers and never blocks the
// writer: a reader that falls behind is told how much it missed.
type ring struct {
	mu   sync.Mutex
	buf  []Event
	next uint64 // number of the next event
	wake chan struct{}
}

func (r *ring) init() {
	r.wake = make(chan struct{})
}

func (r *ring) add(e Event) {
	r.mu.Lock()
	if len(r.buf) < ringSize { // most members have few events
		r.buf = append(r.buf, e)
	} else {
		r.buf[r.next%ringSize] = e
	}
	r.next++
	wake := r.wake
	r.wake = make(chan struct{})
	r.mu.Unlock()
	close(wake)
}

// read returns the event numbered at, or how many were missed, or what to wait
// for.
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

// Events yields what happens to the member from the call on, until ctx ends or
// Run has returned and everything was told. The reader may be slow: it then gets
// one EventMissed with the number of events it missed instead of them.
func (m *Member) Events(ctx context.Context) iter.Seq[Event] {
	m.ring.mu.Lock()
	at := m.ring.next
	m.ring.mu.Unlock()
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
