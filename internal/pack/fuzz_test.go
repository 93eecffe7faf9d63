package pack

import (
	"math"
	"slices"
	"testing"

	"github.com/rota-dev/rota/internal/plan"
	"github.com/rota-dev/rota/internal/plan/plantest"
)

// FuzzPack takes loads, and whatever else Pack is told, from the same bytes.
func FuzzPack(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add([]byte{3, 4, 4, 4, 0, 0, 0, 0, 0, 1, 0, 1, 0, 255, 1, 2, 2}, []byte{0, 20, 0, 10, 120, 30, 90, 200, 255})
	f.Add([]byte{4, 0x05, 0xc4, 0x34, 4, 0x0c, 1, 2, 0x0c, 1, 200, 3, 0, 0, 0, 1, 3, 3, 3, 3, 3, 0x30, 0}, []byte{40, 3, 130, 1, 50, 50, 50, 50})
	f.Add([]byte{5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 2, 0, 2, 0, 3}, []byte{30, 9, 3, 0, 60, 70, 80, 40, 30, 20, 10, 5})
	f.Fuzz(func(t *testing.T, data, tell []byte) {
		if len(data) > 400 {
			return
		}
		members, parts := plantest.Script(data)
		how, odd := scriptPacking(tell, members, parts)
		dst, said := Pack(members, parts, how, nil)
		for m := range members {
			members[m].Limit = max(0, members[m].Limit)
		}
		if err := broken(members, parts, dst); err != nil {
			t.Error(err)
		}
		if said.Wanted < said.Used || said.Moved < 0 {
			t.Errorf("says %+v", said)
		}
		for i, q := range parts {
			if q.Owner < 0 || int(q.Owner) >= len(members) {
				parts[i].Owner = none
			}
		}
		next := after(parts, dst)
		for i, q := range parts {
			next[i].Stay = q.Stay && q.Owner == dst[i]
		}
		if again, _ := Pack(members, next, how, nil); !slices.Equal(again, dst) {
			t.Errorf("first %v, then %v", dst, again)
		}
		if odd {
			return
		}
		unlimited := !slices.ContainsFunc(members, func(m plan.Member) bool { return m.Limit > 0 })
		if err := unexcused(members, parts, how, dst, said); err != nil && unlimited {
			t.Error(err)
		}
	})
}

// scriptPacking reads loads and the rest, and reports whether some are no
// numbers that a test can reckon with.
func scriptPacking(data []byte, members []plan.Member, parts []plan.Partition) (how Options, odd bool) {
	next := func() (b byte) {
		if len(data) > 0 {
			b, data = data[0], data[1:]
		}
		return b
	}
	how = Options{Capacity: 100, Price: float64(next()) / 10, Trigger: 1 + float64(next()%8)/10, Band: float64(next()%4) / 10}
	how.Capacities = make([]float64, len(members))
	for m := range members {
		if b := next(); b > 200 {
			how.Capacities[m] = float64(b) - 150
		}
	}
	for range parts {
		b := next()
		l := Load{Speed: float64(b & 127), Cooling: b > 230}
		if b == 255 {
			l.Speed, odd = math.NaN(), true
		}
		how.Loads = append(how.Loads, l)
	}
	return how, odd
}
