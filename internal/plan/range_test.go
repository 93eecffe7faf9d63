package plan_test

import (
	"slices"
	"testing"

	. "github.com/rota-dev/rota/internal/plan"
)

// formula is what range would be if members could not refuse.
func formula(members []Member, parts []Partition) []int32 {
	var open []int32
	for m, member := range members {
		if !member.Closed && !member.Reserved {
			open = append(open, int32(m))
		}
	}
	ideal := slices.Repeat([]int32{None}, len(parts))
	var shared []int
	for i, q := range parts {
		switch {
		case q.Off:
		case q.Owner != None && members[q.Owner].Reserved:
			ideal[i] = q.Owner
		default:
			shared = append(shared, i)
		}
	}
	n, k := len(shared), len(open)
	for i, m := range open {
		for _, q := range shared[i*n/k : (i+1)*n/k] {
			ideal[q] = m
		}
	}
	return ideal
}

func TestS0_02_RangeGivesTheSecondMemberTheSecondHalf(t *testing.T) {
	tests := []struct {
		members int
		parts   []Partition
		want    []int32
	}{
		{1, fresh(6), []int32{0, 0, 0, 0, 0, 0}},
		{2, owned(0, 0, 0, 0, 0, 0), []int32{0, 0, 0, 1, 1, 1}},
		{2, owned(0, 0, 0, 0, 0), []int32{0, 0, 1, 1, 1}},
		{3, owned(0, 0, 1, 1, 1), []int32{0, 1, 1, 2, 2}},
		{4, fresh(2), []int32{1, 3}},
	}
	for _, test := range tests {
		if got := Range(make([]Member, test.members), test.parts, nil); !slices.Equal(got, test.want) {
			t.Errorf("%d members: got %v, want %v", test.members, got, test.want)
		}
	}
}

func TestS0_02_RangeFollowsTheFormula(t *testing.T) {
	each(t, 10000, 10, 60, func(t *testing.T, members []Member, parts []Partition) {
		for m := range members {
			members[m].Limit = 0
		}
		for i := range parts {
			parts[i] = Partition{Owner: parts[i].Owner, Pin: None, Off: parts[i].Off}
		}
		if got, want := Range(members, parts, nil), formula(members, parts); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// Without limits nobody is in anybody's way.
func TestRangeSendsTheBannedToTheNearest(t *testing.T) {
	each(t, 10000, 10, 60, func(t *testing.T, members []Member, parts []Partition) {
		for m := range members {
			members[m].Limit = 0
		}
		plan, ideal := Range(members, parts, nil), formula(members, parts)
		var open []int32
		for m, member := range members {
			if !member.Closed && !member.Reserved {
				open = append(open, int32(m))
			}
		}
		for i, q := range parts {
			if _, free := rule(members, q); !free {
				continue
			}
			at, want := slices.Index(open, ideal[i]), int32(None)
			for d := len(open) - 1; d >= 0; d-- {
				for _, k := range []int{at + d, at - d} {
					if k >= 0 && k < len(open) && !slices.Contains(q.Avoid, open[k]) {
						want = open[k]
					}
				}
			}
			if plan[i] != want {
				t.Errorf("q%d is on %d, nearest to %d is %d", i, plan[i], ideal[i], want)
			}
		}
	})
}

func TestRangeReadsNaturally(t *testing.T) {
	avoid := func(parts []Partition, i int, m ...int32) []Partition {
		parts[i].Avoid = m
		return parts
	}
	tests := []struct {
		claim   string
		members []Member
		parts   []Partition
		want    []int32
	}{
		{"above a limit the highest IDs go to the neighbour", []Member{{Limit: 1}, {}, {}},
			fresh(6), []int32{0, 1, 1, 1, 2, 2}},
		{"to the lower one of two", []Member{{}, {Limit: 1}, {}},
			fresh(6), []int32{0, 0, 1, 0, 2, 2}},
		{"past a full one", []Member{{Limit: 1}, {Limit: 2}, {}},
			fresh(6), []int32{0, 2, 1, 1, 2, 2}},
		{"past a closed one, which has no range", []Member{{}, {Closed: true}, {}},
			avoid(fresh(4), 0, 0), []int32{2, 0, 2, 2}},
		{"what is at home has first call on a room", []Member{{Limit: 1}, {Limit: 1}},
			avoid(avoid(fresh(2), 0, 0), 1, 0), []int32{None, 1}},
		{"one gives way rather than that another has no place", []Member{{Limit: 1}, {Limit: 1}, {Limit: 1}},
			avoid(fresh(3), 2, 1, 2), []int32{2, 1, 0}},
	}
	for _, test := range tests {
		if got := Range(test.members, test.parts, nil); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.claim, got, test.want)
		}
	}
}

func TestRangeOfItsOwnPlanMovesNothing(t *testing.T) {
	each(t, 5000, 8, 40, func(t *testing.T, members []Member, parts []Partition) {
		for i := range parts {
			parts[i].Stay = false
		}
		plan := Range(members, parts, nil)
		if again := Range(members, after(parts, plan), nil); !slices.Equal(again, plan) {
			t.Errorf("first %v, then %v", plan, again)
		}
	})
}
