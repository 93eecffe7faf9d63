package plan

// setQuotas decides how many partitions each open member is to have, bans aside:
// loads are poured into the members like water, every one rising to the same
// level unless what it must have is above or what it can have is below. What is
// then left is less than one each and goes to the members that have the most,
// who would otherwise have to give one up; of equals, to the first to have joined.
func (p *Planner) setQuotas() {
	p.setMost()
	level, extra := p.level(int64(len(p.free)))
	least, ties := p.fullest(level, extra)
	for _, m := range p.opens {
		s := &p.states[m]
		s.quota = clamp(level, s)
		if !s.wants(level) {
			continue
		}
		switch full := s.load + s.have; {
		case full > least:
			s.quota++
		case full == least && ties > 0:
			s.quota++
			ties--
		}
	}
}

// setMost bounds what each member can get: its limit, and the free partitions
// that are not banned from it. Without the second a member that next to nothing
// may go to would be promised a full share.
func (p *Planner) setMost() {
	for _, m := range p.opens {
		p.states[m].most = int32(len(p.free))
	}
	for _, i := range p.free {
		last := int32(None)
		for _, m := range p.parts[i].Avoid {
			if m != last && uint(m) < uint(len(p.states)) {
				p.states[m].most--
			}
			last = m
		}
	}
	for _, m := range p.opens {
		s := &p.states[m]
		s.most = max(s.load, min(s.limit, s.load+s.most))
	}
}

// level finds the highest level that need partitions suffice for, and how many
// are then left over. If there are too many for everyone it is above them all.
func (p *Planner) level(need int64) (level int32, extra int64) {
	low, high := int32(0), int32(len(p.parts))+1 // nobody can have more than all
	for low+1 < high {
		mid := low + (high-low)/2
		if p.pour(mid) <= need {
			low = mid
		} else {
			high = mid
		}
	}
	return low, need - p.pour(low)
}

// pour counts the partitions it takes to raise everyone to a level.
func (p *Planner) pour(level int32) (sum int64) {
	for _, m := range p.opens {
		s := &p.states[m]
		sum += int64(clamp(level, s) - s.load)
	}
	return sum
}

// fullest picks extra members out of those that can rise above the level: all
// that have more than least, and the first ties of those that have just that.
func (p *Planner) fullest(level int32, extra int64) (least int32, ties int64) {
	if extra == 0 {
		return int32(len(p.parts)), 0
	}
	p.tally = grow(p.tally, len(p.parts)+1)
	clear(p.tally)
	for _, m := range p.opens {
		if s := &p.states[m]; s.wants(level) {
			p.tally[s.load+s.have]++
		}
	}
	for least = int32(len(p.parts)); least >= 0; least-- {
		n := int64(p.tally[least])
		if n >= extra {
			return least, extra
		}
		extra -= n
	}
	return least, 0
}

// wants reports whether a member can have one more than the level.
func (s *state) wants(level int32) bool {
	return s.load <= level && level < s.most
}

func clamp(level int32, s *state) int32 {
	return max(s.load, min(level, s.most))
}
