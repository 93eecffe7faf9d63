package plan_test

import (
	"math/rand/v2"
	"testing"

	. "github.com/rota-dev/rota/internal/plan"
)

func bench(b *testing.B, strategy func(*Planner) strategy, members []Member, parts []Partition) {
	var p Planner
	plan := strategy(&p)
	dst := plan(members, parts, nil)
	b.ReportAllocs()
	for b.Loop() {
		dst = plan(members, parts, dst)
	}
	if moved := moves(parts, dst); moved > 0 {
		b.ReportMetric(float64(moved), "moves")
	}
}

func spread(p *Planner) strategy { return p.Spread }

// large is the largest group we promise: n members, all but the last joiners of
// them with their share of 10 000 partitions.
func large(n, joiners int) ([]Member, []Partition) {
	members := make([]Member, n)
	parts := fresh(10000)
	return members, after(parts, Spread(members[:n-joiners], parts, nil))
}

// forbid bans n random pairs.
func forbid(members []Member, parts []Partition, n int) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, i := range r.Perm(len(parts))[:n] {
		parts[i].Avoid = []int32{int32(r.IntN(len(members)))}
	}
}

func BenchmarkSpread4x6(b *testing.B) {
	bench(b, spread, make([]Member, 4), owned(0, 0, 1, 1, 2, None))
}

func BenchmarkSpread4x6Banned(b *testing.B) {
	parts := owned(0, 0, 1, 1, 2, None)
	parts[5].Avoid, parts[1].Avoid = []int32{2, 3}, []int32{3}
	bench(b, spread, make([]Member, 4), parts)
}

func BenchmarkRange4x6(b *testing.B) {
	bench(b, func(p *Planner) strategy { return p.Range }, make([]Member, 4), owned(0, 0, 1, 1, 2, None))
}

func BenchmarkSpreadFresh(b *testing.B) {
	bench(b, spread, make([]Member, 1000), fresh(10000))
}

func BenchmarkSpreadSteady(b *testing.B) {
	members, parts := large(1000, 0)
	bench(b, spread, members, parts)
}

func BenchmarkSpreadOneJoiner(b *testing.B) {
	members, parts := large(1000, 1)
	bench(b, spread, members, parts)
}

func BenchmarkSpreadOneLeaver(b *testing.B) {
	members, parts := large(1000, 0)
	members[500].Closed = true
	bench(b, spread, members, parts)
}

func BenchmarkSpread500Joiners(b *testing.B) {
	members, parts := large(1000, 500)
	bench(b, spread, members, parts)
}

func BenchmarkSpread100Bans(b *testing.B) {
	members, parts := large(1000, 1)
	forbid(members, parts, 100)
	bench(b, spread, members, parts)
}

// The ten members that have one too many may give the joiner almost nothing, so
// bans stand in the way of every single move and the plan must be mended.
func BenchmarkSpread100BansInTheWay(b *testing.B) {
	members, parts := large(1000, 1)
	for i := range 110 { // 11 on each of the first ten
		if i%11 > 0 {
			parts[i].Avoid = []int32{999}
		}
	}
	bench(b, spread, members, parts)
}

// Almost nothing may go to the joiner, least of all what goes first.
func BenchmarkSpread9000BansOnTheJoiner(b *testing.B) {
	members, parts := large(1000, 1)
	for i := range 9000 {
		parts[i].Avoid = []int32{999}
	}
	bench(b, spread, members, parts)
}

// A third of all pairs is banned, so that homes are lost all over.
func BenchmarkSpread3000000Bans(b *testing.B) {
	members, parts := large(1000, 100)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range parts {
		for m := range members {
			if r.IntN(3) == 0 {
				parts[i].Avoid = append(parts[i].Avoid, int32(m))
			}
		}
	}
	bench(b, spread, members, parts)
}

func BenchmarkSpread10000Bans(b *testing.B) {
	members, parts := large(1000, 500)
	forbid(members, parts, 10000)
	bench(b, spread, members, parts)
}

// Two worlds of unequal size: 7000 partitions may only go to one half of the
// members, 3000 only to the other.
func BenchmarkSpreadHalves(b *testing.B) {
	members, parts := large(1000, 0)
	var halves [2][]int32
	for m := range members {
		halves[m%2] = append(halves[m%2], int32(m))
	}
	for i := range parts {
		parts[i].Avoid = halves[min(1, i%10/7)]
	}
	bench(b, spread, members, parts)
}

func BenchmarkSpreadLimits(b *testing.B) {
	members, parts := large(1000, 1)
	for m := range members {
		members[m].Limit = 5 + m%20
	}
	bench(b, spread, members, parts)
}

func BenchmarkSpreadLimitsAndBans(b *testing.B) {
	members, parts := large(1000, 1)
	for m := range members {
		members[m].Limit = 5 + m%10
	}
	forbid(members, parts, 100)
	bench(b, spread, members, parts)
}

// About the worst that 100 bans can do: all but one member are at their limit, and
// nothing that lacks an owner may go there, so that each makes another give way.
func BenchmarkSpread100BansAtTheLimit(b *testing.B) {
	members, parts := make([]Member, 991), fresh(10000)
	for i := range parts[:9900] {
		parts[i].Owner = int32(i / 10)
	}
	for i := range parts[9900:] {
		parts[9900+i].Avoid = []int32{990}
	}
	for m := range members[:990] {
		members[m].Limit = 10
	}
	bench(b, spread, members, parts)
}

func BenchmarkRangeLarge(b *testing.B) {
	bench(b, func(p *Planner) strategy { return p.Range }, make([]Member, 1000), fresh(10000))
}
