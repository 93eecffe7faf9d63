package rota

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// A Store is a set of compare-and-set cells with a change feed. Leases, leaders
// and plans are built once above it, so a driver is these five verbs and nothing
// else.
//
// Keys match [A-Za-z0-9_-/] and are at most 128 bytes long. A prefix is a whole
// key or ends in a slash.
type Store interface {
	// Get reads one cell. The read is linearizable: it shows every write that
	// was acknowledged before it began. ErrNotFound if there is none.
	Get(ctx context.Context, key string) (Entry, error)

	// Put writes one cell if it is at revision prev, and returns its new
	// revision. With prev zero the cell must not exist. ErrConflict if it is at
	// another revision. After any other error nobody knows whether it happened,
	// or still will.
	Put(ctx context.Context, key string, value []byte, prev Rev) (Rev, error)

	// Delete removes one cell if it is at revision prev: ErrConflict otherwise.
	Delete(ctx context.Context, key string, prev Rev) error

	// Watch yields first all entries under prefix as one batch, which may be
	// empty, then batches of changes: the newest version per key, versions in
	// between may be left out, Entry.Deleted marks removals. When it may have
	// missed something it ends with an error. It lives as long as the loop over
	// it, or until ctx ends.
	Watch(ctx context.Context, prefix string) iter.Seq2[[]Entry, error]

	// Close releases what the store holds. Calls under way may fail.
	Close() error
}

// Rev is a cell's revision: compared for equality only, and only with others of
// the same key. Zero is no revision.
type Rev uint64

// An Entry is one version of one cell.
type Entry struct {
	Key     string
	Value   []byte
	Rev     Rev
	Deleted bool // in a Watch: the cell is gone; Value is empty
}

// What a Store answers. Anything else means that the outcome is unknown.
var (
	ErrNotFound = errors.New("rota: no such key")
	ErrConflict = errors.New("rota: the key is at another revision")
)

// Class says what a store can promise about writes it has acknowledged.
type Class byte

const (
	ClassUnknown Class = iota
	ClassA             // replicated, and acknowledged writes survive any failover
	ClassB             // one server with a durable log
	ClassC             // a failover may lose acknowledged writes: exclusive then only with a token-checking sink
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
// as unknown and treated like class C.
type Classifier interface {
	Class() Class
}

// A Fresher is a Store that knows whether it is new: made by this very process,
// so that no group can have lived in it. In any other a new group waits for the
// leases that an emptied store might have forgotten, unless Config.NewGroup says
// that there are none. Only the first session of a Member believes either.
type Fresher interface {
	Fresh(ctx context.Context) (bool, error)
}

// A Warner is a Store or a Source that notices what people should know although no
// call has failed, such as messages that pretend to be its server's. Warnings returns what
// it has noticed since it was last asked. Members ask with each heartbeat, and
// tell it as a condition.
type Warner interface {
	Warnings() []string
}

// An Identifier is a Store that can name the server it is connected to: a name
// that changes when the server behind it is another, or was restored from a
// backup. On a store of class C such a change ends every session.
type Identifier interface {
	Identity(ctx context.Context) (string, error)
}
