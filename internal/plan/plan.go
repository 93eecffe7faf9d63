// Package plan decides who is to own what: partitions × members × present
// owners → owners. It only says where each partition should end up; it knows
// nothing of leases or hand-offs, and a plan by itself entitles nobody to run
// anything. Its functions are pure: the same input gives the same plan on every
// machine, so any member may compute it and a simulator may replay it.
//
// What no strategy may trade away, the earlier rule winning over the later:
//
//   - a partition that is Off goes nowhere;
//   - a Reserved member keeps exactly the partitions whose Owner it is, also
//     those pinned elsewhere or banned from it, and gets no others;
//   - a Pin to an open member is an operator's explicit word: it wins over
//     balance, limits and bans, and over Stay. A pin that cannot be obeyed, to
//     a closed, reserved or unknown member, is ignored;
//   - closed members own nothing;
//   - nobody owns what is banned from it;
//   - a Stay partition keeps its owner, its limit notwithstanding;
//   - nobody is given more than its Limit;
//   - as many partitions as possible are placed.
//
// What is left to choose is the strategy's: see Spread and Range here, and
// package pack, which builds on Rules and Complete.
package plan

import (
	"math"
	"slices"
)

// None says that a partition has no owner, no pin, or nobody to go to.
const None = -1

// A Member is one that partitions may be placed on, in joining order.
type Member struct {
	Limit    int  // most partitions it may own; 0 or less means no limit
	Closed   bool // drained: owns nothing, and pins to it are ignored
	Reserved bool // absent but expected back: keeps what it has, gets nothing more, gives nothing up; wins over Closed
}

// Open reports whether partitions may be given to m.
func (m *Member) Open() bool { return !m.Closed && !m.Reserved }

// Most is the Limit as a number to compare with: very large if there is none.
func (m *Member) Most() int32 {
	if 0 < m.Limit && m.Limit < math.MaxInt32 {
		return int32(m.Limit)
	}
	return math.MaxInt32
}

// A Partition is what is to be placed. Indexes that name no member count as None.
type Partition struct {
	Owner int32   // index of its present (or remembered) owner in members, or None
	Pin   int32   // index it must go to, or None
	Off   bool    // paused or removed: placed nowhere
	Stay  bool    // frozen: keeps its Owner if that is open and not banned, whatever the balance
	Avoid []int32 // members it must not be on, sorted
}

// Avoids reports whether q is banned from member m. Almost all lists of bans are
// too short for a binary search to pay.
func (q *Partition) Avoids(m int32) bool {
	if len(q.Avoid) > 16 {
		_, found := slices.BinarySearch(q.Avoid, m)
		return found
	}
	return slices.Contains(q.Avoid, m)
}

// Spread evens out how many partitions each member has: it makes the counts,
// fullest member first, as small as the rules allow (without rules they differ
// by one at most), and of all plans that do so it takes one with the fewest
// moves. A move is a partition that has an Owner and does not stay there.
// Pinned and frozen partitions count; reserved members and what they keep don't.
//
// Where that leaves a choice, the fullest members give first, each its highest
// IDs, and what needs a place goes, by ID, to members in joining order: a
// fresh group is cut into contiguous blocks.
//
// dst[i] becomes the member that partition i goes to, or None; dst is reused if
// large enough.
func Spread(members []Member, parts []Partition, dst []int32) []int32 {
	return new(Planner).Spread(members, parts, dst)
}

// Range gives member i of the k open ones the partitions [⌊iN/k⌋, ⌊(i+1)N/k⌋)
// of the N that are neither Off nor kept by a reserved member. The rules then
// move as few as possible away from there: of those a member has no room for,
// the highest IDs go, and each, by ID, goes to the nearest open member that may
// take it, of two equally near ones the earlier. Present owners count only for
// Stay and Reserved.
//
// Nearest is judged one partition at a time, not for all together, and yields
// where a limit and a ban would otherwise leave a partition without a place.
//
// dst is used as in Spread.
func Range(members []Member, parts []Partition, dst []int32) []int32 {
	return new(Planner).Range(members, parts, dst)
}

// A Planner makes plans without allocating, once it has made one of that size.
// Its zero value is ready; what it did before never shows in what it returns.
// It is not for concurrent use.
type Planner struct {
	parts []Partition // of the plan being made
	dst   []int32     // the plan being made

	states []state // per member
	home   []int32 // per partition: where it would rather be, if it may be there
	free   []int32 // partitions the strategy may place, by ID
	rest   []int32 // those of them still without a place, by ID
	tally  []int32 // how many members have so many partitions
	near   []int32 // per partition: in whose range it lies, as an index into opens
	opens  []int32 // open members, in joining order

	was []int32 // Complete: the plan to be completed

	mender
}

// A state is what a plan in the making knows of a member.
type state struct {
	open  bool  // may be given partitions
	limit int32 // most it may own
	load  int32 // how many it has been given
	have  int32 // free partitions whose home it is
	most  int32 // no plan can give it more than this
	quota int32 // how many it is to be given
	next  int32 // next member below its quota
}

// put gives partition i to member m.
func (p *Planner) put(i, m int32) {
	p.dst[i] = m
	p.states[m].load++
}

// grow returns s with length n; what is in it is left over from before.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
