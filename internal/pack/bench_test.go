package pack

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/plan"
)

// busy is a group that Pack has planned for a few steps, one step later: every
// load has wandered since by up to a tenth of a member, or of itself. Share is
// how many partitions a member has, about.
func busy(n, share int) ([]plan.Member, []plan.Partition, Options) {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	members, parts := make([]plan.Member, 2*n/share+1), fresh(n)
	how := Options{Capacity: 100, Loads: make([]Load, n)}
	for i := range how.Loads {
		if how.Loads[i].Speed = 100 * r.Float64(); share > 2 {
			how.Loads[i].Speed = 100 / float64(share) * math.Exp(r.NormFloat64()-0.5)
		}
	}
	var p Packer
	for step := range 5 {
		if step > 0 {
			dst, _ := p.Pack(members, parts, how, nil)
			parts = after(parts, dst)
		}
		for i := range how.Loads {
			l := &how.Loads[i].Speed
			if wander := 2*r.Float64() - 1; share == 2 {
				*l += float64(10 * wander) // not to be fused, or it is another load elsewhere
			} else {
				*l *= 1 + wander/10
			}
			*l = min(max(*l, 0), 100)
		}
	}
	return members, parts, how
}

// naive is best fit decreasing as the papers' authors run it: heaviest first,
// each compared with every member.
func naive(how Options) (used int) {
	order := make([]int, len(how.Loads))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(how.Loads[b].Speed, how.Loads[a].Speed) })
	var load []float64
	for _, i := range order {
		best, w := none, how.Loads[i].Speed
		for m := range load {
			if load[m]+w <= how.Capacity && (best == none || load[m] > load[best]) {
				best = m
			}
		}
		if best == none {
			best = len(load)
			load = append(load, 0)
		}
		load[best] += w
	}
	return len(load)
}

func benchPack(b *testing.B, n, share int) {
	members, parts, how := busy(n, share)
	began := time.Now()
	fewest := naive(how)
	slow := time.Since(began)
	var p Packer
	dst, said := p.Pack(members, parts, how, nil)
	b.ReportAllocs()
	for b.Loop() {
		dst, said = p.Pack(members, parts, how, dst)
	}
	b.ReportMetric(float64(slow)*float64(b.N)/float64(b.Elapsed()), "×faster-than-BFD")
	b.ReportMetric(float64(said.Used)/float64(fewest), "members/BFD")
	b.ReportMetric(said.Moved/float64(said.Used), "moved/member")
}

func BenchmarkPack200Few(b *testing.B)     { benchPack(b, 200, 2) }
func BenchmarkPack1000Few(b *testing.B)    { benchPack(b, 1000, 2) }
func BenchmarkPack10000Few(b *testing.B)   { benchPack(b, 10000, 2) }
func BenchmarkPack100000Few(b *testing.B)  { benchPack(b, 100000, 2) }
func BenchmarkPack1000Many(b *testing.B)   { benchPack(b, 1000, 100) }
func BenchmarkPack10000Many(b *testing.B)  { benchPack(b, 10000, 100) }
func BenchmarkPack100000Many(b *testing.B) { benchPack(b, 100000, 100) }
