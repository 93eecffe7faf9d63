package pack

import "math"

// gather puts every partition at home and relieves overloaded members. After it,
// the partitions that must leave are in no bin, and those that must stay are held.
func (k *Packer) gather() {
	k.reset()
	for n := len(k.free) - 1; n >= 0; n-- { // so that the heaviest are first in their bins
		if i := k.free[n]; k.home[i] != none {
			k.put(i, k.home[i])
		}
	}
	for _, m := range k.spares {
		k.relieve(m)
	}
	k.loose = k.loose[:0]
	for _, i := range k.free {
		if k.stays(i) {
			k.hold(i)
		} else {
			k.loose = append(k.loose, i)
		}
	}
}

// stays reports whether partition i must not move in this round: what has moved
// lately, what is too large for anybody, and all that is on a member above its
// capacity. That one may be below its trigger, or have nothing left to give.
func (k *Packer) stays(i int32) bool {
	m := k.at[i]
	return m != none && (k.cool[i] || k.weight[i] > k.widest || k.bins[m].load > k.bins[m].cap)
}

// relieve takes from bin m what it must give up: the lightest above its limit,
// and then, if it is overloaded, the least that brings it back to its capacity.
func (k *Packer) relieve(m int32) {
	b := &k.bins[m]
	room := b.limit - b.rules
	for i := b.first; i != none; room-- {
		next := k.next[i]
		if room <= 0 {
			k.take(i)
		}
		i = next
	}
	if b.load <= b.trigger || b.first == none {
		return
	}
	need := b.load - b.cap
	if !k.offer(b.first, need, false) {
		k.offer(b.first, need, true)
	}
	for _, i := range k.choose(need) {
		k.take(i)
	}
}

// offer collects what a bin can give, heaviest first, and reports whether it is
// as much as it needs to. Of those too large for anybody the first stays.
func (k *Packer) offer(i int32, need int64, cool bool) bool {
	k.pile = k.pile[:0]
	sum, large := int64(0), false
	for ; i != none; i = k.next[i] {
		if k.weight[i] > k.widest && !large {
			large = true
			continue
		}
		if cool || !k.cool[i] {
			k.pile = append(k.pile, i)
			sum += k.weight[i]
		}
	}
	return sum >= need
}

// A choice is the search for the lightest set that is heavy enough.
type choice struct {
	pile  []int32 // what there is, heaviest first
	rest  []int64 // what all from here on weigh
	picks []int32 // the set in the making
	found []int32 // the lightest so far
	least int64   // what it weighs
	left  int     // how far to search on
}

// choose picks out of the pile the lightest set that weighs at least need; all
// of it, if that is not enough. Large piles leave so many ways to come close that
// a short search will do.
func (k *Packer) choose(need int64) []int32 {
	k.rest = grow(k.rest, len(k.pile)+1)
	k.rest[len(k.pile)] = 0
	for n := len(k.pile) - 1; n >= 0; n-- {
		k.rest[n] = k.rest[n+1] + k.weight[k.pile[n]]
	}
	k.found, k.picks = append(k.found[:0], k.pile...), k.picks[:0]
	k.least, k.left = k.rest[0], 1000
	k.pick(0, need, 0)
	return k.found
}

func (k *Packer) pick(n int, need, sum int64) {
	if sum >= need {
		if sum < k.least {
			k.least, k.found = sum, append(k.found[:0], k.picks...)
		}
		return
	}
	for ; n < len(k.pile) && sum+k.rest[n] >= need && k.least > need; n++ {
		if k.left--; k.left < 0 {
			return
		}
		i := k.pile[n]
		if sum+k.weight[i] >= k.least {
			continue
		}
		k.picks = append(k.picks, i)
		k.pick(n+1, need, sum+k.weight[i])
		k.picks = k.picks[:len(k.picks)-1]
	}
}

// refit finds places for what is nowhere, heaviest first.
func (k *Packer) refit() {
	for _, i := range k.loose {
		if k.at[i] != none {
			continue
		}
		m := k.roomiest(i, none, none)
		if m == none {
			spare := k.open(i)
			limit := k.price
			if spare >= k.there {
				limit = far
			}
			if k.eject(i, none, limit) {
				continue
			}
			m = spare
		}
		k.put(i, m)
	}
}

// open finds an unused bin for partition i: its home, else the largest member,
// else, if there is none that can take it, one more than there are.
func (k *Packer) open(i int32) int32 {
	if h := k.home[i]; h != none && k.takes(i, h) {
		return h
	}
	for k.spare < len(k.spares) && k.bins[k.spares[k.spare]].count > 0 {
		k.spare++
	}
	for _, m := range k.spares[k.spare:] {
		if k.takes(i, m) {
			return m
		}
	}
	for ; k.vacant < int32(len(k.bins)); k.vacant++ {
		if k.bins[k.vacant].count == 0 {
			return k.vacant
		}
	}
	k.bins = append(k.bins, bin{open: true, cap: unit, trigger: unit, limit: math.MaxInt32, first: none, slot: none})
	return k.vacant
}

// takes reports whether an unused bin may be opened for partition i.
func (k *Packer) takes(i, m int32) bool {
	b := &k.bins[m]
	return b.count == 0 && (k.weight[i] <= b.cap || k.weight[i] > k.widest) && !k.parts[i].Avoids(m)
}

// eject makes room for partition i, which fits nowhere, by moving another one on:
// the lightest that will do, if it costs less than limit. One almost as heavy as
// i itself is not worth it: that moves twice as much, and leaves the same problem
// to the next plan.
func (k *Packer) eject(i, not int32, limit int64) bool {
	top := k.below(buckets - 1)
	if top == none {
		return false
	}
	w, most := k.weight[i], int64(top+1)<<k.shift // nobody has more room than that
	limit = min(limit, k.most-k.moved+1)
	first := k.lighter(w-most-1) - 1
	last := max(k.lighter(min(w-w/10-1, most, limit)), first-looks)
	for n := first; n >= last; n-- {
		j := k.loose[n]
		m := k.at[j]
		if m == none || m == not || k.leave(j) >= limit || k.parts[i].Avoids(m) {
			continue
		}
		if b := &k.bins[m]; b.load > b.cap || b.room()+k.weight[j] < w {
			continue
		}
		if to := k.onward(j, m, not); to != none {
			k.move(j, to)
			k.put(i, m)
			k.logs(i, none)
			return true
		}
	}
	return false
}

// looks is how many partitions are looked at to find one that makes room.
const looks = 1000

// leave is what it costs that partition j leaves its bin.
func (k *Packer) leave(j int32) int64 {
	if k.at[j] != k.home[j] {
		return 0
	}
	return k.cost(j)
}

// move puts partition j into another bin, and remembers where it was.
func (k *Packer) move(j, to int32) {
	k.logs(j, k.at[j])
	k.take(j)
	k.put(j, to)
}

// onward finds a place for what leaves so that another can come, or so that a
// member can go home. Where members are dear the room that is left is kept in one
// piece, for fewer of them; where moves are, it is shared out, for fewer overloads.
func (k *Packer) onward(j, not, nor int32) int32 {
	if k.price < unit {
		return k.roomiest(j, not, nor)
	}
	return k.tightest(j, not, nor)
}
