package pack

// A packing is a plan and what it comes to.
type packing struct {
	at       []int32 // per partition: its bin
	unplaced int
	over     int64 // overload of all members
	extra    int   // bins in use that are not there
	used     int
	moved    int64
}

// worth is what a plan costs, overload aside.
func (k *Packer) worth(a *packing) int64 { return int64(a.used)*k.price + a.moved }

// round looks for something better than to leave everything at home, makes that
// home if there is, and reports whether there was.
func (k *Packer) round() bool {
	k.gather()
	forced := k.moved
	k.most = forced + k.budget
	k.refit()
	k.keep(&k.calm)
	k.empty()
	k.bringHome()
	k.keep(&k.best)
	k.packAnew()
	k.heedBand()
	if k.want = k.best.used; k.best.extra > 0 {
		k.want = len(k.opens) + k.best.extra // those there are cannot take it
		k.need = max(k.need, k.want)
	}
	spent := max(0, k.best.moved-forced)

	k.restore(&k.best)
	k.fold()
	k.sum(&k.best)
	if !k.beats(&k.best, &k.now) {
		return false
	}
	k.budget = max(0, k.budget-spent)
	k.now, k.best = k.best, k.now
	copy(k.home, k.now.at)
	return true
}

// packAnew packs from scratch and keeps that if it is better. It does not even
// try if no member could be saved, and gives up if that could hardly pay.
func (k *Packer) packAnew() {
	if k.total > int64(k.best.used-1)*k.widest {
		return
	}
	k.scratch()
	if k.used >= k.best.used || k.extra > 0 {
		return
	}
	hope := max(k.moved/3, k.moved-puzzles*unit/32)
	if k.best.extra == 0 && int64(k.used)*k.price+hope >= k.worth(&k.best) {
		return
	}
	k.bringHome()
	if k.moved <= k.most && (k.best.extra > 0 || int64(k.used)*k.price+k.moved < k.worth(&k.best)) {
		k.keep(&k.best)
	}
}

// heedBand goes back to relief alone if too few members are saved to move
// anything for it.
func (k *Packer) heedBand() {
	saved := k.calm.used - k.best.used
	if k.best.moved > k.calm.moved && k.calm.extra == 0 && float64(saved) < k.band*float64(k.calm.used) {
		k.best, k.calm = k.calm, k.best
	}
}

// keep remembers the plan in the making.
func (k *Packer) keep(a *packing) {
	a.at = append(a.at[:0], k.at...)
	a.extra, a.used, a.moved = k.extra, k.used, k.moved
}

// restore makes a plan that was kept the one in the making.
func (k *Packer) restore(a *packing) {
	for _, i := range k.loose {
		if k.at[i] != none && k.at[i] != a.at[i] {
			k.take(i)
		}
	}
	for _, i := range k.loose {
		if k.at[i] == none && a.at[i] != none {
			k.put(i, a.at[i])
		}
	}
}

// fold finds places for what is in bins that are not there: at home, for moving
// an overload about helps nobody, or, without a home, where it adds to the least
// load. If limits and bans still leave something without a place, others give way.
func (k *Packer) fold() {
	unplaced := 0
	for _, i := range k.loose {
		if k.at[i] < k.there {
			continue
		}
		k.take(i)
		m := k.home[i]
		if m == none || k.bins[m].count >= k.bins[m].limit {
			m = k.leastLoaded(i)
		}
		if m == none {
			unplaced++
		} else {
			k.put(i, m)
		}
	}
	k.goBack()
	if unplaced > 0 {
		k.complete()
	}
}

// goBack takes back moves that turned out to be in vain: what is now on a member
// that would be full without it just as well stays overload at home.
func (k *Packer) goBack() {
	for _, i := range k.loose {
		m, h := k.at[i], k.home[i]
		if m == none || h == none || m == h {
			continue
		}
		b, at := &k.bins[h], &k.bins[m]
		then := b.load + k.weight[i]
		if at.load-k.weight[i] >= at.cap && b.count < b.limit && (b.load > b.trigger || then <= b.trigger) {
			k.take(i)
			k.put(i, h)
		}
	}
}

// leastLoaded finds the member that partition i would load least.
func (k *Packer) leastLoaded(i int32) int32 {
	best, least := int32(none), 0.
	for _, m := range k.spares {
		b := &k.bins[m]
		if b.count >= b.limit || k.parts[i].Avoids(m) {
			continue
		}
		if load := float64(b.load+k.weight[i]) / float64(b.cap); best == none || load < least {
			best, least = m, load
		}
	}
	return best
}

// complete places as many as can be placed by moving the fewest others.
func (k *Packer) complete() {
	for _, i := range k.free {
		k.plan[i] = k.at[i]
	}
	k.planner.Complete(k.members, k.parts, k.plan)
	for _, i := range k.free {
		k.at[i] = k.plan[i]
	}
}

// sum says what the plan in the making comes to.
func (k *Packer) sum(a *packing) {
	a.at = append(a.at[:0], k.at...)
	a.unplaced, a.over, a.extra, a.used, a.moved = 0, 0, 0, 0, 0
	for m := range k.bins {
		b := &k.bins[m]
		b.load, b.count = b.ruled, b.rules
	}
	for _, i := range k.free {
		m := k.at[i]
		if h := k.home[i]; h != none && h != m {
			a.moved += k.cost(i)
		}
		if m == none {
			a.unplaced++
			continue
		}
		k.bins[m].load += k.weight[i]
		k.bins[m].count++
	}
	for m := range k.bins {
		b := &k.bins[m]
		if !b.open || b.count == 0 {
			continue
		}
		a.used++
		if b.load > b.trigger {
			a.over += b.load - b.cap
		}
		if b.count > b.limit && b.count > b.rules {
			a.unplaced = len(k.at) + 1 // nobody may have so many
		}
	}
}

// beats reports whether plan a is better than b.
func (k *Packer) beats(a, b *packing) bool {
	switch {
	case a.unplaced != b.unplaced:
		return a.unplaced < b.unplaced
	case a.over != b.over:
		return a.over < b.over
	}
	return k.worth(a) < k.worth(b)
}
