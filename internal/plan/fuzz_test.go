package plan

import (
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
