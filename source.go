package rota

import (
	"context"
	"errors"
	"time"
)

// A Source is where messages come from: a broker's queues, a topic's partitions. If it
// has to be closed, the program that opened it does that, after Run has returned.
type Source interface {
	// Partitions lists the partitions. Only the leader calls it, at once and then every
	// Config.ListEvery. A name that cannot
	// be served is left out with a condition. A source that itself leaves partitions
	// out returns its list together with an error that wraps ErrPartial, which
	// becomes a condition too.
	Partitions(ctx context.Context) ([]Partition, error)

	// Consume consumes one partition for as long as this member owns it. Its return
	// acknowledges that the ownership has ended: by then every message it delivered
	// is settled or given back, and nothing of it is open at the broker.
	//
	// When own.Stop closes, Consume delivers what it has fetched until Deliver returns
	// ErrStop, settles what is done, waits until the broker has confirmed that, and
	// returns nil. When ctx ends, another member may own the partition at
	// any moment: Consume settles nothing more and returns at once. If it returns
	// before either, with or without an error, it is called again after a back-off;
	// after several such failures in a row the partition goes to another member.
	Consume(ctx context.Context, own Ownership, deliver Deliver) error
}

// Deliver gives messages of one partition, oldest first, to the handler. It blocks
// while the handler runs, and while this partition is far ahead of the others. It
// returns how many messages from the front are done: settle those. err is about
// msgs[n], the first that is not done:
//
//	nil      all are done
//	ErrStop  give msgs[n] and the rest back unsettled and return nil from Consume. After
//	         a stop only messages that are likely to be quick are begun.
//	ErrDead  it failed too often or is bad: store it as a dead letter, and go on with
//	         the next; the error's text is the reason
//	ErrLost  this member does not own the partition any more: settle nothing, return at once
type Deliver func(ctx context.Context, msgs ...Message) (n int, err error)

// The errors of Deliver and Ownership.Check. A handler returns an error that wraps
// ErrLost when the sink refused its token, because it has seen a higher one: that is no
// fault of the message.
var (
	ErrStop = errors.New("rota: stop: give the rest back")
	ErrDead = errors.New("rota: the message is dead: store it as a dead letter")
	ErrLost = errors.New("rota: this member does not own the partition any more")
)

// ErrUntried is for a handler that could not begin with a message for a reason that
// has nothing to do with the message: there was no memory, no file descriptor, no
// process for the work. An error that wraps it does not count as an attempt. The
// message is retried without limit, with the usual back-off, and the error becomes a
// condition. If the message itself may be the cause, return another error: otherwise
// the messages behind it could wait for ever.
var ErrUntried = errors.New("rota: the message was not tried")

// ErrPartial is for a Source whose Partitions leaves something out: the returned list
// is served, and the error becomes a condition. Of errors joined by errors.Join each
// becomes a condition of its own.
var ErrPartial = errors.New("rota: the source does not list everything")

// A Partition is something that one member at a time consumes. Names are unique
// within a source, valid UTF-8 without control characters, at most 256 bytes.
type Partition struct {
	Name  string
	Topic string // that the partition belongs to, if the source has topics: a stream, an exchange; named like a partition
	Meta  Meta
}

// Meta are key/value pairs of a partition; at most 4 KB in all. What is ordered for a
// topic overrides the source's values, and what is ordered for a partition overrides
// both.
type Meta map[string]string

// A Message is one message of one partition.
type Message struct {
	ID        string
	Partition string
	Key       []byte
	Value     []byte
	Headers   []Header
	Time      time.Time
	Attempt   int    // 1 at first; grows with each failure of the handler
	Position  uint64 // within the partition, if the source numbers them
	Token     Token
	Session   string

	own Ownership
}

// Ownership is the ownership under which the message was delivered. Call its Check
// directly before an effect. The ownership of a message that no member has delivered,
// as in a test, has ended.
func (m Message) Ownership() Ownership {
	if m.own.r == nil {
		return Ownership{endedRun}
	}
	return m.own
}

// Header returns the value of the first header with this key, or nil. Keys are compared as
// they are: brokers do not agree on whether capitals matter.
func (m Message) Header(key string) []byte {
	for _, h := range m.Headers {
		if h.Key == key {
			return h.Value
		}
	}
	return nil
}

// A Header is one header of a message.
type Header struct {
	Key   string
	Value []byte
}

// Token fences an ownership: it grows with each new owner of a partition. A sink
// that refuses every token lower than one it has seen, and an equal token from
// another session, refuses every former owner.
type Token uint64

// A Meter is a Source that measures arrivals and backlog. With the strategy Pack the
// leader reads it every two seconds. Each owner reads it at most once in Config.StallTime,
// for its partitions that deliver nothing; the two calls may overlap. A Source that wraps
// another must forward Read.
type Meter interface {
	// Read returns a Reading for each of the partitions, owned or not.
	Read(ctx context.Context, partitions []string) ([]Reading, error)
}

// A Reading holds counters, not rates: a rate is computed from two Readings.
type Reading struct {
	Partition string
	Arrived   uint64 // messages since the counter began
	Bytes     uint64 // of these messages, where the source counts bytes; otherwise zero
	Backlog   int64  // messages that wait
	Epoch     string // changes when a counter restarts

	// Unknown says that the source does not count arrivals. Then the speed is the change
	// of Backlog and what members handled.
	Unknown bool
}

// A Preparer is a Source that can warm up for a partition while its former owner
// still consumes it: fill a cache, open a connection. Prepare must not touch the
// messages. Its ctx ends when the partition is granted or goes elsewhere; Consume
// does not wait for it.
type Preparer interface {
	Prepare(ctx context.Context, p Partition) error
}

// A Lister is a Source that may say that Partitions has just returned all partitions of its
// broker. A partition that is missing from three such lists in a row is removed. Once a
// source has said so, an empty list means that there is none yet. A list of which it does
// not say so, such as one that Partitions has returned before, only adds partitions. So does
// the list of any other source, and an empty one is an error, unless it comes with
// ErrPartial. ListsAll is called once after each list.
type Lister interface {
	ListsAll() bool
}

// A Binder is a Source that reads for one group and has to know which: groups that
// read the same partitions must never share what the broker keeps for a reader. New
// calls Bind before anything else, and it must not connect to anything. It returns an
// error if the source is bound to another group already; the same group may bind it
// again. A Source that wraps another must forward Bind. A Scaler that has to know the
// group is a Binder too.
type Binder interface {
	Bind(group string) error
}

// Func is a Source for work that does not come as messages: fn runs for each
// partition while this member owns it, and ends like Source.Consume. It must call
// own.Check directly before each effect, and should call own.Progress when it has
// done some work.
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
