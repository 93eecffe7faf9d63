package plan

// applyRules places every partition whose place the rules alone decide, and
// collects the others in free, each with its owner as home.
func (p *Planner) applyRules(members []Member, parts []Partition, dst []int32) {
	p.parts = parts
	p.dst = grow(dst, len(parts))
	p.home = grow(p.home, len(parts))
	p.free = grow(p.free, len(parts))[:0]
	p.readMembers(members)
	for i := range parts {
		m, free := p.ruled(members, &parts[i])
		p.dst[i], p.home[i] = m, None
		switch {
		case free:
			p.dst[i], p.home[i] = None, m
			p.free = append(p.free, int32(i))
			if m != None {
				p.states[m].have++
			}
		case m != None:
			p.states[m].load++
		}
	}
}

// ruled says where the rules put a partition or, if they leave it free, which
// member it may stay with.
func (p *Planner) ruled(members []Member, q *Partition) (m int32, free bool) {
	owner := q.Owner
	if uint(owner) >= uint(len(members)) {
		owner = None
	}
	switch {
	case q.Off:
		return None, false
	case owner != None && members[owner].Reserved:
		return owner, false
	case uint(q.Pin) < uint(len(members)) && p.states[q.Pin].open:
		return q.Pin, false
	case owner == None || !p.states[owner].open || q.Avoids(owner):
		return None, true
	}
	return owner, !q.Stay
}

func (p *Planner) readMembers(members []Member) {
	p.states = grow(p.states, len(members))
	p.opens = grow(p.opens, len(members))[:0]
	for m := range members {
		s := state{open: members[m].Open(), limit: members[m].Most()}
		if s.open {
			p.opens = append(p.opens, int32(m))
		}
		p.states[m] = s
	}
}

// done lets go of what belongs to the caller and returns the plan.
func (p *Planner) done() []int32 {
	dst := p.dst
	p.parts, p.dst = nil, nil
	return dst
}
