package plan

// Spread is the function Spread, with p's memory.
//
// Quotas are computed as if nothing were banned: no plan can be more even, and
// none that keeps to them moves less than keeping at home all that fits. So if
// every quota can be met the plan is the best there is, in linear time. Only
// when bans leave a quota unmet is it mended.
func (p *Planner) Spread(members []Member, parts []Partition, dst []int32) []int32 {
	p.applyRules(members, parts, dst)
	p.setQuotas()
	p.keep()
	if len(p.rest) > 0 && !p.fill() {
		p.crowd()
		p.mend(true)
	}
	return p.done()
}

// keep leaves free partitions at home, lowest IDs first, up to the quotas. The
// others become the rest.
func (p *Planner) keep() {
	p.rest = grow(p.rest, len(p.free))[:0]
	for _, i := range p.free {
		if m := p.home[i]; m != None && p.states[m].load < p.states[m].quota {
			p.put(i, m)
		} else {
			p.rest = append(p.rest, i)
		}
	}
}

// fill hands the rest, by ID, to members below their quota, in joining order,
// and reports whether all quotas are met. Those at their quota leave the chain,
// so a partition looks only at members it is banned from and one more.
func (p *Planner) fill() bool {
	first := p.chain()
	left := p.rest[:0]
	for _, i := range p.rest {
		q, at := &p.parts[i], &first
		for *at != None && q.Avoids(*at) {
			at = &p.states[*at].next
		}
		m := *at
		if m == None {
			left = append(left, i)
			continue
		}
		p.put(i, m)
		if s := &p.states[m]; s.load == s.quota {
			*at = s.next
		}
	}
	p.rest = left
	return first == None
}

// chain links the members below their quota and returns the first.
func (p *Planner) chain() int32 {
	first := int32(None)
	for k := len(p.opens) - 1; k >= 0; k-- {
		m := p.opens[k]
		if s := &p.states[m]; s.load < s.quota {
			s.next, first = first, m
		}
	}
	return first
}

// crowd puts each of the rest, quota or not, on the emptiest member that may
// take it: a good place for mend to start from.
func (p *Planner) crowd() {
	left := p.rest[:0]
	for _, i := range p.rest {
		if m := p.emptiest(i); m != None {
			p.put(i, m)
		} else {
			left = append(left, i)
		}
	}
	p.rest = left
}

// emptiest finds the least loaded member that may take partition i: of equals
// its home, else the first to have joined.
func (p *Planner) emptiest(i int32) int32 {
	best := int32(None)
	for _, m := range p.opens {
		s := &p.states[m]
		if best != None {
			if b := &p.states[best]; s.load > b.load || s.load == b.load && m != p.home[i] {
				continue
			}
		}
		if s.load < s.limit && !p.parts[i].Avoids(m) {
			best = m
		}
	}
	return best
}
