package rota

import (
	"context"
	"errors"
	"time"
)

// A Source is where messages come from: a broker's queues, a topic's partitions.
type Source interface {
	// Partitions lists what there is to consume. Only the leader asks. A name that
	// cannot be served is left out with a condition. So is what the source itself
	// leaves out, if it returns a list together with an error that wraps ErrPartial.
	Partitions(ctx context.Context) ([]Partition, error)

	// Consume runs one partition for as long as this member owns it. Running it
	// is owning, and returning is the acknowledgement: by then everything it
	// delivered is settled or given back, and nothing of it is open at the
	// broker.
	//
	// When own.Stop closes it finishes what it has fetched, settles it and
	// returns nil. When ctx ends the partition is already somebody else's, or
	// may be at any moment: it settles nothing more and returns at once. If it
	// returns unasked, with or without an error, it is called again after a
	// while, and after some failures in a row the partition goes to another
	// member.
	Consume(ctx context.Context, own Ownership, deliver Deliver) error
}

// Deliver hands messages of one partition, oldest first, to the handler. It
// blocks while the handler works, and while this partition is far ahead of the
// others, and returns how many from the front are done: settle those. err tells
// about msgs[n], the first that is not:
//
//	nil      there is none: all are done
//	ErrStop  give it and the rest back unsettled and return nil from Consume
//	ErrDead  it failed too often: dead-letter it, and go on behind it
//	ErrLost  the partition is not ours any more: settle nothing, return at once
type Deliver func(ctx context.Context, msgs ...Message) (n int, err error)

// What Deliver and Ownership.Check answer.
var (
	ErrStop = errors.New("rota: stop: give the rest back")
	ErrDead = errors.New("rota: the message failed too often: dead-letter it")
	ErrLost = errors.New("rota: the partition is not ours any more")
)

// ErrUntried is for a handler that could not begin with a message, so that nothing
// was found out about it: there was no memory, no descriptor, no process for the work.
// An error that wraps it does not count as an attempt. The message is tried again,
// after the same pauses, for as long as that takes, and the error is told as a
// condition. Of something that the message itself may be the cause of, return another
// error: the messages behind it would wait for ever.
var ErrUntried = errors.New("rota: the message was not tried")

// ErrPartial is for a Source whose Partitions leaves something out: the list that
// comes with it is served, and the error told as a condition. Of errors that were
// joined each is told.
var ErrPartial = errors.New("rota: the source does not list everything")

// A Partition is something one member at a time consumes. Names are unique
// within a source, valid UTF-8 without control characters, at most 256 bytes.
type Partition struct {
	Name string
	Meta Meta
}

// Meta are key/value pairs of a partition; at most 4 KB in all. Orders override
// what the source says.
type Meta map[string]string

// A Message is one message of one partition.
type Message struct {
	ID        string
	Partition string
	Key       []byte
	Value     []byte
	Headers   []Header
	Time      time.Time
	Attempt   int    // 1 at first; grows when the handler failed
	Position  uint64 // within the partition, if the source numbers them
	Token     Token
	Session   string

	own Ownership
}

// Ownership is the ownership that the message was delivered under: its Check, asked
// directly before an effect, says whether the partition is still ours. Of a message
// that no member has delivered it has ended long ago.
func (m Message) Ownership() Ownership {
	if m.own.r == nil {
		return Ownership{endedRun}
	}
	return m.own
}

// A Header is one header of a message.
type Header struct {
	Key   string
	Value []byte
}

// Token fences an ownership: it grows with each new owner of a partition. A sink
// that refuses a lower token than it has seen, and an equal one from another
// session, refuses every former owner.
type Token uint64

// A Meter tells how much arrives and waits. Only the leader reads it.
type Meter interface {
	Read(ctx context.Context, partitions []string) ([]Reading, error)
}

// A Reading holds counters, not rates: rates are made of two of them.
type Reading struct {
	Partition string
	Arrived   uint64 // since the counter began
	Backlog   int64
	Epoch     string // changes when the counter begins anew
}

// A Preparer is a Source that can warm up for a partition while its former
// owner still runs it: fill a cache, open a connection. It must not touch the
// messages. Its ctx ends when the partition is granted or goes elsewhere; Consume
// does not wait for it.
type Preparer interface {
	Prepare(ctx context.Context, p Partition) error
}

// A Lister is a Source whose Partitions asks its broker, so that what it does
// not list, several times running, is gone. Any other source's list only adds.
type Lister interface {
	ListsAll() bool
}

// Func is a Source for work that is not made of messages: fn runs once per
// partition while this member owns it. It has no deliver, so own.Progress tells
// the watchdog that it lives, and own.Check is to be asked directly before each
// effect.
func Func(names []string, fn func(ctx context.Context, own Ownership) error) Source {
	return &funcSource{names, fn}
}

type funcSource struct {
	names []string
	fn    func(context.Context, Ownership) error
}

func (f *funcSource) Partitions(context.Context) ([]Partition, error) {
	out := make([]Partition, len(f.names))
	for i, n := range f.names {
		out[i] = Partition{Name: n}
	}
	return out, nil
}

func (f *funcSource) Consume(ctx context.Context, own Ownership, _ Deliver) error {
	own.Started()
	return f.fn(ctx, own)
}
