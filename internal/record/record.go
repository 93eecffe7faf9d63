// Package record holds the records that members of a group share through the store,
// and their encoding.
//
// Each record is one compare-and-set cell. The leader writes Plan, Roster and
// History; operators write Orders; each member writes its own Member record and no
// other member's, except to declare it evicted or dead. A record that has been read
// or written is never changed in place: changes are made in a copy. So the core,
// its clones and a simulated store share records without locks.
package record

import (
	"fmt"
	"time"
)

// A Session names one start of one member. It is random, so a session never
// comes back; the member's name is only a label. Zero means nobody.
type Session uint64

// An ID is a partition's index in the roster and in the plan's rows. One name has
// one ID for ever; IDs are neither reused nor shifted.
type ID uint32

// A Token fences one ownership of one partition: the high 32 bits are the
// incarnation of the store, the low ones a counter that grows with every grant. A
// sink that refuses lower tokens refuses every former owner.
type Token uint64

// MakeToken joins an incarnation and a grant counter.
func MakeToken(incarnation, counter uint32) Token {
	return Token(incarnation)<<32 | Token(counter)
}

func (t Token) Incarnation() uint32 { return uint32(t >> 32) }
func (t Token) Counter() uint32     { return uint32(t) }

// These are the highest values of the numbers that count up in records. No group
// reaches them by counting. A record with a higher one is refused, since a member
// that accepted it could not count on.
const (
	LastCount       = 1 << 62               // generations, terms, versions, sequence numbers
	LastIncarnation = 1<<32 - 1<<20         // they follow the wall clock, see Config.Era of the core
	LastRoster      = LastIncarnation << 32 // a roster's version begins with the incarnation
)

// counted refuses a number that is too high to have been reached by counting.
func counted(field string, n, last uint64) error {
	if n > last {
		return fmt.Errorf("%s is %d, but can be at most %d: rota did not write this record", field, n, last)
	}
	return nil
}

// numbered refuses a version that no writer uses: 0, which stands for no record, or
// one that is too high.
func numbered(ver, last uint64) error {
	if ver == 0 {
		return fmt.Errorf("ver is 0, but starts at 1")
	}
	return counted("ver", ver, last)
}

func incarnation(field string, n uint32) error { return counted(field, uint64(n), LastIncarnation) }

// Mode tells how partitions change hands.
type Mode uint8

const (
	Incremental Mode = iota // only what moves stops
	Eager                   // everything stops before anything starts
)

// RowState is the state of a partition on its way from one owner to the next.
type RowState uint8

const (
	Free     RowState = iota // nobody may run it
	Owned                    // Owner may run it
	Revoking                 // Owner was told to stop and has not confirmed
)

// Reason tells why a row is in its state, where the state alone does not.
type Reason uint8

const (
	NoReason    Reason = iota
	Paused             // by order; To remembers its home
	Removed            // no longer in the roster
	Returning          // kept for the name of the ended session in To
	Quarantined        // it killed too many owners
	Unplaced           // nobody may take it: bans, limits, drains
	Failing            // given up again and again: To gets it after a pause
)

// A Row is the entry of one partition in the plan.
type Row struct {
	State  RowState
	Reason Reason
	Owner  Session // zero when Free
	To     Session // the next owner; for a paused row its home
	Token  Token   // of the newest grant, in every state
	Rev    uint64  // generation of the write that last changed State
}

// A Plan says who owns what. Everyone watches it; the leader alone writes it.
type Plan struct {
	Incarnation uint32 // of the store: grows when acknowledged writes were lost
	Gen         uint64 // grows by one with every write
	Write       uint64 // random: tells two writes of one Gen apart
	Decided     uint64 // Gen of the newest write that was more than a claim of leadership
	Server      string // the store server's identity, where it has one
	Hold        bool   // nothing is granted until the present leader has waited for all old leases
	Term        uint64 // grows with every leader
	Leader      Session
	ID          uint64 // of the plan; writes that only free and grant rows keep it
	Mode        Mode
	Roster      uint64    // Ver of the roster it obeys
	Orders      uint64    // Ver of the orders it obeys
	Members     []Session // in joining order, standbys included
	Kills       []Kill    // by ID
	Returns     []Return  // by Name
	Size        Size
	Rows        []Row // by partition ID; nil in the lazy form, see OpenPlan

	cols *columns // the rows still encoded: the lazy form
}

// Size is how many members a leader wants, where a Scaler is asked for them.
type Size struct {
	Wanted uint32    // 0 if there is no Scaler
	Chosen []Session // members that shall go, ascending: they are given nothing
}

// A Kill counts owners that died soon after starting one partition.
type Kill struct {
	ID    ID
	Count uint32
	Last  Session // the newest owner counted
	// Elsewhere tells that owners of more than one name are among them.
	Elsewhere bool
}

// A Return counts how often a member of this name came back in a row without
// running long.
type Return struct {
	Name  string
	Count uint32
}

// A Roster names the partitions. Its entries are indexed by ID.
type Roster struct {
	Ver     uint64
	Entries []Partition // by ID; nil in the lazy form, see OpenRoster

	packed *packed // the entries still encoded: the lazy form
}

// A Partition is one entry of the roster.
type Partition struct {
	Name    string
	Topic   string // that it belongs to; empty if its source has no topics
	Meta    []Pair // by Key: the source's, with what is ordered for the topic and for the partition over it
	Removed bool
}

// A Pair is one key with its value.
type Pair struct{ Key, Value string }

// Orders are what operators want. They use names, not sessions and IDs, because an
// order outlives both.
type Orders struct {
	Ver     uint64
	Add     []string // partitions the source does not list
	Remove  []string // partitions to remove
	Meta    []Meta   // by Partition
	Topics  []Topic  // by Name
	Pins    []Pin    // by Partition
	Bans    []Pin    // by Partition, then Member
	Pauses  []string
	Drains  []string // members that shall own nothing
	Release []Release
	Freeze  bool // no voluntary moves
	Log     []Order
}

// Meta is metadata ordered for one partition; it wins over the source's.
type Meta struct {
	Partition string
	Pairs     []Pair
}

// A Topic is metadata ordered for all partitions of one topic. It wins over the source's,
// and what is ordered for a partition wins over it.
type Topic struct {
	Name  string
	Pairs []Pair
}

// A Pin ties a partition to a member's name (in Pins) or keeps it away from it
// (in Bans).
type Pin struct{ Partition, Member string }

// A Release lets a quarantined partition run again; Kills is the count it
// forgives.
type Release struct {
	Partition string
	Kills     uint32
}

// An Order is one entry of the orders' log, for people only.
type Order struct {
	At             int64 // wall clock, Unix milliseconds
	Who, What, Why string
}

// MemberState is a member's state of life.
type MemberState uint8

const (
	Live    MemberState = iota
	Leaving             // it leaves when the plan has taken its partitions
	Evicted             // the leader gave up on it; it may still be running
	Dead                // it cannot be running under its lease any more
	Left                // it stopped everything and said so
)

// Ended tells whether a session in this state can no longer run anything.
func (s MemberState) Ended() bool { return s == Dead || s == Left }

// A Member is the record of one session. Each write of it is a heartbeat.
type Member struct {
	Session  Session
	State    MemberState
	Lease    time.Duration // fixed for the session
	Beat     time.Duration // heartbeat interval, fixed for the session
	Seq      uint64        // grows with every write of its own
	AckInc   uint32        // incarnation and
	AckGen   uint64        // generation of the newest plan it applied
	Stopping []ID          // told to stop, not stopped yet; sorted
	Starting []ID          // started, not confirmed by the source yet; sorted
	GaveUp   []GaveUp      // by ID
	Bug      uint64        // of a leader that ended on a bug: the plan's Decided then
	Proof    bool          // DEAD by a proof that its process is gone, not by silence
	// Returning tells that the member means to come back soon.
	Returning bool
	Was       Session       // the process had this session before, which others ended; 0: none
	Took      time.Duration // how long it took to open the store, before it joined
	Continues bool          // it works on without a lease while the store does not answer
	Load      []Load        // by ID: partitions of which more was handled, a part of them at a time
	Handled   uint64        // messages handled since the session began
	Busy      uint32        // share of the time that handlers with something to do worked, in thousandths
	Name      string
	Host      Host
	Labels    []Pair // by Key: pod, instance, version, capacity, limit, …

	// For people only.
	Sent       int64 // wall clock, Unix milliseconds
	Conditions []Condition
	Letters    uint64 // messages that the session has dead-lettered; for people
}

// A Condition is something that a person should know about a member. Its code is a
// fact that programs may compare, its text is for people only.
type Condition struct {
	Code      string
	Partition string // the partition that it concerns, if it concerns one
	Text      string
}

// GaveUp is one ownership that its owner ended without being asked.
type GaveUp struct {
	ID    ID
	Token Token
	Cause string
}

// Load counts the messages of one partition that a member has handled since its
// session began.
type Load struct {
	ID      ID
	Handled uint64
}

// Host tells where the process runs, precisely enough for a guard to prove its
// death.
type Host struct {
	Boot      string // boot id
	PID       uint32
	Start     uint64 // process start time, clock ticks since boot
	Namespace uint64 // pid namespace
}

// History lists the newest plans with their causes and cost, oldest first, for
// people only.
type History struct {
	Plans []Past
}

// Past is one entry of the history.
type Past struct {
	ID, Gen uint64
	At      int64 // wall clock, Unix milliseconds
	Causes  []Cause
	Moves   uint32
	Members uint32
}

// A Cause is one reason for a plan.
type Cause struct {
	Why     string   // joined, died, orders, …
	Members []string // names of some of the members concerned
	More    uint32   // how many other members are concerned
}
