package pack

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rota-dev/rota/internal/plan"
	"github.com/rota-dev/rota/internal/plan/plantest"
)

var (
	owned   = plantest.Owned
	fresh   = plantest.Fresh
	after   = plantest.After
	moves   = plantest.Moves
	rule    = plantest.Ruled
	allowed = plantest.Allowed
	broken  = plantest.Broken
)

// anyPacking makes random loads, and everything else that Pack is told, for a
// case made by plantest.Anything; some members get capacities of their own.
func anyPacking(r *rand.Rand, members []plan.Member, parts []plan.Partition) Options {
	how := Options{Capacity: 100, Price: []float64{0, 0.5, 1, 3, 20}[r.IntN(5)]}
	top, cooling := []int{20, 60, 100, 130}[r.IntN(4)], []int{0, 0, 20, 60}[r.IntN(4)]
	for range parts {
		l := Load{Speed: float64(r.IntN(top + 1)), Cooling: r.IntN(100) < cooling}
		if r.IntN(5) == 0 {
			l.Speed = 0
		}
		how.Loads = append(how.Loads, l)
	}
	if r.IntN(3) == 0 {
		how.Trigger = 1 + r.Float64()/2
	}
	if r.IntN(3) == 0 {
		how.Capacities = make([]float64, len(members))
		for m := range members {
			if r.IntN(2) == 0 {
				how.Capacities[m] = float64(50 + r.IntN(200))
			}
		}
	}
	return how
}

// eachPacking runs a test on many random cases, the same ones every time. Half of
// them are without rules, and then the members are a few more or less than enough.
func eachPacking(t *testing.T, n, maxMembers, maxParts int, test func(*testing.T, []plan.Member, []plan.Partition, Options)) {
	t.Helper()
	if testing.Short() {
		n /= 10
	}
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 5))
		members, parts := plantest.Anything(r, maxMembers, maxParts)
		if seed%2 == 0 {
			members = make([]plan.Member, len(members))
			for i, q := range parts {
				parts[i] = plan.Partition{Owner: q.Owner, Pin: none}
			}
		}
		how := anyPacking(r, members, parts)
		test(t, members, parts, how)
		if t.Failed() {
			t.Fatalf("seed %d\nmembers %+v\nparts %+v\nhow %+v", seed, members, parts, how)
		}
	}
}

// weighed is a plan as the objective sees it, in percents of a capacity of 100.
type weighed struct {
	load   []float64 // per member
	count  []int
	over   float64
	used   int
	moved  float64
	placed int
}

func capacity(m int, how Options) float64 {
	if m < len(how.Capacities) && how.Capacities[m] > 0 {
		return how.Capacities[m]
	}
	return how.Capacity
}

func widest(members []plan.Member, how Options) (most float64) {
	for m, member := range members {
		if open(member) {
			most = max(most, capacity(m, how))
		}
	}
	return most
}

func open(m plan.Member) bool { return !m.Closed && !m.Reserved }

func weigh(members []plan.Member, parts []plan.Partition, how Options, dst []int32) weighed {
	w := weighed{load: make([]float64, len(members)), count: make([]int, len(members))}
	for i, m := range dst {
		if o := parts[i].Owner; o != none && o != m {
			w.moved += how.Loads[i].Speed
		}
		if m != none {
			w.load[m] += how.Loads[i].Speed
			w.count[m]++
			w.placed++
		}
	}
	for m, load := range w.load {
		if !open(members[m]) || w.count[m] == 0 {
			continue
		}
		w.used++
		if c := capacity(m, how); load > c*max(1, how.Trigger)*(1+1e-9) {
			w.over += load - c
		}
	}
	return w
}

// cost is what the objective makes least, after overload.
func (w weighed) cost(how Options) float64 {
	price := how.Price
	if price == 0 {
		price = DefaultPrice
	}
	return price*float64(w.used) + w.moved/100
}

func TestPackKeepsTheRulesAndPlacesAllItCan(t *testing.T) {
	eachPacking(t, 1000, 8, 40, func(t *testing.T, members []plan.Member, parts []plan.Partition, how Options) {
		dst, said := Pack(members, parts, how, nil)
		if err := broken(members, parts, dst); err != nil {
			t.Error(err)
		}
		got, want := weigh(members, parts, how, dst), weigh(members, parts, how, plan.Spread(members, parts, nil))
		if got.placed != want.placed {
			t.Errorf("%d placed, %d can be", got.placed, want.placed)
		}
		if said.Used != got.used || said.Moves != moves(parts, dst) || math.Abs(said.Moved-got.moved/100) > 1e-6 {
			t.Errorf("says %+v, is %+v", said, got)
		}
		if said.Wanted < said.Used {
			t.Errorf("wants %d, uses %d", said.Wanted, said.Used)
		}
	})
}

// unexcused says what is wrong with a member that has more than its capacity. It
// may if it keeps what it had and that is no more than its trigger; if all that
// the rules leave free there is one partition too large for anybody, or nothing;
// or if the members do not suffice.
func unexcused(members []plan.Member, parts []plan.Partition, how Options, dst []int32, said Result) error {
	w := weigh(members, parts, how, dst)
	widest, opens := widest(members, how), 0
	for _, m := range members {
		if open(m) {
			opens++
		}
	}
	for m, member := range members {
		c := capacity(m, how)
		if !open(member) || w.load[m] <= c*(1+1e-9) {
			continue
		}
		free, large, came := 0, 0, 0
		for i, q := range parts {
			if _, ok := rule(members, q); !ok || dst[i] != int32(m) || how.Loads[i].Speed == 0 {
				continue // nor is what is idle in anybody's way
			}
			if how.Loads[i].Speed > widest {
				large++
			} else {
				free++
				if q.Owner != int32(m) {
					came++
				}
			}
		}
		switch {
		case came == 0 && w.load[m] <= c*max(1, how.Trigger)*(1+1e-9):
		case free == 0 && large <= 1:
		case said.Wanted > opens:
		default:
			return fmt.Errorf("member %d has %v of %v, %d free and %d too large", m, w.load[m], c, free, large)
		}
	}
	return nil
}

// Limits may leave no other way than to overload somebody: the rules come first.
func TestPackOverloadsNobodyWithoutAReason(t *testing.T) {
	eachPacking(t, 1000, 8, 40, func(t *testing.T, members []plan.Member, parts []plan.Partition, how Options) {
		for m := range members {
			members[m].Limit = 0
		}
		dst, said := Pack(members, parts, how, nil)
		if err := unexcused(members, parts, how, dst, said); err != nil {
			t.Error(err, said)
		}
	})
}

func TestPackIsNeverWorseThanNothing(t *testing.T) {
	eachPacking(t, 5000, 8, 40, func(t *testing.T, members []plan.Member, parts []plan.Partition, how Options) {
		nothing := make([]int32, len(parts))
		for i, q := range parts {
			m, free := rule(members, q)
			if nothing[i] = m; free && q.Owner != none && slices.Contains(allowed(members, q), q.Owner) {
				nothing[i] = q.Owner
			}
		}
		if broken(members, parts, nothing) != nil {
			return
		}
		dst, _ := Pack(members, parts, how, nil)
		was, is := weigh(members, parts, how, nothing), weigh(members, parts, how, dst)
		switch {
		case is.placed != was.placed:
			if is.placed < was.placed {
				t.Errorf("%d placed, %d before", is.placed, was.placed)
			}
		case is.over > was.over+1e-6:
			t.Errorf("%v overload, %v before", is.over, was.over)
		case is.over > was.over-1e-6 && is.cost(how) > was.cost(how)+1e-6:
			t.Errorf("costs %v, nothing costs %v", is.cost(how), was.cost(how))
		}
	})
}

// Where there is too much for everybody, to move an overload about helps nobody.
func TestPackMovesNothingInVain(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 9))
		members, parts, how := make([]plan.Member, 1+r.IntN(5)), fresh(25), Options{Capacity: 100}
		for i := range parts {
			parts[i].Owner = int32(r.IntN(len(members)))
			how.Loads = append(how.Loads, Load{Speed: float64(r.IntN(60))})
		}
		nothing := make([]int32, len(parts))
		for i, q := range parts {
			nothing[i] = q.Owner
		}
		dst, said := Pack(members, parts, how, nil)
		was, is := weigh(members, parts, how, nothing), weigh(members, parts, how, dst)
		if said.Wanted > len(members) && is.moved > 0 && is.over >= was.over {
			t.Fatalf("seed %d: moved %v, overload %v, before %v", seed, is.moved, is.over, was.over)
		}
		if least := int(math.Ceil(sum(is.load)/100 - 1e-9)); said.Wanted < least || said.Wanted > 2*least {
			t.Fatalf("seed %d: %d wanted for %v", seed, said.Wanted, sum(is.load))
		}
	}
}

func sum(s []float64) (sum float64) {
	for _, v := range s {
		sum += v
	}
	return sum
}

func TestPackOfItsOwnPlanMovesNothing(t *testing.T) {
	eachPacking(t, 1000, 8, 40, func(t *testing.T, members []plan.Member, parts []plan.Partition, how Options) {
		how.Band = []float64{0, 0, 0.2}[len(parts)%3]
		dst, _ := Pack(members, parts, how, nil)
		next := after(parts, dst)
		for i, q := range parts {
			next[i].Stay = q.Stay && q.Owner == dst[i] // what had nobody to stay with is not frozen now
		}
		if again, _ := Pack(members, next, how, nil); !slices.Equal(again, dst) {
			t.Errorf("first %v, then %v", dst, again)
		}
	})
	for _, share := range []int{2, 20, 100} {
		members, parts, how := busy(1000, share)
		dst, _ := Pack(members, parts, how, nil)
		if again, said := Pack(members, after(parts, dst), how, nil); !slices.Equal(again, dst) {
			t.Errorf("%d to a member: %+v", share, said)
		}
	}
}

// A dearer member is never worth less: over many cases, fewer are used and more
// is moved for it. A single plan may differ, for none is perfect.
func TestPackFollowsThePrice(t *testing.T) {
	prices := []float64{0.1, 0.5, 1, 2, 5, 20}
	used, moved, odd, n := make([]int, len(prices)), make([]float64, len(prices)), 0, 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 6))
		members, parts, how := make([]plan.Member, 60), fresh(60), Options{Capacity: 100}
		for i := range parts {
			parts[i].Owner = int32(r.IntN(60))
			how.Loads = append(how.Loads, Load{Speed: float64(r.IntN(101))})
		}
		last := len(parts)
		for p, price := range prices {
			how.Price = price
			_, said := Pack(members, parts, how, nil)
			used[p] += said.Used
			moved[p] += said.Moved
			if n++; said.Used > last {
				odd++
			}
			last = said.Used
		}
	}
	t.Logf("used %v, moved %.0f, %d of %d plans use more at a higher price", used, moved, odd, n)
	for p := 1; p < len(prices); p++ {
		if used[p] > used[p-1] || moved[p] < moved[p-1] {
			t.Errorf("price %v: %d members and %v moved, at %v %d and %v", prices[p], used[p], moved[p], prices[p-1], used[p-1], moved[p-1])
		}
	}
	if odd*50 > n {
		t.Errorf("%d of %d plans use more members at a higher price", odd, n)
	}
}

// What has just moved leaves only a member that was overloaded and could not be
// relieved by others. (It may have become so by what has no owner and must go
// somewhere, so here everything has one.)
func TestPackLetsWhatMovedCool(t *testing.T) {
	eachPacking(t, 1000, 8, 40, func(t *testing.T, members []plan.Member, parts []plan.Partition, how Options) {
		for m := range members {
			members[m] = plan.Member{}
		}
		for i := range parts {
			parts[i].Owner, parts[i].Avoid = max(0, parts[i].Owner), nil
		}
		dst, _ := Pack(members, parts, how, nil)
		was, others := make([]float64, len(members)), make([]float64, len(members))
		for i, q := range parts {
			m, free := rule(members, q)
			if free && q.Owner != none && slices.Contains(allowed(members, q), q.Owner) {
				if m = q.Owner; !how.Loads[i].Cooling && how.Loads[i].Speed <= widest(members, how) {
					others[m] += how.Loads[i].Speed
				}
			}
			if m != none {
				was[m] += how.Loads[i].Speed
			}
		}
		for i, q := range parts {
			_, free := rule(members, q)
			if !how.Loads[i].Cooling || !free || q.Owner == none || dst[i] == q.Owner || !slices.Contains(allowed(members, q), q.Owner) {
				continue
			}
			c := capacity(int(q.Owner), how)
			if was[q.Owner] <= c*max(1, how.Trigger) || was[q.Owner]-others[q.Owner] <= c {
				t.Errorf("%v: q%d left %d, which had %v, %v of it movable, of %v", dst, i, q.Owner, was[q.Owner], others[q.Owner], c)
			}
		}
	})
}

// Nobody is overloaded here: every move is for the sake of fewer members.
func TestPackKeepsToItsBudgetAndBand(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 7))
		members, parts, how := make([]plan.Member, 20), fresh(20), Options{Capacity: 100, Budget: 2 * r.Float64(), Price: 5}
		for i := range parts {
			parts[i].Owner = int32(i)
			how.Loads = append(how.Loads, Load{Speed: float64(r.IntN(60))})
		}
		if _, said := Pack(members, parts, how, nil); said.Moved > how.Budget+1e-6 {
			t.Fatalf("seed %d: moved %v of %v", seed, said.Moved, how.Budget)
		}
		how.Budget, how.Band = 0, r.Float64()
		if _, said := Pack(members, parts, how, nil); said.Moves > 0 && float64(20-said.Used) < how.Band*20 {
			t.Fatalf("seed %d: moved %v to save %d of 20, in a band of %v", seed, said.Moved, 20-said.Used, how.Band)
		}
	}
}

// A member between its capacity and its trigger keeps all it has, unless what has
// no owner must be put there. That it gets no more is among the excuses above.
func TestPackLeavesAloneWhoIsBelowTheTrigger(t *testing.T) {
	eachPacking(t, 1000, 8, 40, func(t *testing.T, members []plan.Member, parts []plan.Partition, how Options) {
		for m := range members {
			members[m] = plan.Member{}
		}
		for i := range parts {
			parts[i].Owner, parts[i].Pin, parts[i].Avoid = max(0, parts[i].Owner), none, nil
		}
		how.Trigger = 1.3
		was := make([]float64, len(members))
		for i, q := range parts {
			if m, free := rule(members, q); !free && m != none {
				was[m] += how.Loads[i].Speed
			} else if free && q.Owner != none && slices.Contains(allowed(members, q), q.Owner) {
				was[q.Owner] += how.Loads[i].Speed
			}
		}
		dst, _ := Pack(members, parts, how, nil)
		for i, q := range parts {
			m, free := q.Owner, false
			if _, free = rule(members, q); !free || m == none || !slices.Contains(allowed(members, q), m) {
				continue
			}
			if c := capacity(int(m), how); was[m] > c && was[m] < 1.3*c && dst[i] != m {
				t.Errorf("q%d of %d, which has %v, goes to %d", i, m, was[m], dst[i])
			}
		}
	})
}

// One Planner for everything must behave like a new one each time, and whatever
// it is told must not break it.
func TestPackerRemembersNothing(t *testing.T) {
	var p Packer
	var dst []int32
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e300, 1e-300}
	eachPacking(t, 1000, 8, 40, func(t *testing.T, members []plan.Member, parts []plan.Partition, how Options) {
		if r := rand.New(rand.NewPCG(uint64(len(parts)), uint64(len(members)))); r.IntN(2) == 0 {
			for i := range how.Loads {
				if l := &how.Loads[i]; r.IntN(4) == 0 {
					l.Speed, l.Backlog = odd[r.IntN(len(odd))], odd[r.IntN(len(odd))]
				}
			}
			for _, f := range []*float64{&how.CatchUp, &how.Price, &how.Trigger, &how.Budget, &how.Band} {
				if r.IntN(3) == 0 {
					*f = odd[r.IntN(len(odd))]
				}
			}
			how.Capacities = append(how.Capacities, make([]float64, len(members)-len(how.Capacities))...)
			for m := range members {
				if r.IntN(3) == 0 {
					how.Capacities[m] = odd[r.IntN(len(odd))]
				}
			}
		}
		var a, b Result
		fresh, a := Pack(members, parts, how, nil)
		dst, b = p.Pack(members, parts, how, dst)
		if !slices.Equal(dst, fresh) || a.Why != b.Why || a.Wanted != b.Wanted || a.Used != b.Used {
			t.Errorf("a used planner packs differently: %v %+v and %v %+v", dst, b, fresh, a)
		}
		if err := broken(members, parts, dst); err != nil {
			t.Error(err)
		}
	})
}

func TestPackDoesNotAllocate(t *testing.T) {
	members, parts, how := busy(1000, 2)
	var p Packer
	dst, _ := p.Pack(members, parts, how, nil)
	if n := testing.AllocsPerRun(5, func() { dst, _ = p.Pack(members, parts, how, dst) }); n != 0 {
		t.Errorf("allocates %v times", n)
	}
}

// Where members are dear, no more are used than by packing from scratch, and less
// is moved than if everything were.
func TestPackNeedsNoMoreMembersThanBestFit(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 10))
		members, parts, how := make([]plan.Member, 120), fresh(120), Options{Capacity: 100, Price: 20}
		for i := range parts {
			parts[i].Owner = int32(r.IntN(120))
			how.Loads = append(how.Loads, Load{Speed: float64(r.IntN(101))})
		}
		if _, said := Pack(members, parts, how, nil); said.Used > naive(how) || said.Moved > 0.8*float64(said.Used) {
			t.Errorf("seed %d: %d members, best fit %d; %v moved", seed, said.Used, naive(how), said.Moved)
		}
	}
}

// bestPacking tries every plan and returns the least overload and then cost.
func bestPacking(members []plan.Member, parts []plan.Partition, how Options) (over, cost float64) {
	over, cost = math.Inf(1), math.Inf(1)
	dst := make([]int32, len(parts))
	var try func(int)
	try = func(i int) {
		if i == len(parts) {
			w := weigh(members, parts, how, dst)
			if c := w.cost(how); w.over < over || w.over == over && c < cost {
				over, cost = w.over, c
			}
			return
		}
		for m := range members {
			dst[i] = int32(m)
			try(i + 1)
		}
	}
	try(0)
	return over, cost
}

// Small enough to try every plan: how far from the best is Pack?
func TestPackIsCloseToTheBestOfAllPlans(t *testing.T) {
	n, exact, worst := 0, 0, 0.
	got, want := 0., 0.
	for seed := range uint64(200) {
		if testing.Short() && seed > 40 {
			break
		}
		r := rand.New(rand.NewPCG(seed, 8))
		members, parts := make([]plan.Member, 4), fresh(6)
		how := Options{Capacity: 100, Price: []float64{0.5, 1, 2, 10}[seed%4]}
		for i := range parts {
			parts[i].Owner = int32(r.IntN(5)) - 1
			how.Loads = append(how.Loads, Load{Speed: float64(r.IntN(91))})
		}
		over, cost := bestPacking(members, parts, how)
		dst, said := Pack(members, parts, how, nil)
		w := weigh(members, parts, how, dst)
		if over > 0 { // then overload is what is left where it is, and not made least
			continue
		}
		if w.over > 0 {
			t.Logf("seed %d: overload %v could be avoided: %+v", seed, w.over, said)
			worst = math.Inf(1)
			continue
		}
		n++
		got, want = got+w.cost(how), want+cost
		if worst = max(worst, w.cost(how)-cost); w.cost(how) < cost+1e-6 {
			exact++
		}
	}
	t.Logf("%d of %d plans are the best there is; all together cost %.1f %% more, the worst %.2f", exact, n, 100*(got/want-1), worst)
	if exact*10 < n*8 || got > 1.03*want {
		t.Errorf("only %d of %d plans are the best there is; all together cost %.1f %% more", exact, n, 100*(got/want-1))
	}
}
