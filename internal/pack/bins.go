package pack

import "math/bits"

// A bin is a member, as Pack sees it.
type bin struct {
	open         bool
	cap, trigger int64
	limit        int32 // most partitions
	rules        int32 // partitions that the rules put there
	ruled        int64 // and their load

	load  int64
	count int32 // partitions
	fixed int32 // those that stay where they are in this round
	first int32 // the first of the others

	slot     int32 // the bucket that it is in, or none
	up, down int32 // its neighbours there
}

// An index finds bins by their room. Those in use that can take more are in
// buckets of about equal room.
type index struct {
	shift int
	heads []int32  // per bucket: the first of it
	full  []uint64 // per bucket: a bit if it is not empty
}

const (
	bucketBits = 12
	buckets    = 1 << bucketBits
)

// reset empties all bins but for what the rules have put there.
func (k *Packer) reset() {
	k.bins = k.bins[:k.there]
	k.heads, k.full = grow(k.heads, buckets), grow(k.full, buckets/64)
	for s := range k.heads {
		k.heads[s] = none
	}
	clear(k.full)
	k.used, k.extra, k.moved = 0, 0, 0
	k.spare, k.vacant = 0, k.there
	for m := range k.bins {
		b := &k.bins[m]
		b.load, b.count, b.fixed, b.first, b.slot = b.ruled, b.rules, b.rules, none, none
		if b.open && b.count > 0 {
			k.used++
		}
		k.sort(int32(m))
	}
	for _, i := range k.free {
		k.at[i] = none
		if k.home[i] != none {
			k.moved += k.cost(i)
		}
	}
}

// cost is what it costs to move partition i: never quite nothing.
func (k *Packer) cost(i int32) int64 { return k.weight[i] + 1 }

// put places partition i, which is nowhere, in bin m.
func (k *Packer) put(i, m int32) {
	b := &k.bins[m]
	k.next[i], k.prev[i] = b.first, none
	if b.first != none {
		k.prev[b.first] = i
	}
	b.first = i
	k.at[i] = m
	if k.home[i] == m {
		k.moved -= k.cost(i)
	}
	if b.count++; b.count == 1 {
		k.used++
		if m >= k.there {
			k.extra++
		}
	}
	b.load += k.weight[i]
	k.sort(m)
}

// take puts partition i nowhere.
func (k *Packer) take(i int32) {
	m := k.at[i]
	b := &k.bins[m]
	k.unlink(i)
	k.at[i] = none
	if k.home[i] == m {
		k.moved += k.cost(i)
	}
	if b.count--; b.count == 0 {
		k.used--
		if m >= k.there {
			k.extra--
			k.vacant = min(k.vacant, m)
		}
		k.spare = 0
	}
	b.load -= k.weight[i]
	k.sort(m)
}

// hold makes partition i stay where it is for this round.
func (k *Packer) hold(i int32) {
	k.unlink(i)
	k.bins[k.at[i]].fixed++
}

func (k *Packer) unlink(i int32) {
	if k.prev[i] == none {
		k.bins[k.at[i]].first = k.next[i]
	} else {
		k.next[k.prev[i]] = k.next[i]
	}
	if k.next[i] != none {
		k.prev[k.next[i]] = k.prev[i]
	}
}

func (b *bin) room() int64 { return b.cap - b.load }

// sort puts bin m into the bucket where it now belongs.
func (k *Packer) sort(m int32) {
	b := &k.bins[m]
	to := int32(none)
	if b.open && 0 < b.count && b.count < b.limit && b.load < b.cap {
		to = k.bucket(b.room())
	}
	if to == b.slot {
		return
	}
	if s := b.slot; s != none {
		if b.up == none {
			k.heads[s] = b.down
			if b.down == none {
				k.full[s/64] &^= 1 << (s % 64)
			}
		} else {
			k.bins[b.up].down = b.down
		}
		if b.down != none {
			k.bins[b.down].up = b.up
		}
	}
	if b.slot = to; to == none {
		return
	}
	b.up, b.down = none, k.heads[to]
	if b.down != none {
		k.bins[b.down].up = m
	}
	k.heads[to] = m
	k.full[to/64] |= 1 << (to % 64)
}

func (k *Packer) bucket(room int64) int32 {
	return int32(min(max(room, 0)>>k.shift, buckets-1))
}

// above finds the lowest bucket from s up that is not empty, or none.
func (k *Packer) above(s int32) int32 {
	if s >= buckets {
		return none
	}
	w := int(s / 64)
	word := k.full[w] &^ (1<<(s%64) - 1)
	for word == 0 {
		if w++; w == len(k.full) {
			return none
		}
		word = k.full[w]
	}
	return int32(w*64 + bits.TrailingZeros64(word))
}

// below finds the highest bucket from s down that is not empty, or none.
func (k *Packer) below(s int32) int32 {
	if s < 0 {
		return none
	}
	w := int(s / 64)
	word := k.full[w] & (1<<(s%64+1) - 1)
	for word == 0 {
		if w--; w < 0 {
			return none
		}
		word = k.full[w]
	}
	return int32(w*64 + 63 - bits.LeadingZeros64(word))
}

// fits reports whether bin m, which is in a bucket, may take partition i.
func (k *Packer) fits(i, m int32) bool {
	return k.weight[i] <= k.bins[m].room() && !k.parts[i].Avoids(m)
}

// roomiest finds the bin with the most room, to about a bucket, that may take
// partition i, not being one of two others. What is left of the room is shared
// evenly in this way, which puts off the next overload.
func (k *Packer) roomiest(i, not, nor int32) int32 {
	least := k.bucket(k.weight[i])
	for s := k.below(buckets - 1); s >= least; s = k.below(s - 1) {
		for m := k.heads[s]; m != none; m = k.bins[m].down {
			if m != not && m != nor && k.fits(i, m) {
				return m
			}
		}
	}
	return none
}

// tightest finds the bin that partition i fills best, to about a bucket; of
// equals its home.
func (k *Packer) tightest(i, not, nor int32) int32 {
	for s := k.above(k.bucket(k.weight[i])); s != none; s = k.above(s + 1) {
		best := int32(none)
		n := 0
		for m := k.heads[s]; m != none && n < glance; m = k.bins[m].down {
			if m == not || m == nor || !k.fits(i, m) {
				continue
			}
			if m == k.home[i] {
				return m
			}
			n++
			if best == none || k.bins[m].load > k.bins[best].load {
				best = m
			}
		}
		if best != none {
			return best
		}
	}
	return none
}

// glance is how many of a bucket are looked at for the very best.
const glance = 8
