package plan_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/rota-dev/rota/internal/plan"
	"github.com/rota-dev/rota/internal/plan/plantest"
)

// plantest imports plan, so these tests are outside of it.
var (
	owned    = plantest.Owned
	fresh    = plantest.Fresh
	after    = plantest.After
	moves    = plantest.Moves
	anything = plantest.Anything
	rule     = plantest.Ruled
	allowed  = plantest.Allowed
	broken   = plantest.Broken
	script   = plantest.Script
)

type strategy func([]Member, []Partition, []int32) []int32

// counts says how many partitions each of k members has in a plan.
func counts(k int, plan []int32) []int {
	n := make([]int, k)
	for _, m := range plan {
		if m != None {
			n[m]++
		}
	}
	return n
}

// each runs a test on many random cases, the same ones every time.
func each(t *testing.T, n, maxMembers, maxParts int, test func(*testing.T, []Member, []Partition)) {
	t.Helper()
	if testing.Short() {
		n /= 10
	}
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		members, parts := anything(r, maxMembers, maxParts)
		test(t, members, parts)
		if t.Failed() {
			t.Fatalf("seed %d\nmembers %+v\nparts %+v", seed, members, parts)
		}
	}
}

func TestRulesAlwaysHold(t *testing.T) {
	for name, strategy := range map[string]strategy{"spread": Spread, "range": Range} {
		t.Run(name, func(t *testing.T) {
			each(t, 20000, 8, 40, func(t *testing.T, members []Member, parts []Partition) {
				if err := broken(members, parts, strategy(members, parts, nil)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestEveryRuleInTurn(t *testing.T) {
	for _, test := range plantest.EveryRule {
		if got := Spread(test.Members, test.Parts, nil); !slices.Equal(got, test.Want) {
			t.Errorf("spread: %s: got %v, want %v", test.Claim, got, test.Want)
		}
		if got := Range(test.Members, test.Parts, nil); !slices.Equal(got, test.Want) {
			t.Errorf("range: %s: got %v, want %v", test.Claim, got, test.Want)
		}
	}
}

// One Planner for everything must behave like a new one each time.
func TestPlannerRemembersNothing(t *testing.T) {
	var p Planner
	var dst []int32
	each(t, 5000, 8, 40, func(t *testing.T, members []Member, parts []Partition) {
		if dst = p.Spread(members, parts, dst); !slices.Equal(dst, Spread(members, parts, nil)) {
			t.Error("a used planner spreads differently")
		}
		if dst = p.Range(members, parts, dst); !slices.Equal(dst, Range(members, parts, nil)) {
			t.Error("a used planner cuts ranges differently")
		}
	})
}

func TestRulesDecideAndLeaveTheRestFree(t *testing.T) {
	var p Planner
	each(t, 5000, 8, 40, func(t *testing.T, members []Member, parts []Partition) {
		r := p.Rules(members, parts, nil)
		for i, q := range parts {
			m, free := rule(members, q)
			home := int32(None)
			if free && slices.Contains(allowed(members, q), q.Owner) {
				home = q.Owner
			}
			if r.Plan[i] != m || r.Home[i] != home || slices.Contains(r.Free, int32(i)) != free {
				t.Errorf("q%d: plan %d, home %d, free partitions %v; want %d, %d, %v", i, r.Plan[i], r.Home[i], r.Free, m, home, free)
			}
		}
		if want := allowed(members, Partition{}); !slices.Equal(r.Open, want) {
			t.Errorf("open members %v, want %v", r.Open, want)
		}
	})
}

func TestCompletePlacesAllItCanByTheFewestMoves(t *testing.T) {
	var p Planner
	each(t, 20000, 4, 6, func(t *testing.T, members []Member, parts []Partition) {
		for m := range members { // full, so that one has to give way to another
			members[m].Limit = 1 + m%2
		}
		begun := Range(members, parts, nil)
		for i, q := range parts {
			if _, free := rule(members, q); free && i%3 != 1 {
				begun[i] = None
			}
		}
		rate := func(_ []Member, _ []Partition, plan []int32) (s score) {
			for i, m := range plan {
				if m == None {
					s.unplaced++
				}
				if begun[i] != None && begun[i] != m {
					s.moves++
				}
			}
			return s
		}
		plan := slices.Clone(begun)
		p.Complete(members, parts, plan)
		if err := broken(members, parts, plan); err != nil {
			t.Error(err)
		}
		if got, want := rate(nil, nil, plan), best(members, parts, rate); got.compare(want) != 0 {
			t.Errorf("%v became %v, which scores %v; best is %v", begun, plan, got, want)
		}
	})
}

func TestPlannerDoesNotAllocate(t *testing.T) {
	var p Planner
	var dst []int32
	members := []Member{{}, {Limit: 1}, {}, {}}
	parts := owned(0, 0, 1, 1, None, None)
	for i := range parts {
		parts[i].Avoid = []int32{2, 3} // so that it has to be mended
	}
	for name, strategy := range map[string]strategy{"spread": p.Spread, "range": p.Range} {
		if n := testing.AllocsPerRun(100, func() { dst = strategy(members, parts, dst) }); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
