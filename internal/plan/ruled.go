package plan

// Ruled is where every strategy starts: the rules have placed the partitions
// that they decide on, and the strategy places the free ones. Its slices belong to
// the Planner and are good until that makes another plan.
type Ruled struct {
	Plan []int32 // per partition: where the rules put it; None if that is nowhere, or if it is free
	Home []int32 // per partition: the owner that a free one may stay with, or None
	Free []int32 // the partitions that the strategy may place, by ID
	Open []int32 // the members it may place them on, in joining order
}

// Rules applies the rules, for a strategy of another package. The result's Plan
// is dst, which is used as in Spread.
func (p *Planner) Rules(members []Member, parts []Partition, dst []int32) Ruled {
	p.applyRules(members, parts, dst)
	return Ruled{Plan: p.done(), Home: p.home, Free: p.free, Open: p.opens}
}

// Complete finds places for the free partitions that have none in a plan: for as
// many as limits and bans allow, by moving the fewest of the other free ones. The
// plan must keep the rules; it is changed in place.
func (p *Planner) Complete(members []Member, parts []Partition, plan []int32) {
	p.was = append(p.was[:0], plan...)
	p.applyRules(members, parts, plan)
	p.rest = p.rest[:0]
	for _, i := range p.free {
		m := p.was[i]
		if p.home[i] = m; m == None {
			p.rest = append(p.rest, i)
		} else {
			p.put(i, m)
		}
	}
	if len(p.rest) > 0 && p.anyRoom() {
		p.mend(false)
	}
	p.done()
}

// anyRoom reports whether some member may be given one more.
func (p *Planner) anyRoom() bool {
	for _, m := range p.opens {
		if p.states[m].load < p.states[m].limit {
			return true
		}
	}
	return false
}
