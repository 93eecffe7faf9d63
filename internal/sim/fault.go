package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/rota-dev/rota/internal/check"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// Fault is a kind of thing that goes wrong.
type Fault uint8

const (
	Crash       Fault = iota // a process is gone at once
	CrashLeader              // the leader's
	CrashTwo                 // two at one instant
	Pause                    // SIGSTOP, then SIGCONT
	Suspend                  // the machine sleeps
	Cut                      // no traffic with the store
	CutOut                   // requests do not arrive
	CutIn                    // answers and watches do not
	Stall                    // the store answers nobody
	RollPlan                 // the store loses its newest plans
	RollAll                  // the store is restored from a backup
	Failover                 // another server takes over, and has not seen the newest writes
	Outsider                 // a process starts while it is cut off
	Slow                     // handlers take long to stop
	Hung                     // handlers do not stop when asked
	Stubborn                 // nor when cancelled
	SourceFails              // starts fail
	Depart                   // a member leaves in good order
	Twin                     // another process starts under a live one's name
	Order                    // an operator wants something
	GapWatch                 // watches break off
	Jump                     // a host's clocks disagree
	Prove                    // a process dies and the kernel's proof arrives
	BadListing               // the source answers nothing, or half
	LoseRequest              // noise, from here on: per message
	LoseAnswer
	Repeat
	Late
	DropWatch
	LateEffect
	SlowNet
	SlowStart // the source takes its time to confirm a start
	numFaults
)

var faultNames = [numFaults]string{
	"crash", "crash-leader", "crash-two", "pause", "suspend", "cut", "cut-out", "cut-in", "stall", "roll-plan", "roll-all", "failover", "outsider",
	"slow", "hung", "stubborn", "source-fails", "depart", "twin", "order", "gap", "jump", "prove", "bad-listing",
	"lose-request", "lose-answer", "repeat", "late", "drop-watch", "late-effect", "slow-net", "slow-start",
}

func (f Fault) String() string { return faultNames[f] }

// FaultNames lists what Options.Only understands.
func FaultNames() []string { return faultNames[:] }

// ParseFault finds a fault by its name.
func ParseFault(s string) (Fault, error) {
	if i := slices.Index(faultNames[:], s); i >= 0 {
		return Fault(i), nil
	}
	return 0, fmt.Errorf("unknown fault %q: known are %v", s, faultNames)
}

// fault is one strike of a schedule.
type fault struct {
	kind Fault
	at   int64
	long int64
	pick uint32 // who, by chance
	more uint32
}

// noise is the weather between a member and the store: chances in 65536.
type noise struct {
	loseRequest, loseAnswer, repeat, late, dropWatch, lateEffect, slowNet, slowStart uint32
	net                                                                              int64
}

// listing is what the source tells h: each member asks it over its own link.
func (w *World) listing(h *host) core.Event {
	ev := core.Event{Kind: core.Listed, Complete: true}
	if h.silent {
		ev.Outcome = core.Unknown
		return ev
	}
	n := w.opt.Partitions
	if h.short && n > 1 {
		n--
	}
	ev.Listing = w.opt.listing[:n]
	return ev
}

// pick chooses a live host, or nil.
func (w *World) pick(n uint32) *host {
	live := 0
	for _, h := range w.hosts {
		if h.up {
			live++
		}
	}
	if live == 0 {
		return nil
	}
	k := int(n) % live
	for _, h := range w.hosts {
		if h.up {
			if k == 0 {
				return h
			}
			k--
		}
	}
	return nil
}

func (w *World) leader() *host {
	p := w.store.plan.Plan
	if p == nil {
		return nil
	}
	for _, h := range w.hosts {
		if h.up && h.node.Session() == p.Leader {
			return h
		}
	}
	return nil
}

// strike lets one fault happen.
func (w *World) strike(f fault) {
	if f.kind == unCut {
		w.reconnect(w.hosts[f.pick])
		return
	}
	h := w.pick(f.pick)
	if f.kind == CrashLeader {
		if l := w.leader(); l != nil {
			h = l
		}
	}
	if h == nil {
		return
	}
	w.stats.LiveFaults++
	w.stats.Faults[f.kind]++
	w.mark(h, f.kind)
	if w.tell != nil {
		w.tell.struck(h, f)
	}
	if w.log != nil {
		w.say(h, "meets a fault: "+f.kind.String())
	}
	switch f.kind {
	case Crash, CrashLeader:
		w.crash(h, f)
	case CrashTwo:
		w.crash(h, f)
		if o := w.pick(f.more); o != nil {
			if w.tell != nil {
				w.tell.say(w.now, "kill %s", w.tell.name(o))
			}
			w.crash(o, f)
		}
	case Prove:
		s := h.node.Session()
		w.crash(h, f)
		if o := w.pick(f.more); o != nil {
			w.push(w.now+ms(5), item{kind: evCore, host: o, epoch: o.epoch, ev: core.Event{Kind: core.Proven, Session: s}})
		}
	case Pause, Suspend:
		if !h.paused {
			w.pause(h, f.kind == Suspend)
			w.push(w.now+f.long, item{kind: evResume, host: h, epoch: h.epoch})
		}
	case Cut, CutOut, CutIn:
		h.cutOut = h.cutOut || f.kind != CutIn
		h.cutIn = h.cutIn || f.kind != CutOut
		w.push(w.now+f.long, item{kind: evFault, fault: fault{kind: unCut, pick: uint32(h.index)}})
	case Stall:
		w.store.stall = max(w.store.stall, w.now+f.long/3)
	case RollPlan, RollAll, Failover:
		w.lose(f)
	case Outsider:
		w.kill(h)
		h.cutIn, h.cutOut = true, true
		h.restart = true
		w.push(w.now+ms(50), item{kind: evRestart, host: h, epoch: h.epoch})
		w.push(w.now+f.long, item{kind: evFault, fault: fault{kind: unCut, pick: uint32(h.index)}})
	case Slow:
		h.slow = true
	case Hung:
		h.hung = true
	case Stubborn:
		h.hung, h.stubborn = true, true
	case SourceFails:
		h.fails = true
	case Depart:
		w.deliverSoon(h, core.Event{Kind: core.Leave, Returning: f.more%2 == 0})
	case Twin:
		w.twin(h)
	case Order:
		w.randomOrder(h, f)
	case GapWatch:
		w.marks.Gaps++
		w.deliverSoon(h, core.Event{Kind: core.Gap})
		w.firstBatch(h)
	case Jump:
		w.deliverSoon(h, core.Event{Kind: core.Jumped})
	case BadListing:
		h.silent, h.short = f.more%2 == 0, f.more%2 == 1
	}
}

// lose takes the store back: its plan alone a little, all of it more, or to the
// very beginning. A server that takes over from another has not seen the newest
// writes either.
func (w *World) lose(f fault) {
	back, only := w.now-f.long/2, core.NoCell
	switch {
	case f.kind == RollPlan:
		back, only = w.now-f.long/8, core.PlanCell
	case f.kind == Failover:
		back = w.now - f.long/16
	case f.more%5 == 0:
		back = 0
	}
	w.judge(check.Event{Kind: check.Rollback, Until: w.now + 3*int64(w.opt.Config.Lease)})
	w.rollback(back, only)
	if f.kind == Failover && w.server != "" {
		w.become("s" + strconv.Itoa(w.stats.Steps+2))
	}
}

// unCut ends a cut; it is not a fault that one can ask for.
const unCut = numFaults

// reconnect joins a host that was cut off to the store again.
func (w *World) reconnect(h *host) {
	h.cutIn, h.cutOut = false, false
	h.woke = w.now
	if h.up {
		w.marks.Gaps++
		w.identify(h)
		w.deliverSoon(h, core.Event{Kind: core.Gap})
		w.firstBatch(h)
	}
}

func (w *World) deliverSoon(h *host, ev core.Event) {
	w.push(w.now, item{kind: evCore, host: h, epoch: h.epoch, ev: ev})
}

func (w *World) crash(h *host, f fault) {
	w.say(h, "is killed")
	w.kill(h)
	if f.more%4 != 0 {
		h.restart = true
		w.push(w.now+f.long, item{kind: evRestart, host: h, epoch: h.epoch})
	}
}

// restartLater starts a process that ended by itself again, as a supervisor
// would.
func (w *World) restartLater(h *host) {
	if w.calm {
		return
	}
	h.restart = true
	w.push(w.now+w.span(ms(50), ms(2500)), item{kind: evRestart, host: h, epoch: h.epoch})
}

// twin starts a second process under h's name.
func (w *World) twin(h *host) {
	spare := w.hosts[len(w.hosts)-1]
	for _, o := range w.hosts { // that of a hung one is most in want of a successor
		if o.up && o.hung && o != spare {
			h = o
		}
	}
	if spare.up || spare == h {
		return
	}
	spare.name, spare.rate, spare.base = h.name, h.rate, h.base+12345
	spare.restart = false
	w.join(spare)
}

// order changes the orders as an operator would.
func (w *World) order(f func(*record.Orders)) {
	o := record.Orders{}
	if cur := w.store.orders.Orders; cur != nil {
		o = *cur
	}
	was := o.Drains
	f(&o)
	for _, name := range was {
		if !w.healed && !slices.Contains(o.Drains, name) && slices.ContainsFunc(w.hosts, func(h *host) bool { return h.up && h.cfg.Name == name }) {
			w.marks.Undrained++
		}
	}
	o.Ver++
	w.put(core.Entry{Key: core.Key{Cell: core.OrdersCell}, Orders: &o}, w.store.orders.Rev, false)
}

func (w *World) randomOrder(h *host, f fault) {
	part := w.names[int(f.more/16)%w.opt.Partitions]
	one := []string{part}
	w.order(func(o *record.Orders) {
		switch f.more % 9 {
		case 0:
			o.Pauses = one
		case 1:
			o.Pauses = nil
		case 2:
			o.Freeze = !o.Freeze
		case 3:
			o.Drains = []string{h.name}
		case 4:
			o.Drains = nil
		case 5:
			o.Pins = []record.Pin{{Partition: part, Member: h.name}}
		case 6:
			o.Bans = []record.Pin{{Partition: part, Member: h.name}}
		case 7:
			o.Remove, o.Add = one, nil
		case 8:
			o.Remove, o.Add = nil, []string{"extra"}
		}
	})
}

// swarm draws the weather of one schedule: which faults there are and how bad,
// so that different seeds explore different corners.
func (w *World) swarm() {
	o := &w.opt
	r := w.rng
	o.noise = noise{net: ms(1 + int64(r.IntN(8)))}
	some := func(f Fault, most uint32) uint32 {
		if r.IntN(3) != 0 || !o.allows(f) {
			return 0
		}
		return r.Uint32N(most * 655)
	}
	o.noise.loseRequest = some(LoseRequest, 8)
	o.noise.loseAnswer = some(LoseAnswer, 8)
	o.noise.repeat = some(Repeat, 10)
	o.noise.late = some(Late, 15)
	o.noise.dropWatch = some(DropWatch, 10)
	o.noise.lateEffect = some(LateEffect, 20)
	o.noise.slowNet = some(SlowNet, 8)
	o.joinSpread = int64(time.Millisecond)
	if r.IntN(3) == 0 {
		o.joinSpread = ms(4000)
	}
	c := &o.Config
	c.Mode = record.Mode(r.IntN(4) / 3)
	c.Strategy = core.Strategy(r.IntN(4) / 3)
	c.Return = 0
	if r.IntN(5) == 0 {
		c.Return = 3 * time.Second
	}
	c.StopTime = time.Duration(2+r.IntN(3)) * time.Second
	if r.IntN(4) == 0 {
		c.StopTime = 30 * time.Second
	}
	c.Orphan = time.Duration(r.IntN(3)) * 2 * time.Second
	c.Fresh = r.IntN(4) != 0
	c.Volatile, w.server = false, ""
	if r.IntN(3) == 0 {
		c.Volatile, w.server = true, "s1"
	}
	o.abortReturns = r.IntN(3) == 0
	o.failures = 1 + 2*r.IntN(2)
	o.Tune = nil
	if r.IntN(4) == 0 { // some are more patient than their leader
		patient := r.IntN(len(w.hosts))
		o.Tune = func(host int, c *core.Config) {
			if host == patient {
				c.StopTime = time.Minute
			}
		}
	}
	c.Keep = 10 * time.Minute
	if r.IntN(4) == 0 {
		// Longer than any message is late: who is shown a record that has been
		// deleted takes it for a newcomer's. In earnest that is ten minutes.
		c.Keep = 8 * time.Second
	}
	c.Stuck = time.Duration(1+r.IntN(4)) * time.Second
	o.noise.slowStart = some(SlowStart, 20)
	for i, h := range w.hosts {
		h.rate = int64(r.IntN(20001)) - 10000
		h.base = int64(r.Uint32()) + w.shift
		h.name = memberName(i)
	}
	o.horizon = ms(7000 + int64(r.IntN(6000)))
	w.drawFaults()
	w.drawLoads()
	w.drawSize()
	w.drawChoices()
}

// drawChoices makes an eighth of the schedules work on without a store, and another one
// quarantine. They are drawn from numbers of their own, so that other schedules stay as
// they are.
func (w *World) drawChoices() {
	r, c := rand.New(rand.NewPCG(w.seed, 0xc401ce)), &w.opt.Config
	c.Continue, c.Quarantine = r.IntN(8) == 0, 0
	if r.IntN(8) == 0 {
		c.Quarantine = 2 + uint32(r.IntN(2))
	}
}

// drawFaults picks a few kinds and strikes with them, at least three times.
func (w *World) drawFaults() {
	o, r := &w.opt, w.rng
	o.faults, o.kinds = o.faults[:0], o.kinds[:0]
	var all []Fault
	for f := range LoseRequest {
		if o.allows(f) {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		return // nothing but noise was asked for
	}
	for range 1 + r.IntN(5) {
		f := all[r.IntN(len(all))]
		// A rollback takes most promises away, so it is rare.
		if (f == RollAll || f == RollPlan || f == Failover) && len(o.Only) == 0 && r.IntN(3) != 0 {
			f = all[r.IntN(len(all))]
		}
		o.kinds = append(o.kinds, f)
	}
	for range 4 + r.IntN(4) {
		f := w.drawFault(o.kinds)
		f.at = w.span(ms(300), o.horizon-ms(500))
		o.faults = append(o.faults, f)
	}
}

func (w *World) drawFault(kinds []Fault) fault {
	return fault{
		kind: kinds[w.rng.IntN(len(kinds))],
		long: w.span(ms(200), ms(9000)),
		pick: w.rng.Uint32(),
		more: w.rng.Uint32(),
	}
}
