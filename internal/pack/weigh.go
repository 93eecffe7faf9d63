package plan

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

const (
	unit = 1 << 36 // one capacity, in the whole numbers that all sums are made of
	lots = 1 << 61 // more than anything is allowed to add up to
)

// A packer is what Pack keeps between plans, and of the plan being made.
//
// Its bins are the members and, after them, as many more as would be needed to
// take what finds no place.
type packer struct {
	scale   float64 // the capacity that counts as one unit
	price   int64   // of a member
	high    int64   // most that one partition or member can count for
	budget  int64   // what may still move for the sake of fewer members
	band    float64
	total   int64 // what all partitions ask of the open members
	widest  int64 // capacity of the largest open member
	members int32 // bins from here on are not there
	want    int   // members needed, by the last round
	need    int   // by the round that found most to be missing

	parts  []Partition
	weight []int64 // per partition
	cool   []bool  // per partition: is cooling
	free   []int32 // partitions that may be placed, heaviest first
	home   []int32 // per partition: where the round began

	index
	bins   []bin
	at     []int32 // per partition: its bin in the making, or None
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
func (k *packer) setScale(members []Member, how *Packing) bool {
	k.scale = 0
	if known(how.Capacity) {
		k.scale = how.Capacity
		return true
	}
	for _, m := range members {
		if known(m.Capacity) && (k.scale == 0 || m.Capacity < k.scale) {
			k.scale = m.Capacity
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

// weigh turns everything into whole numbers and sorts it.
func (k *packer) weigh(p *Planner, members []Member, how *Packing) {
	k.parts, k.home, k.members = p.parts, append(k.home[:0], p.home...), int32(len(members))
	n := len(p.parts)
	k.high = min(256*unit, lots/int64(max(1, n, len(members))))
	k.price, k.budget, k.band = units(how.Price, k.high), units(how.Budget, lots), how.Band
	if !(how.Price > 0) {
		k.price = DefaultPrice * unit
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
	k.seat(p, members, how.Trigger)
	k.free = append(k.free[:0], p.free...)
	k.total = 0
	for i, w := range k.weight {
		if m := p.dst[i]; !p.parts[i].Off && (m == None || k.bins[m].open) {
			k.total += w
		}
	}
	k.heaviestFirst(k.free)
	copy(k.at, k.home)
	k.sum(&k.now)
}

// heaviestFirst sorts by weight and then by ID, both in one number: to compare
// numbers takes a third of the time.
func (k *packer) heaviestFirst(parts []int32) {
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
func (k *packer) load(l Load, catchUp float64) int64 {
	w := units(l.Speed/k.scale, k.high)
	if catchUp > 0 {
		w += units(l.Backlog/catchUp/k.scale, k.high)
	}
	return min(w, k.high)
}

// seat makes a bin of every member, with what the rules have put there.
func (k *packer) seat(p *Planner, members []Member, trigger float64) {
	if !(trigger > 1) {
		trigger = 1
	}
	k.bins = grow(k.bins, len(members))
	k.spares, k.widest = k.spares[:0], 0
	for m, member := range members {
		s := &p.seats[m]
		b := bin{cap: unit, limit: s.limit, open: s.open}
		if known(member.Capacity) {
			b.cap = max(1, units(member.Capacity/k.scale, k.high))
		}
		b.trigger = max(b.cap, int64(min(float64(b.cap)*trigger, lots)))
		if s.open {
			k.widest = max(k.widest, b.cap)
			k.spares = append(k.spares, int32(m))
		}
		k.bins[m] = b
	}
	k.shift = max(0, bits.Len64(uint64(max(k.widest, unit)))-bucketBits)
	slices.SortFunc(k.spares, func(a, b int32) int {
		return cmp.Or(cmp.Compare(k.bins[b].cap, k.bins[a].cap), cmp.Compare(a, b))
	})
	for i, m := range p.dst {
		if m != None {
			k.bins[m].ruled += k.weight[i]
			k.bins[m].rules++
		}
	}
}

// done lets go of what belongs to the caller.
func (k *packer) done() { k.parts = nil }
