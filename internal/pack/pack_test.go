package pack

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rota-dev/rota/internal/plan"
	"github.com/rota-dev/rota/internal/plan/plantest"
)

// speeds makes loads of percents of a member.
func speeds(percent ...float64) Options {
	how := Options{Capacity: 100}
	for _, s := range percent {
		how.Loads = append(how.Loads, Load{Speed: s})
	}
	return how
}

func TestPackKeepsEveryRuleInTurn(t *testing.T) {
	for _, test := range plantest.EveryRule {
		if got, _ := Pack(test.Members, test.Parts, Options{Capacity: 100}, nil); !slices.Equal(got, test.Want) {
			t.Errorf("%s: got %v, want %v", test.Claim, got, test.Want)
		}
	}
}

func TestPackReadsNaturally(t *testing.T) {
	const no = none
	with := func(how Options, change func(*Options)) Options {
		change(&how)
		return how
	}
	cooling := func(how Options, parts ...int) Options {
		for _, i := range parts {
			how.Loads[i].Cooling = true
		}
		return how
	}
	tests := []struct {
		claim  string
		k      int
		parts  []plan.Partition
		how    Options
		want   []int32
		wanted int
	}{
		{"few members are given all they can take", 4, fresh(4), speeds(60, 50, 50, 40), []int32{0, 1, 1, 0}, 2},
		{"what fits stays", 3, owned(0, 1), speeds(60, 50), []int32{0, 1}, 2},
		{"a member is sent home if that moves less than it is worth", 3, owned(0, 1), speeds(60, 40), []int32{0, 0}, 1},
		{"at a low price it is not", 3, owned(0, 1), with(speeds(60, 40), func(h *Options) { h.Price = 0.3 }), []int32{0, 1}, 2},
		{"nor if others have to make room for it, and all together cost more", 5, owned(0, 0, 1, 2, 3, 3, 4), with(speeds(55, 30, 68, 40, 90, 20, 61), func(h *Options) { h.Price = 0.5 }), []int32{0, 0, 1, 2, 3, 2, 4}, 5},
		{"at the default price even one that is nine tenths full is", 4, owned(0, 1, 1, 1, 2, 3), speeds(70, 30, 30, 30, 70, 70), []int32{0, 0, 2, 3, 2, 3}, 3},
		{"below that price never", 4, owned(0, 1, 1, 1, 2, 3), with(speeds(70, 30, 30, 30, 70, 70), func(h *Options) { h.Price = 0.89 }), []int32{0, 1, 1, 1, 2, 3}, 4},
		{"nor beyond the budget", 3, owned(0, 1), with(speeds(60, 40), func(h *Options) { h.Budget = 0.3 }), []int32{0, 1}, 2},
		{"nor for too small a share of the members", 5, owned(0, 1, 2, 3), with(speeds(90, 90, 60, 40), func(h *Options) { h.Band = 0.3 }), []int32{0, 1, 2, 3}, 4},
		{"nor if that moves what has just moved", 3, owned(0, 1), cooling(speeds(60, 40), 0, 1), []int32{0, 1}, 2},
		{"then the other one moves", 3, owned(0, 1), cooling(speeds(60, 40), 1), []int32{1, 1}, 1},
		{"the overloaded gives up the least that will do", 2, owned(0, 0, 0, 1), speeds(50, 40, 30, 60), []int32{0, 0, 1, 1}, 2},
		{"even if that is two", 2, owned(0, 0, 0, 1), speeds(95, 10, 10, 60), []int32{0, 1, 1, 1}, 2},
		{"overload moves what has just moved, if it must", 2, owned(0, 0, 1), cooling(speeds(70, 40, 60), 0, 1), []int32{0, 1, 1}, 2},
		{"but others first", 2, owned(0, 0, 1), cooling(speeds(60, 50, 40), 1), []int32{1, 0, 1}, 2},
		{"below the trigger nobody is disturbed", 2, owned(0, 0, 1), with(speeds(60, 50, 10), func(h *Options) { h.Trigger = 1.2 }), []int32{0, 0, 1}, 2},
		{"nor given more", 2, owned(0, 0, no), with(speeds(60, 50, 0), func(h *Options) { h.Trigger = 1.2 }), []int32{0, 0, 1}, 2},
		{"beyond it one is relieved", 2, owned(0, 0, 1), with(speeds(70, 60, 10), func(h *Options) { h.Trigger = 1.2 }), []int32{0, 1, 1}, 2},
		{"one makes way for another", 2, owned(0, 1, 1, no), speeds(70, 50, 20, 40), []int32{0, 1, 0, 1}, 2},
		{"what is larger than a member is alone", 3, owned(0, 0, 1), speeds(150, 20, 30), []int32{0, 1, 1}, 2},
		{"and stays alone", 3, owned(0, 1, no), speeds(150, 70, 40), []int32{0, 1, 2}, 3},
		{"too few members: what finds no place stays", 2, owned(0, 0, 1), speeds(90, 80, 90), []int32{0, 0, 1}, 3},
		{"or goes where it overloads least", 2, owned(0, 1, no), speeds(90, 80, 90), []int32{0, 1, 1}, 3},
		{"a hot partition wants nobody more", 1, owned(0), speeds(500), []int32{0}, 1},
		{"idle ones need an owner too, but only one", 3, owned(0, 1, no), speeds(0, 0, 0), []int32{0, 0, 0}, 1},
		{"no members", 0, owned(no, 3), speeds(50, 60), []int32{no, no}, 2},
		{"no partitions", 2, nil, speeds(), nil, 0},
	}
	for _, test := range tests {
		got, said := Pack(make([]plan.Member, test.k), test.parts, test.how, nil)
		if !slices.Equal(got, test.want) || said.Wanted != test.wanted {
			t.Errorf("%s: got %v and %d wanted, want %v and %d (%s)", test.claim, got, said.Wanted, test.want, test.wanted, said.Why)
		}
	}
}

func TestPackSaysWhatItDid(t *testing.T) {
	how := speeds(150, 90, 80, 20, 70)
	got, said := Pack(make([]plan.Member, 2), owned(0, 0, 1, 1, 1), how, nil)
	if said.Used != 2 || said.Wanted != 4 || !slices.Equal(said.Oversize, []int32{0}) || !slices.Equal(said.Over, []int32{0, 1}) {
		t.Errorf("%v: %+v", got, said)
	}
	if want := "4.1 members' worth of load needs 4 members, 2 there"; said.Why != want {
		t.Errorf("why: %q, want %q", said.Why, want)
	}
	_, said = Pack(make([]plan.Member, 5), owned(0, 0, 1, 1, 1), how, nil)
	if said.Used != 4 || said.Moves != 2 || math.Abs(said.Moved-1.6) > 1e-9 || len(said.Over) != 1 {
		t.Errorf("%+v", said)
	}
	if want := "4.1 members' worth of load on 4; 1 stays overloaded however many members there are"; said.Why != want {
		t.Errorf("why: %q, want %q", said.Why, want)
	}
	_, said = Pack(make([]plan.Member, 3), owned(0, 1, 2), speeds(150, 150, 50), nil)
	if want := "3.5 members' worth of load on 3; 2 stay overloaded however many members there are"; said.Why != want {
		t.Errorf("why: %q, want %q", said.Why, want)
	}
}

func TestPackCountsBacklog(t *testing.T) {
	how := Options{Capacity: 100, CatchUp: 60, Loads: []Load{{Speed: 40, Backlog: 3000}, {Speed: 30}}}
	if got, said := Pack(make([]plan.Member, 2), owned(0, 0), how, nil); slices.Equal(got, []int32{0, 0}) || said.Used != 2 {
		t.Errorf("40 and a backlog of 50 beside 30: %v, %+v", got, said)
	}
	how.CatchUp = 0
	if got, _ := Pack(make([]plan.Member, 2), owned(0, 0), how, nil); !slices.Equal(got, []int32{0, 0}) {
		t.Errorf("without a time to catch up in, backlog counted: %v", got)
	}
}

func TestPackGivesEachMemberItsOwnCapacity(t *testing.T) {
	members := make([]plan.Member, 3)
	own := func(how Options) Options {
		how.Capacities = []float64{0, 300, 50}
		return how
	}
	got, said := Pack(members, fresh(4), own(speeds(90, 90, 90, 40)), nil)
	if want := []int32{1, 1, 1, 0}; !slices.Equal(got, want) || len(said.Over) > 0 {
		t.Errorf("got %v, want %v, %+v", got, want, said)
	}
	got, said = Pack(members, owned(2, 0), own(speeds(90, 250)), nil)
	if want := []int32{0, 1}; !slices.Equal(got, want) || len(said.Oversize) > 0 {
		t.Errorf("too large for where they are: got %v, want %v, %+v", got, want, said)
	}
	got, said = Pack(members, fresh(1), own(speeds(500)), nil)
	if want := []int32{1}; !slices.Equal(got, want) || len(said.Oversize) != 1 {
		t.Errorf("the largest takes what is too large: got %v, want %v, %+v", got, want, said)
	}
}

func TestPackWithoutCapacityIsSpread(t *testing.T) {
	for _, c := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		got, said := Pack(make([]plan.Member, 2), owned(0, 0, 0, 0), Options{Capacity: c, Loads: make([]Load, 4)}, nil)
		if !slices.Equal(got, []int32{0, 0, 1, 1}) || said.Used != 2 || said.Moves != 2 || !strings.Contains(said.Why, "capacity") {
			t.Errorf("capacity %v: %v %+v", c, got, said)
		}
	}
}

// What adds up to a capacity in decimals does so in whole numbers.
func TestPackRoundsInFavourOfWhatFits(t *testing.T) {
	for n := 1; n <= 100; n++ {
		how := Options{Capacity: 0.7}
		for range n {
			how.Loads = append(how.Loads, Load{Speed: 0.7 / float64(n)})
		}
		if _, said := Pack(make([]plan.Member, 2), fresh(n), how, nil); said.Used != 1 {
			t.Errorf("%d equal parts of a member need %d", n, said.Used)
		}
	}
}

// The same on every machine: no sum of floats, no order of a map. The figures
// are those of the machine that this was written on.
func TestPackIsTheSameEverywhere(t *testing.T) {
	members, parts, how := busy(1000, 2)
	dst, said := Pack(members, parts, how, nil)
	h := fnv.New64a()
	if err := binary.Write(h, binary.LittleEndian, dst); err != nil {
		t.Fatal(err)
	}
	if sum := h.Sum64(); said.Used != goldenUsed || sum != goldenPlan {
		t.Errorf("%d members, plan %#x", said.Used, sum)
	}
}

const (
	goldenUsed = 514
	goldenPlan = 0x465f993aafbf41c2
)
