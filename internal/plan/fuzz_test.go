package plan

import (
	"math"
	"slices"
	"testing"
)

// script reads members and partitions out of arbitrary bytes; indexes may name
// nobody.
func script(data []byte) (members []Member, parts []Partition) {
	next := func() (b byte) {
		if len(data) > 0 {
			b, data = data[0], data[1:]
		}
		return b
	}
	for range next() % 12 {
		b := next()
		members = append(members, Member{Limit: int(b&15) - 4, Closed: b&0xc0 == 0xc0, Reserved: b&0x30 == 0x30})
	}
	for len(data) > 0 {
		flags := next()
		q := Partition{Owner: int32(int8(next())), Pin: None, Off: flags&0xc0 == 0xc0, Stay: flags&0x30 == 0x30}
		if flags&0x0c == 0x0c {
			q.Pin = int32(int8(next())) << (flags & 0x10)
		}
		for range flags & 3 {
			q.Avoid = append(q.Avoid, int32(int8(next())))
		}
		slices.Sort(q.Avoid)
		parts = append(parts, q)
	}
	return members, parts
}

func FuzzSpread(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 1, 2, 3})
	f.Add([]byte{3, 4, 4, 4, 0, 0, 0, 0, 0, 1, 0, 1, 0, 255, 1, 2, 2})
	f.Add([]byte{4, 0x05, 0xc4, 0x34, 4, 0x0c, 1, 2, 0x0c, 1, 200, 3, 0, 0, 0, 1, 3, 3, 3, 3, 3, 0x30, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 400 {
			return
		}
		members, parts := script(data)
		plan := Spread(members, parts, nil)
		for m := range members {
			members[m].Limit = max(0, members[m].Limit)
		}
		if err := broken(members, parts, plan); err != nil {
			t.Error("spread:", err)
		}
		if err := broken(members, parts, Range(members, parts, nil)); err != nil {
			t.Error("range:", err)
		}
		if again := Spread(members, after(parts, plan), nil); !slices.Equal(again, plan) {
			t.Errorf("first %v, then %v", plan, again)
		}
		for i, q := range parts {
			if q.Owner < 0 || int(q.Owner) >= len(members) {
				parts[i].Owner = None
			}
		}
		if improvable(members, parts, plan) {
			t.Errorf("%v can be improved", plan)
		}
	})
}

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
		members, parts := script(data)
		how, odd := scriptPacking(tell, members, parts)
		plan, said := Pack(members, parts, how, nil)
		for m := range members {
			members[m].Limit = max(0, members[m].Limit)
		}
		if err := broken(members, parts, plan); err != nil {
			t.Error(err)
		}
		if said.Wanted < said.Used || said.Moved < 0 {
			t.Errorf("says %+v", said)
		}
		for i, q := range parts {
			if q.Owner < 0 || int(q.Owner) >= len(members) {
				parts[i].Owner = None
			}
		}
		next := after(parts, plan)
		for i, q := range parts {
			next[i].Stay = q.Stay && q.Owner == plan[i]
		}
		if again, _ := Pack(members, next, how, nil); !slices.Equal(again, plan) {
			t.Errorf("first %v, then %v", plan, again)
		}
		if odd {
			return
		}
		unlimited := !slices.ContainsFunc(members, func(m Member) bool { return m.Limit > 0 })
		if err := unexcused(members, parts, how, plan, said); err != nil && unlimited {
			t.Error(err)
		}
	})
}

// scriptPacking reads loads and the rest, and reports whether some are no
// numbers that a test can reckon with.
func scriptPacking(data []byte, members []Member, parts []Partition) (how Packing, odd bool) {
	next := func() (b byte) {
		if len(data) > 0 {
			b, data = data[0], data[1:]
		}
		return b
	}
	how = Packing{Capacity: 100, Price: float64(next()) / 10, Trigger: 1 + float64(next()%8)/10, Band: float64(next()%4) / 10}
	for m := range members {
		if b := next(); b > 200 {
			members[m].Capacity = float64(b) - 150
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
