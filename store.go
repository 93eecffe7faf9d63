package rota

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// A Store is a set of compare-and-set cells with a change feed. Leases, leaders
// and plans are built on top of it, so a driver needs these five methods only.
//
// Keys match [A-Za-z0-9_-/] and are at most 128 bytes long. A prefix is a whole
// key or ends in a slash.
type Store interface {
	// Get reads one cell. The read is linearizable: it shows every write that
	// was acknowledged before it began. ErrNotFound if there is none.
	Get(ctx context.Context, key string) (Entry, error)

	// Put writes one cell if it is at revision prev, and returns its new
	// revision. With prev zero the cell must not exist. ErrConflict if it is at
	// another revision. After any other error the outcome is unknown: the write
	// may have happened, or may still happen.
	Put(ctx context.Context, key string, value []byte, prev Rev) (Rev, error)

	// Delete removes one cell if it is at revision prev: ErrConflict otherwise.
	Delete(ctx context.Context, key string, prev Rev) error

	// Watch yields first all entries under prefix as one batch, which may be
	// empty, then batches of changes: the newest version per key. Versions in
	// between may be left out; Entry.Deleted marks removals. If there may be a gap,
	// it ends with an error. It also ends with the loop over it and with ctx.
	Watch(ctx context.Context, prefix string) iter.Seq2[[]Entry, error]

	// Close releases the connection. Calls in flight may fail. No member calls it: the
	// program that opened the Store closes it, after Run has returned.
	Close() error
}

// Rev is a cell's revision. Revisions are compared for equality only, and only with
// others of the same key. Zero is no revision.
type Rev uint64

// An Entry is one version of one cell.
type Entry struct {
	Key     string
	Value   []byte
	Rev     Rev
	Deleted bool // in a Watch: the cell is gone; Value is empty
}

// The errors of a Store. After any other error the outcome is unknown.
var (
	ErrNotFound = errors.New("rota: no such key")
	ErrConflict = errors.New("rota: the key is at another revision")
)

// ErrPermanent is for a Store or a Source that cannot work as it is configured, and
// will not by waiting: the server refuses the user, the stream is not there. An error
// that wraps it ends the Run of a member that never had an answer from that Store or
// Source. To a member that had one it is like any other error, and so is an outage: a
// server that cannot be reached, a host name that is not known at this moment. When in
// doubt, do not wrap it.
var ErrPermanent = errors.New("rota: it cannot work as it is configured")

// A Checker is a Store or a Source that can find mistakes in its configuration without
// connecting to anything, such as a URL that cannot be read. New asks it.
type Checker interface {
	Check() error
}

// Class says how durable a store's acknowledged writes are.
type Class byte

const (
	ClassUnknown Class = iota
	ClassA             // replicated, and acknowledged writes survive any failover
	ClassB             // one server with a durable log
	ClassC             // a failover may lose acknowledged writes: only a sink that checks tokens keeps one owner then
)

func (c Class) String() string {
	return [...]string{"unknown", "A", "B", "C"}[min(c, ClassC)]
}

// MarshalText writes A, B, C or unknown, in JSON too.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (c *Class) UnmarshalText(b []byte) error {
	for x := range ClassC + 1 {
		if string(b) == x.String() {
			*c = x
			return nil
		}
	}
	return fmt.Errorf("rota: class %q: want A, B, C or unknown", b)
}

// A Classifier is a Store that knows its class. One that does not say is shown
// as unknown and treated like class C. A store may learn its class at its first call:
// members ask for it after an answer of Identifier, and once it was C for a session it
// stays so.
type Classifier interface {
	Class() Class
}

// A Fresher is a Store that knows whether it is new: made by this very process, so
// that no group can have used it before. In any other store a new group waits for the
// leases that an emptied store might have forgotten, unless Config.NewGroup says that
// there are none. Both apply to the first session of a Member only.
type Fresher interface {
	Fresh(ctx context.Context) (bool, error)
}

// An Opener is a Store or a Source whose first call takes longer than others, because it
// connects. Open does what a first call would do before it asks; what goes wrong is the error
// of the next call as well. A member opens its store before it joins and tells the others how
// long that took: members that start together with it need as long, and the leader waits for
// them. Its source it opens meanwhile, so that the first partitions need not wait for that.
type Opener interface {
	Open(ctx context.Context) error
}

// A Warner is a Store or a Source that can report a problem although no call has
// failed, such as messages that pretend to come from its server. Warnings returns the
// problems noticed since the last call. Members call it with each heartbeat and make
// each a condition.
type Warner interface {
	Warnings() []string
}

// An Identifier is a Store that can name the server it is connected to. The name
// changes when the store is connected to another server, or when the server was
// restored from a backup. On a store of class C such a change ends every session.
type Identifier interface {
	Identity(ctx context.Context) (string, error)
}
