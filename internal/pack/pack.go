// Package pack is a strategy of package plan that weighs partitions where the
// others count them: it uses few members, and moves little. docs/packing.md
// says how it works and how well.
package pack

import (
	"strconv"

	"github.com/rota-dev/rota/internal/plan"
)

// A Load is what a partition asks of its owner. A value that is no number, or is
// negative, counts as nothing.
type Load struct {
	Speed   float64 // how much arrives per second
	Backlog float64 // how much waits already
	Cooling bool    // moved a short while ago: only overload moves it again, and only if no other can be moved for that
}

// Options are what Pack is told besides members and partitions. Speeds and
// capacities are in one unit: messages per second, bytes per second, anything.
type Options struct {
	Loads      []Load    // of each partition; those that are missing are idle
	Capacity   float64   // how much a member without a capacity of its own is to be given
	Capacities []float64 // of each member; those that are missing, or no positive number, are Capacity
	Trigger    float64   // how many times its capacity a member may have before it counts as overloaded: 1 and above; 0 means 1
	CatchUp    float64   // seconds in which a backlog is to be worked off; 0 means that it does not count
	Price      float64   // what one member fewer is worth, in members' capacities moved; 0 means DefaultPrice
	Budget     float64   // most that one plan may move for the sake of fewer members, in members' capacities; 0 means no limit
	Band       float64   // share of the members in use that must be saved before anything moves for it; 0: every one counts
}

// A Result is what Pack says besides who is to own what. Reserved members and the
// partitions they keep count nowhere.
type Result struct {
	Used     int     // members that the plan gives something to
	Wanted   int     // members that the load needs: more than there are if these cannot take it
	Why      string  // why so many are wanted, in words
	Moves    int     // partitions that have an owner and do not stay there
	Moved    float64 // what these carry, in members' capacities
	Oversize []int32 // partitions that ask for more than any whole member has: each is given one alone
	Over     []int32 // members that the plan leaves with more than Trigger times their capacity
}

// DefaultPrice is the price unless Options has one. Below 1 no member that is
// reasonably full would ever be emptied, since that moves all it has. From about 1.6
// on more moves than with the papers' algorithm that moves least; docs/packing.md has
// the figures, and the tests of the benchmark hold them.
const DefaultPrice = 1.4

// Pack uses few members and moves little. A partition's load is its speed and
// what it takes to work off its backlog in time. The best plan has the least
// overload, and of those the least
//
//	Price × members used + what is moved, in members' capacities.
//
// A member is overloaded when it has more than Trigger times its capacity. Until
// then it keeps all it has; beyond, it gives up the least that brings it back to
// its capacity. Nobody is given more than its capacity, except
//
//   - by the rules of package plan: pins, Stay;
//   - a partition that asks for more than any member has: it is alone, as soon as
//     its member is overloaded;
//   - when the members there are do not suffice. What finds no place then stays
//     where it is, and more members are Wanted. What has no owner goes to the
//     member that is least overloaded by it.
//
// The plan is good, not perfect: bin packing alone is NP-hard. But it is never
// worse than leaving everything where it is, and planning again what has not
// changed moves nothing, unless a Budget held the first plan back. Without any
// capacity there is nothing to pack by: then Pack is plan.Spread.
//
// All sums are of whole numbers, 2³⁶ to a capacity, so that they come out the
// same on every machine. A partition or a price counts for 256 capacities at most.
//
// dst is used as in plan.Spread.
func Pack(members []plan.Member, parts []plan.Partition, how Options, dst []int32) ([]int32, Result) {
	return new(Packer).Pack(members, parts, how, dst)
}

// Pack is the function Pack, with k's memory.
//
// Each round makes a plan from where everything is, and the next one goes on
// from there, until a round finds nothing better. That makes plans stable: to plan
// again is to repeat the last round. It costs nothing that a single round would
// save: moving from a to c is never dearer than from a to b and from b to c.
func (k *Packer) Pack(members []plan.Member, parts []plan.Partition, how Options, dst []int32) ([]int32, Result) {
	if !k.setScale(len(members), &how) {
		dst = k.planner.Spread(members, parts, dst)
		return dst, count(members, parts, dst)
	}
	k.begin(members, parts, &how, dst)
	for range rounds {
		if !k.round() {
			break
		}
	}
	for _, i := range k.free {
		k.plan[i] = k.home[i]
	}
	said := k.say()
	return k.done(), said
}

// rounds is more than was ever seen to be needed.
const rounds = 20

// count is all that can be said without loads.
func count(members []plan.Member, parts []plan.Partition, dst []int32) Result {
	said := Result{Why: "no capacity given: spread by number"}
	used := make([]bool, len(members))
	for i, m := range dst {
		if m != none && !members[m].Reserved && !used[m] {
			used[m] = true
			said.Used++
		}
		if o := parts[i].Owner; uint(o) < uint(len(members)) && o != m {
			said.Moves++
		}
	}
	said.Wanted = said.Used
	return said
}

// say sums up the plan that was made.
func (k *Packer) say() Result {
	said := Result{Used: k.now.used, Wanted: max(k.now.used, k.want)}
	copy(k.at, k.home)
	k.sum(&k.now)
	moved := int64(0)
	for i := range k.parts {
		m := k.plan[i]
		if !k.parts[i].Off && (m == none || k.bins[m].open) && k.weight[i] > k.widest {
			said.Oversize = append(said.Oversize, int32(i))
		}
		o := k.parts[i].Owner
		if o == m {
			continue
		}
		if uint(o) < uint(len(k.members)) {
			said.Moves++
			moved += k.weight[i]
		}
		if k.home[i] != none && k.bins[m].load > k.bins[m].cap && k.weight[i] <= k.widest {
			said.Wanted = max(said.Wanted, k.need) // was given it for want of others
		}
	}
	said.Moved = float64(moved) / unit
	for _, m := range k.opens {
		if b := &k.bins[m]; b.load > b.trigger {
			said.Over = append(said.Over, m)
		}
	}
	said.Why = k.reason(&said, len(k.opens))
	return said
}

// reason is said again and again in the same words, so it is kept.
func (k *Packer) reason(said *Result, open int) string {
	w := strconv.AppendFloat(k.words[:0], float64(k.total)/unit, 'f', 1, 64)
	w = append(w, " members' worth of load"...)
	switch {
	case said.Wanted > open:
		w = append(w, " needs "...)
		w = strconv.AppendInt(w, int64(said.Wanted), 10)
		w = append(w, " members, "...)
		w = strconv.AppendInt(w, int64(open), 10)
		w = append(w, " there"...)
	default:
		w = append(w, " on "...)
		w = strconv.AppendInt(w, int64(said.Used), 10)
		if over := len(said.Over); over > 0 {
			w = append(w, "; "...)
			w = strconv.AppendInt(w, int64(over), 10)
			if over == 1 {
				w = append(w, " stays"...)
			} else {
				w = append(w, " stay"...)
			}
			w = append(w, " overloaded however many members there are"...)
		}
	}
	if k.words = w; string(w) != k.why {
		k.why = string(w)
	}
	return k.why
}
