package core

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/rota-dev/rota/internal/plan"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// This file describes a draft to the planner.

// targets lets the planner choose a member of the next plan for every partition.
func (d *draft) targets(members []record.Session) []int32 {
	n, sc := d.n, &d.n.lead.scratch
	sc.open, sc.parts, sc.failing = sc.open[:0], sc.parts[:0], sc.failing[:0]
	for i, s := range members {
		p := n.peer(s)
		if n.cfg.Strategy == Pack && n.failed(s) {
			sc.failing = append(sc.failing, int32(i))
		}
		sc.open = append(sc.open, plan.Member{
			Limit:    limit(p.rec),
			Closed:   n.orders != nil && slices.Contains(n.orders.Drains, p.rec.Name) || d.chosen(s),
			Reserved: !p.is(record.Live),
		})
	}
	for i := range d.rows {
		sc.parts = append(sc.parts, d.part(i, members))
	}
	d.apart()
	switch {
	case n.cfg.Strategy == Range:
		sc.targets = n.lead.planner.Range(sc.open, sc.parts, sc.targets)
		return sc.targets
	case n.cfg.Strategy == Pack && n.lead.loads.known == known:
		return d.pack(members)
	case n.cfg.Strategy == Pack && n.lead.loads.known == awaited:
		d.keepAll()
	}
	sc.targets = n.lead.planner.Spread(sc.open, sc.parts, sc.targets)
	return sc.targets
}

// keepAll makes the planner leave partitions where they are, if they may be there.
func (d *draft) keepAll() {
	sc := &d.n.lead.scratch
	for i := range sc.parts {
		// unmeasured-moves-nothing: A leader that has not measured yet moves nothing for the
		// sake of balance.
		// Without it: C1 has packed everything onto C1 and C2, and dies. C2 knows no loads,
		// and spreads all partitions by number, over C3 as well. With its first measurements
		// it moves them back.
		sc.parts[i].Stay = !rule.UnmeasuredMovesNothing.Off()
	}
}

// part describes row i to the planner.
func (d *draft) part(i int, members []record.Session) plan.Partition {
	n, r := d.n, &d.rows[i]
	part := plan.Partition{Owner: plan.None, Pin: plan.None}
	if i >= len(n.roster.Entries) {
		part.Off = true
		return part
	}
	e := &n.roster.Entries[i]
	part.Off = e.Removed || n.paused(e.Name) || d.quarantined(record.ID(i))
	at := r.Owner
	if r.To != 0 { // its target, or its remembered home
		at = r.To
	}
	part.Owner = d.index(at)
	part.Stay = n.frozen() && r.State != record.Free
	if n.orders != nil {
		for _, p := range n.orders.Pins {
			if p.Partition == e.Name {
				part.Pin = d.named(members, p.Member)
				d.lostPin = d.lostPin || part.Pin == plan.None
			}
		}
	}
	part.Avoid = d.avoid(record.ID(i), e.Name, members)
	if r.State == record.Owned {
		d.avoidFailing(&part)
	}
	return part
}

// avoidFailing keeps a partition that may stay where it is away from members whose source
// has just failed.
func (d *draft) avoidFailing(part *plan.Partition) {
	sc := &d.n.lead.scratch
	// failing-takes-no-load: A member that has just given a partition up takes none that
	// runs well elsewhere.
	// Without it: C2's source fails, so C2 has nothing to do and looks like the best place.
	// Partitions of C1, which is overloaded, go to C2, fail there, and come back.
	at := part.Owner
	if len(sc.failing) == 0 || at == plan.None || !sc.open[at].Open() || part.Avoids(at) || rule.FailingTakesNoLoad.Off() {
		return
	}
	all := slices.Concat(part.Avoid, sc.failing)
	slices.Sort(all)
	part.Avoid = slices.DeleteFunc(slices.Compact(all), func(m int32) bool { return m == at })
}

// index returns the index of session s, or of its heir, in the members of the next
// plan.
func (d *draft) index(s record.Session) int32 {
	if p := d.n.peer(s); p != nil {
		return p.line
	}
	return plan.None
}

func (d *draft) named(members []record.Session, name string) int32 {
	for i, s := range members {
		if d.n.peer(s).rec.Name == name {
			return int32(i)
		}
	}
	return plan.None
}

// avoid lists the members that must not get the partition: those it is banned from,
// and one that has just given it up, if another can take it.
func (d *draft) avoid(id record.ID, name string, members []record.Session) []int32 {
	n := d.n
	var out []int32
	if n.orders != nil {
		for _, b := range n.orders.Bans {
			if b.Partition == name {
				for i, s := range members {
					if n.peer(s).rec.Name == b.Member {
						out = append(out, int32(i))
					}
				}
			}
		}
	}
	for _, g := range n.lead.graces {
		// grace: A partition that was given up goes to somebody else for a while, if there
		// is anybody.
		// Without it: C2's source cannot open q. C2 gives q up, gets it back at once, gives
		// it up again, while C1 could run it.
		if i := d.index(g.who); g.id == id && i >= 0 && len(out) < len(members)-1 && !rule.Grace.Off() {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return out
}

// limit returns how many partitions a member takes at most, by its label "limit".
// Zero, a negative number or no number at all means no limit.
func limit(m *record.Member) int {
	for _, l := range m.Labels {
		if l.Key == "limit" {
			v, _ := strconv.Atoi(l.Value)
			return v
		}
	}
	return 0
}

// countReturns counts, per name, how often a member came back in a row without
// running for as long as its rows would have been reserved.
func (d *draft) countReturns(members []record.Session) {
	n := d.n
	if n.cfg.Return == 0 {
		return
	}
	var out []record.Return
	for _, r := range d.next.Returns {
		p := d.named(members, r.Name)
		if p >= 0 && n.now.Sub(n.peer(members[p]).first) < n.cfg.Return {
			out = append(out, r)
		}
	}
	for _, s := range n.plan.Members {
		p := n.peer(s)
		if p == nil || !p.over() {
			continue
		}
		if h := n.heir(p); h != nil {
			at, ok := slices.BinarySearchFunc(out, p.rec.Name, func(r record.Return, s string) int { return cmp.Compare(r.Name, s) })
			if ok {
				out[at].Count++
			} else {
				out = slices.Insert(out, at, record.Return{Name: p.rec.Name, Count: 1})
			}
			n.do(Action{Do: DoNote, Note: NoteReturned, Who: h.session})
		}
	}
	d.next.Returns = out
}
