package explore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// A Fault is something that may go wrong. How often, is a configuration's.
type Fault uint8

const (
	LoseRequest Fault = iota // a store call does not arrive
	LoseAnswer               // it is done, but nobody hears of it
	Late                     // it arrives at any later time, long after its caller gave up
	Repeat                   // it arrives twice, the second time at any later time
	Crash                    // a process is gone at once
	CrashTwo                 // two at one instant
	Freeze                   // a process is frozen, for as long as it likes
	Sleep                    // a whole machine sleeps
	Busy                     // a member's handlers take as long as they like to stop
	Hang                     // or do not stop at all
	Fail                     // a member's source fails, and the partition is given up
	Leave                    // a member leaves
	Stale                    // a watch shows a replaced version, late
	Miss                     // a watch does not show a change
	Gap                      // a member's watches break off
	Deaf                     // a member's reads fail and its watches show nothing, for as long as it likes
	Hide                     // a listing lacks a member
	Rollback                 // the store loses the newest version of the plan
	Empty                    // the store loses everything
	Failover                 // another server takes over, and has not seen the newest version of the plan
	Effect                   // a handler's effect reaches the sink at any later time
	Order                    // an operator gives the next order
	Proof                    // the kernel proves a death
	Load                     // messages arrive at other speeds
	faults
)

var faultNames = [faults]string{"lost request", "lost answer", "late request", "repeated request", "crash", "crash of two", "freeze", "sleep",
	"busy handler", "hung handler", "failing source", "leave", "stale watch", "missed watch", "gap", "deaf", "hidden member", "rollback", "emptied store", "failover",
	"effect", "order", "proof", "load"}

func (f Fault) String() string { return faultNames[f] }

// Unlimited, as how often a fault may strike.
const Unlimited = 255

// A Member is one of the group.
type Member struct {
	Name        string        // c1, c2, … if empty; two may have the same
	Lease, Beat time.Duration // almost 3 ticks, and 1, if zero
	Joins       bool          // at any time, not at the beginning
}

// A Config is a small world and what may go wrong in it. Everything that can
// happen in it, in any order, is tried.
type Config struct {
	Name    string
	Members []Member
	Parts   []string
	Lists   []string // what the source lists; all of Parts if empty
	Mode    record.Mode
	Tune    func(*core.Config)
	Faults  map[Fault]uint8        // how often each may strike
	Begin   bool                   // from an empty store; otherwise from a group at rest
	Setup   func(*world) *world    // what happens first, once
	Split   bool                   // between a call's effect and its answer anything may happen
	Prompt  Prompt                 // what takes no time at all
	Flood   bool                   // what waits for a process may also reach it all at once
	Whom    map[Fault][]int        // whom each may strike; anybody if not said
	Hidden  int                    // whom a listing may lack
	Backup  bool                   // a rollback goes back to the beginning, not by one version
	Orders  []func(*record.Orders) // what operators order, in turn
	Loads   [][]core.Load          // what partitions carry, in turn; nil is not known
	Thaw    uint8                  // frozen for at most so many ticks; 0: for any time
	Plans   uint8                  // at most so many plans from the beginning on; 0: not asked
	Returns bool                   // an abort ends the handlers that have overstayed, and returns
	Wait    uint8                  // a dead member is in the plan for at most so many ticks, and then it is over; 0: not asked
	Catches []rule.Rule            // whose lack must be noticed here
	Long    bool                   // takes minutes
}

// Prompt is a set of things that take no time, so that nothing can happen in
// between: a world with fewer of them has more states.
type Prompt uint8

const (
	Sources Prompt = 1 << iota // a source lists, confirms and closes at once
	Reads                      // a read is answered at once
	Shows                      // a watch shows a change at once
	Writes                     // a write is done and answered at once

	All = Sources | Reads | Shows | Writes
)

// label is what transcripts call a member.
func (c *Config) label(who int) string {
	m := c.Members[who]
	if m.Name == "" {
		return fmt.Sprintf("c%d", who+1)
	}
	return fmt.Sprintf("%s/%d", m.Name, who+1)
}

// node makes the core of a member.
func (c *Config) node(who int) *core.Node {
	m := c.Members[who]
	if m.Lease == 0 {
		// On ticks, what lasts 2.9 of them is over at the third, and so is the time
		// after which its holder may be declared dead: nothing is in between.
		m.Lease, m.Beat = 29*tick/10, tick
	}
	if m.Name == "" {
		m.Name = c.label(who)
	}
	cfg := &core.Config{Session: session(who), Name: m.Name, Mode: c.Mode, Timing: core.MakeTiming(m.Lease, m.Beat), Fresh: !m.Joins, Era: 1, Hash: uint32(who)}
	t := &cfg.Timing
	t.StopTime, t.Orphan, t.Grace = 2*tick, 3*tick, tick
	t.Quiet, t.QuietMax = 0, 0
	t.Stuck, t.Ask, t.Keep, t.PollPlan, t.PollList = core.Forever, core.Forever, core.Forever, core.Forever, core.Forever
	cfg.Volatile = c.Faults[Failover] > 0
	if c.Tune != nil {
		c.Tune(cfg)
	}
	return core.New(cfg)
}

// hits tells whether a fault may strike a member.
func (c *Config) hits(f Fault, who int) bool {
	whom, said := c.Whom[f]
	return !said || slices.Contains(whom, who)
}

func (c *Config) part(name string) uint8 { return uint8(slices.Index(c.Parts, name)) }

func (c *Config) partName(n uint8) string {
	if int(n) >= len(c.Parts) {
		return "an unknown partition"
	}
	return c.Parts[n]
}

// Find returns the configuration with the given name.
func Find(name string) (*Config, bool) {
	i := slices.IndexFunc(Configs, func(c *Config) bool { return c.Name == name })
	if i < 0 {
		return nil, false
	}
	return Configs[i], true
}

// Without explores the configuration that must notice the lack of r, with the rule
// taken out, up to the first violation. It is nil if none must, or if the build
// cannot take rules out.
func Without(ctx context.Context, r rule.Rule, opt Options) *Result {
	i := slices.IndexFunc(Configs, func(c *Config) bool { return slices.Contains(c.Catches, r) })
	if i < 0 {
		return nil
	}
	undo, ok := rule.Take(r)
	if !ok {
		return nil
	}
	defer undo()
	found := Explore(ctx, Configs[i], opt)
	return &found
}
