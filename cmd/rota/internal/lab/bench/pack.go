package bench

import (
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/rota-dev/rota/internal/pack"
	"github.com/rota-dev/rota/internal/plan"
)

// Prices are those that the front is drawn for. Above 10 the figures are
// those of 10.
var Prices = []float64{0.5, 1, pack.DefaultPrice, 2, 5, 10}

// Pack is the planner of the product at one price.
func Pack(price float64) Algorithm {
	name := "pack " + strconv.FormatFloat(price, 'g', -1, 64)
	return Algorithm{Name: name, Price: price, New: func(capacity float64, _ *rand.Rand) Place {
		var p Packer
		how := pack.Options{Capacity: capacity, Price: price}
		return func(speeds []float64, owners, dst []int32) { p.Place(how, speeds, owners, dst) }
	}}
}

// A Packer gives Pack the members it asks for.
type Packer struct {
	packer  pack.Packer
	members []plan.Member
	parts   []plan.Partition
	loads   []pack.Load
}

// Place lets Pack place partitions of these speeds, on as many members as it
// wants. It begins with twice as many as the sum needs, which by itself is
// enough to give everything a place.
func (p *Packer) Place(how pack.Options, speeds []float64, owners, dst []int32) pack.Result {
	p.parts = p.parts[:0]
	p.loads = p.loads[:0]
	need := 0
	for i, speed := range speeds {
		p.parts = append(p.parts, plan.Partition{Owner: owners[i], Pin: plan.None})
		p.loads = append(p.loads, pack.Load{Speed: speed})
		need = max(need, int(owners[i])+1)
	}
	how.Loads = p.loads
	need = max(need, int(min(2*math.Ceil(sum(speeds)/how.Capacity)+4, float64(len(speeds)))))
	for {
		for len(p.members) < need {
			p.members = append(p.members, plan.Member{})
		}
		_, packed := p.packer.Pack(p.members[:need], p.parts, how, dst)
		if packed.Wanted <= need || need >= len(speeds) {
			return packed
		}
		need = min(packed.Wanted, len(speeds))
	}
}
