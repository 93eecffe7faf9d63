package explore

import (
	"cmp"
	"slices"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// tick is the unit of time. All deadlines fall on the tick at or after them, so
// what matters of a duration is how many ticks it takes.
const tick = time.Second

// A world is one state: the members, the store, and everything under way
// between them. Worlds share what they have in common; a move copies what it
// changes.
type world struct {
	cfg    *Config
	now    core.Time
	procs  []proc
	store  store
	mail   []mail
	budget [faults]uint8
	sinks  []sink
	high   []record.Token // highest granted, by partition
	plans  uint8          // made since the exploration began, where that is asked
	waits  uint8          // ticks that a dead member has been in the plan, where that is asked
	rolled bool           // the store lost a write
	second bool           // it is another server now
	counts bool           // plans are counted: the exploration has begun
	bad    *Violation
}

// A proc is one member's process.
type proc struct {
	node   *core.Node
	state  procState
	held   core.Time // how long its clock has stood still (with a defective clock only)
	runs   []run
	watch  core.Watch
	hung   bool  // its handlers do not return, not even when cancelled
	busy   bool  // its handlers take their time when asked to stop
	fails  bool  // its source fails
	leaves bool  // it was told to leave
	deaf   bool  // its reads fail, its watches show nothing
	frozen uint8 // for so many ticks, where that is limited
	behind []unseen
	shape  *core.Shape // of the node, at the time shaped
	shaped core.Time
}

// An unseen is a record that a watch has yet to show; first: because the watch
// has just begun. The zero session stands for all members in one batch.
type unseen struct {
	key   core.Key
	first bool
}

type procState uint8

const (
	waiting procState = iota // not started yet
	up
	paused // frozen: nothing reaches it
	asleep // with its whole machine
	gone
)

// A run is one partition as the process runs it.
type run struct {
	id     record.ID
	part   uint8
	token  record.Token
	asked  bool
	cancel bool
}

type store struct {
	plan, roster, orders slot
	members              []slot // by session
	rev                  core.Rev
}

// A slot is one record and, where the store may lose a write, the one before.
type slot struct {
	cur, old core.Entry

	shape, oldShape *core.Shape
}

// A mail is something under way. What is urgent arrives within the tick; what is
// late may arrive at any later time.
type mail struct {
	kind mailKind
	who  uint8
	late bool // not urgent
	over bool // nobody waits for it any more
	run  run
	ev   core.Event

	shape *core.Shape // of ev
}

type mailKind uint8

const (
	request mailKind = iota
	answer
	lost // a call that will be answered by Unknown on the next tick
	show // of a watch: a replaced version, late
	started
	stopped
	givenUp
	listing
	measured
	scaled
	closed
	gap
	effect
)

// A sink is the last effect that was accepted, by partition.
type sink struct {
	token record.Token
	who   record.Session
}

func (w *world) clone() *world {
	c := *w
	c.procs = slices.Clone(w.procs)
	c.mail = slices.Clone(w.mail)
	return &c
}

func (p *proc) alive() bool { return p.state == up || p.state == paused || p.state == asleep }

// local is the time on the process's own clock.
func (w *world) local(p *proc) core.Time { return w.now - p.held }

// valid: the process believes that it may act.
func (w *world) valid(p *proc) bool { return p.alive() && w.local(p) < p.node.Lease() }

// mayAct: the process lets effects happen, with a lease or, where it works on, without.
func (w *world) mayAct(p *proc) bool { return p.alive() && w.local(p) < p.node.Trusted() }

// post adds mail, keeping it in an order that does not tell how it came about.
func (w *world) post(m mail) {
	at, _ := slices.BinarySearchFunc(w.mail, m, order)
	for at < len(w.mail) && order(w.mail[at], m) == 0 {
		at++ // after its likes: they are in the order they were sent
	}
	w.mail = slices.Insert(w.mail, at, m)
}

func order(a, b mail) int {
	return cmp.Or(cmp.Compare(a.who, b.who), cmp.Compare(a.kind, b.kind), cmp.Compare(a.ev.Verb, b.ev.Verb),
		cmp.Compare(a.ev.Key.Cell, b.ev.Key.Cell), cmp.Compare(a.ev.Key.Session, b.ev.Key.Session), cmp.Compare(a.run.part, b.run.part))
}

// unpost takes mail i out.
func (w *world) unpost(i int) mail {
	m := w.mail[i]
	w.mail = slices.Delete(w.mail, i, i+1)
	return m
}

// step and steps give events to a process and do what it says.
func (w *world) step(who int, ev *core.Event) { w.steps(who, []core.Event{*ev}) }

func (w *world) steps(who int, evs []core.Event) {
	p := &w.procs[who]
	if p.state != up {
		return
	}
	p.node, p.shape = p.node.Clone(), nil
	acts := p.node.Steps(w.local(p), evs)
	for i := range acts {
		if p.state != up {
			return
		}
		w.act(who, &acts[i])
	}
}

func (w *world) act(who int, a *core.Action) {
	p := &w.procs[who]
	switch a.Do {
	case core.DoCall:
		m := mail{kind: request, who: uint8(who)}
		m.ev = core.Event{Kind: core.Answer, Verb: a.Verb, Key: a.Key, Rev: a.Prev, First: a.Verb == core.Put && !a.Compares()}
		if a.Verb == core.Put {
			m.ev.Entries = []core.Entry{{Key: a.Key, Plan: a.Plan, Roster: a.Roster, Member: a.Member}}
		}
		w.post(m)
	case core.DoWatch:
		w.rewatch(who, a.Watch)
	case core.DoStart:
		w.start(who, a)
	case core.DoStop, core.DoCancel:
		w.stop(who, a)
	case core.DoAsk:
		w.post(mail{kind: listing, who: uint8(who)})
	case core.DoMeasure:
		w.post(mail{kind: measured, who: uint8(who)})
	case core.DoScale:
		w.scale(who, &a.Fleet)
	case core.DoClose:
		w.post(mail{kind: closed, who: uint8(who)})
	case core.DoAbort:
		// A handler that outlives its time ends with its process. One that would
		// have ended just now is closed by the shell.
		if (p.hung || p.busy) && !w.cfg.Returns {
			w.kill(who)
			return
		}
		for _, r := range p.runs {
			if r.cancel || !w.cfg.Returns {
				w.finish(who, r)
			}
		}
	case core.DoEnd:
		w.kill(who)
	case core.DoNote:
	}
}

func (w *world) start(who int, a *core.Action) {
	p := &w.procs[who]
	r := run{id: a.ID, part: w.cfg.part(a.Name), token: a.Token}
	if i := slices.IndexFunc(p.runs, func(x run) bool { return x.part == r.part }); i >= 0 {
		w.fail("I7", "%s starts %s@%s while it still runs @%s", w.cfg.label(who), a.Name, a.Token, p.runs[i].token)
	}
	p.runs = append(slices.Clone(p.runs), r)
	m := mail{kind: started, who: uint8(who), run: r}
	if p.fails {
		m.kind = givenUp
	}
	w.post(m)
}

// stop asks a run to stop. A handler that is busy takes its time; one that hangs
// does not return at all.
func (w *world) stop(who int, a *core.Action) {
	p := &w.procs[who]
	i := slices.IndexFunc(p.runs, func(r run) bool { return r.id == a.ID && r.token == a.Token })
	if i < 0 {
		return
	}
	p.runs = slices.Clone(p.runs)
	r := &p.runs[i]
	r.asked, r.cancel = true, r.cancel || a.Do == core.DoCancel
	if p.hung {
		return
	}
	if j := slices.IndexFunc(w.mail, func(m mail) bool { return m.kind == stopped && int(m.who) == who && m.run.part == r.part }); j >= 0 {
		w.mail[j].late = w.mail[j].late && !r.cancel // a busy handler heeds its cancellation
		return
	}
	w.post(mail{kind: stopped, who: uint8(who), late: p.busy && !r.cancel, run: run{id: r.id, part: r.part, token: r.token}})
}

// finish closes a run at once.
func (w *world) finish(who int, r run) {
	if !w.stops(who, r) {
		w.post(mail{kind: stopped, who: uint8(who), run: run{id: r.id, part: r.part, token: r.token}})
	}
}

// kill ends a process. What it sent stays under way; what was meant for it does
// not.
func (w *world) kill(who int) {
	p := &w.procs[who]
	p.state, p.runs, p.behind, p.node = gone, nil, nil, nil
	p.hung, p.busy, p.fails, p.deaf = false, false, false, false
	w.mail = slices.DeleteFunc(w.mail, func(m mail) bool {
		return int(m.who) == who && m.kind != request && m.kind != effect
	})
	for i := range w.mail {
		if int(w.mail[i].who) == who && w.mail[i].kind == request {
			w.mail[i].over = true
		}
	}
}

// The store.

func (s *store) slot(k core.Key) *slot {
	switch k.Cell {
	case core.PlanCell:
		return &s.plan
	case core.RosterCell:
		return &s.roster
	case core.OrdersCell:
		return &s.orders
	}
	for i := range s.members {
		if s.members[i].cur.Session == k.Session {
			return &s.members[i]
		}
	}
	return nil
}

// apply does what a request asks for and returns the answer.
func (w *world) apply(m *mail) core.Event {
	ev := core.Event{Kind: core.Answer, Verb: m.ev.Verb, Key: m.ev.Key}
	switch m.ev.Verb {
	case core.Put:
		ev.Outcome, ev.Rev = w.put(m.ev.Entries[0], m.ev.Rev, m.ev.First)
	case core.Delete:
		ev.Outcome = w.remove(m.ev.Key, m.ev.Rev)
	case core.Get:
		ev.Outcome = core.NotFound
		if c := w.store.slot(m.ev.Key); c != nil && c.cur.Rev != 0 {
			ev.Outcome, ev.Entries = core.OK, []core.Entry{c.cur}
		}
	case core.List:
		hide := w.budget[Hide] > 0
		for i := range w.store.members {
			e := w.store.members[i].cur
			if hide && e.Session != session(int(m.who)) && e.Session == session(w.cfg.Hidden) {
				w.budget[Hide]--
				hide = false
				continue
			}
			ev.Entries = append(ev.Entries, e)
		}
	}
	return ev
}

func (w *world) put(e core.Entry, prev core.Rev, blind bool) (core.Outcome, core.Rev) {
	s := &w.store
	s.members = slices.Clone(s.members)
	c := s.slot(e.Key)
	if c == nil {
		if prev != 0 && !blind {
			return core.Conflict, 0
		}
		at, _ := slices.BinarySearchFunc(s.members, e.Session, func(x slot, id record.Session) int { return cmp.Compare(x.cur.Session, id) })
		s.members = slices.Insert(s.members, at, slot{})
		c = &s.members[at]
	} else if c.cur.Rev != prev && !blind {
		return core.Conflict, 0
	}
	s.rev++
	e.Rev = s.rev
	if e.Cell == core.PlanCell {
		w.judgePlan(c.cur.Plan, e.Plan)
	}
	w.keepOld(c)
	w.lag(c.cur, e)
	c.cur, c.shape = e, nil
	return core.OK, e.Rev
}

// keepOld remembers the version about to be replaced, if it may come back.
func (w *world) keepOld(c *slot) {
	if (w.budget[Rollback] > 0 || w.budget[Failover] > 0) && !w.cfg.Backup {
		c.old, c.oldShape = c.cur, c.shape
	}
}

func (w *world) remove(k core.Key, prev core.Rev) core.Outcome {
	s := &w.store
	c := s.slot(k)
	if c == nil || c.cur.Rev != prev {
		return core.Conflict
	}
	s.members = slices.DeleteFunc(slices.Clone(s.members), func(x slot) bool { return x.cur.Session == k.Session })
	s.rev++
	w.lag(core.Entry{}, core.Entry{Key: k, Rev: s.rev, Deleted: true})
	return core.OK
}

// lag: whoever watches has not seen e yet.
func (w *world) lag(was, e core.Entry) {
	for i := range w.procs {
		p := &w.procs[i]
		if !p.alive() || !watches(p, e.Key) {
			continue
		}
		if was.Rev != 0 && p.unseen(e.Key) && w.budget[Stale] > 0 {
			// The version it has not seen yet may still be shown, late.
			w.budget[Stale]--
			w.post(mail{kind: show, who: uint8(i), late: true, ev: core.Event{Kind: core.Seen, Key: e.Key, Entries: []core.Entry{was}}})
		}
		p.owe(unseen{key: e.Key})
	}
}

func (p *proc) unseen(k core.Key) bool {
	return slices.ContainsFunc(p.behind, func(u unseen) bool { return u.key == k })
}

// owe: the watch has to show u.
func (p *proc) owe(u unseen) {
	if p.unseen(u.key) {
		return
	}
	at, _ := slices.BinarySearchFunc(p.behind, u, func(a, b unseen) int {
		return cmp.Or(cmp.Compare(a.key.Cell, b.key.Cell), cmp.Compare(a.key.Session, b.key.Session))
	})
	p.behind = slices.Insert(slices.Clone(p.behind), at, u)
}

func watches(p *proc, k core.Key) bool {
	switch k.Cell {
	case core.MemberCell:
		return p.watch.All || p.watch.Leader == k.Session
	case core.OrdersCell:
		return p.watch.Orders
	}
	return true
}

// rewatch begins watches anew: the first batch is everything there is.
func (w *world) rewatch(who int, to core.Watch) {
	p := &w.procs[who]
	was := p.watch
	p.watch = to
	all := core.Key{Cell: core.MemberCell}
	p.behind = slices.DeleteFunc(slices.Clone(p.behind), func(u unseen) bool {
		return u.key == all && !to.All || u.key != all && !watches(p, u.key) || to.All && !was.All && u.key.Cell == core.MemberCell
	})
	switch {
	case to.All && !was.All:
		p.owe(unseen{all, true})
	case !to.All && to.Leader != was.Leader && to.Leader != 0:
		if k := (core.Key{Cell: core.MemberCell, Session: to.Leader}); w.store.slot(k) != nil {
			p.owe(unseen{k, true})
		}
	}
	if k := (core.Key{Cell: core.OrdersCell}); to.Orders && !was.Orders && w.store.orders.cur.Rev != 0 {
		p.owe(unseen{k, true})
	}
}

// gap breaks all watches off: they begin anew.
func (w *world) gap(who int) {
	p := &w.procs[who]
	was := p.watch
	p.watch, p.behind = core.Watch{}, nil
	w.rewatch(who, was)
	for _, c := range [...]core.Cell{core.PlanCell, core.RosterCell} {
		if w.store.slot(core.Key{Cell: c}).cur.Rev != 0 {
			p.owe(unseen{core.Key{Cell: c}, true})
		}
	}
	w.identify(who)
	w.step(who, &core.Event{Kind: core.Gap})
}

// identify tells a process which server it is connected to.
func (w *world) identify(who int) {
	if w.cfg.Faults[Failover] > 0 {
		w.step(who, &core.Event{Kind: core.Server, Text: map[bool]string{false: "s1", true: "s2"}[w.second]})
	}
}

// shown is what a watch shows now.
func (w *world) shown(u unseen) core.Event {
	ev := core.Event{Kind: core.Seen, First: u.first}
	if u.key.Cell == core.MemberCell && u.key.Session == 0 {
		ev.AllMembers = true
		for i := range w.store.members {
			ev.Entries = append(ev.Entries, w.store.members[i].cur)
		}
		return ev
	}
	if c := w.store.slot(u.key); c != nil && c.cur.Rev != 0 {
		ev.Entries = []core.Entry{c.cur}
	} else {
		ev.Entries = []core.Entry{{Key: u.key, Rev: w.store.rev, Deleted: true}}
	}
	return ev
}

// session is the session of a member: fixed, so that states can be compared.
func session(who int) record.Session { return record.Session(1000 + who) }

func who(s record.Session) int { return int(s) - 1000 }
