package plan_test

import (
	"slices"
	"testing"

	. "github.com/rota-dev/rota/internal/plan"
)

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
