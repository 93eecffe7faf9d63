package plan

import (
	"cmp"
	"math"
)

// ease evens loads out as far as single moves will do, one class of bans after
// the other. mend would come to the same end, but a cycle at a time, which takes long
// where bans divide a large group into worlds of their own.
func (p *Planner) ease() {
	p.top = grow(p.top, len(p.states))
	p.under = grow(p.under, len(p.parts))
	least := int32(math.MaxInt32 - 2) // on anyone with room; it can only grow
	for _, m := range p.opens {
		if s := &p.states[m]; s.load < s.limit {
			least = min(least, s.load)
		}
	}
	p.group = p.group[:0]
	for _, i := range p.free {
		if len(p.parts[i].Avoid) == 0 {
			p.group = append(p.group, i)
		}
	}
	p.easeGroup(nil, least)
	for n := 0; n < len(p.tied); {
		p.group = p.group[:0]
		for c := p.tied[n].class; n < len(p.tied) && p.tied[n].class == c; n++ {
			p.group = append(p.group, p.tied[n].part)
		}
		p.easeGroup(p.parts[p.group[0]].Avoid, least)
	}
}

// easeGroup moves partitions of the group, which all have the same bans. Most
// groups are small and even enough, which is seen at a glance.
func (p *Planner) easeGroup(avoid []int32, least int32) {
	fullest := int32(0)
	for _, i := range p.group {
		if m := p.dst[i]; m != None {
			fullest = max(fullest, p.states[m].load)
		}
	}
	if fullest < least+2 {
		return
	}
	p.stack()
	p.doors = p.doors[:0]
	for _, m := range p.opens { // sorted, and so are the bans
		for len(avoid) > 0 && avoid[0] < m {
			avoid = avoid[1:]
		}
		if len(avoid) == 0 || avoid[0] != m {
			p.doors = append(p.doors, m)
		}
	}
	for p.handOver() {
	}
}

// stack piles the group up on the members it is on: what is not at home on top,
// and within that the highest IDs.
func (p *Planner) stack() {
	for m := range p.top {
		p.top[m] = None
	}
	for _, home := range [2]bool{true, false} {
		for _, i := range p.group {
			if at := p.dst[i]; at != None && home == (at == p.home[i]) {
				p.under[i], p.top[at] = p.top[at], i
			}
		}
	}
}

// handOver moves one partition from the fullest member that has one of the group
// to the emptiest that may take it, if that makes them more even.
func (p *Planner) handOver() bool {
	from, to := int32(None), int32(None)
	for _, m := range p.opens {
		if p.top[m] != None && (from == None || p.givesFirst(m, from)) {
			from = m
		}
	}
	for _, m := range p.doors {
		if s := &p.states[m]; s.load < s.limit && (to == None || s.load < p.states[to].load) {
			to = m
		}
	}
	if from == None || to == None || p.states[from].load < p.states[to].load+2 {
		return false
	}
	i := p.top[from]
	p.top[from] = p.under[i]
	p.states[from].load--
	p.put(i, to)
	return true
}

// givesFirst reports whether a, the later to have joined, gives before b: if it
// has more, or as many and b would have to give up something that is at home.
func (p *Planner) givesFirst(a, b int32) bool {
	return cmp.Or(
		cmp.Compare(p.states[a].load, p.states[b].load),
		cmp.Compare(p.leave(p.top[b]), p.leave(p.top[a]))) >= 0
}
