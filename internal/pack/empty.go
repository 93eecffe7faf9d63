package pack

import "slices"

// A trace is where a partition was before it was moved; none if nowhere.
type trace struct{ part, from int32 }

func (k *Packer) logs(i, from int32) { k.log = append(k.log, trace{i, from}) }

// undo takes back all that is in the log.
func (k *Packer) undo() {
	for n := len(k.log) - 1; n >= 0; n-- {
		t := k.log[n]
		if k.at[t.part] != none {
			k.take(t.part)
		}
		if t.from != none {
			k.put(t.part, t.from)
		}
	}
	k.log = k.log[:0]
}

// empty sends members home, cheapest first, as long as it moves less than they
// are worth; those that are not there come first.
func (k *Packer) empty() {
	n, slack := int64(len(k.bins)), int64(0)
	k.order = k.order[:0]
	for m := range k.bins {
		b := &k.bins[m]
		if b.slot != none {
			slack += b.room()
		}
		if !b.open || b.count == 0 || b.fixed > 0 {
			continue
		}
		cost := int64(0)
		for i := b.first; i != none && cost < k.price; i = k.next[i] {
			cost += k.leave(i)
		}
		if cost < k.price {
			k.order = append(k.order, cost*n+n-1-int64(m)) // the last to have joined goes first
		}
	}
	slices.Sort(k.order)
	failures := 0
	for _, key := range k.order {
		m := int32(n - 1 - key%n)
		if k.extra > 0 && m < k.there || failures == patience {
			return
		}
		if slack < k.bins[m].cap {
			continue
		}
		if k.clearOut(m) {
			slack -= k.bins[m].cap
			failures = 0
		} else {
			failures++
		}
	}
}

// patience is how many members in a row may turn out not to be worth it before
// we stop: the others are dearer still.
const patience = 300

// clearOut finds other places for all that is in bin m, or leaves it as it is.
func (k *Packer) clearOut(m int32) bool {
	before, most := k.moved, k.most
	if m < k.there {
		k.most = min(most, before+k.price-1)
	}
	k.log, k.pile = k.log[:0], k.pile[:0]
	for i := k.bins[m].first; i != none; i = k.next[i] {
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
		if to := k.tightest(i, m, none); to != none {
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
