package plan

import (
	"cmp"
	"math"
	"slices"
)

// mend makes a valid plan the best one, when bans kept the simple way from it.
//
// Think of a graph with the open members as nodes and an edge from a to b for
// every partition on a that may go to b; it costs 1 if the partition leaves its
// home, −1 if it comes home, else 0. Two more nodes: nowhere, where partitions
// without a place are, and the scales, through which load passes: an edge from b
// to the scales and on to a means that b ends up with one more and a with one
// less, and it costs what that does to the balance. A cycle is a set of moves
// that leaves a valid plan, its cost is what the plan gets worse by, and a plan is
// the best exactly when no cycle is negative (the loads' costs are convex). So:
// while there is a negative cycle, go round it.
type mender struct {
	even, place int64 // what a step of imbalance and an unplaced partition cost, in moves

	tied   []tie   // free partitions with bans, those with equal bans together
	sample []int32 // per class: a partition of it; class 0 is without bans

	group, doors []int32 // ease: the partitions of a class, and where they may go
	top, under   []int32 // ease: per member, a pile of those partitions

	exits   []exit  // ways out of nodes, as the plan is now
	strays  []int32 // partitions that have a home and are not there
	best    []step  // per class: the cheapest way to any member, in this round
	order   []int32 // classes, cheapest first
	nodes   []node
	nowhere int32
	scales  int32
}

// A tie is a partition with bans; all of one class have the same.
type tie struct {
	hash  uint64
	part  int32
	class int32
}

// An exit is a partition that may leave a node; exits of one class lead to the
// same members.
type exit struct {
	step
	class int32
}

// A step leaves a node by moving a partition, or None to or from the scales.
type step struct {
	cost int64 // of the step alone in an exit, of the way so far in best
	from int32
	part int32
}

// A node's step in is the last of the cheapest way to it found so far.
type node struct {
	in   step
	walk int32 // the last search for cycles that came by
}

const far = math.MaxInt64

func (p *Planner) mend(even bool) {
	p.nowhere = int32(len(p.states))
	p.scales = p.nowhere + 1
	p.nodes = grow(p.nodes, len(p.states)+2)

	// Each must outweigh all that a cycle can gain of the lesser kinds.
	unit := int64(len(p.nodes)) + 1
	p.even, p.place = 0, unit*int64(2*len(p.parts)+4)
	if even {
		p.even = unit
	}

	p.classify()
	if even {
		p.ease()
	}
	for _, i := range p.rest {
		p.dst[i] = p.nowhere
	}
	for p.better() {
	}
	for _, i := range p.free {
		if p.dst[i] == p.nowhere {
			p.dst[i] = None
		}
	}
}

// classify groups the free partitions by their bans. There are few different
// sets of bans even where there are many bans, and whole classes are looked at
// instead of every pair of partition and member. Should two sets have the same
// hash, a class may come in pieces, which does no harm.
func (p *Planner) classify() {
	p.tied = p.tied[:0]
	for _, i := range p.free {
		if avoid := p.parts[i].Avoid; len(avoid) > 0 {
			p.tied = append(p.tied, tie{hash: hash(avoid), part: i})
		}
	}
	slices.SortFunc(p.tied, func(a, b tie) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.part, b.part))
	})
	p.sample = append(p.sample[:0], None)
	for n := range p.tied {
		t := &p.tied[n]
		if n == 0 || !slices.Equal(p.parts[t.part].Avoid, p.parts[p.tied[n-1].part].Avoid) {
			p.sample = append(p.sample, t.part)
		}
		t.class = int32(len(p.sample) - 1)
	}
}

func hash(list []int32) uint64 {
	h := uint64(len(list))
	for _, m := range list {
		h = (h ^ uint64(uint32(m))) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return h
}

// better goes round negative cycles, if there are any, and reports that. The search is
// Bellman and Ford's, from all nodes at once.
func (p *Planner) better() bool {
	p.findExits()
	for v := range p.nodes {
		p.nodes[v] = node{in: step{from: None, part: None}, walk: None}
	}
	for p.relax() {
		if p.turn() {
			return true
		}
	}
	return false
}

// findExits notes for every node one partition without bans, the cheapest to
// move and of those the one with the highest ID, and all partitions with bans.
func (p *Planner) findExits() {
	p.exits = grow(p.exits, len(p.nodes))
	for v := range p.exits {
		p.exits[v] = exit{step: step{cost: far, from: int32(v), part: None}}
	}
	p.strays = p.strays[:0]
	for _, i := range p.free {
		at, home := p.dst[i], p.home[i]
		if home != None && home != at {
			p.strays = append(p.strays, i)
		}
		if len(p.parts[i].Avoid) > 0 {
			continue
		}
		if e, cost := &p.exits[at], p.leave(i); cost <= e.cost {
			e.cost, e.part = cost, i
		}
	}
	p.exits = slices.DeleteFunc(p.exits, func(e exit) bool { return e.part == None })
	for _, t := range p.tied {
		p.exits = append(p.exits, exit{step{p.leave(t.part), p.dst[t.part], t.part}, t.class})
	}
}

// leave is what it costs to move partition i to anywhere but its home.
func (p *Planner) leave(i int32) int64 {
	if p.dst[i] == p.home[i] {
		return 1
	}
	return 0
}

// relax lengthens all cheapest ways by a step of each kind and reports whether
// any node is now reached for less.
func (p *Planner) relax() bool {
	p.rank()
	changed := false
	if len(p.order) > 0 {
		changed = p.reach(p.nowhere, p.best[p.order[0]])
	}
	for _, m := range p.opens {
		for _, c := range p.order {
			if c == 0 || !p.parts[p.sample[c]].Avoids(m) {
				changed = p.reach(m, p.best[c]) || changed
				break
			}
		}
	}
	for _, i := range p.strays {
		at := p.dst[i]
		changed = p.reach(p.home[i], step{p.nodes[at].in.cost - 1, at, i}) || changed
	}
	return p.weigh() || changed
}

// rank finds the cheapest way out for each class and orders the classes by it.
// Those dearer than no bans at all are of no use.
func (p *Planner) rank() {
	p.best = grow(p.best, len(p.sample))
	for c := range p.best {
		p.best[c].cost = far
	}
	for _, e := range p.exits {
		if cost := p.nodes[e.from].in.cost + e.cost; cost < p.best[e.class].cost {
			p.best[e.class] = step{cost, e.from, e.part}
		}
	}
	p.order = p.order[:0]
	for c := range p.best {
		if cost := p.best[c].cost; cost < far && (c == 0 || cost < p.best[0].cost) {
			p.order = append(p.order, int32(c))
		}
	}
	slices.SortFunc(p.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(p.best[a].cost, p.best[b].cost), cmp.Compare(a, b))
	})
}

// weigh takes the steps over the scales.
func (p *Planner) weigh() bool {
	changed := p.reach(p.scales, step{p.nodes[p.nowhere].in.cost + p.place, p.nowhere, None})
	for _, m := range p.opens {
		if s := &p.states[m]; s.load < s.limit {
			changed = p.reach(p.scales, step{p.nodes[m].in.cost + p.even*int64(2*s.load+1), m, None}) || changed
		}
	}
	cost := p.nodes[p.scales].in.cost
	changed = p.reach(p.nowhere, step{cost - p.place, p.scales, None}) || changed
	for _, m := range p.opens {
		changed = p.reach(m, step{cost - p.even*int64(2*p.states[m].load-1), p.scales, None}) || changed
	}
	return changed
}

// reach takes a step to v if it is cheaper than the way known so far.
func (p *Planner) reach(v int32, in step) bool {
	if in.cost >= p.nodes[v].in.cost {
		return false
	}
	p.nodes[v].in = in
	return true
}

// turn goes round all cycles among the cheapest ways: cheapest ways that bite
// their tail are negative, and no two share a node.
func (p *Planner) turn() bool {
	turned := false
	for v := range p.nodes {
		p.nodes[v].walk = None
	}
	for start := range p.nodes {
		walk, v := int32(start), int32(start)
		for v != None && p.nodes[v].walk == None {
			p.nodes[v].walk = walk
			v = p.nodes[v].in.from
		}
		if v != None && p.nodes[v].walk == walk {
			p.goRound(v)
			turned = true
		}
	}
	return turned
}

// goRound makes every move on the cycle that v is on.
func (p *Planner) goRound(v int32) {
	for start := v; ; {
		in := p.nodes[v].in
		switch {
		case in.part != None:
			p.dst[in.part] = v
		case v == p.scales && in.from != p.nowhere:
			p.states[in.from].load++
		case in.from == p.scales && v != p.nowhere:
			p.states[v].load--
		}
		if v = in.from; v == start {
			return
		}
	}
}
