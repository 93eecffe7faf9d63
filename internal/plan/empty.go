package plan

import (
	"cmp"
	"slices"
)

// A costly bin would cost so much to empty.
type costly struct {
	cost int64
	bin  int32
}

// A trace is where a partition was before it was moved; None if nowhere.
type trace struct{ part, from int32 }

func (k *packer) logs(i, from int32) { k.log = append(k.log, trace{i, from}) }

// undo takes back all that is in the log.
func (k *packer) undo() {
	for n := len(k.log) - 1; n >= 0; n-- {
		t := k.log[n]
		if k.at[t.part] != None {
			k.take(t.part)
		}
		if t.from != None {
			k.put(t.part, t.from)
		}
	}
	k.log = k.log[:0]
}

// empty sends members home, cheapest first, as long as it moves less than they
// are worth; those that are not there come first.
func (k *packer) empty() {
	k.order = k.order[:0]
	slack := int64(0)
	for m := range k.bins {
		b := &k.bins[m]
		if b.slot != None {
			slack += b.room()
		}
		if !b.open || b.count == 0 || b.fixed > 0 {
			continue
		}
		c := costly{0, int32(m)}
		for i := b.first; i != None; i = k.next[i] {
			c.cost += k.leave(i)
		}
		if c.cost < k.price {
			k.order = append(k.order, c)
		}
	}
	slices.SortFunc(k.order, func(a, b costly) int {
		if a.cost != b.cost {
			return cmp.Compare(a.cost, b.cost)
		}
		return cmp.Compare(b.bin, a.bin)
	})
	failures := 0
	for _, c := range k.order {
		if k.extra > 0 && c.bin < k.members || failures == patience {
			return
		}
		if slack < k.bins[c.bin].cap {
			continue
		}
		if k.clearOut(c.bin) {
			slack -= k.bins[c.bin].cap
			failures = 0
		} else {
			failures++
		}
	}
}

// patience is how many members in a row may turn out not to be worth it before
// we stop: the others are dearer still.
const patience = 1000

// clearOut finds other places for all that is in bin m, or leaves it as it is.
func (k *packer) clearOut(m int32) bool {
	before, most := k.moved, k.most
	if m < k.members {
		k.most = min(most, before+k.price-1)
	}
	k.log, k.pile = k.log[:0], k.pile[:0]
	for i := k.bins[m].first; i != None; i = k.next[i] {
		k.pile = append(k.pile, i)
	}
	k.heaviestFirst(k.pile)
	for _, i := range k.pile {
		k.logs(i, m)
		k.take(i)
	}
	ok := k.moved <= k.most
	for n := 0; ok && n < len(k.pile); n++ {
		i := k.pile[n]
		if to := k.tightest(i, m, None); to != None {
			k.put(i, to)
		} else {
			ok = k.eject(i, m, far)
		}
	}
	k.most = most
	if !ok {
		k.undo()
	}
	return ok
}
