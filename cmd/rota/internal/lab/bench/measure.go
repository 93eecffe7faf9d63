package bench

import (
	"math"
	"slices"

	"github.com/rota-dev/rota/internal/plan"
)

// A Step is what one placement came to.
type Step struct {
	Members int     // that own something
	R       float64 // what the moved carry, in members' capacities
	Moves   int     // partitions that had an owner and have another now
	Over    int     // members that have more than the limit asked about
	Crowded int     // those of them that would have, also without what is faster than the limit by itself
}

// Measure compares a placement with the one before it. Limit is what a member
// may have before it counts as overloaded.
func (g *Gauge) Measure(speeds []float64, before, after []int32, capacity, limit float64) Step {
	var s Step
	g.load = append(g.load[:0], make([]float64, roomFor(after))...)
	g.has = append(g.has[:0], make([]int32, len(g.load))...)
	g.large = append(g.large[:0], make([]float64, len(g.load))...)
	for i, m := range after {
		if was := before[i]; was >= 0 && was != m {
			s.R += speeds[i] / capacity
			s.Moves++
		}
		if m == plan.None {
			continue
		}
		if g.has[m] == 0 {
			s.Members++
		}
		g.has[m]++
		g.load[m] += speeds[i]
		if speeds[i] > limit {
			g.large[m] += speeds[i]
		}
	}
	limit *= 1 + 1e-9
	for m, load := range g.load {
		if load > limit {
			s.Over++
		}
		if load-g.large[m] > limit {
			s.Crowded++
		}
	}
	return s
}

// A Gauge measures without allocating each time.
type Gauge struct {
	load   []float64
	large  []float64
	has    []int32
	sorted []float64
}

// L2 is the lower bound of Martello and Toth: no placement needs fewer members.
// Choose any least size: what is larger than half a member needs one of its own;
// what leaves less than the least size beside it takes one whole; and all others
// from the least size up have to fit into the rest.
func (g *Gauge) L2(speeds []float64, capacity float64) int {
	g.sorted = append(g.sorted[:0], speeds...)
	slices.Sort(g.sorted)
	slack := capacity * 1e-9
	half, _ := slices.BinarySearch(g.sorted, capacity/2+slack)
	small, large := g.sorted[:half], g.sorted[half:]
	sumSmall, sumLarge := sum(small), sum(large)
	best, shared := max(len(large), min(1, len(small))), len(large) // large[shared:] take whole members; what is idle needs an owner too
	for i, least := range small {
		for shared > 0 && large[shared-1] > capacity-least+slack {
			shared--
			sumLarge -= large[shared]
		}
		room := float64(shared)*capacity - sumLarge
		more := math.Ceil((sumSmall-room)/capacity - 1e-9)
		best = max(best, len(large)+int(more))
		sumSmall -= small[i]
	}
	return best
}

func sum(s []float64) (sum float64) {
	for _, v := range s {
		sum += v
	}
	return sum
}
