// Package explore tries everything that can happen to a small group: the real
// core in discrete time, every order of events, every place for a fault.
package explore

import (
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// Orders that operators give.

func pin(part, member string) func(*record.Orders) {
	return func(o *record.Orders) { o.Pins = []record.Pin{{Partition: part, Member: member}} }
}

func add(parts ...string) func(*record.Orders) {
	return func(o *record.Orders) { o.Add, o.Remove = parts, nil }
}

func remove(parts ...string) func(*record.Orders) {
	return func(o *record.Orders) { o.Remove, o.Add = parts, nil }
}

func returns(d time.Duration) func(*core.Config) {
	return func(c *core.Config) { c.Return = d }
}

var (
	two     = []Member{{}, {}}
	three   = []Member{{}, {}, {}}
	patient = []Member{{Lease: long, Beat: tick}, {Lease: long, Beat: tick}, {Lease: long, Beat: tick}, {Lease: long, Beat: tick}}
	four    = []Member{{}, {}, {}, {}}
	grow2   = []Member{{}, {Joins: true}}
	grow3   = []Member{{}, {}, {Joins: true}}
	p       = []string{"p"}
	pq      = []string{"p", "q"}
)

const long = 49 * tick / 10

type budget = map[Fault]uint8

// packs packs by load: a member takes 100, is filled to 80 and overloaded from 90 on.
func packs(c *core.Config) {
	c.Strategy = core.Pack
	c.Packing = core.Packing{Capacity: 100_000, Target: 80, Trigger: 90, Interval: 3 * tick, CoolDown: 2 * tick, Measure: tick}
}

// sizes also lets a Scaler end members that are not needed.
func sizes(c *core.Config) {
	packs(c)
	c.Scaling = core.Scaling{Min: 1, Max: 3, Step: 1, Band: 10, DownAfter: 2 * tick, Vanish: 5 * tick, Repeat: core.Forever}
}

func worksOn(c *core.Config)     { c.Continue = true }
func quarantines(c *core.Config) { c.Quarantine = 2 }

// speeds of partitions, in units per second.
func speeds(all ...uint64) (out []core.Load) {
	for _, v := range all {
		out = append(out, core.Load{Speed: v * 1000})
	}
	return out
}

// Configs are the configurations that have a name. Long ones take minutes.
var Configs = []*Config{
	// Calls that are lost, late or done twice.
	{Name: "2m1p lost", Members: two, Parts: p, Faults: budget{LoseRequest: 1, LoseAnswer: 1}},
	{Name: "2m1p lost, split", Long: true, Members: two, Parts: p, Split: true, Prompt: Sources | Reads, Faults: budget{LoseRequest: 1, LoseAnswer: 1}},
	{Name: "2m1p lapse", Catches: []rule.Rule{rule.SelfStop, rule.CreditWhatWasFound}, Long: true, Members: two, Parts: p, Prompt: Sources | Reads, Faults: budget{LoseRequest: 4}},
	{Name: "2m1p late+freeze", Catches: []rule.Rule{rule.BeatIsCompareAndSet}, Long: true, Members: two, Parts: p, Prompt: Sources | Reads | Shows, Faults: budget{Late: 1, Freeze: 1}},
	{Name: "2m1p late death", Catches: []rule.Rule{rule.DeathIsCompareAndSet}, Long: true, Members: two, Parts: p, Prompt: Sources | Reads, Faults: budget{Late: 1, Freeze: 1}, Whom: map[Fault][]int{Freeze: {0}, Late: {1}}},
	{Name: "2m1p repeated", Members: two, Parts: p, Prompt: Sources, Faults: budget{Repeat: 2, Crash: 1}},
	{Name: "2m1p late+repeated, split", Catches: []rule.Rule{rule.LeaseFromSending}, Long: true, Members: two, Parts: p, Split: true, Prompt: Sources | Reads | Shows, Faults: budget{Late: 1, Repeat: 1, LoseRequest: 1}},

	// Processes that die, freeze, sleep, leave or hang.
	{Name: "2m1p crash+freeze", Catches: []rule.Rule{rule.DeadAfterTheLease}, Long: true, Members: two, Parts: p, Prompt: Sources | Reads, Faults: budget{Crash: 1, Freeze: 1}},
	{Name: "2m1p freeze, flood", Long: true, Members: two, Parts: p, Split: true, Flood: true, Prompt: Sources | Reads, Faults: budget{Freeze: 1}},
	{Name: "2m2p join, flood", Long: true, Members: grow2, Parts: pq, Flood: true, Prompt: Sources, Faults: budget{Busy: 1}},
	{Name: "2m1p freeze twice", Members: two, Parts: p, Prompt: Sources | Reads | Shows, Faults: budget{Freeze: 2}},
	{Name: "2m1p sleep", Catches: []rule.Rule{rule.ClockCountsSuspend}, Members: two, Parts: p, Prompt: Sources | Reads, Faults: budget{Sleep: 1}},
	{Name: "2m1p leave+crash, busy", Members: two, Parts: p, Faults: budget{Busy: 1, Leave: 1, Crash: 1}},
	{Name: "2m1p busy+hung, moved", Members: two, Parts: p, Prompt: Sources | Reads, Faults: budget{Busy: 1, Hang: 1, Order: 1},
		Orders: []func(*record.Orders){pin("p", "c2")}},
	{Name: "2m1p evicted", Catches: []rule.Rule{rule.EvictedIsNotStopped}, Members: two, Parts: p, Prompt: Sources | Reads | Shows, Faults: budget{Hang: 1, Order: 2}, Whom: map[Fault][]int{Hang: {1}},
		Tune: func(c *core.Config) {
			if c.Name == "c2" {
				c.StopTime = 9 * tick // longer than the leader has patience for
			}
		},
		Orders: []func(*record.Orders){pin("p", "c2"), pin("p", "c1")}},
	{Name: "3m1p evicted, a process of its name", Catches: []rule.Rule{rule.EvictedHeirWaits}, Members: []Member{{Name: "c1"}, {Name: "c2"}, {Name: "c2", Joins: true}}, Parts: p,
		Prompt: Sources | Reads | Shows, Faults: budget{Hang: 1, Order: 2}, Whom: map[Fault][]int{Hang: {1}},
		Tune: func(c *core.Config) {
			if c.Name == "c2" {
				c.StopTime = 9 * tick
			}
		},
		Orders: []func(*record.Orders){pin("p", "c2"), pin("p", "c1")}},
	{Name: "2m2p an abort that returns", Catches: []rule.Rule{rule.AbortAgain}, Members: two, Parts: pq, Returns: true, Prompt: Sources | Reads | Shows,
		Faults: budget{Hang: 1, Order: 1, Freeze: 1}, Whom: map[Fault][]int{Hang: {1}, Freeze: {1}}, Orders: []func(*record.Orders){pin("p", "c2")}},
	{Name: "2m1p leader's hung handler", Catches: []rule.Rule{rule.LeaderStopsInTime}, Members: two, Parts: p, Prompt: Sources | Reads | Shows, Faults: budget{Hang: 1, Order: 1}, Whom: map[Fault][]int{Hang: {0}},
		Orders: []func(*record.Orders){pin("p", "c2")}},
	{Name: "2m1p hung+crash, moved", Members: two, Parts: p, Prompt: Sources | Reads, Faults: budget{Hang: 1, Crash: 1, Order: 1},
		Orders: []func(*record.Orders){pin("p", "c2")}},
	{Name: "2m1p failing source", Members: two, Parts: p, Prompt: Reads, Faults: budget{Fail: 1, Crash: 1}},
	{Name: "2m1p proof", Members: two, Parts: p, Prompt: Sources, Faults: budget{Crash: 1, Proof: 2, LoseAnswer: 1}},

	// What handlers do outside.
	{Name: "2m1p effects+freeze", Catches: []rule.Rule{rule.SinkChecksTokens}, Members: two, Parts: p, Prompt: Sources | Reads | Shows, Faults: budget{Effect: 2, Freeze: 1}},
	{Name: "2m1p effects+sleep", Members: two, Parts: p, Prompt: Sources | Reads | Shows, Faults: budget{Effect: 2, Sleep: 1}},

	// Watches that are late or end.
	{Name: "2m1p stale", Catches: []rule.Rule{rule.NoOlderPlan}, Long: true, Members: two, Parts: p, Prompt: Sources | Reads, Faults: budget{Stale: 1, Order: 2},
		Orders: []func(*record.Orders){pin("p", "c2"), pin("p", "c1")}},
	{Name: "2m1p missed+gap", Members: two, Parts: p, Prompt: Sources | Reads, Faults: budget{Miss: 1, Gap: 1, Crash: 1},
		Tune: func(c *core.Config) { c.PollPlan, c.PollList = 3*tick, 3*tick }},

	// Plans over plans.
	{Name: "2m1p begin", Members: two, Parts: p, Begin: true, Prompt: Sources | Reads},
	{Name: "2m2p join", Long: true, Members: grow2, Parts: pq, Prompt: Sources | Reads, Faults: budget{LoseAnswer: 1}},
	{Name: "2m2p join, eager", Catches: []rule.Rule{rule.EagerBarrier}, Long: true, Members: grow2, Parts: pq, Mode: record.Eager, Prompt: Sources | Reads, Faults: budget{LoseAnswer: 1}},
	{Name: "2m1p A1 then A2, busy", Catches: []rule.Rule{rule.StopAck, rule.AckAfterStop, rule.AckBelongsToItsRevoke, rule.TokensGrow}, Long: true, Members: two, Parts: p, Prompt: Sources | Reads, Faults: budget{Order: 2, Busy: 1},
		Orders: []func(*record.Orders){pin("p", "c2"), pin("p", "c1")}},
	{Name: "2m2p A1 then A2, eager, busy", Long: true, Members: two, Parts: pq, Mode: record.Eager, Prompt: Sources | Reads, Faults: budget{Order: 2, Busy: 1},
		Orders: []func(*record.Orders){pin("p", "c2"), pin("p", "c1")}},
	{Name: "3m1p A1 then A2, crash", Members: three, Parts: p, Prompt: Sources | Reads | Shows, Faults: budget{Order: 2, Crash: 1},
		Orders: []func(*record.Orders){pin("p", "c2"), pin("p", "c3")}},
	{Name: "3m1p crash", Members: three, Parts: p, Prompt: Sources | Reads, Faults: budget{Crash: 1}},
	{Name: "3m1p crash twice", Members: three, Parts: p, Prompt: Sources | Reads | Shows, Faults: budget{Crash: 2}},
	{Name: "3m1p join+crash", Members: grow3, Parts: p, Prompt: Sources | Reads | Shows, Faults: budget{Crash: 1}},
	{Name: "3m1p leader's writes late", Long: true, Members: grow3, Parts: p, Prompt: Sources | Reads | Shows, Faults: budget{Late: 1, Freeze: 1},
		Whom: map[Fault][]int{Late: {0}, Freeze: {0}}, Thaw: 5},
	{Name: "3m1p stale", Long: true, Members: grow3, Parts: p, Prompt: Sources | Reads, Faults: budget{Stale: 1}},
	{Name: "3m2p join", Members: grow3, Parts: pq, Prompt: Sources | Reads | Shows, Faults: budget{Busy: 1}},
	{Name: "3m2p join, eager", Members: grow3, Parts: pq, Mode: record.Eager, Prompt: Sources | Reads | Shows, Faults: budget{Busy: 1}},
	{Name: "3m2p eager+hung", Members: grow3, Parts: pq, Mode: record.Eager, Prompt: Sources | Reads | Shows, Faults: budget{Hang: 1}},

	// Rosters.
	{Name: "2m2p partition back", Long: true, Members: two, Parts: pq, Faults: budget{Order: 2},
		Orders: []func(*record.Orders){remove("q"), add("q")}, Prompt: Sources | Reads},
	{Name: "2m2p partition added", Catches: []rule.Rule{rule.RosterBeforePlan}, Members: two, Parts: pq, Lists: p, Faults: budget{Order: 1, Busy: 1}, Prompt: Sources | Reads,
		Orders: []func(*record.Orders){add("q")}},
	{Name: "2m3p one for another", Catches: []rule.Rule{rule.OneNameOneID}, Members: two, Parts: []string{"p", "q", "r"}, Faults: budget{Order: 2, Busy: 1}, Lists: pq, Prompt: Sources | Reads | Shows,
		Orders: []func(*record.Orders){remove("q"), func(o *record.Orders) { o.Add = []string{"r"} }}},

	// Listings that lack somebody; unknown plan writes; names; leases.
	{Name: "3m2p hidden owner", Catches: []rule.Rule{rule.AbsenceIsNotDeath}, Long: true, Members: grow3, Parts: pq, Hidden: 1, Prompt: Sources | Reads | Shows, Faults: budget{Hide: 1, Crash: 1, Freeze: 1},
		Whom: map[Fault][]int{Crash: {0}, Freeze: {1}}},
	{Name: "2m1p plan write unknown", Catches: []rule.Rule{rule.PlanIsCompareAndSet, rule.KnownWritesOnly}, Long: true, Members: grow2, Parts: pq, Prompt: Sources | Reads | Shows, Faults: budget{LoseRequest: 1, Freeze: 1}},
	{Name: "3m1p twins", Catches: []rule.Rule{rule.ANameProvesNothing}, Members: []Member{{Name: "a"}, {Name: "b"}, {Name: "a", Joins: true}}, Parts: p, Prompt: Sources | Reads | Shows, Faults: budget{Freeze: 1}},
	{Name: "3m1p twins, return", Members: []Member{{Name: "a"}, {Name: "b"}, {Name: "b", Joins: true}}, Parts: pq, Tune: returns(2 * tick),
		Prompt: Sources | Reads | Shows, Faults: budget{Crash: 1}},
	{Name: "2m1p long and short lease", Catches: []rule.Rule{rule.LeaseOfThatRecord}, Members: []Member{{}, {Lease: long, Beat: tick}}, Parts: pq, Prompt: Sources | Reads | Shows, Faults: budget{Freeze: 1, LoseRequest: 1}},

	// One plan for what dies together, and no waiting for ever.
	{Name: "3m1p two die at once", Catches: []rule.Rule{rule.WaitForSuspects}, Members: three, Parts: p, Prompt: Sources | Reads | Shows, Faults: budget{CrashTwo: 1}, Plans: 1},
	{Name: "4m1p two die at once", Members: four, Parts: p, Prompt: Sources | Reads | Shows, Faults: budget{CrashTwo: 1}, Plans: 1},
	{Name: "3m1p cap and expiry at once", Catches: []rule.Rule{rule.ExpiryBeforeDrop}, Members: []Member{{}, {}, {Lease: long, Beat: tick}}, Parts: p, Prompt: Sources | Reads | Shows,
		Faults: budget{CrashTwo: 1}, Plans: 1},
	{Name: "4m1p flapping", Catches: []rule.Rule{rule.SuspectsOnce}, Members: patient, Parts: p, Prompt: All, Faults: budget{Crash: 1, Freeze: Unlimited}, Thaw: 4, Wait: 4,
		Whom: map[Fault][]int{Crash: {3}, Freeze: {1, 2}}, Setup: func(w *world) *world { return w.after(Crash, 3).ticks(3) }},

	// A store that loses what it acknowledged.
	{Name: "2m1p rollback", Members: two, Parts: p, Prompt: Sources | Reads, Faults: budget{Rollback: 1}},
	{Name: "2m1p rollback+join", Catches: []rule.Rule{rule.IncarnationAfterLoss}, Members: grow2, Parts: pq, Prompt: Sources | Reads | Shows, Faults: budget{Rollback: 1}},
	{Name: "2m1p rollback+effects", Long: true, Members: two, Parts: p, Prompt: Sources | Reads | Shows, Faults: budget{Rollback: 1, Effect: 2, Order: 1},
		Orders: []func(*record.Orders){pin("p", "c2")}},
	{Name: "3m1p rollback", Long: true, Members: grow3, Parts: p, Prompt: Sources | Reads | Shows, Faults: budget{Rollback: 1}},
	{Name: "3m2p deaf after a backup", Catches: []rule.Rule{rule.AckOfThisIncarnation}, Members: grow3, Parts: pq, Prompt: All, Backup: true, Faults: budget{Rollback: 1, Deaf: 1, Order: 3}, Whom: map[Fault][]int{Deaf: {1}},
		Setup: func(w *world) *world {
			return w.after(Order, 0).ticks(3).after(Order, 0).ticks(3).after(Deaf, 1).after(Rollback, 0)
		},
		Orders: []func(*record.Orders){pin("p", "c2"), pin("p", "c1"), pin("q", "c3")}},
	{Name: "3m2p backup, deaf", Long: true, Members: grow3, Parts: pq, Prompt: All, Backup: true, Faults: budget{Rollback: 1, Deaf: 1, Order: 3}, Whom: map[Fault][]int{Deaf: {1}},
		Setup:  func(w *world) *world { return w.after(Order, 0).ticks(3).after(Order, 0).ticks(3) },
		Orders: []func(*record.Orders){pin("p", "c2"), pin("p", "c1"), pin("q", "c3")}},
	{Name: "3m2p backup, a deaf leaver", Catches: []rule.Rule{rule.HoldWaitsForTheDeafLeaver}, Members: grow3, Parts: pq, Prompt: All, Backup: true,
		Faults: budget{Rollback: 1, Deaf: 1, Order: 3, Busy: 1, Leave: 1}, Whom: map[Fault][]int{Deaf: {1}, Busy: {1}, Leave: {1}},
		Tune: func(c *core.Config) { c.StopTime = 9 * tick },
		Setup: func(w *world) *world {
			return w.after(Order, 0).ticks(3).after(Order, 0).ticks(3).after(Busy, 1).after(Deaf, 1).after(Leave, 1)
		},
		Orders: []func(*record.Orders){pin("p", "c2"), pin("p", "c1"), pin("q", "c3")}},
	{Name: "3m2p failover, one cut off", Catches: []rule.Rule{rule.ServerOfTheFirstPlan}, Members: grow3, Parts: pq, Prompt: All, Backup: true,
		Faults: budget{Failover: 1, Leave: 1, Freeze: 1}, Whom: map[Fault][]int{Leave: {0}, Freeze: {1}},
		Setup: func(w *world) *world { return w.after(Leave, 0).ticks(2) }},
	{Name: "2m1p failover", Members: two, Parts: p, Prompt: Sources | Reads, Faults: budget{Failover: 1, LoseAnswer: 1}},
	{Name: "2m1p emptied, a joiner frozen", Catches: []rule.Rule{rule.HoldCountsFromTheClaim}, Members: grow2, Parts: p, Prompt: All, Faults: budget{Empty: 1, Freeze: 1, Crash: 1},
		Whom: map[Fault][]int{Freeze: {0}, Crash: {0}}, Setup: (*world).joinFrozen},
	{Name: "2m1p emptied", Members: two, Parts: p, Prompt: Sources | Reads, Faults: budget{Empty: 1}},
	{Name: "2m1p emptied+join", Catches: []rule.Rule{rule.HoldAfterLoss}, Long: true, Members: grow2, Parts: p, Prompt: Sources | Reads | Shows, Faults: budget{Empty: 1, Freeze: 1}},

	// Members that work on without a lease: only the sink tells who may.
	{Name: "2m1p continue", Members: two, Parts: p, Prompt: Sources | Reads | Shows, Tune: worksOn, Faults: budget{LoseRequest: 4, Effect: 2}, Whom: map[Fault][]int{LoseRequest: {1}}},
	{Name: "2m1p continue, frozen", Members: two, Parts: p, Prompt: Sources | Reads | Shows, Tune: worksOn, Faults: budget{LoseRequest: 3, Freeze: 1, Effect: 1}, Whom: map[Fault][]int{LoseRequest: {1}, Freeze: {1}}},

	// Partitions whose owners die.
	{Name: "3m2p quarantine", Members: three, Parts: pq, Prompt: Sources | Reads | Shows, Tune: quarantines, Faults: budget{Crash: 2}},

	// Loads that change whenever they like, or are not known.
	{Name: "2m2p loads", Members: two, Parts: pq, Prompt: Sources | Reads | Shows, Tune: packs, Faults: budget{Load: 2},
		Loads: [][]core.Load{speeds(60, 60), speeds(10, 10), nil}},
	{Name: "2m2p loads, crash, busy", Members: two, Parts: pq, Prompt: Sources | Reads | Shows, Tune: packs, Faults: budget{Load: 2, Crash: 1, Busy: 1},
		Loads: [][]core.Load{speeds(10, 10), speeds(60, 60), speeds(10, 10)}},
	{Name: "2m2p loads, lost", Long: true, Members: two, Parts: pq, Prompt: Sources | Reads | Shows, Tune: packs, Faults: budget{Load: 1, LoseRequest: 1, LoseAnswer: 1},
		Loads: [][]core.Load{speeds(10, 10), speeds(60, 60)}},

	// Members that a Scaler ends.
	{Name: "2m2p sized", Members: two, Parts: pq, Prompt: Reads | Shows, Tune: sizes, Faults: budget{Load: 2},
		Loads: [][]core.Load{speeds(60, 60), speeds(10, 10), speeds(60, 60)}},
	{Name: "3m2p sized, crash", Members: three, Parts: pq, Prompt: Sources | Reads | Shows, Tune: sizes, Faults: budget{Load: 2, Crash: 1},
		Loads: [][]core.Load{speeds(60, 60), speeds(10, 10), speeds(60, 60)}},
}
