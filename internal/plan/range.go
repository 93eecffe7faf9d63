package plan

// Range is the function Range, with p's memory. Keeping in its range all that
// fits moves the fewest away, so the plan needs mending only if something found
// no place although somebody has room.
func (p *Planner) Range(members []Member, parts []Partition, dst []int32) []int32 {
	p.applyRules(members, parts, dst)
	if len(p.opens) > 0 {
		p.cut()
		p.keep()
		if len(p.rest) > 0 && !p.shift() {
			p.mend(false)
		}
	}
	return p.done()
}

// cut makes the member in whose range a free partition lies its home, if it may
// be there. A member's quota is all it may have.
func (p *Planner) cut() {
	for _, m := range p.opens {
		p.states[m].quota = p.states[m].limit
	}
	all := 0
	for i := range p.parts {
		if p.shared(i) {
			all++
		}
	}
	p.near = grow(p.near, len(p.parts))
	n, k := 0, 0 // partition n of all lies in the range of open member k
	for i := range p.parts {
		if !p.shared(i) {
			continue
		}
		for n >= (k+1)*all/len(p.opens) {
			k++
		}
		p.near[i], p.home[i] = int32(k), p.opens[k]
		if p.parts[i].Avoids(p.opens[k]) {
			p.home[i] = None
		}
		n++
	}
}

// shared reports whether partition i counts when ranges are cut.
func (p *Planner) shared(i int) bool {
	m := p.dst[i]
	return !p.parts[i].Off && (m == None || p.states[m].open)
}

// shift hands the rest, by ID, to the nearest members, and reports whether that
// placed as many as can be.
func (p *Planner) shift() bool {
	left := p.rest[:0]
	for _, i := range p.rest {
		if m := p.nearest(i); m != None {
			p.put(i, m)
		} else {
			left = append(left, i)
		}
	}
	p.rest = left
	return len(left) == 0 || !p.anyRoom()
}

// nearest looks both ways from the range that partition i lies in, for a member
// that may take it.
func (p *Planner) nearest(i int32) int32 {
	k, q := int(p.near[i]), &p.parts[i]
	for d := 1; d < len(p.opens); d++ {
		for _, at := range [2]int{k - d, k + d} {
			if at < 0 || at >= len(p.opens) {
				continue
			}
			m := p.opens[at]
			if p.states[m].load < p.states[m].limit && !q.Avoids(m) {
				return m
			}
		}
	}
	return None
}
