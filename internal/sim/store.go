package sim

import (
	"slices"
	"time"

	"github.com/rota-dev/rota/internal/check"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// store is a set of compare-and-set cells. It remembers every version, so that
// it can lose the newest ones like a server restored from a backup.
type store struct {
	rev        core.Rev
	plan       core.Entry
	roster     core.Entry
	orders     core.Entry
	members    []core.Entry // in order of creation
	log        []version
	rosterRead form[*record.Roster]
	planRead   form[*record.Plan]
	stall      int64 // nothing is applied before
	refuse     bool  // plans are not taken, and nobody says why
}

type version struct {
	at int64
	e  core.Entry
}

func (s *store) reset() {
	clear(s.log)
	clear(s.members)
	*s = store{log: s.log[:0], members: s.members[:0]}
}

func (s *store) cell(k core.Key) *core.Entry {
	switch k.Cell {
	case core.PlanCell:
		return &s.plan
	case core.RosterCell:
		return &s.roster
	case core.OrdersCell:
		return &s.orders
	}
	for i := range s.members {
		if s.members[i].Session == k.Session {
			return &s.members[i]
		}
	}
	return nil
}

// call sends a node's store call on its way.
func (w *World) call(h *host, a *core.Action) {
	h.nextCall++
	h.calls = append(h.calls, call{h.nextCall, a.Key, a.Verb})
	it := item{kind: evApply, host: h, epoch: h.epoch, call: h.nextCall, due: w.now + int64(h.cfg.CallTime())}
	it.ev = core.Event{Kind: core.Answer, Verb: a.Verb, Key: a.Key, Rev: a.Prev, First: a.Verb == core.Put && !a.Compares()}
	if a.Verb == core.Put {
		it.ev.Entries = w.entry(core.Entry{Key: a.Key, Plan: a.Plan, Roster: a.Roster, Member: a.Member})
	}
	if h.cutOut || h.outLost || h.noReads && a.Verb != core.Put || w.chance(w.opt.noise.loseRequest) {
		w.stats.Faults[LoseRequest]++
		if w.tell != nil && !h.cutOut {
			w.tell.around(h, "requests lost")
		}
		w.timeout(it)
		return
	}
	at := w.now + w.delay(h) + h.outLate
	if w.tell != nil && at > w.now+ms(20) {
		w.tell.around(h, "requests late %v", time.Duration(at-w.now))
	}
	if at > it.due {
		w.timeout(it) // it will arrive, but nobody waits that long
	}
	w.push(at, it)
	if w.chance(w.opt.noise.repeat) {
		w.stats.Faults[Repeat]++
		w.push(w.now+w.delay(h)+w.span(0, ms(3000)), it)
	}
}

// timeout tells the caller, in time, that nobody knows.
func (w *World) timeout(it item) {
	it.kind = evAnswer
	it.ev = core.Event{Kind: core.Answer, Verb: it.ev.Verb, Key: it.ev.Key, Outcome: core.Unknown}
	w.push(max(it.due, w.now), it)
}

// apply does what a call asks for and sends the answer.
func (w *World) apply(it item) {
	if w.now < w.store.stall {
		if w.store.stall > it.due {
			w.timeout(it)
		}
		w.push(w.store.stall, it)
		return
	}
	ev := core.Event{Kind: core.Answer, Verb: it.ev.Verb, Key: it.ev.Key}
	switch it.ev.Verb {
	case core.Put:
		e := it.ev.Entries[0]
		switch {
		case w.store.refuse && e.Cell == core.PlanCell, w.emptied && e.Cell == core.PlanCell && it.ev.Rev == 0 && !e.Plan.Hold:
			w.timeout(it) // of a group that was created just before the store was emptied: see vouched
			return
		case e.Cell == core.RosterCell && !encodes(e.Roster):
			ev.Outcome = core.Refused // the shell does not even ask the store
		default:
			ev.Outcome, ev.Rev = w.put(e, it.ev.Rev, it.ev.First)
		}
	case core.Delete:
		ev.Outcome = w.delete(it.ev.Key, it.ev.Rev)
	case core.Get:
		ev.Outcome = core.NotFound
		if c := w.store.cell(it.ev.Key); c != nil && c.Rev != 0 {
			ev.Outcome, ev.Entries = core.OK, w.entry(w.store.asRead(*c))
		}
	case core.List:
		ev.Entries = slices.DeleteFunc(slices.Clone(w.store.members), func(e core.Entry) bool {
			return it.host.hides != "" && e.Member.Name == it.host.hides
		})
	}
	h := it.host
	at := w.now + w.delay(h) + h.inLate
	if h.cutIn || h.inLost || w.chance(w.opt.noise.loseAnswer) || at > it.due {
		if ev.Outcome == core.OK && ev.Verb == core.Put {
			w.marks.UnknownApplied++
		}
		w.stats.Faults[LoseAnswer]++
		if w.tell != nil && !h.cutIn {
			w.tell.around(h, "answers lost")
		}
		w.timeout(it)
		return
	}
	it.kind, it.ev = evAnswer, ev
	w.push(at, it)
}

// asRead returns e as a member reads it: the shell leaves the entries of a roster and the
// rows of a plan encoded until somebody needs them all.
func (s *store) asRead(e core.Entry) core.Entry {
	switch {
	case e.Roster != nil && s.rosterRead.of != e.Roster:
		s.rosterRead = form[*record.Roster]{e.Roster, reopened(e.Roster, record.OpenRoster)}
	case e.Plan != nil && s.planRead.of != e.Plan:
		s.planRead = form[*record.Plan]{e.Plan, reopened(e.Plan, record.OpenPlan)}
	}
	switch {
	case e.Roster != nil:
		e.Roster = s.rosterRead.as
	case e.Plan != nil:
		e.Plan = s.planRead.as
	}
	return e
}

// A form is a record, and what members read of it.
type form[T record.Record] struct{ of, as T }

// reopened encodes a record and opens it again. It was written, so it can be.
func reopened[T record.Record](x T, open func([]byte) (T, error)) T {
	b, err := record.Encode(x)
	if err == nil {
		x, err = open(b)
	}
	if err != nil {
		panic(err)
	}
	return x
}

func encodes(r *record.Roster) bool {
	_, err := record.Encode(r)
	return err == nil
}

// answered gives an answer to its caller, once.
func (w *World) answered(it *item) {
	h := it.host
	i := slices.IndexFunc(h.calls, func(c call) bool { return c.id == it.call })
	if i < 0 {
		return // it stopped waiting, or has had it
	}
	if w.backsOff(h, it) {
		return
	}
	h.calls = append(h.calls[:i], h.calls[i+1:]...)
	it.ev.Era = w.eraNow()
	w.deliver(h, &it.ev)
}

// backsOff delays the answer "unknown" to a read while the store is silent, as the shell
// does: see backOff in outage.go.
func (w *World) backsOff(h *host, it *item) bool {
	switch {
	case it.ev.Outcome != core.Unknown:
		h.mute = 0
		for _, late := range h.late {
			w.push(w.now, late)
		}
		h.late = h.late[:0]
		return false
	case h.mute == 0:
		h.mute = it.due - int64(h.cfg.CallTime()) // when the call was sent
		return false
	case it.delayed, it.ev.Verb != core.Get && it.ev.Verb != core.List, it.ev.Key.Session == h.cfg.Session, h.node.Leads():
		return false
	}
	it.delayed = true
	h.late = append(h.late, *it)
	w.push(w.now+min((w.now-h.mute)/2, int64(h.cfg.CallTime())), *it)
	return true
}

func (w *World) put(e core.Entry, prev core.Rev, blind bool) (core.Outcome, core.Rev) {
	s := &w.store
	c := s.cell(e.Key)
	if c == nil {
		if prev != 0 && !blind {
			return core.Conflict, 0
		}
		s.members = append(s.members, core.Entry{})
		c = &s.members[len(s.members)-1]
	} else if c.Rev != prev && !blind {
		return core.Conflict, 0
	}
	was := *c
	s.rev++
	e.Rev = s.rev
	*c = e
	s.log = append(s.log, version{w.now, e})
	w.wrote(&was, &e)
	w.show(e)
	return core.OK, e.Rev
}

func (w *World) delete(k core.Key, prev core.Rev) core.Outcome {
	s := &w.store
	for i := range s.members {
		if s.members[i].Session == k.Session {
			if s.members[i].Rev != prev {
				return core.Conflict
			}
			s.members = slices.Delete(s.members, i, i+1)
			s.rev++
			e := core.Entry{Key: k, Rev: s.rev, Deleted: true}
			s.log = append(s.log, version{w.now, e})
			w.show(e)
			w.marks.Collected++
			return core.OK
		}
	}
	return core.Conflict
}

// wrote tells the checkers what a write means.
func (w *World) wrote(was, e *core.Entry) {
	switch e.Cell {
	case core.PlanCell:
		w.wrotePlan(was.Plan, e.Plan)
	case core.RosterCell, core.OrdersCell:
		w.judge(check.Event{Kind: check.Change})
		if w.script != nil {
			w.script.news = otherNews
		}
	case core.MemberCell:
		w.wroteMember(was.Member, e.Member)
	}
}

func (w *World) wroteMember(was, m *record.Member) {
	if was != nil && was.State == m.State {
		return
	}
	if was == nil && m.State == record.Live || was != nil && was.State == record.Live {
		w.judge(check.Event{Kind: check.Change})
		if w.script != nil {
			w.script.changed(w, m)
		}
	}
	if m.State.Ended() && w.opt.Config.Return > 0 {
		w.judge(check.Event{Kind: check.Change}) // the day its seat lapses
	}
}

func (w *World) incarnation() uint32 {
	if p := w.store.plan.Plan; p != nil {
		return p.Incarnation
	}
	return 0
}

func (w *World) wrotePlan(was, p *record.Plan) {
	if was == nil || was.Incarnation != p.Incarnation {
		if first, again := w.begun[p.Incarnation]; again && first != p.Write { // not the same request, twice
			w.fail("I3", "incarnation %d begins a second time", p.Incarnation)
		}
		w.begun[p.Incarnation] = p.Write
	}
	if p.Incarnation > w.doubted && w.doubted > 0 && !p.Hold {
		w.doubted = 0
		w.judge(check.Event{Kind: check.Sure, Token: record.MakeToken(p.Incarnation, 0)})
	}
	eager := p.Mode == record.Eager && !w.store.frozen(p.Orders)
	names := w.store.rosterOf(p.Roster)
	for i := range p.Rows {
		r := &p.Rows[i]
		var old record.Row
		if was != nil && i < len(was.Rows) {
			old = was.Rows[i]
		}
		if old == *r && was != nil && was.Roster == p.Roster {
			continue
		}
		if names == nil || i >= len(names.Entries) {
			continue
		}
		e := check.Event{Kind: check.Row, Part: w.part(names.Entries[i].Name), State: r.State, Token: r.Token, Who: check.Nobody, Eager: eager}
		if r.State != record.Free {
			who, known := w.hash[r.Owner]
			if !known {
				continue
			}
			e.Who = who
		}
		w.judge(e)
		if r.State == record.Owned && (old.State != record.Owned || old.Token != r.Token) {
			w.overstayed(e.Part, e.Who)
			w.granting(grant{e.Part, e.Token}, e.Who)
		}
		freed := r.State == record.Free && r.To == 0 && (old.State != record.Free || old.To != 0)
		if freed || old.State == record.Owned && r.State == record.Owned {
			w.judge(check.Event{Kind: check.Change}) // ownerless: a reason of its own
		}
		if w.opt.Config.Strategy == core.Pack && r.Reason == record.Failing && old.State == record.Owned {
			w.judge(check.Event{Kind: check.Change}) // others carry the load now
		}
	}
	if was != nil && was.ID != p.ID {
		w.judge(check.Event{Kind: check.Plan, Eager: eager})
		if w.script != nil {
			w.script.planned(w, was, p)
		}
		w.stats.Plans++
		if w.twins {
			w.markHeld(p)
		}
		if revoking(was) {
			w.marks.Replanned++
		}
	}
	if was != nil && was.Incarnation != p.Incarnation {
		w.marks.Incarnations++
	}
	w.logPlan(was, p)
}

// granting is I2 beyond what a sink lets pass: no token belongs to two sessions.
// A store that was restored may grant one again only where nobody who remembers
// the first time is left to notice.
func (w *World) granting(g grant, who int32) {
	first, again := w.granted[g]
	if again && first != who && w.remembered(g, w.who[first]) {
		w.fail("I2", "%s is granted to %s as @%s, as it was to %s", w.names[g.part], w.checks.Who(who), g.token, w.checks.Who(first))
	}
	w.granted[g] = who
}

// remembered: a member that saw s get g is at work, and has been in reach for as
// long as it takes to notice a loss. One that is cut off, frozen, deaf or ending
// says nothing to anybody: if the store lost writes once more, and with them that
// somebody had noticed, nobody can know.
func (w *World) remembered(g grant, s record.Session) bool {
	return slices.ContainsFunc(w.hosts, func(h *host) bool {
		if !h.up || h.paused || h.cutIn || h.cutOut || h.node.Plan() == nil || w.now < max(w.lostAt, h.woke)+int64(h.cfg.W()) {
			return false
		}
		if cause, _ := h.node.Ended(); cause != core.NotEnded || h.watchDrops || h.watchLate > 0 || h.noReads || h.inLost || h.outLost {
			return false
		}
		for id, r := range h.node.Plan().Full().Rows {
			if r.Token == g.token && r.Owner == s && h.node.NameOf(record.ID(id)) == w.names[g.part] {
				return true
			}
		}
		return false
	})
}

// rosterOf is the roster that a plan obeys. The store may have lost it; its
// readers have not.
func (s *store) rosterOf(ver uint64) *record.Roster {
	for i := len(s.log) - 1; i >= 0; i-- {
		if r := s.log[i].e.Roster; r != nil && r.Ver == ver {
			return r
		}
	}
	return s.roster.Roster
}

// frozen: the orders of that version say so. Under a freeze an eager plan only
// places what has no owner, and stops nobody for it.
func (s *store) frozen(ver uint64) bool {
	for _, v := range s.log {
		if o := v.e.Orders; o != nil && o.Ver == ver {
			return o.Freeze
		}
	}
	return false
}

func revoking(p *record.Plan) bool {
	return slices.ContainsFunc(p.Rows, func(r record.Row) bool { return r.State == record.Revoking })
}

// rollback takes the store back to what it was at the given instant: all of it,
// or one cell.
func (w *World) rollback(to int64, only core.Cell) {
	w.lossy = true
	s := &w.store
	then := map[core.Key]core.Entry{}
	for _, v := range s.log {
		if v.at <= to {
			then[v.e.Key] = v.e
		}
	}
	back := func(c *core.Entry, k core.Key) {
		if only != core.NoCell && only != k.Cell {
			return
		}
		*c = then[k]
		c.Key = k
		s.log = append(s.log, version{w.now, *c})
	}
	was := s.plan.Rev
	back(&s.plan, core.Key{Cell: core.PlanCell})
	back(&s.roster, core.Key{Cell: core.RosterCell})
	back(&s.orders, core.Key{Cell: core.OrdersCell})
	for i := range s.members {
		back(&s.members[i], s.members[i].Key)
	}
	s.members = slices.DeleteFunc(s.members, func(e core.Entry) bool { return e.Rev == 0 || e.Deleted })
	if s.plan.Rev == was {
		return
	}
	if s.plan.Rev == 0 {
		w.emptied = true
		for _, h := range w.hosts {
			h.cfg.Fresh = false
		}
	}
	w.tellRows(s.plan.Plan)
	if s.plan.Rev != 0 {
		w.show(s.plan)
	}
}

// tellRows tells the checkers what a restored plan says.
func (w *World) tellRows(p *record.Plan) {
	for i := range w.names {
		w.judge(check.Event{Kind: check.Row, Part: int32(i), State: record.Free, Who: check.Nobody})
	}
	if p == nil {
		return
	}
	names := w.store.rosterOf(p.Roster)
	if names == nil {
		return
	}
	for i, e := range names.Entries {
		if i >= len(p.Rows) || p.Rows[i].State == record.Free {
			continue
		}
		r := &p.Rows[i]
		w.judge(check.Event{Kind: check.Row, Part: w.part(e.Name), State: r.State, Token: r.Token, Who: w.hash[r.Owner]})
	}
}

// show lets everybody who watches it see a new version, sooner or later.
func (w *World) show(e core.Entry) {
	for _, h := range w.hosts {
		if !h.up || !h.sees(&e) {
			continue
		}
		if h.cutIn || h.watchDrops || w.chance(w.opt.noise.dropWatch) {
			w.stats.Faults[DropWatch]++
			if w.tell != nil && !h.cutIn {
				w.tell.around(h, "watch drops")
			}
			continue
		}
		at := w.now + w.delay(h) + h.watchLate
		if w.chance(w.opt.noise.late) {
			w.stats.Faults[Late]++
			by := w.span(ms(100), ms(4000))
			at += by
			if w.tell != nil {
				w.tell.around(h, "watch late %v", time.Duration(by))
			}
		}
		it := item{kind: evSeen, host: h, epoch: h.epoch, ev: core.Event{Kind: core.Seen, Entries: w.entry(w.store.asRead(e))}}
		w.push(at, it)
		if w.chance(w.opt.noise.repeat) {
			w.stats.Faults[Repeat]++
			w.push(at+w.span(0, ms(3000)), it)
		}
	}
}

func (h *host) sees(e *core.Entry) bool {
	switch e.Cell {
	case core.MemberCell:
		return h.watch.All || h.watch.Leader == e.Session
	case core.OrdersCell:
		return h.watch.Orders
	}
	return true
}

// setWatch changes what a host watches; the first batch shows what is there.
func (w *World) setWatch(h *host, to core.Watch) {
	h.watch = to
	w.firstBatch(h)
}

func (w *World) firstBatch(h *host) {
	if h.cutIn || h.cutOut {
		return
	}
	var es []core.Entry
	for _, m := range w.store.members {
		if h.sees(&m) && (h.hides == "" || m.Member.Name != h.hides) {
			es = append(es, m)
		}
	}
	if h.watch.Orders && w.store.orders.Rev != 0 {
		es = append(es, w.store.orders)
	}
	w.push(w.now+w.delay(h), item{kind: evSeen, host: h, epoch: h.epoch, ev: core.Event{Kind: core.Seen, First: true, AllMembers: h.watch.All, Entries: es}})
}
