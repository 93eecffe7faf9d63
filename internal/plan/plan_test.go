package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

type strategy func([]Member, []Partition, []int32) []int32

// owned makes partitions with these owners.
func owned(owners ...int32) []Partition {
	parts := make([]Partition, len(owners))
	for i, o := range owners {
		parts[i] = Partition{Owner: o, Pin: None}
	}
	return parts
}

// fresh makes n partitions without owners.
func fresh(n int) []Partition {
	return owned(slices.Repeat([]int32{None}, n)...)
}

// after returns parts as they are once the plan has been carried out.
func after(parts []Partition, plan []int32) []Partition {
	parts = slices.Clone(parts)
	for i := range parts {
		parts[i].Owner = plan[i]
	}
	return parts
}

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

// moves counts the partitions that have an owner and do not stay with it.
func moves(parts []Partition, plan []int32) (n int) {
	for i, q := range parts {
		if q.Owner != None && q.Owner != plan[i] {
			n++
		}
	}
	return n
}

// anything makes a random case with every kind of rule in it, each in some
// cases frequent and in others absent.
func anything(r *rand.Rand, maxMembers, maxParts int) ([]Member, []Partition) {
	chance := func() func() bool {
		percent := []int{0, 0, 10, 30, 60}[r.IntN(5)]
		return func() bool { return r.IntN(100) < percent }
	}
	limited, closed, reserved := chance(), chance(), chance()
	pinned, off, stay, avoid := chance(), chance(), chance(), chance()
	ownerless := r.IntN(100)

	members := make([]Member, 1+r.IntN(maxMembers))
	parts := make([]Partition, r.IntN(maxParts+1))
	for m := range members {
		members[m] = Member{Closed: closed(), Reserved: reserved()}
		if limited() {
			members[m].Limit = 1 + r.IntN(2+len(parts)/len(members))
		}
	}
	anyone := func() int32 { return int32(r.IntN(len(members))) }
	for i := range parts {
		q := Partition{Owner: anyone(), Pin: None, Off: off(), Stay: stay()}
		if r.IntN(100) < ownerless {
			q.Owner = None
		}
		if pinned() {
			q.Pin = anyone()
		}
		for m := range members {
			if avoid() {
				q.Avoid = append(q.Avoid, int32(m))
			}
		}
		parts[i] = q
	}
	return members, parts
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

// rule says where the rules put a partition, or that it is free.
func rule(members []Member, q Partition) (m int32, free bool) {
	known := func(m int32) bool { return m >= 0 && int(m) < len(members) }
	open := func(m int32) bool { return known(m) && !members[m].Closed && !members[m].Reserved }
	switch {
	case q.Off:
		return None, false
	case known(q.Owner) && members[q.Owner].Reserved:
		return q.Owner, false
	case open(q.Pin):
		return q.Pin, false
	case q.Stay && open(q.Owner) && !slices.Contains(q.Avoid, q.Owner):
		return q.Owner, false
	}
	return None, true
}

// allowed lists where a free partition may go, limits aside.
func allowed(members []Member, q Partition) (to []int32) {
	for m, member := range members {
		if !member.Closed && !member.Reserved && !slices.Contains(q.Avoid, int32(m)) {
			to = append(to, int32(m))
		}
	}
	return to
}

// broken says which rule a plan breaks, if any.
func broken(members []Member, parts []Partition, plan []int32) error {
	if len(plan) != len(parts) {
		return fmt.Errorf("%d places for %d partitions", len(plan), len(parts))
	}
	load, chosen := make([]int, len(members)), make([]int, len(members))
	for i, q := range parts {
		m, free := rule(members, q)
		if !free && plan[i] != m {
			return fmt.Errorf("q%d must be on %d, not %d", i, m, plan[i])
		}
		if plan[i] == None {
			continue
		}
		if free && !slices.Contains(allowed(members, q), plan[i]) {
			return fmt.Errorf("q%d must not be on %d", i, plan[i])
		}
		load[plan[i]]++
		if free {
			chosen[plan[i]]++
		}
	}
	for m, member := range members {
		if member.Limit > 0 && load[m] > member.Limit && chosen[m] > 0 {
			return fmt.Errorf("member %d was given %d of its %d above its limit %d", m, chosen[m], load[m], member.Limit)
		}
	}
	return nil
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
	const no = None
	tests := []struct {
		claim   string
		members []Member
		parts   []Partition
		want    []int32
	}{
		{"off goes nowhere", make([]Member, 1),
			[]Partition{{Owner: 0, Pin: 0, Off: true, Stay: true}}, []int32{no}},
		{"off wins over reserved", []Member{{Reserved: true}},
			[]Partition{{Owner: 0, Pin: no, Off: true}}, []int32{no}},
		{"reserved keeps what is pinned elsewhere, banned, above its limit", []Member{{Reserved: true, Limit: 1}, {}},
			[]Partition{{Owner: 0, Pin: 1}, {Owner: 0, Pin: no, Avoid: []int32{0}}}, []int32{0, 0}},
		{"reserved wins over closed", []Member{{Reserved: true, Closed: true}, {}},
			[]Partition{{Owner: 0, Pin: no}}, []int32{0}},
		{"reserved gets nothing more, pinned or not", []Member{{Reserved: true}, {}},
			[]Partition{{Owner: no, Pin: 0}, {Owner: 1, Pin: 0}}, []int32{1, 1}},
		{"pin wins over limit, ban, balance and stay", []Member{{Limit: 1}, {}},
			[]Partition{{Owner: no, Pin: 0}, {Owner: no, Pin: 0, Avoid: []int32{0}}, {Owner: 1, Pin: 0, Stay: true}}, []int32{0, 0, 0}},
		{"pin to a closed member is ignored", []Member{{Closed: true}, {}},
			[]Partition{{Owner: 0, Pin: 0}}, []int32{1}},
		{"pin to nobody is ignored", make([]Member, 1),
			[]Partition{{Owner: 0, Pin: 7}, {Owner: 0, Pin: -7}}, []int32{0, 0}},
		{"closed owns nothing, stay or not", []Member{{Closed: true}, {}},
			[]Partition{{Owner: 0, Pin: no, Stay: true}, {Owner: 0, Pin: no}}, []int32{1, 1}},
		{"ban wins over stay", make([]Member, 2),
			[]Partition{{Owner: 0, Pin: no, Stay: true, Avoid: []int32{0}}}, []int32{1}},
		{"stay wins over limit and balance", []Member{{Limit: 1}, {}},
			[]Partition{{Owner: 0, Pin: no, Stay: true}, {Owner: 0, Pin: no, Stay: true}}, []int32{0, 0}},
		{"nobody is given more than its limit", []Member{{Limit: 1}, {Limit: 1}},
			fresh(3), []int32{0, 1, no}},
		{"banned everywhere goes nowhere", make([]Member, 2),
			[]Partition{{Owner: 0, Pin: no, Avoid: []int32{0, 1}}}, []int32{no}},
		{"no members, no owners", nil, owned(no, 0, 3), []int32{no, no, no}},
	}
	for _, test := range tests {
		if got := Spread(test.members, test.parts, nil); !slices.Equal(got, test.want) {
			t.Errorf("spread: %s: got %v, want %v", test.claim, got, test.want)
		}
		if got := Range(test.members, test.parts, nil); !slices.Equal(got, test.want) {
			t.Errorf("range: %s: got %v, want %v", test.claim, got, test.want)
		}
		if got, _ := Pack(test.members, test.parts, Packing{Capacity: 100}, nil); !slices.Equal(got, test.want) {
			t.Errorf("pack: %s: got %v, want %v", test.claim, got, test.want)
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
