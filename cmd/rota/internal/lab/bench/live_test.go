package bench

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/pack"
	"github.com/rota-dev/rota/internal/plan"
	"github.com/rota-dev/rota/internal/scenario"
	"github.com/rota-dev/rota/internal/sim"
)

// TestTheLiveLoopIsAsGoodAsThePlanner plays a day's load through real members' cores, in
// virtual time: they measure by counters, smooth, wait for hand-overs, and look every
// 30 s, which is a step of the load. The bare planner knows every speed at once, and plans
// each step. The live loop must not need more than 5 % more members, and must not move
// more.
func TestTheLiveLoopIsAsGoodAsThePlanner(t *testing.T) {
	const parts, members, capacity, steps = 100, 14, 100., 120
	const target, trigger = 0.8, 0.9
	e := &Experiment{Partitions: parts, Capacity: capacity * target}
	speeds, next := day(e, 5, rand.New(rand.NewPCG(2001, 0)))

	s := sim.NewStage(sim.Options{Partitions: parts})
	do := func(verb string, args ...string) {
		t.Helper()
		if err := s.Do(scenario.Command{Verb: verb, Args: args}); err != nil {
			t.Fatal(err)
		}
	}
	do("group", fmt.Sprintf("partitions=%d", parts), "strategy=pack", fmt.Sprintf("capacity=%v", capacity))
	for m := range members {
		s.Join(fmt.Sprintf("c%d", m+1))
	}
	set := func() {
		for i, v := range speeds {
			s.SetLoad(fmt.Sprintf("q%d", i), v)
		}
	}
	set()
	s.Advance(2 * time.Minute)

	var bare pack.Packer
	where := make([]plan.Partition, parts)
	for i := range where {
		where[i] = plan.Partition{Owner: plan.None, Pin: plan.None}
	}
	place := func() (used int, moved float64) {
		how := pack.Options{Capacity: capacity * target, Trigger: trigger / target}
		for _, v := range speeds {
			how.Loads = append(how.Loads, pack.Load{Speed: v})
		}
		to, said := bare.Pack(make([]plan.Member, members), where, how, nil)
		for i := range where {
			where[i].Owner = to[i]
		}
		return said.Used, said.Moved
	}
	place()

	var liveUsed, bareUsed int
	var liveMoved, bareMoved float64
	over := time.Duration(0) // members' time above the trigger
	was := s.OwnerNames()
	for range steps {
		next()
		set()
		for range 15 {
			s.Advance(2 * time.Second)
			load := map[string]float64{}
			for i, m := range s.OwnerNames() {
				load[m] += speeds[i]
			}
			for m, l := range load {
				if m != "" && l > capacity*trigger {
					over += 2 * time.Second
				}
			}
		}
		if _, err := s.Seen(); err != nil {
			t.Fatal(err)
		}
		used := map[string]bool{}
		now := s.OwnerNames()
		for i, m := range now {
			used[m] = true
			if was[i] != m {
				liveMoved += speeds[i] / (capacity * target)
			}
		}
		delete(used, "")
		was = now
		liveUsed += len(used)
		u, m := place()
		bareUsed += u
		bareMoved += m
	}
	t.Logf("%d steps of 30 s: members %.2f, bare %.2f; E[R] %.3f, bare %.3f; %v of %v members' time above the trigger",
		steps, float64(liveUsed)/steps, float64(bareUsed)/steps, liveMoved/steps, bareMoved/steps, over, time.Duration(liveUsed)*30*time.Second)
	if float64(liveUsed) > 1.05*float64(bareUsed) {
		t.Errorf("%d members' steps, and the bare planner needs %d", liveUsed, bareUsed)
	}
	if liveMoved > bareMoved {
		t.Errorf("%.2f members' capacities were moved, by the bare planner %.2f", liveMoved, bareMoved)
	}
}
