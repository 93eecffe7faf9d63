package pack

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/rota-dev/rota/internal/plan"
)

const (
	none = plan.None     // no partition, no bin, nowhere
	far  = math.MaxInt64 // the cost of what must not be
	unit = 1 << 36       // one capacity, in the whole numbers that all sums are made of
	lots = 1 << 61       // more than anything is allowed to add up to
)

// A Packer makes plans without allocating, once it has made one of that size.
// Its zero value is ready; what it did before never shows in what it returns.
// It is not for concurrent use.
//
// Its bins are the members and, after them, as many more as would be needed to
// take what finds no place.
type Packer struct {
	planner plan.Planner
	members []plan.Member
	parts   []plan.Partition
	plan    []int32 // the caller's: what the rules placed, and at last the free ones
	opens   []int32 // open members, in joining order

	scale  float64 // the capacity that counts as one unit
	price  int64   // of a member
	high   int64   // most that one partition or member can count for
	budget int64   // what may still move for the sake of fewer members
	band   float64
	total  int64 // what all partitions ask of the open members
	widest int64 // capacity of the largest open member
	there  int32 // how many members there are: bins from this one on stand for missing ones
	want   int   // members needed, by the last round
	need   int   // by the round that found most to be missing

	weight []int64 // per partition
	cool   []bool  // per partition: is cooling
	free   []int32 // partitions that may be placed, heaviest first
	home   []int32 // per partition: where the round began

	index
	bins   []bin
	at     []int32 // per partition: its bin in the making, or none
	next   []int32 // per partition: the next in its bin
	prev   []int32
	loose  []int32 // free partitions that may move in this round, heaviest first
	spares []int32 // open members, largest first
	spare  int     // those before it are in use
	vacant int32   // so are the bins that are not there, before this one
	extra  int     // bins in use that are not there
	used   int     // bins in use
	moved  int64   // what is away from home
	most   int64   // more than this must not be moved

	now, calm, best packing // where the round began, what relief alone leads to, the best so far

	choice
	puzzle puzzle
	third  [thirds]int32
	keys   []int64 // what is being sorted
	order  []int64 // bins that could be emptied, and at what cost
	log    []trace // moves that may have to be undone
	words  []byte
	why    string
}

// setScale reports whether there is any capacity to pack by. If none is given for
// all, a member without its own is taken for one of the smallest.
func (k *Packer) setScale(members int, how *Options) bool {
	k.scale = 0
	if known(how.Capacity) {
		k.scale = how.Capacity
		return true
	}
	for _, c := range how.Capacities[:min(members, len(how.Capacities))] {
		if known(c) && (k.scale == 0 || c < k.scale) {
			k.scale = c
		}
	}
	return k.scale > 0
}

func known(capacity float64) bool { return capacity > 0 && capacity <= math.MaxFloat64 }

// units turns capacities into whole numbers. It rounds down: what adds up to a
// capacity must not exceed it by rounding. What is not positive is nothing.
func units(capacities float64, most int64) int64 {
	if !(capacities > 0) {
		return 0
	}
	return int64(min(capacities*unit, float64(most)))
}

// begin applies the rules, turns everything into whole numbers and sorts it.
func (k *Packer) begin(members []plan.Member, parts []plan.Partition, how *Options, dst []int32) {
	r := k.planner.Rules(members, parts, dst)
	k.members, k.parts, k.plan = members, parts, r.Plan
	k.home, k.opens = append(k.home[:0], r.Home...), append(k.opens[:0], r.Open...)
	k.free, k.there = append(k.free[:0], r.Free...), int32(len(members))
	n := len(parts)
	k.high = min(256*unit, lots/int64(max(1, n, len(members))))
	k.price, k.budget, k.band = units(how.Price, k.high), units(how.Budget, lots), how.Band
	if !(how.Price > 0) {
		k.price = units(DefaultPrice, k.high)
	}
	if !(how.Budget > 0) {
		k.budget = lots
	}
	k.weight, k.cool, k.at = grow(k.weight, n), grow(k.cool, n), grow(k.at, n)
	k.next, k.prev = grow(k.next, n), grow(k.prev, n)
	for i := range n {
		var l Load
		if i < len(how.Loads) {
			l = how.Loads[i]
		}
		k.weight[i], k.cool[i] = k.load(l, how.CatchUp), l.Cooling
	}
	k.want, k.need = 0, 0
	k.makeBins(how)
	k.total = 0
	for i, w := range k.weight {
		if m := k.plan[i]; !k.parts[i].Off && (m == none || k.bins[m].open) {
			k.total += w
		}
	}
	k.heaviestFirst(k.free)
	copy(k.at, k.home)
	k.sum(&k.now)
}

// heaviestFirst sorts by weight and then by ID, both in one number: to compare
// numbers takes a third of the time.
func (k *Packer) heaviestFirst(parts []int32) {
	n := int64(len(k.weight))
	k.keys = k.keys[:0]
	for _, i := range parts {
		k.keys = append(k.keys, (k.high-k.weight[i])*n+int64(i))
	}
	slices.Sort(k.keys)
	for x, key := range k.keys {
		parts[x] = int32(key % n)
	}
}

// load adds up speed and backlog, in whole numbers.
func (k *Packer) load(l Load, catchUp float64) int64 {
	w := units(l.Speed/k.scale, k.high)
	if catchUp > 0 {
		w += units(l.Backlog/catchUp/k.scale, k.high)
	}
	return min(w, k.high)
}

// makeBins makes a bin of every member, with what the rules have put there.
func (k *Packer) makeBins(how *Options) {
	trigger := how.Trigger
	if !(trigger > 1) {
		trigger = 1
	}
	k.bins = grow(k.bins, len(k.members))
	k.spares, k.widest = k.spares[:0], 0
	for m := range k.members {
		b := bin{cap: unit, limit: k.members[m].Most(), open: k.members[m].Open()}
		if m < len(how.Capacities) && known(how.Capacities[m]) {
			b.cap = max(1, units(how.Capacities[m]/k.scale, k.high))
		}
		b.trigger = max(b.cap, int64(min(float64(b.cap)*trigger, lots)))
		if b.open {
			k.widest = max(k.widest, b.cap)
			k.spares = append(k.spares, int32(m))
		}
		k.bins[m] = b
	}
	k.shift = max(0, bits.Len64(uint64(max(k.widest, unit)))-bucketBits)
	slices.SortFunc(k.spares, func(a, b int32) int {
		return cmp.Or(cmp.Compare(k.bins[b].cap, k.bins[a].cap), cmp.Compare(a, b))
	})
	for i, m := range k.plan {
		if m != none {
			k.bins[m].ruled += k.weight[i]
			k.bins[m].rules++
		}
	}
}

// done lets go of what belongs to the caller and returns the plan.
func (k *Packer) done() []int32 {
	dst := k.plan
	k.members, k.parts, k.plan = nil, nil, nil
	return dst
}

// grow returns s with length n; what is in it is left over from before.
func grow[T any](s []T, n int) []T {
	return slices.Grow(s[:0], n)[:n]
}
