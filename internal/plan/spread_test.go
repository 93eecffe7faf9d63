package plan_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/rota-dev/rota/internal/plan"
)

func TestSpreadReadsNaturally(t *testing.T) {
	const no = None
	tests := []struct {
		claim string
		k     int
		parts []Partition
		want  []int32
	}{
		{"a fresh group is cut into blocks", 3, fresh(6), []int32{0, 0, 1, 1, 2, 2}},
		{"the first get the larger blocks", 3, fresh(8), []int32{0, 0, 0, 1, 1, 1, 2, 2}},
		{"a joiner gets the highest IDs of each", 3, owned(0, 0, 0, 1, 1, 1), []int32{0, 0, 2, 1, 1, 2}},
		{"the fullest give", 3, owned(0, 1, 1, 1, 0, 1, 1), []int32{0, 1, 1, 1, 0, 2, 2}},
		{"the fullest keep the larger quota", 2, owned(1, 1, 1, 0, 0), []int32{1, 1, 1, 0, 0}},
		{"of equals the first to have joined keeps it", 3, owned(1, 1, 0, 0), []int32{1, 2, 0, 0}},
		{"orphans go by ID in joining order", 3, owned(0, no, 1, no, no, 2), []int32{0, 0, 1, 1, 2, 2}},
		{"one member gets all", 1, owned(no, 0, no), []int32{0, 0, 0}},
		{"an owner nobody knows is no owner", 2, owned(9, -9, 0, 1), []int32{0, 1, 0, 1}},
	}
	for _, test := range tests {
		if got := Spread(make([]Member, test.k), test.parts, nil); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.claim, got, test.want)
		}
	}
}

// plain makes random owners for random numbers of members and partitions,
// without any rules.
func plain(r *rand.Rand) (k int, parts []Partition) {
	k, parts = 1+r.IntN(12), fresh(r.IntN(60))
	favourites := 1 + r.IntN(k) // some have far more than others
	for i := range parts {
		if r.IntN(4) > 0 {
			parts[i].Owner = int32(r.IntN(favourites))
		}
	}
	return k, parts
}

func within1(loads []int) bool { return slices.Max(loads)-slices.Min(loads) <= 1 }

// fewest is the least number of moves that make counts differ by at most one:
// whoever has more than ⌊N/k⌋ gives the difference, but N mod k of them keep one more.
func fewest(k int, parts []Partition) int {
	have := make([]int, k)
	for _, q := range parts {
		if q.Owner != None {
			have[q.Owner]++
		}
	}
	moves, larger := 0, len(parts)%k
	for _, n := range have {
		if over := n - len(parts)/k; over > 0 {
			moves += over
			if larger > 0 {
				moves--
				larger--
			}
		}
	}
	return moves
}

func TestS0_13a_SpreadIsWithinOneByTheFewestMoves(t *testing.T) {
	for seed := range uint64(20000) {
		k, parts := plain(rand.New(rand.NewPCG(seed, 2)))
		plan := Spread(make([]Member, k), parts, nil)
		if slices.Contains(plan, None) || !within1(counts(k, plan)) {
			t.Fatalf("seed %d: counts %v", seed, counts(k, plan))
		}
		if got, want := moves(parts, plan), fewest(k, parts); got != want {
			t.Fatalf("seed %d: %d moves, %d would do", seed, got, want)
		}
	}
}

// A joiner comes last; a leaver is anyone. Leaving is told in either of two ways: the
// leaver is closed, or it is gone and its partitions have no owner.
func TestS0_13a_OneJoinerOrLeaverMovesAtMostItsShare(t *testing.T) {
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 3))
		k, n := 2+r.IntN(12), r.IntN(60)
		share := (n + k - 1) / k
		members := make([]Member, k)

		before := after(fresh(n), Spread(members[:k-1], fresh(n), nil))
		joined := Spread(members, before, nil)
		if got := moves(before, joined); got > share || got != counts(k, joined)[k-1] {
			t.Fatalf("seed %d: joiner %d of %d: %d moves, share %d", seed, k, n, got, share)
		}

		before = after(before, joined)
		leaver := int32(r.IntN(k))
		members[leaver].Closed = true
		if got := moves(before, Spread(members, before, nil)); got > share || got != counts(k, joined)[leaver] {
			t.Fatalf("seed %d: leaver of %d, %d: %d moves, share %d", seed, k, n, got, share)
		}

		for i := range before {
			switch o := &before[i].Owner; {
			case *o == leaver:
				*o = None
			case *o > leaver:
				*o--
			}
		}
		gone := Spread(make([]Member, k-1), before, nil)
		if got := moves(before, gone); got != 0 || !within1(counts(k-1, gone)) {
			t.Fatalf("seed %d: %d others moved when one of %d died, counts %v", seed, got, k, counts(k-1, gone))
		}
	}
}

func TestS0_12_StandbysTakeOverAndNothingElseMoves(t *testing.T) {
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 4))
		k := 2 + r.IntN(12)
		n := 1 + r.IntN(k-1)
		members := make([]Member, k)
		first := Spread(members, fresh(n), nil)
		if idle := zeros(counts(k, first)); idle != k-n {
			t.Fatalf("seed %d: %d of %d stand by for %d partitions", seed, idle, k, n)
		}

		parts, dead := after(fresh(n), first), 0
		for i := range parts {
			if dead < k-1 && r.IntN(2) == 0 {
				members[parts[i].Owner].Closed = true
				parts[i].Owner = None
				dead++
			}
		}
		second := Spread(members, parts, nil)
		if got := moves(parts, second); got != 0 {
			t.Fatalf("seed %d: %d partitions of the living moved", seed, got)
		}
		loads, woken := counts(k, second), 0
		for m, load := range loads {
			if load > 0 && counts(k, first)[m] == 0 {
				woken++
			}
		}
		if want := min(dead, k-n); woken != want {
			t.Fatalf("seed %d: %d stand-bys took over, want %d", seed, woken, want)
		}
		loads = slices.DeleteFunc(loads, func(n int) bool { return n == 0 }) // the dead, and who still stands by
		if slices.Contains(second, None) || !within1(loads) || dead <= k-n && loads[0] > 1 {
			t.Fatalf("seed %d: counts %v", seed, loads)
		}
	}
}

func zeros(loads []int) (n int) {
	for _, load := range loads {
		if load == 0 {
			n++
		}
	}
	return n
}

func TestSpreadOfItsOwnPlanMovesNothing(t *testing.T) {
	each(t, 10000, 8, 40, func(t *testing.T, members []Member, parts []Partition) {
		plan := Spread(members, parts, nil)
		if again := Spread(members, after(parts, plan), nil); !slices.Equal(again, plan) {
			t.Errorf("first %v, then %v", plan, again)
		}
	})
}

func TestSpreadIsDeterministicAndLeavesItsInputAlone(t *testing.T) {
	each(t, 2000, 8, 40, func(t *testing.T, members []Member, parts []Partition) {
		m, q := slices.Clone(members), slices.Clone(parts)
		for i := range q {
			q[i].Avoid = slices.Clone(q[i].Avoid)
		}
		dst := slices.Repeat([]int32{77}, len(parts)+3)
		plan := Spread(members, parts, dst)
		if len(plan) > 0 && &plan[0] != &dst[0] {
			t.Error("dst was large enough and is not used")
		}
		if !slices.Equal(plan, Spread(m, q, nil)) {
			t.Error("the same input gives another plan")
		}
		for i := range q {
			same := q[i].Owner == parts[i].Owner && slices.Equal(q[i].Avoid, parts[i].Avoid)
			if !same {
				t.Error("the input was changed")
			}
		}
	})
}
