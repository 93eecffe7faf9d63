package core

import (
	"strconv"
	"time"

	"github.com/rota-dev/rota/internal/pack"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// Packing holds the settings of the strategy Pack. Loads and capacities are in
// thousandths of a unit per second, so that a node's state is made of whole numbers;
// the unit is the shell's: messages or bytes.
type Packing struct {
	Capacity uint64        // what a member without a capacity of its own sustains; 0: not known
	Target   uint32        // share of its capacity that a plan fills, in percent
	Trigger  uint32        // share of its capacity above which a member is overloaded, in percent; Target or more
	CatchUp  time.Duration // in which a backlog is to be worked off; 0: it does not count
	Price    uint32        // what one member fewer is worth, in percent of a member's capacity moved; 0: the packer's default
	Budget   uint32        // most that a plan moves for the sake of fewer members, in percent of a capacity; 0: no limit
	Band     uint32        // share of the members that must be saved before anything moves for it, in percent
	Interval time.Duration // how often the whole plan is looked at
	CoolDown time.Duration // how long a partition that moved is not moved again, if another can be
	Measure  time.Duration // how often loads are measured
}

// DefaultPacking is what the documentation quotes.
func DefaultPacking() Packing {
	return Packing{
		Target: 80, Trigger: 90,
		CatchUp:  5 * time.Minute,
		Interval: 30 * time.Second,
		CoolDown: time.Minute,
		Measure:  2 * time.Second,
	}
}

// A Load is what a partition asks of its owner, in thousandths: of units per second, and
// of units.
type Load struct {
	Speed   uint64
	Backlog uint64
}

// A Capacity is what a member was seen to sustain, in thousandths of a unit per second.
type Capacity struct {
	Session record.Session
	Units   uint64
}

// Packed is what a leader last computed of the loads.
type Packed struct {
	At  Time // when it did; Never before the first time
	Why Why  // WhyLoad or WhyInterval if a plan came of it; otherwise 0: nothing moves
	pack.Result
}

// loads is what a leader knows of loads.
type loads struct {
	known  knowledge
	all    []Load // by ID; never changed, only replaced
	learnt []Capacity
	packed bool // loads were known once
	fresh  bool // measured since overload was last looked for
	asking bool
	ask    Time // when to measure again
	look   Time // when the interval is over
	cools  []cooling
	said   Packed
}

// knowledge of loads.
type knowledge uint8

const (
	awaited knowledge = iota // this leader has not measured yet
	known
	unknown // there is no meter, or it has not worked for long: partitions are counted
)

// A cooling partition has just moved.
type cooling struct {
	id    record.ID
	until Time
}

// measure asks for loads.
func (n *Node) measure() {
	l := &n.lead.loads
	if n.cfg.Strategy != Pack || l.asking || n.roster == nil || !n.reached(l.ask) {
		return
	}
	l.asking = true
	n.do(Action{Do: DoMeasure})
}

// tookLoads takes a measurement.
func (n *Node) tookLoads(ev *Event) {
	l := &n.lead.loads
	if !l.asking {
		return // asked for as an earlier leader
	}
	l.asking = false
	l.ask = n.now.Add(n.cfg.Packing.Measure)
	switch ev.Outcome {
	case OK:
		if l.known == awaited {
			l.look = n.now // what was placed before the first measurement is looked at
		}
		l.known, l.packed, l.fresh, l.all, l.learnt = known, true, true, ev.Loads, ev.Capacities
	case Unknown:
		if l.known == awaited {
			l.look = n.now
		}
		l.known, l.all = unknown, nil
	}
}

// load returns what is known about a partition.
func (l *loads) load(id record.ID) Load {
	if int(id) < len(l.all) {
		return l.all[id]
	}
	return Load{}
}

// weight is a load in thousandths of a unit per second, with what it takes to work off
// the backlog in time.
func (p *Packing) weight(l Load) uint64 {
	if p.CatchUp <= 0 {
		return l.Speed
	}
	return l.Speed + uint64(float64(l.Backlog)/p.CatchUp.Seconds())
}

// capacity returns what a member sustains: by its label, as it was seen, or by the
// setting, in this order. Zero means that nobody knows.
func (n *Node) capacity(m *record.Member) uint64 {
	if c := labelled(m); c > 0 {
		return c
	}
	for _, c := range n.lead.loads.learnt {
		if c.Session == m.Session && c.Units > 0 {
			return c.Units
		}
	}
	return n.cfg.Packing.Capacity
}

// labelled returns the capacity that a member's label "capacity" gives. Anything but a
// positive number means none.
func labelled(m *record.Member) uint64 {
	for _, l := range m.Labels {
		if l.Key == "capacity" {
			if v, err := strconv.ParseFloat(l.Value, 64); err == nil && v > 0 && v <= MostCapacity {
				return uint64(v * 1000)
			}
		}
	}
	return 0
}

// MostCapacity is the largest capacity that counts, in units per second.
const MostCapacity = 1e12

// unbalanced tells whether a plan is wanted for the sake of load, and why: a member is
// overloaded, or the interval is over. It is if the plan would move something.
func (d *draft) unbalanced() Why {
	n, l := d.n, &d.n.lead.loads
	// load-plans-wait: A plan for the sake of load waits until nothing of the last
	// plan is under way.
	// Without it: q is on its way from C1 to C2, so C1 still counts as overloaded. The next
	// measurement makes another plan, and p leaves C1 as well.
	if n.cfg.Strategy != Pack || l.known == awaited || len(n.lead.waits) > 0 && !rule.LoadPlansWait.Off() || !d.due() {
		return 0
	}
	over, due := l.fresh && l.known == known && d.overloaded(), n.reached(l.look)
	l.fresh = false
	if !over && !due {
		return 0
	}
	l.look = n.now.Add(n.cfg.Packing.Interval)
	if l.known == unknown && l.packed {
		return 0 // what was packed stays: only what needs a place is counted
	}
	why := WhyInterval
	if over {
		why = WhyLoad
	}
	members := d.members()
	targets := d.targets(members)
	if l.known == known && d.resize(members, targets) {
		why |= WhySize
		targets = d.targets(members)
	}
	// no-load-plan-without-a-move: A plan for the sake of load is made only if it moves
	// something.
	// Without it: q alone is more than C1 can take, wherever it runs. Each measurement finds
	// C1 overloaded, and a plan is made that changes nothing.
	if !d.moves(members, targets) && !rule.NoLoadPlanWithoutAMove.Off() {
		why = 0
	}
	d.packed = targets
	l.said.At, l.said.Why = n.now, why
	if why == 0 {
		n.do(Action{Do: DoNote, Note: NoteKept})
	}
	return why
}

// moves tells whether targets differ from where partitions run.
func (d *draft) moves(members []record.Session, targets []int32) bool {
	for i := range d.rows {
		if r := &d.rows[i]; r.State == record.Owned && d.target(members, targets[i]) != r.Owner {
			return true
		}
	}
	return false
}

// overloaded tells whether a member has more than its trigger.
func (d *draft) overloaded() bool {
	n, l := d.n, &d.n.lead.loads
	weights := l.weights(d.rows, &n.cfg.Packing)
	for i := range n.peers {
		p := &n.peers[i]
		w := weights[p.session]
		if w == 0 || p.rec == nil {
			continue
		}
		if c := n.capacity(p.rec); c > 0 && w > c/100*uint64(n.cfg.Packing.Trigger) {
			return true
		}
	}
	return false
}

// weights adds up what the partitions of each member ask of it. A map is several times
// quicker here than to look for each of ten thousand owners among a thousand peers.
func (l *loads) weights(rows []record.Row, p *Packing) map[record.Session]uint64 {
	out := map[record.Session]uint64{}
	for i := range rows {
		if r := &rows[i]; r.State == record.Owned {
			out[r.Owner] += p.weight(l.load(record.ID(i)))
		}
	}
	return out
}

// pack lets the packer choose targets by load.
func (d *draft) pack(members []record.Session) []int32 {
	n, sc, set := d.n, &d.n.lead.scratch, &d.n.cfg.Packing
	if n.lead.packer == nil {
		n.lead.packer = new(pack.Packer)
	}
	const percent = 100
	how := pack.Options{
		Loads: sc.loads[:0], Capacities: sc.capacities[:0],
		Capacity: float64(set.Capacity) * float64(set.Target) / percent,
		Trigger:  float64(set.Trigger) / float64(set.Target),
		CatchUp:  set.CatchUp.Seconds(),
		Price:    float64(set.Price) / percent,
		Budget:   float64(set.Budget) / percent,
		Band:     float64(set.Band) / percent,
	}
	for _, s := range members {
		how.Capacities = append(how.Capacities, float64(n.capacity(n.peer(s).rec))*float64(set.Target)/percent)
	}
	for i := range d.rows {
		l := n.lead.loads.load(record.ID(i))
		how.Loads = append(how.Loads, pack.Load{Speed: float64(l.Speed), Backlog: float64(l.Backlog)})
	}
	for _, c := range n.lead.loads.cools {
		// cool-down: A partition that has just moved is moved again for the sake of load only
		// if no other can be.
		// Without it: Speeds rise and fall. q, which is the handiest to move, wanders from
		// member to member with every measurement.
		if int(c.id) < len(how.Loads) && !rule.CoolDown.Off() {
			how.Loads[c.id].Cooling = true
		}
	}
	sc.loads, sc.capacities = how.Loads, how.Capacities
	sc.targets, n.lead.loads.said.Result = n.lead.packer.Pack(sc.open, sc.parts, how, sc.targets)
	return sc.targets
}

// cool notes that a partition moves.
func (n *Node) cool(id record.ID) {
	if n.cfg.Strategy == Pack && n.cfg.Packing.CoolDown > 0 {
		n.lead.loads.cools = append(n.lead.loads.cools, cooling{id, n.now.Add(n.cfg.Packing.CoolDown)})
	}
}

// Loads returns what this leader knows about loads, by ID; nil if it knows nothing.
func (n *Node) Loads() []Load { return n.lead.loads.all }

// CapacityOf returns what a member sustains, in thousandths of a unit per second; zero if
// nobody knows.
func (n *Node) CapacityOf(m *record.Member) uint64 { return n.capacity(m) }

// Packed returns what this leader last computed of the loads.
func (n *Node) Packed() *Packed { return &n.lead.loads.said }
