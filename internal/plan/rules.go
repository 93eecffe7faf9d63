package plan

import (
	"math"
	"slices"
)

// settle places every partition whose place the rules alone decide, and
// collects the others in free, each with its owner as home.
func (p *Planner) settle(members []Member, parts []Partition, dst []int32) {
	p.parts = parts
	p.dst = grow(dst, len(parts))
	p.home = grow(p.home, len(parts))
	p.free = grow(p.free, len(parts))[:0]
	p.seat(members)
	for i := range parts {
		m, free := p.ruled(members, &parts[i])
		p.dst[i], p.home[i] = m, None
		switch {
		case free:
			p.dst[i], p.home[i] = None, m
			p.free = append(p.free, int32(i))
			if m != None {
				p.seats[m].have++
			}
		case m != None:
			p.seats[m].load++
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
	case uint(q.Pin) < uint(len(members)) && p.seats[q.Pin].open:
		return q.Pin, false
	case owner == None || !p.seats[owner].open || banned(q.Avoid, owner):
		return None, true
	}
	return owner, !q.Stay
}

func (p *Planner) seat(members []Member) {
	p.seats = grow(p.seats, len(members))
	p.opens = grow(p.opens, len(members))[:0]
	for m, member := range members {
		s := seat{open: !member.Closed && !member.Reserved, limit: math.MaxInt32}
		if 0 < member.Limit && member.Limit < math.MaxInt32 {
			s.limit = int32(member.Limit)
		}
		if s.open {
			p.opens = append(p.opens, int32(m))
		}
		p.seats[m] = s
	}
}

// done lets go of what belongs to the caller and returns the plan.
func (p *Planner) done() []int32 {
	dst := p.dst
	p.parts, p.dst = nil, nil
	return dst
}

// banned looks m up in a sorted list; almost all are too short to be halved.
func banned(avoid []int32, m int32) bool {
	if len(avoid) > 16 {
		_, found := slices.BinarySearch(avoid, m)
		return found
	}
	return slices.Contains(avoid, m)
}
