package bench

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/rota-dev/rota/internal/plan"
)

// An Algorithm is one way to place partitions anew.
type Algorithm struct {
	Name  string
	Price float64 // of Pack; 0 for the others
	New   func(capacity float64, rng *rand.Rand) Place
}

// Place says who is to own each partition, given its speed and its present
// owner or plan.None: dst has room for all of them. There are as many members as
// it asks for.
type Place func(speeds []float64, owners, dst []int32)

// Paper is the algorithms of Landau et al., arXiv 2206.11170 and 2402.06085, in
// their order. They are for comparison: the product never chooses one. A member
// is given no more than its capacity, but for a partition that is faster than a
// whole member, which is alone on one.
//
// NF, FF, BF and WF take the partitions in random order, NFD to WFD in
// decreasing speed. A partition that fits nowhere opens a member: the one that
// owns it now unless that is open already, else the lowest that is not. What is
// tried first and what wins a tie is the lowest member; of equal speeds, the
// lowest partition. NF and NFD have member 0 open from the start.
//
// The modified ones walk the present members: MWF and MBF in decreasing load,
// MWFP and MBFP in decreasing speed of their largest partition. Of each, the
// partitions go in increasing speed to members that are open already, worst fit
// or best fit, until one finds no place. Then the member itself opens, and the
// rest stays there in decreasing speed until one does not fit. That one and all
// below it are left over, though some of them might fit; at the end everything
// left over is placed in decreasing speed by the same fit.
//
// What the published figures say about these rules: without member 0 open from
// the start NFD would move 10 to 14 % less, with equal speeds in random order 10
// % more. Whether smaller ones may stay when a larger one does not fit makes a
// difference of 2 % at most; the authors' code stops, and so it is here.
var Paper = []Algorithm{
	{Name: "NF", New: plain(nextFit, shuffled)},
	{Name: "FF", New: plain(firstFit, shuffled)},
	{Name: "BF", New: plain(bestFit, shuffled)},
	{Name: "WF", New: plain(worstFit, shuffled)},
	{Name: "NFD", New: plain(nextFit, decreasing)},
	{Name: "FFD", New: plain(firstFit, decreasing)},
	{Name: "BFD", New: plain(bestFit, decreasing)},
	{Name: "WFD", New: plain(worstFit, decreasing)},
	{Name: "MWF", New: modified(worstFit, byLoad)},
	{Name: "MBF", New: modified(bestFit, byLoad)},
	{Name: "MWFP", New: modified(worstFit, byLargest)},
	{Name: "MBFP", New: modified(bestFit, byLargest)},
}

// shelf is the members of a placement in the making.
type shelf struct {
	capacity float64
	load     []float64 // per member
	open     []bool
	top      int32 // no member from here on is open
	low      int32 // every member below is open
	last     int32 // the one opened last
}

func (s *shelf) clear(members int) {
	s.load = append(s.load[:0], make([]float64, members)...)
	s.open = append(s.open[:0], make([]bool, members)...)
	s.top, s.low, s.last = 0, 0, plan.None
}

// fits allows for what is lost by adding up in another order.
func (s *shelf) fits(m int32, speed float64) bool {
	return s.load[m]+speed <= s.capacity*(1+1e-9)
}

// begin opens the member that would best be opened for a partition of owner.
func (s *shelf) begin(owner int32) int32 {
	m := owner
	if m < 0 || s.open[m] && s.load[m] > 0 {
		for s.low < int32(len(s.open)) && s.open[s.low] {
			s.low++
		}
		m = s.low
	}
	s.open[m] = true
	s.top, s.last = max(s.top, m+1), m
	return m
}

// A fit finds an open member for a partition, or plan.None.
type fit func(s *shelf, speed float64) int32

func nextFit(s *shelf, speed float64) int32 {
	if s.last < 0 {
		s.begin(plan.None)
	}
	if s.fits(s.last, speed) || s.load[s.last] == 0 {
		return s.last
	}
	return plan.None
}

func firstFit(s *shelf, speed float64) int32 {
	for m := range s.top {
		if s.open[m] && s.fits(m, speed) {
			return m
		}
	}
	return plan.None
}

func bestFit(s *shelf, speed float64) int32 {
	best := int32(plan.None)
	for m := range s.top {
		if s.open[m] && s.fits(m, speed) && (best < 0 || s.load[m] > s.load[best]) {
			best = m
		}
	}
	return best
}

func worstFit(s *shelf, speed float64) int32 {
	best := int32(plan.None)
	for m := range s.top {
		if s.open[m] && (best < 0 || s.load[m] < s.load[best]) {
			best = m
		}
	}
	if best < 0 || !s.fits(best, speed) {
		return plan.None
	}
	return best
}

// An order puts partitions into the order in which they are placed.
type order func(items []int32, speeds []float64, rng *rand.Rand)

func shuffled(items []int32, _ []float64, rng *rand.Rand) {
	rng.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
}

func decreasing(items []int32, speeds []float64, _ *rand.Rand) {
	slices.SortFunc(items, func(a, b int32) int {
		return cmp.Or(cmp.Compare(speeds[b], speeds[a]), cmp.Compare(a, b))
	})
}

// plain places everything from nothing.
func plain(fit fit, order order) func(float64, *rand.Rand) Place {
	return func(capacity float64, rng *rand.Rand) Place {
		s := &shelf{capacity: capacity}
		var items []int32
		return func(speeds []float64, owners, dst []int32) {
			s.clear(roomFor(owners))
			items = all(items, len(speeds))
			order(items, speeds, rng)
			s.place(items, fit, speeds, owners, dst)
		}
	}
}

// place gives each item, in the order given, a member.
func (s *shelf) place(items []int32, fit fit, speeds []float64, owners, dst []int32) {
	for _, i := range items {
		m := fit(s, speeds[i])
		if m < 0 {
			m = s.begin(owners[i])
		}
		s.load[m] += speeds[i]
		dst[i] = m
	}
}

// all is every partition, by ID.
func all(items []int32, n int) []int32 {
	items = items[:0]
	for i := range int32(n) {
		items = append(items, i)
	}
	return items
}

// roomFor is how many members may be needed: one for each partition, and those
// that own something already.
func roomFor(owners []int32) int {
	n := int32(len(owners))
	for _, m := range owners {
		n = max(n, m+1)
	}
	return int(n)
}

// A key puts present members into the order in which they are walked.
type key func(has []int32, speeds []float64) float64

func byLoad(has []int32, speeds []float64) float64 {
	sum := 0.0
	for _, i := range has {
		sum += speeds[i]
	}
	return sum
}

func byLargest(has []int32, speeds []float64) float64 {
	return speeds[has[0]]
}

// modified begins with what there is.
func modified(fit fit, key key) func(float64, *rand.Rand) Place {
	return func(capacity float64, _ *rand.Rand) Place {
		s := &shelf{capacity: capacity}
		var items, left []int32
		return func(speeds []float64, owners, dst []int32) {
			s.clear(roomFor(owners))
			items, left = all(items, len(speeds)), left[:0]
			decreasing(items, speeds, nil)
			for _, h := range holders(items, speeds, owners, key) {
				left = append(left, s.keep(h, fit, speeds, dst)...)
			}
			for _, i := range items {
				if owners[i] < 0 {
					left = append(left, i)
				}
			}
			decreasing(left, speeds, nil)
			s.place(left, fit, speeds, owners, dst)
		}
	}
}

// keep drains the smallest of h into open members, keeps the largest at home,
// and returns what is left over.
func (s *shelf) keep(h holder, fit fit, speeds []float64, dst []int32) []int32 {
	has := h.has
	for len(has) > 0 {
		i := has[len(has)-1]
		m := fit(s, speeds[i])
		if m < 0 {
			break
		}
		s.load[m] += speeds[i]
		dst[i] = m
		has = has[:len(has)-1]
	}
	if len(has) == 0 {
		return nil
	}
	m := s.begin(h.member)
	for n, i := range has {
		if !s.fits(m, speeds[i]) {
			return has[n:]
		}
		s.load[m] += speeds[i]
		dst[i] = m
	}
	return nil
}

// A holder is a present member and what it has, in decreasing speed.
type holder struct {
	member int32
	has    []int32
	key    float64
}

// holders are the present members in decreasing order of their keys.
func holders(items []int32, speeds []float64, owners []int32, key key) []holder {
	byMember := make([]holder, roomFor(owners))
	for _, i := range items {
		if m := owners[i]; m >= 0 {
			byMember[m].has = append(byMember[m].has, i)
		}
	}
	var out []holder
	for m, h := range byMember {
		if len(h.has) > 0 {
			out = append(out, holder{int32(m), h.has, key(h.has, speeds)})
		}
	}
	slices.SortStableFunc(out, func(a, b holder) int { return cmp.Compare(b.key, a.key) })
	return out
}
