package core

import (
	"slices"

	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// missesBeforeGone is how many listings in a row must lack a partition before it
// counts as removed: brokers have been seen to answer with half of their
// partitions.
const missesBeforeGone = 3

// askSource asks the source for its partitions, at first at once and then every
// cfg.Ask.
func (n *Node) askSource() {
	l := &n.lead
	if !l.asking && n.reached(l.ask) {
		l.asking, l.ask = true, n.now.Add(n.cfg.Ask)
		n.do(Action{Do: DoAsk})
	}
}

// tookPartitions takes the source's partitions. After an error everything stays as
// it is, and the source is asked again after a heartbeat.
func (n *Node) tookPartitions(ev *Event) {
	l := &n.lead
	l.asking = false
	if ev.Outcome != OK {
		l.ask = n.now.Add(n.cfg.Heartbeat)
		return
	}
	l.listing, l.listed, l.complete = ev.Listing, true, ev.Complete
	l.rosterStale = true
	l.missed = countMisses(l.missed, n.roster, l.listing, l.complete)
}

// countMisses counts, for each partition that the broker's listing lacks, how many
// listings in a row have lacked it.
func countMisses(missed []miss, r *record.Roster, listing []record.Partition, complete bool) []miss {
	var out []miss
	if r == nil || !complete {
		return out
	}
	for id, e := range r.Full().Entries {
		if e.Removed || slices.ContainsFunc(listing, func(p record.Partition) bool { return p.Name == e.Name }) {
			continue
		}
		m := miss{id: record.ID(id), n: 1}
		if i := slices.IndexFunc(missed, func(o miss) bool { return o.id == m.id }); i >= 0 {
			m.n = min(missed[i].n+1, missesBeforeGone)
		}
		out = append(out, m)
	}
	return out
}

// keepRoster writes the roster when it differs from source and orders. The plan
// follows once it is written: a plan never contains an ID that no roster names.
func (n *Node) keepRoster() {
	l := &n.lead
	switch {
	case n.rosterRight():
		l.rosterBy = Never
	case l.rosterBy == Never:
		l.rosterBy = n.now.Add(n.cfg.Heartbeat)
	}
	if !l.rosterStale || !l.listed || n.rosterCell.flight != NoVerb || n.rosterCell.want {
		return
	}
	next := n.deriveRoster()
	if next == nil {
		l.rosterStale = false
		return
	}
	n.rosterPut = next
	n.rosterCell.flight = Put
	n.do(Action{Do: DoCall, Verb: Put, Key: Key{Cell: RosterCell}, Prev: n.rosterCell.rev, Roster: next})
}

// deriveRoster returns the roster as it should be, or nil if the present one is
// right. One name has one ID for ever: the entry of a removed partition stays, and
// the partition gets it back if it returns, with the token that its row has kept.
func (n *Node) deriveRoster() *record.Roster {
	l := &n.lead
	// A lost roster and its successor in a later incarnation must not have the same
	// version: its high bits are the incarnation.
	next := &record.Roster{Ver: max(rosterVer(n.roster), n.plan.Roster, l.minRoster, uint64(n.plan.Incarnation)<<32) + 1}
	ids := map[string]int{}
	if n.roster != nil {
		next.Entries = slices.Clone(n.roster.Full().Entries)
		for i, e := range next.Entries {
			ids[e.Name] = i
		}
	}
	changed := n.roster == nil || n.roster.Ver < max(n.plan.Roster, l.minRoster) // the lost one was newer
	want := func(p record.Partition) {
		i, known := ids[p.Name]
		// one-name-one-id: A partition keeps its ID for ever, and no other partition ever
		// gets it.
		// Without it: q is removed, and r gets its ID. C2 has not seen the new roster: it
		// is granted r and runs q.
		if rule.OneNameOneID.Off() && !known {
			i = slices.IndexFunc(next.Entries, func(e record.Partition) bool { return e.Removed })
			known = i >= 0
		}
		if !known {
			i = len(next.Entries)
			next.Entries = append(next.Entries, p)
			changed = true
		}
		ids[p.Name] = i
		if e := &next.Entries[i]; e.Removed || !slices.Equal(e.Meta, p.Meta) {
			*e, changed = p, true
		}
	}
	removed := func(name string) bool { return n.orders != nil && slices.Contains(n.orders.Remove, name) }
	for _, p := range l.listing {
		if !removed(p.Name) {
			want(record.Partition{Name: p.Name, Meta: n.metaFor(p.Name, p.Meta)})
		}
	}
	if n.orders != nil {
		for _, name := range n.orders.Add {
			if !removed(name) && !n.lists(name) {
				want(record.Partition{Name: name, Meta: n.metaFor(name, nil)})
			}
		}
	}
	for i := range next.Entries {
		e := &next.Entries[i]
		if !e.Removed && (removed(e.Name) || n.gone(record.ID(i), e.Name)) {
			*e, changed = record.Partition{Name: e.Name, Removed: true}, true
		}
	}
	if !changed {
		return nil
	}
	return next
}

func (n *Node) lists(name string) bool {
	return slices.ContainsFunc(n.lead.listing, func(p record.Partition) bool { return p.Name == name })
}

// gone tells whether several listings of the broker in a row lacked the partition,
// and no order keeps it.
func (n *Node) gone(id record.ID, name string) bool {
	if n.orders != nil && slices.Contains(n.orders.Add, name) {
		return false
	}
	return slices.ContainsFunc(n.lead.missed, func(m miss) bool { return m.id == id && m.n >= missesBeforeGone })
}

// metaFor merges ordered metadata over the source's; the order wins.
func (n *Node) metaFor(name string, base []record.Pair) []record.Pair {
	if n.orders == nil {
		return base
	}
	i := slices.IndexFunc(n.orders.Meta, func(m record.Meta) bool { return m.Partition == name })
	if i < 0 {
		return base
	}
	out := record.MergeMeta(base, n.orders.Meta[i].Pairs)
	if !record.MetaFits(out) {
		// Each fits alone, both together do not: with both, no roster could be
		// written.
		n.do(Action{Do: DoNote, Note: NoteMeta, Name: name})
		return base
	}
	return out
}

// tookRoster takes the answer to a read or a write of the roster.
func (n *Node) tookRoster(ev *Event) {
	c := &n.rosterCell
	verb := c.flight
	c.flight = NoVerb
	if verb == Put {
		switch ev.Outcome {
		case OK:
			n.sawRoster(n.rosterPut, ev.Rev)
		case Refused:
			// A retry fails as well: keep the present roster, and derive the next one
			// when source or orders change.
			n.lead.rosterStale = false
			n.do(Action{Do: DoNote, Note: NoteBadRoster})
		case Unknown:
			c.want, c.wait = true, n.now.Add(n.cfg.Retry)
		default:
			c.want = true
		}
		n.rosterPut = nil
		return
	}
	var found *record.Roster
	var rev Rev
	switch ev.Outcome {
	case OK:
		found, rev = ev.Entries[0].Roster, ev.Entries[0].Rev
	case NotFound:
	default:
		c.again = false
		c.wait = n.now.Add(n.cfg.Retry)
		return
	}
	if !c.got() {
		return
	}
	n.lead.gotRoster = true
	switch {
	case rosterVer(found) >= max(n.plan.Roster, c.floor):
		if found != nil {
			n.sawRoster(found, rev)
		}
	case n.Leads() && n.plan.Hold:
		// Every old lease will have run out before anything is granted, so the lost
		// roster binds nobody: begin from the one that was found.
		n.lead.minRoster = max(n.plan.Roster, c.floor)
		n.roster, c.rev, n.lead.rosterStale = found, rev, true
	case rosterVer(found) < c.floor:
		n.storeLost()
	default:
		// The plan needs a roster that is not in sight yet. The meaning of its IDs is
		// never guessed.
		c.wait = n.now.Add(n.cfg.Heartbeat) // apply asks for it again
		n.do(Action{Do: DoNote, Note: NoteNoRoster})
	}
}

func (n *Node) sawRoster(r *record.Roster, rev Rev) {
	if r.Ver < rosterVer(n.roster) {
		return
	}
	n.rosterCell.rev = rev
	if r.Ver > rosterVer(n.roster) {
		n.roster = r
		n.lead.rosterStale = true
		n.news()
	}
}
