package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/rota-dev/rota/internal/check"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/speed"
)

// A meter counts what arrives at the partitions.
type meter struct {
	parts    map[string]*arrivals
	fails    bool
	reported []core.Load // what a leader was last told
	to       record.Session
	wild     *rand.Rand // loads of random schedules; nil: they are what the play says
	last     core.Event // of wild loads
}

// arrivals at one partition: so many until an instant, and so many a second since.
type arrivals struct {
	count, speed float64
	since        int64
}

func (a *arrivals) at(now int64) float64 {
	return a.count + a.speed*time.Duration(now-a.since).Seconds()
}

// setLoad sets what arrives at a partition per second from now on.
func (w *World) setLoad(part string, perSecond float64) {
	if w.meter.parts == nil {
		w.meter.parts = map[string]*arrivals{}
	}
	a := w.meter.parts[part]
	if a == nil {
		a = &arrivals{}
		w.meter.parts[part] = a
	}
	*a = arrivals{a.at(w.now), perSecond, w.now}
}

// measure does what the shell does when the core wants loads: it reads the meter, makes
// speeds of two readings, and tells them.
func (w *World) measure(h *host) core.Event {
	ev := w.weigh(h)
	m := &w.meter
	if who := h.node.Session(); who != m.to || !slices.Equal(ev.Loads, m.reported) {
		m.reported, m.to = ev.Loads, who
		w.judge(check.Event{Kind: check.Change}) // a reason for a plan
	}
	return ev
}

// drawLoads makes a schedule one that packs by loads that change whenever they like. They
// are drawn from numbers of their own, so that other schedules stay as they are.
func (w *World) drawLoads() {
	r := rand.New(rand.NewPCG(w.seed, 0x10ad))
	if r.IntN(4) != 0 {
		return
	}
	c := &w.opt.Config
	c.Strategy, c.Packing = core.Pack, core.DefaultPacking()
	c.Packing.Capacity = 100_000
	c.Packing.Measure = time.Duration(200+r.IntN(1000)) * time.Millisecond
	c.Packing.Interval = time.Duration(1+r.IntN(5)) * time.Second
	c.Packing.CoolDown = time.Duration(r.IntN(5)) * time.Second
	w.meter.wild = r
}

// wildLoads are the same as before, others, or not known.
func (w *World) wildLoads(parts int) core.Event {
	r, m := w.meter.wild, &w.meter
	if known := len(m.last.Loads) == parts && m.last.Kind == core.Measured; known && (w.healed || r.IntN(2) == 0) {
		return m.last
	}
	m.last = core.Event{Kind: core.Measured}
	switch r.IntN(10) {
	case 0:
		m.last.Outcome = core.Unknown
		return m.last
	case 1:
		return core.Event{Kind: core.Measured, Outcome: core.NotFound}
	}
	for range parts {
		m.last.Loads = append(m.last.Loads, core.Load{Speed: []uint64{0, 10_000, 30_000, 60_000, 300_000}[r.IntN(5)], Backlog: uint64(r.IntN(2)) * 3_000_000})
	}
	return m.last
}

func (w *World) weigh(h *host) core.Event {
	ev := core.Event{Kind: core.Measured, Outcome: core.Unknown}
	roster := h.node.Roster()
	if roster == nil {
		return ev
	}
	if w.meter.wild != nil {
		return w.wildLoads(roster.Len())
	}
	var names, asked []string
	var readings []speed.Reading
	for _, e := range roster.Full().Entries {
		names = append(names, e.Name)
		if e.Removed {
			continue
		}
		asked = append(asked, e.Name)
		r := speed.Reading{Partition: e.Name}
		if a := w.meter.parts[e.Name]; a != nil {
			r.Arrived = uint64(math.Floor(a.at(w.now) + 1e-6))
		}
		readings = append(readings, r)
	}
	at := time.Duration(h.local(w.now))
	if !w.meter.fails {
		h.gauge.Observe(at, asked, readings)
	}
	loads, state := h.gauge.Loads(at, names)
	switch state {
	case speed.NotYet:
		ev.Outcome = core.NotFound
	case speed.Known:
		ev.Outcome = core.OK
		for _, l := range loads {
			ev.Loads = append(ev.Loads, core.Load(l))
		}
	}
	return ev
}

// SetLoad sets what arrives at a partition per second from now on.
func (s *Stage) SetLoad(part string, perSecond float64) { s.w.setLoad(part, perSecond) }

// OwnerNames returns the name of the owner of each partition; "" if it has none.
func (s *Stage) OwnerNames() (out []string) {
	p := s.w.store.plan.Plan
	if p == nil {
		return nil
	}
	for i := range p.Rows {
		name := ""
		if r := &p.Rows[i]; r.Owner != 0 {
			name = s.w.nameOf(r.Owner)
		}
		out = append(out, name)
	}
	return out
}

// load sets what arrives at a partition, or at all of them.
func (s *Stage) load(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("wants a partition, or all, and how much arrives per second")
	}
	v, err := strconv.ParseFloat(args[1], 64)
	if err != nil {
		return err
	}
	for _, p := range s.w.opt.listing {
		if args[0] == "all" || args[0] == p.Name {
			s.w.setLoad(p.Name, v)
		}
	}
	return nil
}

// setPacking sets one setting of the strategy pack; ok is false if there is none of that
// name.
func setPacking(p *core.Packing, k, v string) (ok bool, err error) {
	number := func(to *uint32) {
		var n uint64
		n, err = strconv.ParseUint(v, 10, 32)
		*to = uint32(n)
	}
	switch k {
	case "capacity":
		var f float64
		f, err = strconv.ParseFloat(v, 64)
		p.Capacity = uint64(f * 1000)
	case "target":
		number(&p.Target)
	case "trigger":
		number(&p.Trigger)
	case "price":
		number(&p.Price)
	case "interval":
		p.Interval, err = time.ParseDuration(v)
	case "cool-down":
		p.CoolDown, err = time.ParseDuration(v)
	default:
		return false, nil
	}
	return true, err
}
