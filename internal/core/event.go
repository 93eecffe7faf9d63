package core

import (
	"time"

	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// Cell is a kind of record in the store.
type Cell uint8

const (
	NoCell Cell = iota
	PlanCell
	RosterCell
	OrdersCell
	MemberCell
)

// Key names one record. Session is set for members only.
type Key struct {
	Cell    Cell
	Session record.Session
}

// Verb is a store call.
type Verb uint8

const (
	NoVerb Verb = iota
	Put
	Get
	Delete
	List // all member records
)

// Outcome is the result of a store call.
type Outcome uint8

const (
	OK       Outcome = iota
	Conflict         // Put, Delete: the record is not at Prev
	NotFound         // Get: there is no record
	Unknown          // timeout or error: a write may take effect now, later or never
	Refused          // Put: the record is not valid, so a retry fails as well

	Outcomes // how many there are
)

// An Entry is one version of one record. Exactly one of the pointers is set, or
// none if the record was deleted.
type Entry struct {
	Key
	Rev     Rev
	Deleted bool
	Plan    *record.Plan
	Roster  *record.Roster
	Orders  *record.Orders
	Member  *record.Member
}

// Kind says what an event is about.
type Kind uint8

const (
	Tick     Kind = iota // only time has passed
	Begin                // the session starts
	Answer               // to a store call: Verb, Key, Outcome, Rev, Entries
	Seen                 // a watch showed Entries; First, AllMembers
	Gap                  // the watches were interrupted: changes may be missing
	Listed               // the source's partitions: Listing, Complete
	Started              // the source confirmed the start of ID@Token
	Stopped              // ID@Token runs no more: handled, settled, closed
	Retrying             // ID@Token is being started again after a failure
	GivenUp              // ID@Token failed too often and runs no more: Text is the cause
	Looked               // the function of ID@Token asks for its lease before it acts
	Denied               // and was refused: it knows that it must not act
	Closed               // the source's connections are closed
	Proven               // the kernel proved that Session is gone
	Leave                // the user wants to leave: Returning
	Jumped               // this host's clocks came apart, so no lease can be trusted: CountsSuspend
	Server               // connected to the store server called Text
	Scaled               // the Scaler's answer; Pause
	Measured             // Loads of all partitions, by ID, and Capacities; or Unknown, or NotFound: not yet

	Kinds // how many there are
)

// An Event is something that happened. Which fields count depends on Kind.
type Event struct {
	Kind    Kind
	Verb    Verb
	Outcome Outcome
	Key     Key
	Rev     Rev
	Entries []Entry
	ID      record.ID
	Token   record.Token
	Session record.Session
	Text    string
	Pause   time.Duration // Scaled: how long it wants to be left alone, if it failed
	Listing []record.Partition

	Loads      []Load
	Capacities []Capacity

	Era uint32 // answers: the wall clock, in the units of Config.Era

	First         bool // Seen: the first batch of a watch, with all that there is
	AllMembers    bool // Seen: by a watch of every member's record
	Complete      bool // Listed: the source asked its broker: a partition not listed may be gone
	Returning     bool // Leave: the member means to come back soon
	CountsSuspend bool // Jumped: this host's clock counts the time that it sleeps
}

// Do says what kind of action is wanted.
type Do uint8

const (
	DoCall    Do = iota // a store call: Verb, Key, Prev and the record; answered once
	DoWatch             // watch the records that Watch names, from now on
	DoStart             // run ID@Token, called Name
	DoStop              // let ID@Token finish its fetched messages, then Stopped
	DoCancel            // end ID@Token at once, then Stopped
	DoAsk               // ask the source for its partitions, then Listed
	DoMeasure           // measure the load of all partitions, then Measured
	DoScale             // ask the Scaler for Fleet, then Scaled
	DoClose             // close the source's connections, then Closed
	DoAbort             // handlers of Late outlived the lease or the stop time: end them by force
	DoEnd               // the session is over: Cause
	DoNote              // tell people (and checkers) of a decision

	Dos // how many there are
)

// An Action is something to be done. Which fields count depends on Do.
type Action struct {
	Do     Do
	Verb   Verb
	Cause  Cause
	Note   Note
	Key    Key
	Prev   Rev
	Plan   *record.Plan
	Roster *record.Roster
	Member *record.Member
	ID     record.ID
	Token  record.Token
	Name   string
	Who    record.Session // notes: the session that it is about
	Moved  int            // NotePlan: how many partitions are taken from their owners
	Placed int            // NotePlan: how many partitions without an owner get one
	Why    Why            // NotePlan: the reasons
	Deaths int            // NoteQuarantined: how many owners died
	Fleet  Fleet          // DoScale; NoteSize: how many are wanted, and who goes
	Have   int            // NoteSize: how many members live
	Late   []record.ID    // DoAbort: whose time is over, ascending
	Watch  Watch
}

// Compares tells whether the store that carries out the Put compares Prev with its
// own version. Every real store does. The stores of the simulator and the explorer
// ask, because these rules can be taken out nowhere else.
func (a *Action) Compares() bool {
	switch {
	case a.Key.Cell == PlanCell && a.Prev != 0:
		return !rule.PlanIsCompareAndSet.Off() // plan-is-compare-and-set: see putPlan.
	case a.Key.Cell == MemberCell && a.Member.State == record.Dead:
		return !rule.DeathIsCompareAndSet.Off() // death-is-compare-and-set: see declare.
	case a.Key.Cell == MemberCell && a.Member.State != record.Evicted:
		return !rule.BeatIsCompareAndSet.Off() // beat-is-compare-and-set: see beat.
	}
	return true
}

// Watch names the records that a node wants to watch. Plan and roster are always
// watched.
type Watch struct {
	All    bool           // every member's record
	Leader record.Session // this member's record, when not All
	Orders bool
}

// Note is something worth telling.
type Note uint8

const (
	NoteJoined      Note = iota // this session's first record is in the store
	NoteLead                    // this session leads from now on
	NotePlan                    // this leader made a plan: Moved, Placed, Why
	NoteDead                    // this session declared Who dead
	NoteEvicted                 // this leader evicted Who
	NoteLapsed                  // the lease ran out, and everything has stopped
	NoteWorksOn                 // the lease ran out, and work goes on: the store does not answer
	NoteResumed                 // the lease is back
	NoteLeaving                 // this session is leaving
	NoteTwins                   // Who has the name of another live member
	NoteStuck                   // ID was granted long ago and has not started
	NoteLost                    // the store lost acknowledged writes
	NoteBug                     // Who led and ended on a bug over this plan: nothing is planned
	NoteNoRoster                // the roster is older than the plan: waiting for it
	NoteReturned                // Who took the place of an ended session of its name
	NoteCleared                 // the hold is over: grants may flow
	NoteBadRoster               // the roster that source and orders ask for cannot be written
	NoteMeta                    // the metadata ordered for partition Name does not fit: the source's stays
	NotePin                     // a partition is pinned to an absent member: the pin is ignored
	NoteWorn                    // the tokens of partition Name are used up: a new incarnation begins
	NoteLongLease               // the lease of Who is too long: no plan takes it in
	NoteQuarantined             // ID has killed too many owners: Deaths
	NoteSize                    // this leader wants another number of members: Fleet, Have
	NoteBack                    // Who was to go and is needed after all
	NoteStays                   // Who should have vanished, and is used again
	NoteKept                    // loads were looked at, and nothing has to move: see Packed
)

// Why is a set of reasons for a plan.
type Why uint16

const (
	WhyJoined Why = 1 << iota
	WhyLeft
	WhyDied
	WhyEvicted
	WhyOrders
	WhyRoster
	WhyOwnerless
	WhyReturned
	WhyLoad     // a member is overloaded
	WhySize     // members are emptied that are to go
	WhyInterval // fewer members will do, or a better plan was found when the interval was over
)

var whyWords = [...]string{"joined", "left", "died", "evicted", "orders", "roster", "ownerless", "returned", "load", "size", "interval"}

func (w Why) String() string {
	s := ""
	for i, word := range whyWords {
		if w&(1<<i) != 0 {
			if s != "" {
				s += ", "
			}
			s += word
		}
	}
	return s
}
