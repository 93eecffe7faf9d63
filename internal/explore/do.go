package explore

import (
	"slices"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// spend takes one from a budget.
func (w *world) spend(f Fault) {
	if w.budget[f] != Unlimited {
		w.budget[f]--
	}
}

// do returns the world after a move.
func (w *world) do(m move) *world {
	w = w.clone()
	who := int(m.who)
	switch m.op {
	case opTime:
		w.pass()
	case opArrive:
		w.arrive(w.unpost(int(m.arg)))
	case opApply:
		x := w.unpost(int(m.arg))
		x.ev, x.kind, x.shape = w.apply(&x), answer, nil
		if !x.late {
			w.post(x)
		}
	case opShow:
		w.show(who, int(m.arg))
	case opMiss:
		w.spend(Miss)
		p := &w.procs[who]
		p.behind = slices.Delete(slices.Clone(p.behind), int(m.arg), int(m.arg)+1)
	case opThaw:
		p := &w.procs[who]
		slept := p.state == asleep
		p.state, p.frozen, p.deaf = up, 0, false
		// clock-counts-suspend: see leaseClock.
		if slept && !rule.ClockCountsSuspend.Off() {
			w.step(who, &core.Event{Kind: core.Jumped, CountsSuspend: true})
		}
	case opJoin:
		w.join(who)
	case opStrike:
		w.spend(Fault(m.arg))
		w.strike(who, Fault(m.arg))
	case opLose:
		w.spend(LoseRequest)
		w.giveUp(w.unpost(int(m.arg)))
	case opMute:
		w.spend(LoseAnswer)
		x := w.unpost(int(m.arg))
		if x.kind == request {
			w.apply(&x)
		}
		w.giveUp(x)
	case opDelay:
		w.spend(Late)
		x := w.unpost(int(m.arg))
		w.giveUp(x)
		x.late, x.over = true, true
		w.post(x)
	case opRepeat:
		w.spend(Repeat)
		again := w.mail[m.arg]
		again.late, again.over = true, true
		w.arrive(w.unpost(int(m.arg)))
		w.post(again)
	case opEffect:
		w.spend(Effect)
		r := w.procs[who].runs[m.arg]
		w.post(mail{kind: effect, who: m.who, late: true, run: run{id: r.id, part: r.part, token: r.token}})
	case opTwo:
		w.spend(CrashTwo)
		w.kill(who)
		w.kill(int(m.arg))
	case opFlood:
		w.flood(who)
	case opVanish:
		w.unpost(int(m.arg))
	case opProve:
		w.spend(Proof)
		w.step(who, &core.Event{Kind: core.Proven, Session: session(int(m.arg))})
	}
	w.promptly()
	w.judge()
	return w
}

// promptly does what takes no time.
func (w *world) promptly() {
	for w.cfg.Prompt != 0 && w.bad == nil {
		i := slices.IndexFunc(w.mail, func(m mail) bool {
			switch m.kind {
			case listing, measured, scaled, started, closed:
				return w.cfg.Prompt&Sources != 0 && w.procs[m.who].state == up
			case request:
				return w.cfg.Prompt.takes(m.ev.Verb) && !m.late && w.procs[m.who].state == up && !w.deaf(&m)
			}
			return false
		})
		if i >= 0 {
			w.arrive(w.unpost(i))
			continue
		}
		if w.cfg.Prompt&Shows == 0 {
			return
		}
		i = slices.IndexFunc(w.procs, func(p proc) bool { return p.state == up && len(p.behind) > 0 && !p.deaf })
		if i < 0 {
			return
		}
		w.show(i, 0)
	}
}

// takes tells whether a call takes no time.
func (p Prompt) takes(v core.Verb) bool {
	if v == core.Put || v == core.Delete {
		return p&Writes != 0
	}
	return p&Reads != 0
}

// deaf: a read of somebody who hears nothing.
func (w *world) deaf(m *mail) bool {
	return w.procs[m.who].deaf && m.kind == request && (m.ev.Verb == core.Get || m.ev.Verb == core.List)
}

func (w *world) show(who, i int) {
	p := &w.procs[who]
	ev := w.shown(p.behind[i])
	p.behind = slices.Delete(slices.Clone(p.behind), i, i+1)
	w.step(who, &ev)
}

// giveUp: the caller of m will hear that nobody knows.
func (w *world) giveUp(m mail) {
	if !m.over && w.procs[m.who].alive() {
		w.post(mail{kind: lost, who: m.who, ev: core.Event{Kind: core.Answer, Verb: m.ev.Verb, Key: m.ev.Key}})
	}
}

func (w *world) join(who int) {
	p := &w.procs[who]
	p.node, p.state = w.cfg.node(who), up
	for _, c := range [...]core.Cell{core.PlanCell, core.RosterCell} {
		if w.store.slot(core.Key{Cell: c}).cur.Rev != 0 {
			p.owe(unseen{core.Key{Cell: c}, true})
		}
	}
	w.identify(who)
	w.step(who, &core.Event{Kind: core.Begin})
}

// pass lets a tick pass. Whoever is awake and has a deadline by then notices.
func (w *world) pass() {
	w.now = w.now.Add(tick)
	for i := range w.mail {
		if m := w.mail[i]; m.kind == lost || w.deaf(&m) {
			m.ev.Entries, m.ev.Rev = nil, 0
			m.kind, m.ev.Outcome, m.shape = answer, core.Unknown, nil
			w.mail[i] = m
		}
	}
	slices.SortStableFunc(w.mail, order)
	if w.cfg.Wait > 0 {
		w.age()
	}
	for i := range w.procs {
		p := &w.procs[i]
		switch p.state {
		case asleep:
			// clock-counts-suspend: see leaseClock.
			if rule.ClockCountsSuspend.Off() {
				p.held += core.Time(tick)
			}
		case paused:
			if w.cfg.Thaw > 0 {
				p.frozen++
			}
		case up:
			if p.node.Next() <= w.local(p) {
				w.step(i, &core.Event{Kind: core.Tick})
			}
			w.overtime(i)
		}
	}
}

// arrive delivers mail.
func (w *world) arrive(m mail) {
	who := int(m.who)
	p := &w.procs[who]
	switch m.kind {
	case request:
		ev := w.apply(&m)
		if m.over || !p.alive() {
			return
		}
		if p.state != up {
			w.post(mail{kind: answer, who: m.who, ev: ev})
			return
		}
		w.step(who, &ev)
	case answer:
		w.step(who, &m.ev)
	case show:
		w.step(who, &m.ev)
	case started, givenUp, stopped, listing, measured, closed:
		if ev, ok := w.word(&m); ok {
			w.step(who, &ev)
		}
	case scaled:
		w.carryOut(&m)
		w.step(who, &core.Event{Kind: core.Scaled})
	case gap:
		w.gap(who)
	case effect:
		w.land(who, &m.run)
	}
}

// word is what a source or handler says, as an event.
func (w *world) word(m *mail) (ev core.Event, ok bool) {
	p := &w.procs[m.who]
	switch m.kind {
	case started:
		return core.Event{Kind: core.Started, ID: m.run.id, Token: m.run.token}, true
	case closed:
		return core.Event{Kind: core.Closed}, true
	case measured:
		// The next load begins with each strike.
		ev = core.Event{Kind: core.Measured, Loads: w.cfg.Loads[int(w.cfg.Faults[Load]-w.budget[Load])]}
		if ev.Loads == nil {
			ev.Outcome = core.Unknown
		}
		return ev, true
	case listing:
		ev.Kind = core.Listed
		names := w.cfg.Lists
		if names == nil {
			names = w.cfg.Parts
		}
		for _, name := range names {
			ev.Listing = append(ev.Listing, record.Partition{Name: name})
		}
		return ev, true
	}
	i := slices.IndexFunc(p.runs, func(r run) bool { return r.id == m.run.id && r.token == m.run.token })
	if i < 0 {
		return ev, false
	}
	p.runs = slices.Delete(slices.Clone(p.runs), i, i+1)
	w.mail = slices.DeleteFunc(w.mail, func(x mail) bool {
		return x.who == m.who && x.run == m.run && (x.kind == started || x.kind == stopped || x.kind == givenUp)
	})
	ev = core.Event{Kind: core.Stopped, ID: m.run.id, Token: m.run.token}
	if m.kind == givenUp {
		ev.Kind = core.GivenUp
	}
	return ev, true
}

// floods tells whether mail is part of a flood: it concerns its reader alone.
func (m *mail) floods() bool {
	return !m.late && (m.kind == answer || m.kind == started || m.kind == stopped || m.kind == givenUp || m.kind == listing || m.kind == measured || m.kind == closed)
}

// waitsFor counts what would reach a process at once.
func (w *world) waitsFor(who int) int {
	n := len(w.procs[who].behind)
	for i := range w.mail {
		if int(w.mail[i].who) == who && w.mail[i].floods() {
			n++
		}
	}
	return n
}

// flood delivers all that waits for a process together: what a shell does that
// was frozen, or just busy.
func (w *world) flood(who int) {
	var evs []core.Event
	for {
		i := slices.IndexFunc(w.mail, func(m mail) bool { return int(m.who) == who && m.floods() })
		if i < 0 {
			break
		}
		m := w.unpost(i)
		if m.kind == answer {
			evs = append(evs, m.ev)
		} else if ev, ok := w.word(&m); ok {
			evs = append(evs, ev)
		}
	}
	p := &w.procs[who]
	for _, u := range p.behind {
		evs = append(evs, w.shown(u))
	}
	p.behind = nil
	w.steps(who, evs)
}

func (w *world) strike(who int, f Fault) {
	p := &w.procs[who]
	switch f {
	case Crash:
		w.kill(who)
	case Freeze:
		p.state = paused
	case Sleep:
		p.state = asleep
	case Busy:
		p.busy = true
	case Hang:
		p.hung = true
		w.mail = slices.DeleteFunc(w.mail, func(m mail) bool { return m.kind == stopped && int(m.who) == who })
	case Fail:
		p.fails = true
		for i := range w.mail {
			if m := &w.mail[i]; m.kind == started && int(m.who) == who {
				m.kind = givenUp
			}
		}
		slices.SortStableFunc(w.mail, order)
	case Leave:
		p.leaves = true
		w.step(who, &core.Event{Kind: core.Leave})
	case Gap:
		w.gap(who)
	case Deaf:
		p.deaf = true
	case Load: // the next measurement shows it
	case Order:
		w.order()
	case Rollback, Failover:
		c := &w.store.plan
		*c = slot{cur: c.old, shape: c.oldShape}
		w.second = f == Failover
		w.lose()
	case Empty:
		w.store = store{rev: w.store.rev, plan: slot{cur: core.Entry{Key: core.Key{Cell: core.PlanCell}}}}
		w.lose()
	}
}

// lose: the store was restored; everybody connects anew.
func (w *world) lose() {
	w.rolled = true
	for i := range w.procs {
		if w.procs[i].alive() {
			w.procs[i].behind = nil
			w.post(mail{kind: gap, who: uint8(i)})
		}
	}
}

// order writes an operator's next order.
func (w *world) order() {
	n := len(w.cfg.Orders) - int(w.budget[Order]) - 1
	next := record.Orders{}
	if o := w.store.orders.cur.Orders; o != nil {
		next = *o
	}
	next.Ver++
	w.cfg.Orders[n](&next)
	w.put(core.Entry{Key: core.Key{Cell: core.OrdersCell}, Orders: &next}, w.store.orders.cur.Rev, false)
}
