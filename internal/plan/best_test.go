package plan_test

import (
	"cmp"
	"slices"
	"testing"

	. "github.com/rota-dev/rota/internal/plan"
)

// A score is what strategies compare plans by: less is better.
type score struct {
	unplaced int
	loads    []int // fullest member first; of no matter to range
	moves    int
}

func (s score) compare(o score) int {
	return cmp.Or(cmp.Compare(s.unplaced, o.unplaced), slices.Compare(s.loads, o.loads), cmp.Compare(s.moves, o.moves))
}

func spreadScore(members []Member, parts []Partition, plan []int32) (s score) {
	s.loads = make([]int, len(members))
	for i, m := range plan {
		if m == None {
			s.unplaced++
		} else if !members[m].Reserved {
			s.loads[m]++
		}
		if parts[i].Owner != None && parts[i].Owner != m {
			s.moves++
		}
	}
	slices.SortFunc(s.loads, func(a, b int) int { return b - a })
	return s
}

// rangeScore counts as moved what is not in its range.
func rangeScore(members []Member, parts []Partition, plan []int32) (s score) {
	for i, ideal := range formula(members, parts) {
		if plan[i] == None {
			s.unplaced++
		}
		if plan[i] != ideal {
			s.moves++
		}
	}
	return s
}

// best tries every plan that keeps the rules.
func best(members []Member, parts []Partition, rate func([]Member, []Partition, []int32) score) score {
	var found *score
	plan := make([]int32, len(parts))
	var try func(int)
	try = func(i int) {
		if i == len(parts) {
			if broken(members, parts, plan) != nil {
				return
			}
			if s := rate(members, parts, plan); found == nil || s.compare(*found) < 0 {
				found = &s
			}
			return
		}
		m, free := rule(members, parts[i])
		if !free {
			plan[i] = m
			try(i + 1)
			return
		}
		for _, m := range append(allowed(members, parts[i]), None) {
			plan[i] = m
			try(i + 1)
		}
	}
	try(0)
	return *found
}

func TestSpreadIsTheBestOfAllPlans(t *testing.T) {
	each(t, 20000, 4, 6, func(t *testing.T, members []Member, parts []Partition) {
		plan := Spread(members, parts, nil)
		got, want := spreadScore(members, parts, plan), best(members, parts, spreadScore)
		if got.compare(want) != 0 {
			t.Errorf("plan %v scores %v, best is %v", plan, got, want)
		}
	})
}

func TestRangeIsTheNearestToItsFormula(t *testing.T) {
	each(t, 20000, 4, 6, func(t *testing.T, members []Member, parts []Partition) {
		plan := Range(members, parts, nil)
		got, want := rangeScore(members, parts, plan), best(members, parts, rangeScore)
		if got.compare(want) != 0 {
			t.Errorf("plan %v scores %v, best is %v", plan, got, want)
		}
	})
}

// Too large to try every plan; but a plan is the best if no cycle of moves
// improves it, and here every single move is looked at.
func TestNoCycleOfMovesImprovesSpread(t *testing.T) {
	each(t, 6000, 30, 120, func(t *testing.T, members []Member, parts []Partition) {
		plan := Spread(members, parts, nil)
		if improvable(members, parts, plan) {
			t.Errorf("plan %v scores %v and can be improved", plan, spreadScore(members, parts, plan))
		}
	})
}

// The oracle above must itself agree with trying every plan.
func TestImprovableMeansNotTheBest(t *testing.T) {
	each(t, 5000, 3, 5, func(t *testing.T, members []Member, parts []Partition) {
		plan := Range(members, parts, nil) // rarely the best way to spread
		isBest := spreadScore(members, parts, plan).compare(best(members, parts, spreadScore)) == 0
		if improvable(members, parts, plan) == isBest {
			t.Errorf("plan %v: best %v, improvable %v", plan, isBest, !isBest)
		}
	})
}

// improvable looks for a negative cycle by Floyd and Warshall, in the graph that
// mend.go describes, with every edge written out.
func improvable(members []Member, parts []Partition, plan []int32) bool {
	const even, place = 1000, 1000 * 1000
	k := len(members)
	nowhere, scales := k, k+1
	cost := make([][]int, k+2)
	for v := range cost {
		cost[v] = slices.Repeat([]int{1 << 40}, k+2)
	}
	load := counts(k, plan)
	for i, q := range parts {
		if _, free := rule(members, q); !free {
			continue
		}
		from := int(plan[i])
		if from == None {
			from = nowhere
		}
		moved := func(to int) int {
			if q.Owner == None || int(q.Owner) == to {
				return 0
			}
			return 1
		}
		for _, m := range append(allowed(members, q), int32(nowhere)) {
			cost[from][m] = min(cost[from][m], moved(int(m))-moved(from))
		}
	}
	cost[nowhere][scales], cost[scales][nowhere] = place, -place
	for m, member := range members {
		if member.Limit == 0 || load[m] < member.Limit {
			cost[m][scales] = even * (2*load[m] + 1)
		}
		cost[scales][m] = -even * (2*load[m] - 1)
	}
	for v := range cost {
		for a := range cost {
			for b := range cost {
				cost[a][b] = max(-1<<40, min(cost[a][b], cost[a][v]+cost[v][b]))
			}
		}
		for a := range cost {
			if cost[a][a] < 0 {
				return true
			}
		}
	}
	return false
}
