package core

import "github.com/rota-dev/rota/internal/record"

// How states, actions and events encode the shared records.

func (e *encoder) cell(c *cell, k Key) {
	e.rev(k, c.rev)
	e.flag(c.want)
	e.flag(c.again)
	e.num(uint64(c.flight))
	e.until(c.wait)
	switch k.Cell {
	case RosterCell:
		e.ranked('v', 'r', c.floor)
	case OrdersCell:
		e.ranked('v', 'o', c.floor)
	}
}

func (e *encoder) plan(p *record.Plan) {
	e.flag(p != nil)
	if p == nil {
		return
	}
	e.inc(p.Incarnation)
	e.gen(p.Gen)
	e.named('W', 0, p.Write)
	e.gen(p.Decided)
	e.str(p.Server)
	e.flag(p.Hold)
	e.ranked('m', 0, p.Term)
	e.session(p.Leader)
	e.ranked('p', 0, p.ID)
	e.num(uint64(p.Mode))
	e.ranked('v', 'r', p.Roster)
	e.ranked('v', 'o', p.Orders)
	e.num(uint64(len(p.Members)))
	for _, s := range p.Members {
		e.session(s)
	}
	e.num(uint64(len(p.Kills)))
	for _, k := range p.Kills {
		e.num(uint64(k.ID))
		e.num(uint64(k.Count))
		e.session(k.Last)
		e.flag(k.Elsewhere)
	}
	e.num(uint64(len(p.Returns)))
	for _, r := range p.Returns {
		e.str(r.Name)
		e.num(uint64(r.Count))
	}
	e.num(uint64(p.Size.Wanted))
	e.num(uint64(len(p.Size.Chosen)))
	for _, s := range p.Size.Chosen {
		e.session(s)
	}
	e.num(uint64(len(p.Rows)))
	for i := range p.Rows {
		e.row(record.ID(i), &p.Rows[i])
	}
}

func (e *encoder) row(id record.ID, r *record.Row) {
	e.num(uint64(r.State))
	e.num(uint64(r.Reason))
	e.session(r.Owner)
	e.session(r.To)
	e.token(id, r.Token)
	e.gen(r.Rev)
}

func (e *encoder) member(m *record.Member) {
	e.flag(m != nil)
	if m == nil {
		return
	}
	e.num(uint64(m.State))
	e.num(uint64(m.Lease))
	e.num(uint64(m.Beat))
	e.seq(m.Session, m.Seq)
	e.inc(m.AckInc)
	e.gen(m.AckGen)
	for _, ids := range [...][]record.ID{m.Stopping, m.Starting} {
		e.num(uint64(len(ids)))
		for _, id := range ids {
			e.num(uint64(id))
		}
	}
	e.gaveUp(m.GaveUp)
	e.gen(m.Bug)
	e.flag(m.Proof)
	e.flag(m.Returning)
	e.session(m.Was)
	e.num(uint64(m.Took))
	e.str(m.Name)
	e.num(uint64(limit(m)))
	e.num(labelled(m))
}

func (e *encoder) gaveUp(all []record.GaveUp) {
	e.num(uint64(len(all)))
	for _, g := range all {
		e.num(uint64(g.ID))
		e.token(g.ID, g.Token)
	}
}

func (e *encoder) partition(p *record.Partition) {
	e.str(p.Name)
	e.str(p.Topic)
	e.flag(p.Removed)
	e.pairs(p.Meta)
}

func (e *encoder) pairs(all []record.Pair) {
	e.num(uint64(len(all)))
	for _, p := range all {
		e.str(p.Key)
		e.str(p.Value)
	}
}

func (e *encoder) roster(r *record.Roster) {
	e.flag(r != nil)
	if r == nil {
		return
	}
	e.ranked('v', 'r', r.Ver)
	e.num(uint64(len(r.Entries)))
	for i := range r.Entries {
		e.partition(&r.Entries[i])
	}
}

func (e *encoder) orders(o *record.Orders) {
	e.flag(o != nil)
	if o == nil {
		return
	}
	e.ranked('v', 'o', o.Ver)
	for _, l := range [...][]string{o.Add, o.Remove, o.Pauses, o.Drains} {
		e.num(uint64(len(l)))
		for _, s := range l {
			e.str(s)
		}
	}
	for _, l := range [...][]record.Pin{o.Pins, o.Bans} {
		e.num(uint64(len(l)))
		for _, p := range l {
			e.str(p.Partition)
			e.str(p.Member)
		}
	}
	e.num(uint64(len(o.Meta)))
	for _, m := range o.Meta {
		e.str(m.Partition)
		e.pairs(m.Pairs)
	}
	e.num(uint64(len(o.Topics)))
	for _, t := range o.Topics {
		e.str(t.Name)
		e.pairs(t.Pairs)
	}
	e.num(uint64(len(o.Release)))
	for _, r := range o.Release {
		e.str(r.Partition)
		e.num(uint64(r.Kills))
	}
	e.flag(o.Freeze)
}

func (a *Action) encode(e *encoder) {
	e.num(uint64(a.Do))
	e.num(uint64(a.Verb))
	e.num(uint64(a.Cause))
	e.num(uint64(a.Note))
	e.num(uint64(a.Key.Cell))
	e.session(a.Key.Session)
	e.rev(a.Key, a.Prev)
	e.plan(a.Plan)
	e.roster(a.Roster)
	e.member(a.Member)
	e.num(uint64(a.ID))
	e.token(a.ID, a.Token)
	e.str(a.Name)
	e.session(a.Who)
	e.num(uint64(a.Moved))
	e.num(uint64(a.Placed))
	e.num(uint64(a.Deaths))
	e.num(uint64(a.Why))
	e.fleet(&a.Fleet)
	e.num(uint64(a.Have))
	e.num(uint64(len(a.Late)))
	for _, id := range a.Late {
		e.num(uint64(id))
	}
	e.flag(a.Watch.All)
	e.session(a.Watch.Leader)
	e.flag(a.Watch.Orders)
}

func (ev *Event) encode(e *encoder) {
	e.num(uint64(ev.Kind))
	e.num(uint64(ev.Verb))
	e.num(uint64(ev.Outcome))
	e.flag(ev.First)
	e.flag(ev.AllMembers)
	e.flag(ev.Complete)
	e.flag(ev.Returning)
	e.flag(ev.CountsSuspend)
	e.num(uint64(ev.Key.Cell))
	e.session(ev.Key.Session)
	e.rev(ev.Key, ev.Rev)
	e.num(uint64(len(ev.Entries)))
	for i := range ev.Entries {
		ev.Entries[i].encode(e)
	}
	e.num(uint64(ev.ID))
	e.token(ev.ID, ev.Token)
	e.session(ev.Session)
	e.str(ev.Text)
	e.num(uint64(ev.Pause))
	e.num(uint64(len(ev.Listing)))
	for i := range ev.Listing {
		e.partition(&ev.Listing[i])
	}
	e.measured(ev.Loads, ev.Capacities)
}

func (x *Entry) encode(e *encoder) {
	e.num(uint64(x.Cell))
	e.session(x.Session)
	e.rev(x.Key, x.Rev)
	e.flag(x.Deleted)
	e.plan(x.Plan)
	e.roster(x.Roster)
	e.orders(x.Orders)
	e.member(x.Member)
}
