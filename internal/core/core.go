// Package core decides. A Node is one session of one member: it takes events, the
// passing of time among them, and returns actions. It has no clock, no goroutine,
// no I/O, no randomness and no errors; the shell has those. So the same Node runs
// in production, under a simulator that plays a million schedules and under a
// search that tries them all.
//
// The rules are those of ARCHITECTURE.md. In one paragraph: the store holds one
// plan and one record per member, both changed by compare-and-set only. A partition
// goes owned → revoking → free → owned with a higher token, and it becomes free
// only when its owner confirmed this very revoke, or left, or was declared dead by
// a member that saw its record unchanged for longer than its lease. A member counts
// its own lease from before it sent the heartbeat, and stops by itself before any
// other member may declare it dead.
package core

import (
	"math"
	"time"

	"github.com/rota-dev/rota/internal/record"
)

// Time is an instant on one member's own clock, in nanoseconds. That clock also
// counts suspend, where the host has such a clock. Times of two members cannot be
// compared.
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

// Rev is the store's revision of one key. Revisions are compared for equality only.
// Zero stands for no revision: a write over zero succeeds only if the key does not
// exist.
type Rev uint64

// Strategy says how partitions are spread over members.
type Strategy uint8

const (
	Spread Strategy = iota // counts within one of each other, fewest moves
	Range                  // contiguous blocks in joining order
	Pack                   // by measured load: few members, and little is moved
)

// Config holds the settings of a session. All but Volatile do not change.
type Config struct {
	Session  record.Session
	Name     string
	Mode     record.Mode
	Strategy Strategy
	Timing
	Packing Packing // of the strategy Pack
	Scaling Scaling // likewise

	Quarantine uint32 // how many owners in a row a partition must have killed to be quarantined; 0: it never is

	Fresh    bool           // the store is known to be new: no hold at creation
	Continue bool           // work goes on without a lease while the store does not answer
	Volatile bool           // the store may lose acknowledged writes (class C); set anew before each event Server
	Era      uint32         // wall clock in units of 4 s since 1970: no new incarnation is lower
	Hash     uint32         // of the session: spreads the claims of members far back in line
	Self     *record.Member // host, labels and the like; copied into every record
}

// Cause says why a session ended.
type Cause uint8

const (
	NotEnded  Cause = iota
	ByLeave         // it was asked to leave
	ByFence         // another member declared it dead or evicted, or its record was deleted
	ByOrphan        // it had no lease for the orphan time
	ByStore         // a new incarnation: acknowledged writes were lost, or tokens used up
	ByFailure       // it led, and its plans could not be written for W
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
	endBy     Time  // deadline for LEFT and for a new incarnation: the session then ends without
	ended     bool
	born      Time
	leaving   Time // when asked to leave; Never before
	returning bool
	selfStop  bool // a leaver has stopped waiting for the plan to take its rows
	closed    bool // the source's connections are closed
	closing   bool

	// Its runs.
	runs    []run // by ID
	gaveUp  []record.GaveUp
	lapsed  bool // the lease ran out (or nearly): all runs cancelled, unless worksOn
	worksOn bool // the runs go on without a lease: Config.Continue, and the store does not answer
	recheck bool // the lease is back: read the plan before starting
	back    Time // when the lease was back; longAgo if it never ran out
	abortAt Time // back-off: no abort before this instant

	// The plan as last seen, and as last applied.
	plan    *record.Plan
	cell    planCell
	mine    []record.OwnRow // own rows in the plan applied
	ackInc  uint32
	ackGen  uint64
	inc     uint32 // incarnation this session belongs to; 0 before the first plan
	writes  uint64 // plan writes so far: writeID uses it
	bump    bool   // ending: the plan must be given a new incarnation
	poll    Time
	creates bool   // no plan found: create one
	server  string // identity of the store's server, where it has one
	era     uint32 // newest wall clock that an answer carried, in units of Config.Era

	roster     *record.Roster
	rosterCell cell
	rosterPut  *record.Roster // the write in flight
	orders     *record.Orders
	ordersCell cell

	// Its knowledge of other members.
	peers    []peer // by session
	watch    Watch
	all      bool // every member's record has been seen since the watch of all began
	list     cell
	listPoll Time

	// Succession.
	vacant   Time // since when the plan's leader is known to be gone; Never otherwise
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
		back:    longAgo,
		lead:    newLead(),
		era:     cfg.Era,
		poll:    Never, listPoll: Never,
	}
}

// Step takes one event at the given instant and returns the actions to take. The
// slice is valid until the next Step. Passes are level-triggered and idempotent: a
// duplicated event is harmless, and a missed one costs only time.
func (n *Node) Step(now Time, ev Event) []Action { return n.Steps(now, []Event{ev}) }

// Steps takes a batch of events in order and decides once for all of them. A member
// whose thousand partitions stop together gets a thousand events.
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

// pass makes every decision that the facts allow now. The order of the calls
// matters only for speed: a later call uses the results of an earlier one in the
// same step.
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

// Next returns when the node wants a Tick if no event comes before.
func (n *Node) Next() Time { return n.wake }

// Lease returns the end of the lease: until then the node trusts its ownerships.
func (n *Node) Lease() Time { return n.own.lease }

// Trusted returns the instant until which effects are allowed: the end of the lease or,
// while work goes on without one, a lease from now, so that a process that is stopped
// meanwhile notices.
func (n *Node) Trusted() Time {
	if n.worksOn {
		return max(n.own.lease, n.now.Add(n.cfg.Lease))
	}
	return n.own.lease
}

// Ended tells whether the session is over, and why.
func (n *Node) Ended() (Cause, bool) { return n.cause, n.ended }

// Session returns the session that this node decides for.
func (n *Node) Session() record.Session { return n.cfg.Session }

// Plan returns the newest plan seen; nil before the first.
func (n *Node) Plan() *record.Plan { return n.plan }

// Roster returns the newest roster seen, which names the partitions; nil before the
// first.
func (n *Node) Roster() *record.Roster { return n.roster }

// Leads tells whether the node is the leader of the newest plan it saw.
func (n *Node) Leads() bool { return n.plan != nil && n.plan.Leader == n.cfg.Session }

func (n *Node) do(a Action) { n.out = append(n.out, a) }

// assert guards conditions that only our own code can break. The shell recovers the
// panic, stops every partition and returns an error with the last steps: a stopped
// member is a rebalance, two owners are corrupted data.
func assert(ok bool, what string) {
	if !ok {
		panic(Bug(what))
	}
}

// Bug is the value that a broken assertion panics with.
type Bug string

func (b Bug) Error() string { return "rota: bug: " + string(b) }

// Obituary returns the record of a session that ends on a bug, to be written over
// prev once everything has stopped. A leader's record names the plan that it broke
// on, so that the next leader does not break on it, too.
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

// Members returns the records in sight, by session: those of all members for a
// leader or a deputy, otherwise the leader's and this node's own.
func (n *Node) Members() []*record.Member {
	var out []*record.Member
	for i := range n.peers {
		if m := n.peers[i].rec; m != nil {
			out = append(out, m)
		}
	}
	return out
}
