// Package core decides. A Node is one session of one member: it takes events,
// the time among them, and says what is to be done. It has no clock, no
// goroutine, no I/O, no randomness and no errors; the shell has those. So the
// same Node runs in production, under a simulator that plays a million schedules
// and under a search that tries them all.
//
// The rules are those of ARCHITECTURE.md. In one paragraph: the store holds one
// plan and one record per member, both changed by compare-and-set only. A
// partition goes owned → revoking → free → owned with a higher token, and it
// becomes free only when its owner confirmed this very revoke, or left, or was
// declared dead by someone who saw its record unchanged for longer than its
// lease. A member trusts its own lease from before it sent the heartbeat, and
// stops by itself before anybody may have declared it dead.
package core

import (
	"math"
	"time"

	"github.com/rota-dev/rota/internal/record"
)

// Time is an instant on one member's own clock, in nanoseconds. That clock also
// counts suspend. Two members' times have nothing to do with each other.
type Time int64

// Never is later than any instant.
const Never Time = math.MaxInt64

func (t Time) Add(d time.Duration) Time {
	if d > 0 && t > Never-Time(d) {
		return Never
	}
	return t + Time(d)
}

func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Rev is the store's revision of one key, good for equality only. Zero means
// that the key must not exist, or is not known.
type Rev uint64

// Strategy says how partitions are spread over members.
type Strategy uint8

const (
	Spread Strategy = iota // counts within one of each other, fewest moves
	Range                  // contiguous blocks in joining order
)

// Config is what a session is started with. It does not change.
type Config struct {
	Session  record.Session
	Name     string
	Mode     record.Mode
	Strategy Strategy
	Timing
	Fresh    bool           // the store is known to be new: no hold at creation
	Volatile bool           // the store may lose acknowledged writes (class C)
	Era      uint32         // wall clock in units of 4 s since 1970: a new incarnation is no lower
	Hash     uint32         // of the session: spreads late claimants
	Self     *record.Member // host, labels and the like; copied into every record
}

// Cause says why a session ended.
type Cause uint8

const (
	NotEnded  Cause = iota
	ByLeave         // it was asked to, and said LEFT
	ByFence         // someone declared it dead or evicted, or its record is gone
	ByOrphan        // it had no lease for too long
	ByStore         // the store lost what it had acknowledged: a new incarnation
	ByFailure       // it led, beat, and could not write the plan
)

func (c Cause) String() string {
	return [...]string{"running", "left", "fenced", "orphaned", "store lost writes", "cannot write the plan"}[c]
}

// A Node is one session.
type Node struct {
	cfg  *Config
	now  Time
	wake Time
	out  []Action

	// The session's own life.
	own       own
	cause     Cause // why it is ending; NotEnded while it is not
	endBy     Time  // when to stop trying to say LEFT
	ended     bool
	born      Time
	leaving   Time // when asked to leave; Never before
	returning bool
	selfStop  bool // a leaver that no longer waits for the plan
	closed    bool // the source's connections are closed
	closing   bool

	// What it runs.
	runs    []run // by ID
	gaveUp  []record.GaveUp
	lapsed  bool // the lease ran out (or nearly): all runs cancelled
	recheck bool // the lease is back: read the plan before starting
	abortAt Time // no abort before: one that returned is not the last

	// The plan as last seen, and as last applied.
	plan    *record.Plan
	cell    planCell
	mine    []record.OwnRow // my rows in the plan applied
	ackInc  uint32
	ackGen  uint64
	inc     uint32 // incarnation this session belongs to; 0 before the first plan
	writes  uint64 // plan writes so far: makes write ids
	bump    bool   // ending: the plan must be given a new incarnation
	poll    Time
	creates bool   // no plan found: create one
	server  string // identity of the store's server, where it has one
	era     uint32 // the wall clock, as last told

	roster     *record.Roster
	rosterCell cell
	rosterPut  *record.Roster // being written
	orders     *record.Orders
	ordersCell cell

	// What it knows of others.
	peers    []peer // by session
	watch    Watch
	all      bool // every member's record has been in sight since watching all
	list     cell
	listPoll Time

	// Succession.
	vacant   Time // since when the plan's leader is known not to lead; Never if it does
	claiming bool

	// Leading.
	lead lead
}

// New makes a session that has not begun: its first event is Begin.
func New(cfg *Config) *Node {
	return &Node{
		cfg:     cfg,
		wake:    Never,
		leaving: Never,
		vacant:  Never,
		lead:    newLead(),
		era:     cfg.Era,
		poll:    Never, listPoll: Never,
	}
}

// Step takes one event at the given instant and returns what is to be done. The
// slice is good until the next Step. Passes are level-triggered: a doubled or
// missing event does no harm beyond time.
func (n *Node) Step(now Time, ev Event) []Action { return n.Steps(now, []Event{ev}) }

// Steps takes several events that came in together, in order, and decides once.
// A member whose thousand partitions stop at one time has that many to take.
func (n *Node) Steps(now Time, evs []Event) []Action {
	n.out = n.out[:0]
	n.now = max(n.now, now)
	news := n.now >= n.wake
	for i := range evs {
		if n.ended {
			break
		}
		news = n.take(&evs[i]) || news
	}
	if news && !n.ended {
		n.wake = Never
		n.pass()
	}
	return n.out
}

// pass makes every decision that the facts allow now. Order matters only for
// speed: what one pass enables, a later one uses in the same step.
func (n *Node) pass() {
	n.keepLease()
	n.apply()
	n.reconcile()
	n.watchOut()
	n.refreshPeers()
	n.succeed()
	n.leadGroup()
	n.leave()
	n.finish()
	n.readCells()
	n.beat()
}

// reached tells whether instant t has come, and if not, makes sure that a Tick
// will come then. Every comparison with the clock goes through it, so no
// deadline can be forgotten.
func (n *Node) reached(t Time) bool {
	if n.now >= t {
		return true
	}
	n.wake = min(n.wake, t)
	return false
}

// Next is when the node wants a Tick, if nothing happens before.
func (n *Node) Next() Time { return n.wake }

// Lease is until when the node trusts its ownerships.
func (n *Node) Lease() Time { return n.own.lease }

// Ended tells whether the session is over, and why.
func (n *Node) Ended() (Cause, bool) { return n.cause, n.ended }

// Session is whose node this is.
func (n *Node) Session() record.Session { return n.cfg.Session }

// Plan is the newest plan seen; nil before the first.
func (n *Node) Plan() *record.Plan { return n.plan }

// Roster names the partitions; nil before the first.
func (n *Node) Roster() *record.Roster { return n.roster }

// Leads tells whether the node is the leader of the newest plan it saw.
func (n *Node) Leads() bool { return n.plan != nil && n.plan.Leader == n.cfg.Session }

func (n *Node) do(a Action) { n.out = append(n.out, a) }

// assert guards what only our own code can break. The shell catches it, stops
// every partition and returns the transcript: a stopped member is a rebalance,
// two owners are corrupted data.
func assert(ok bool, what string) {
	if !ok {
		panic(Bug(what))
	}
}

// Bug is what a broken assertion panics with.
type Bug string

func (b Bug) Error() string { return "rota: bug: " + string(b) }

// Obituary is the record of a session that ends on a bug, to be written over
// prev once everything has stopped. A leader's tells over which plan, so that the
// next one does not break on it too.
func (n *Node) Obituary() (m *record.Member, prev Rev) {
	n.own.state = record.Left
	n.own.seq++
	m = n.compose()
	m.Stopping, m.Starting = nil, nil
	if n.Leads() {
		m.Bug = n.plan.Decided
	}
	return m, n.own.rev
}

// Members are the records in sight, by session: everybody's for a leader or a
// deputy, otherwise the leader's and the own.
func (n *Node) Members() []*record.Member {
	var out []*record.Member
	for i := range n.peers {
		if m := n.peers[i].rec; m != nil {
			out = append(out, m)
		}
	}
	return out
}
