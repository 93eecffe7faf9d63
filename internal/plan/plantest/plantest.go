// Package plantest is what the tests of every strategy share: cases, and an
// oracle for the rules of package plan, written without any of its code.
package plantest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rota-dev/rota/internal/plan"
)

// A Case is members and partitions that leave a strategy no choice.
type Case struct {
	Claim   string
	Members []plan.Member
	Parts   []plan.Partition
	Want    []int32
}

const none = plan.None

// EveryRule has the rules in turn, and which wins over which.
var EveryRule = []Case{
	{"off goes nowhere", make([]plan.Member, 1),
		[]plan.Partition{{Owner: 0, Pin: 0, Off: true, Stay: true}}, []int32{none}},
	{"off wins over reserved", []plan.Member{{Reserved: true}},
		[]plan.Partition{{Owner: 0, Pin: none, Off: true}}, []int32{none}},
	{"reserved keeps what is pinned elsewhere, banned, above its limit", []plan.Member{{Reserved: true, Limit: 1}, {}},
		[]plan.Partition{{Owner: 0, Pin: 1}, {Owner: 0, Pin: none, Avoid: []int32{0}}}, []int32{0, 0}},
	{"reserved wins over closed", []plan.Member{{Reserved: true, Closed: true}, {}},
		[]plan.Partition{{Owner: 0, Pin: none}}, []int32{0}},
	{"reserved gets nothing more, pinned or not", []plan.Member{{Reserved: true}, {}},
		[]plan.Partition{{Owner: none, Pin: 0}, {Owner: 1, Pin: 0}}, []int32{1, 1}},
	{"pin wins over limit, ban, balance and stay", []plan.Member{{Limit: 1}, {}},
		[]plan.Partition{{Owner: none, Pin: 0}, {Owner: none, Pin: 0, Avoid: []int32{0}}, {Owner: 1, Pin: 0, Stay: true}}, []int32{0, 0, 0}},
	{"pin to a closed member is ignored", []plan.Member{{Closed: true}, {}},
		[]plan.Partition{{Owner: 0, Pin: 0}}, []int32{1}},
	{"pin to nobody is ignored", make([]plan.Member, 1),
		[]plan.Partition{{Owner: 0, Pin: 7}, {Owner: 0, Pin: -7}}, []int32{0, 0}},
	{"closed owns nothing, stay or not", []plan.Member{{Closed: true}, {}},
		[]plan.Partition{{Owner: 0, Pin: none, Stay: true}, {Owner: 0, Pin: none}}, []int32{1, 1}},
	{"ban wins over stay", make([]plan.Member, 2),
		[]plan.Partition{{Owner: 0, Pin: none, Stay: true, Avoid: []int32{0}}}, []int32{1}},
	{"stay wins over limit and balance", []plan.Member{{Limit: 1}, {}},
		[]plan.Partition{{Owner: 0, Pin: none, Stay: true}, {Owner: 0, Pin: none, Stay: true}}, []int32{0, 0}},
	{"nobody is given more than its limit", []plan.Member{{Limit: 1}, {Limit: 1}},
		Fresh(3), []int32{0, 1, none}},
	{"banned everywhere goes nowhere", make([]plan.Member, 2),
		[]plan.Partition{{Owner: 0, Pin: none, Avoid: []int32{0, 1}}}, []int32{none}},
	{"no members, no owners", nil, Owned(none, 0, 3), []int32{none, none, none}},
}

// Owned makes partitions with these owners.
func Owned(owners ...int32) []plan.Partition {
	parts := make([]plan.Partition, len(owners))
	for i, o := range owners {
		parts[i] = plan.Partition{Owner: o, Pin: plan.None}
	}
	return parts
}

// Fresh makes n partitions without owners.
func Fresh(n int) []plan.Partition {
	return Owned(slices.Repeat([]int32{plan.None}, n)...)
}

// After returns parts as they are once the plan dst has been carried out.
func After(parts []plan.Partition, dst []int32) []plan.Partition {
	parts = slices.Clone(parts)
	for i := range parts {
		parts[i].Owner = dst[i]
	}
	return parts
}

// Moves counts the partitions that have an owner and do not stay with it.
func Moves(parts []plan.Partition, dst []int32) (n int) {
	for i, q := range parts {
		if q.Owner != plan.None && q.Owner != dst[i] {
			n++
		}
	}
	return n
}

// Anything makes a random case with every kind of rule in it, each in some
// cases frequent and in others absent.
func Anything(r *rand.Rand, maxMembers, maxParts int) ([]plan.Member, []plan.Partition) {
	chance := func() func() bool {
		percent := []int{0, 0, 10, 30, 60}[r.IntN(5)]
		return func() bool { return r.IntN(100) < percent }
	}
	limited, closed, reserved := chance(), chance(), chance()
	pinned, off, stay, avoid := chance(), chance(), chance(), chance()
	ownerless := r.IntN(100)

	members := make([]plan.Member, 1+r.IntN(maxMembers))
	parts := make([]plan.Partition, r.IntN(maxParts+1))
	for m := range members {
		members[m] = plan.Member{Closed: closed(), Reserved: reserved()}
		if limited() {
			members[m].Limit = 1 + r.IntN(2+len(parts)/len(members))
		}
	}
	anyone := func() int32 { return int32(r.IntN(len(members))) }
	for i := range parts {
		q := plan.Partition{Owner: anyone(), Pin: plan.None, Off: off(), Stay: stay()}
		if r.IntN(100) < ownerless {
			q.Owner = plan.None
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

// Ruled says where the rules put a partition, or that it is free.
func Ruled(members []plan.Member, q plan.Partition) (m int32, free bool) {
	known := func(m int32) bool { return m >= 0 && int(m) < len(members) }
	open := func(m int32) bool { return known(m) && !members[m].Closed && !members[m].Reserved }
	switch {
	case q.Off:
		return plan.None, false
	case known(q.Owner) && members[q.Owner].Reserved:
		return q.Owner, false
	case open(q.Pin):
		return q.Pin, false
	case q.Stay && open(q.Owner) && !slices.Contains(q.Avoid, q.Owner):
		return q.Owner, false
	}
	return plan.None, true
}

// Allowed lists where a free partition may go, limits aside.
func Allowed(members []plan.Member, q plan.Partition) (to []int32) {
	for m, member := range members {
		if !member.Closed && !member.Reserved && !slices.Contains(q.Avoid, int32(m)) {
			to = append(to, int32(m))
		}
	}
	return to
}

// Broken says which rule a plan breaks, if any.
func Broken(members []plan.Member, parts []plan.Partition, dst []int32) error {
	if len(dst) != len(parts) {
		return fmt.Errorf("%d places for %d partitions", len(dst), len(parts))
	}
	load, chosen := make([]int, len(members)), make([]int, len(members))
	for i, q := range parts {
		m, free := Ruled(members, q)
		if !free && dst[i] != m {
			return fmt.Errorf("q%d must be on %d, not %d", i, m, dst[i])
		}
		if dst[i] == plan.None {
			continue
		}
		if free && !slices.Contains(Allowed(members, q), dst[i]) {
			return fmt.Errorf("q%d must not be on %d", i, dst[i])
		}
		load[dst[i]]++
		if free {
			chosen[dst[i]]++
		}
	}
	for m, member := range members {
		if member.Limit > 0 && load[m] > member.Limit && chosen[m] > 0 {
			return fmt.Errorf("member %d was given %d of its %d above its limit %d", m, chosen[m], load[m], member.Limit)
		}
	}
	return nil
}

// Script reads members and partitions out of arbitrary bytes; indexes may name
// nobody.
func Script(data []byte) (members []plan.Member, parts []plan.Partition) {
	next := func() (b byte) {
		if len(data) > 0 {
			b, data = data[0], data[1:]
		}
		return b
	}
	for range next() % 12 {
		b := next()
		members = append(members, plan.Member{Limit: int(b&15) - 4, Closed: b&0xc0 == 0xc0, Reserved: b&0x30 == 0x30})
	}
	for len(data) > 0 {
		flags := next()
		q := plan.Partition{Owner: int32(int8(next())), Pin: plan.None, Off: flags&0xc0 == 0xc0, Stay: flags&0x30 == 0x30}
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
