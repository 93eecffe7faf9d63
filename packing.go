package rota

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/rota-dev/rota/internal/core"
)

// Unit is what speeds and capacities are counted in.
type Unit string

// The units.
const (
	Messages Unit = "messages" // per second; the default
	Bytes    Unit = "bytes"    // per second, of a source that counts them
)

// Packing says how the strategy Pack weighs partitions and members: docs/packing.md. The
// zero value of a field means the default given here. Loads are measured by the Source,
// if it is a Meter.
type Packing struct {
	// Capacity is how many units per second a member sustains. A member's label "capacity"
	// overrides it. Zero means that capacities are learnt: until a member was seen to be
	// saturated, its capacity is not known, and while no capacity is known at all,
	// partitions are spread by number.
	Capacity float64

	Target  float64 // 0.8: share of its capacity that a plan fills
	Trigger float64 // 0.9: share of its capacity above which a member is overloaded, Target or more

	CatchUp  time.Duration // 5 min: in which a backlog is to be worked off
	Interval time.Duration // 30 s: how often the whole plan is looked at
	CoolDown time.Duration // 1 min: how long a partition that moved is not moved again, if another can be; AtOnce means not at all

	Price  float64 // what one member fewer is worth, in members' capacities moved, 0.01 to 256; zero means the packer's default
	Budget float64 // most that a plan moves for the sake of fewer members, in members' capacities; zero means no limit
	Band   float64 // share of the members that must be saved before anything moves for it; zero means that every one counts

	Unit Unit // Messages

	// Weights are speeds that are not measured but given, per partition, in units per
	// second: for a Source that is no Meter. A partition that is not in it counts as an
	// average one.
	Weights map[string]float64
}

// core is p for the core, with defaults.
func (p *Packing) core() core.Packing {
	c := core.DefaultPacking()
	percent := func(v float64, def uint32) uint32 {
		if v == 0 {
			return def
		}
		return uint32(math.Round(v * 100))
	}
	c.Capacity = uint64(p.Capacity * 1000)
	c.Target, c.Trigger = percent(p.Target, c.Target), percent(p.Trigger, c.Trigger)
	if p.Trigger == 0 {
		c.Trigger = max(c.Trigger, c.Target)
	}
	if p.Target == 0 {
		c.Target = min(c.Target, c.Trigger)
	}
	c.Price, c.Budget, c.Band = percent(p.Price, 0), percent(p.Budget, 0), percent(p.Band, 0)
	c.CatchUp = cmp.Or(p.CatchUp, c.CatchUp)
	c.Interval = cmp.Or(p.Interval, c.Interval)
	switch p.CoolDown {
	case 0:
	case AtOnce:
		c.CoolDown = 0
	default:
		c.CoolDown = p.CoolDown
	}
	return c
}

// checkPacking refuses settings of the strategy Pack that cannot work, or that have no
// effect with another one.
func (c *Config) checkPacking() error {
	p := &c.Packing
	if c.Strategy != Pack {
		if p.isSet() {
			return fmt.Errorf("rota: Config.Packing is set and Config.Strategy is %q, which does not use it: use %q or leave Config.Packing out", cmp.Or(c.Strategy, Spread), Pack)
		}
		return nil
	}
	for _, f := range []struct {
		name  string
		v     float64
		least float64
		most  float64
	}{
		{"Capacity", p.Capacity, 0.001, core.MostCapacity}, {"Target", p.Target, 0.01, 1}, {"Trigger", p.Trigger, 0.01, 100},
		{"Price", p.Price, 0.01, 256}, {"Budget", p.Budget, 0.01, 1e6}, {"Band", p.Band, 0.01, 0.99},
	} {
		if f.v != 0 && !(f.v >= f.least && f.v <= f.most) {
			return fmt.Errorf("rota: Config.Packing.%s is %v: want %v to %v, or zero for the default", f.name, f.v, f.least, f.most)
		}
	}
	if w := p.core(); p.Trigger != 0 && w.Trigger < w.Target {
		return fmt.Errorf("rota: Config.Packing.Trigger is %v and Config.Packing.Target is %v: a member that is filled to its target would be overloaded; the trigger must be the target or more", p.Trigger, float64(w.Target)/100)
	}
	if p.Unit != "" && p.Unit != Messages && p.Unit != Bytes {
		return fmt.Errorf("rota: Config.Packing.Unit %q: known are %q and %q", p.Unit, Messages, Bytes)
	}
	for name, w := range p.Weights {
		if !(w >= 0 && w <= core.MostCapacity) {
			return fmt.Errorf("rota: Config.Packing.Weights of %q is %v: want 0 to %v units per second", name, w, core.MostCapacity)
		}
	}
	return c.checkPackingTimes()
}

func (p *Packing) isSet() bool {
	return p.Capacity != 0 || p.Target != 0 || p.Trigger != 0 || p.CatchUp != 0 || p.Interval != 0 || p.CoolDown != 0 ||
		p.Price != 0 || p.Budget != 0 || p.Band != 0 || p.Unit != "" || p.Weights != nil
}

func (c *Config) checkPackingTimes() error {
	p := &c.Packing
	for _, d := range []struct {
		name string
		v    time.Duration
	}{{"CatchUp", p.CatchUp}, {"Interval", p.Interval}, {"CoolDown", p.CoolDown}} {
		switch {
		case d.v == 0, d.name == "CoolDown" && d.v == AtOnce:
		case d.v < time.Second || d.v > maxDuration:
			return fmt.Errorf("rota: Config.Packing.%s is %v: want %v to %v, or zero for the default", d.name, d.v, time.Second, maxDuration)
		}
	}
	switch w, beat := p.core(), c.timing().Heartbeat; {
	case w.Interval < beat:
		return fmt.Errorf("rota: Config.Packing.Interval is %v and Config.Heartbeat is %v: members report once in a heartbeat, so look no more often", w.Interval, beat)
	case w.CatchUp < w.Interval:
		return fmt.Errorf("rota: Config.Packing.CatchUp is %v and Config.Packing.Interval is %v: no plan could keep that; a backlog cannot be worked off before the plan is looked at again", w.CatchUp, w.Interval)
	}
	return nil
}
