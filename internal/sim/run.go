package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rota-dev/rota/internal/check"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// step takes the next thing that happens.
func (w *World) step() bool {
	if len(w.queue.heap) == 0 {
		return false
	}
	it := &w.cur
	w.now = max(w.now, w.queue.pop(it))
	h := it.host
	if h == nil || it.kind == evApply || it.kind == evLand || it.kind == evRestart || it.kind == evResume || it.kind == evFleet {
		w.happen(h, it)
		return true
	}
	if it.epoch != h.epoch || !h.up {
		return true
	}
	if h.paused {
		h.held = append(h.held, *it)
		return true
	}
	w.happen(h, it)
	return true
}

func (w *World) happen(h *host, it *item) {
	if w.script != nil {
		w.script.met(w, h, it)
	}
	switch it.kind {
	case evTick:
		if h.tick <= w.now {
			h.tick = int64(core.Never)
		}
		w.deliver(h, &core.Event{Kind: core.Tick})
	case evCore:
		w.deliver(h, &it.ev)
	case evBegin:
		w.begin(h)
	case evApply:
		w.apply(*it)
	case evAnswer:
		w.answered(it)
	case evSeen:
		if h.cutIn {
			w.stats.Faults[DropWatch]++
			return
		}
		w.deliver(h, &it.ev)
	case evListing:
		ev := w.listing(h)
		w.deliver(h, &ev)
	case evMeasured:
		ev := w.measure(h)
		w.deliver(h, &ev)
	case evScaled:
		w.deliver(h, &it.ev)
	case evFleet:
		o := it.order
		w.carryOut(&o)
	case evStarted:
		if h.find(it.run) >= 0 {
			w.deliver(h, &core.Event{Kind: core.Started, ID: it.run.id, Token: it.run.token})
		}
	case evStopped:
		w.stopped(h, it.run, core.Stopped)
	case evFailed:
		w.failed(h, it.run)
	case evRetry:
		w.retry(h, it.run)
	case evWork, evSend, evLand:
		w.effect(h, *it)
	case evFault:
		w.strike(it.fault)
	case evRestart:
		if !h.up && it.epoch == h.epoch && h.restart {
			w.join(h)
		}
	case evResume:
		if it.epoch == h.epoch {
			w.wake(h)
		}
	case evOverdue:
		w.overdue(it)
	}
}

// pause stops a process as SIGSTOP does: what is meant for it waits. A suspend
// stops the whole machine; a good clock counts on all the same.
func (w *World) pause(h *host, suspend bool) {
	h.paused, h.asleep = true, suspend
	h.pausedAt = w.now
}

// wake lets a paused process go on: everything that waited comes at once.
func (w *World) wake(h *host) {
	if !h.paused || !h.up {
		return
	}
	h.paused, h.woke = false, w.now
	// clock-counts-suspend: see leaseClock.
	if h.asleep && rule.ClockCountsSuspend.Off() {
		h.suspend += w.now - h.pausedAt
		w.judge(check.Event{Kind: check.Lease, Who: h.who, Until: h.global(h.lease)})
	}
	h.tick = int64(core.Never)
	waiting := h.held
	h.held = nil
	for _, x := range waiting { // a handler's thread may well be the first to run
		if x.kind != evTick {
			w.push(w.now, x)
		}
	}
	w.push(w.now, item{kind: evTick, host: h, epoch: h.epoch})
}

// workLater plans the next effect of a run.
func (w *World) workLater(h *host, r hrun) {
	if w.opt.noEffects {
		return
	}
	w.push(w.now+w.span(ms(20), ms(2400)), item{kind: evWork, host: h, epoch: h.epoch, run: r})
}

// effect is a handler's deed in three parts: it checks the lease, sends, and the
// sink takes or refuses. A process may be frozen between the first two, and the
// last may be late.
func (w *World) effect(h *host, it item) {
	switch it.kind {
	case evWork:
		i := h.find(it.run)
		if i < 0 {
			return
		}
		if h.runs[i].idle {
			w.workLater(h, it.run)
			return
		}
		// check-before-every-effect: see check.
		if now := h.local(w.now); now < h.node.Trusted() || rule.CheckBeforeEveryEffect.Off() {
			it.kind = evSend
			it.who = h.who
			if !worksOn(h) { // of work without a lease only I2 is asked
				w.judge(check.Event{Kind: check.Act, Who: h.who, Part: it.run.part, Token: it.run.token})
			}
			h.runs[i].busy = true
			w.look(h, it.run, core.Looked)
			w.push(w.now+w.quick(), it)
		} else {
			w.look(h, it.run, core.Denied)
		}
	case evSend:
		i := h.find(it.run)
		if i >= 0 {
			h.runs[i].busy = false
			w.workLater(h, it.run)
		}
		it.kind = evLand
		if w.calm {
			w.aloft = append(w.aloft, it) // until the play says land
			return
		}
		at := w.now + w.quick()
		if w.chance(w.opt.noise.lateEffect) {
			w.stats.Faults[LateEffect]++
			at += w.span(ms(500), ms(9000))
		}
		w.push(at, it)
	case evLand:
		c := &w.sink[it.run.part]
		e := check.Event{Kind: check.Accept, Who: it.who, Part: it.run.part, Token: it.run.token}
		// sink-checks-tokens: A sink refuses every token that is lower than one it has
		// accepted, and an equal one of another session.
		// Without it: C1 is frozen in the middle of an effect on q. C2 is granted q and
		// writes. C1 wakes up, and its effect arrives last.
		if c.any && (it.run.token < c.token || it.run.token == c.token && it.who != c.who) && !rule.SinkChecksTokens.Off() {
			e.Kind = check.Refuse
			w.marks.Refused++
		} else {
			*c = sinkCell{it.run.token, it.who, true}
		}
		w.judge(e)
		if w.hear != nil {
			verb := map[check.Kind]string{check.Accept: "accepts", check.Refuse: "refuses"}[e.Kind]
			w.hear(seenLine{text: fmt.Sprintf("sink %s %s@%d from %s", verb, w.names[it.run.part], it.run.token.Counter(), h.name)})
		}
	}
}

// worksOn: the member acts without a lease, as it was told to.
func worksOn(h *host) bool { return h.node.Trusted() != h.node.Lease() }

// look tells the core what the function of a partition got when it asked for its
// lease.
func (w *World) look(h *host, r hrun, got core.Kind) {
	if w.opt.funcs {
		w.deliver(h, &core.Event{Kind: got, ID: r.id, Token: r.token})
	}
}

// Result is what one schedule came to.
type Result struct {
	Seed      uint64
	Steps     int
	Faults    int // that hit a live member
	Violation *check.Violation
}

// What a schedule must have had, at least, to count.
const (
	leastSteps  = 100
	leastFaults = 3
)

// Run plays one schedule: chance and faults first, with safety checked after
// every step; then the weather clears and everything has to come to rest.
func (w *World) Run(seed uint64) Result {
	w.reset(seed)
	w.swarm()
	for i, h := range w.hosts {
		if i < w.opt.Members {
			h.restart = true
			w.push(w.span(0, w.opt.joinSpread), item{kind: evRestart, host: h, epoch: h.epoch})
		}
	}
	for _, f := range w.opt.faults {
		w.push(f.at, item{kind: evFault, fault: f})
	}
	w.until(w.opt.horizon)
	for w.bad == nil && w.stats.LiveFaults < leastFaults && len(w.opt.kinds) > 0 { // some met nobody alive
		if w.pick(0) == nil {
			w.join(w.hosts[0])
		}
		w.until(w.now + ms(500))
		w.strike(w.drawFault(w.opt.kinds))
	}
	if w.bad == nil {
		w.heal()
		w.rest()
	}
	for w.bad == nil && w.stats.Steps < leastSteps { // peace is checked too
		w.until(w.now + ms(1000))
	}
	return Result{Seed: seed, Steps: w.stats.Steps, Faults: w.stats.LiveFaults, Violation: w.bad}
}

func (w *World) until(t int64) {
	for w.bad == nil && len(w.queue.heap) > 0 && w.queue.heap[0].at <= t {
		w.step()
	}
	w.now = max(w.now, t)
}

// rest lets time pass until all is well, and complains when that takes longer
// than any chain of leases, drains and returns explains.
func (w *World) rest() {
	limit := w.now + int64(90*time.Second)
	for w.bad == nil {
		v := w.atRest()
		if v == nil {
			return
		}
		if w.now > limit {
			w.bad = v
			return
		}
		w.until(w.now + ms(500))
	}
}

// atRest asks L1.
func (w *World) atRest() *check.Violation {
	w.final.Live, w.final.Planned, w.final.Parts = w.final.Live[:0], w.final.Planned[:0], w.final.Parts[:0]
	w.final.At = w.now
	for _, h := range w.hosts {
		if h.up && !w.refused(h) {
			w.final.Live = append(w.final.Live, h.who)
		}
	}
	if p := w.store.plan.Plan; p != nil {
		for _, s := range p.Members {
			w.final.Planned = append(w.final.Planned, w.hash[s])
		}
	}
	for i := range w.opt.Partitions {
		if w.calm && w.off(w.names[i]) || w.unlisted(w.names[i]) || w.quarantined(w.names[i]) {
			continue
		}
		w.final.Parts = append(w.final.Parts, int32(i))
	}
	return w.checks.Settled(w.final)
}

// refused: the leader does not take it, its lease being what it is.
func (w *World) refused(h *host) bool {
	l, p := w.leader(), w.store.plan.Plan
	if l == nil || p == nil || slices.Contains(p.Members, h.node.Session()) {
		return false
	}
	return h.cfg.Lease > 4*l.cfg.Lease
}

// unlisted: the roster does not name the partition, and the leader cannot ask
// the source for it.
func (w *World) unlisted(name string) bool {
	l := w.leader()
	if l == nil || !l.silent || w.store.roster.Roster == nil {
		return false
	}
	i := slices.IndexFunc(w.store.roster.Roster.Entries, func(p record.Partition) bool { return p.Name == name })
	return i < 0 || w.store.roster.Roster.Entries[i].Removed
}

// quarantined: it has killed too many.
func (w *World) quarantined(name string) bool {
	roster, p := w.store.roster.Roster, w.store.plan.Plan
	if w.opt.Config.Quarantine == 0 || roster == nil || p == nil {
		return false
	}
	i := slices.IndexFunc(roster.Entries, func(p record.Partition) bool { return p.Name == name })
	return i >= 0 && i < len(p.Rows) && p.Rows[i].Reason == record.Quarantined
}

// off: an order keeps the partition from running.
func (w *World) off(name string) bool {
	o := w.store.orders.Orders
	return o != nil && (slices.Contains(o.Pauses, name) || slices.Contains(o.Remove, name))
}

// listAgain heals the source, but half of the members to which it is silent: a
// group that knows its partitions has to do without. Which they are is written in
// the roster; where that is gone, only a source can tell.
func (w *World) listAgain() {
	for _, h := range w.hosts {
		h.short = false
		h.silent = h.silent && !w.lossy && w.store.roster.Rev != 0 && w.rng.IntN(2) == 0
	}
}

// heal ends all faults: everything cut is joined, everything stopped goes on,
// most of what died is started again.
func (w *World) heal() {
	w.say(nil, "the weather clears")
	w.healed = true
	w.opt.noise = noise{}
	w.store.stall = 0
	w.listAgain()
	some := false
	for i, h := range w.hosts {
		h.cutIn, h.cutOut, h.woke = false, false, w.now
		h.fails = false
		if h.paused {
			w.wake(h)
		}
		if h.up && (h.hung || h.stubborn || h.slow) {
			h.hung, h.stubborn, h.slow = false, false, false
			for _, r := range h.runs {
				if r.asked || r.cancel {
					w.push(w.now, item{kind: evStopped, host: h, epoch: h.epoch, run: r})
				}
			}
		}
		h.restart = i < w.opt.Members && (w.rng.IntN(5) > 0 || !some && i == w.opt.Members-1)
		some = some || h.up || h.restart
		if !h.up && h.restart {
			w.push(w.now+w.quick(), item{kind: evRestart, host: h, epoch: h.epoch})
		}
		w.identify(h)
		if h.up { // its watches broke off while it was cut
			w.push(w.now+w.quick(), item{kind: evCore, host: h, epoch: h.epoch, ev: core.Event{Kind: core.Gap}})
			w.firstBatch(h)
		}
	}
	w.order(func(o *record.Orders) { *o = record.Orders{Ver: o.Ver} })
}

func (w *World) reset(seed uint64) {
	w.seed = seed
	w.pcg.Seed(seed, 0x9e3779b97f4a7c15)
	w.rng = rand.New(&w.pcg)
	w.now, w.bad, w.healed, w.lossy, w.blind, w.doubted, w.emptied, w.twins = 0, nil, false, false, 0, 0, false, false
	w.queue.reset()
	w.store.reset()
	w.meter = meter{}
	w.scaler = scaler{}
	w.who = w.who[:0]
	clear(w.hash)
	clear(w.granted)
	clear(w.begun)
	w.chunk = nil
	w.stats.Steps, w.stats.LiveFaults, w.stats.Plans = 0, 0, 0
	w.names = w.names[:0]
	for i := range w.opt.Partitions {
		w.names = append(w.names, partName(i))
	}
	w.sink = append(w.sink[:0], make([]sinkCell, len(w.names))...)
	w.checks.Reset(len(w.hosts)+8, len(w.names))
	for i, h := range w.hosts {
		*h = host{name: h.name, index: i, runs: h.runs[:0], calls: h.calls[:0], held: h.held[:0]}
	}
	w.era = 1000 + w.firstEra
	w.store.rev = w.firstRev
}

// chance is true with probability p in 65536.
func (w *World) chance(p uint32) bool { return p != 0 && w.rng.Uint32()>>16 < p }

// span draws a duration.
func (w *World) span(from, to int64) int64 {
	if w.calm || to <= from {
		return from
	}
	return from + int64(w.rng.Uint64N(uint64(to-from)))
}

// quick is a short delay inside one machine.
func (w *World) quick() int64 { return w.span(0, ms(2)) }

// delay is how long a message takes between a member and the store.
func (w *World) delay(h *host) int64 {
	if w.calm {
		return w.opt.Latency
	}
	if w.healed {
		return w.span(ms(1)/5, ms(3))
	}
	if w.chance(w.opt.noise.slowNet) {
		w.stats.Faults[SlowNet]++
		return w.span(ms(20), ms(1500))
	}
	return w.span(ms(1)/5, w.opt.noise.net)
}
