package core

import (
	"cmp"
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
// complete listings in a row have lacked it. One that is not complete counts nothing. The
// result is sorted by ID. Sources are asked often and may list many partitions, so the work
// on a listing grows no faster than its length.
func countMisses(missed []miss, r *record.Roster, listing []record.Partition, complete bool) []miss {
	var out []miss
	if r == nil || !complete && len(missed) == 0 {
		return out
	}
	listed := make(map[string]bool, len(listing))
	for i := range listing {
		listed[listing[i].Name] = true
	}
	for id, e := range r.Full().Entries {
		if e.Removed || listed[e.Name] {
			continue
		}
		n := misses(missed, record.ID(id))
		if complete {
			n = min(n+1, missesBeforeGone)
		}
		if n > 0 {
			out = append(out, miss{record.ID(id), n})
		}
	}
	return out
}

// misses returns how many listings in a row have lacked a partition.
func misses(missed []miss, id record.ID) int {
	i, found := slices.BinarySearchFunc(missed, id, func(m miss, id record.ID) int { return cmp.Compare(m.id, id) })
	if !found {
		return 0
	}
	return missed[i].n
}

func nameSet(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
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
		if e := &next.Entries[i]; e.Removed || e.Topic != p.Topic || !slices.Equal(e.Meta, p.Meta) {
			*e, changed = p, true
		}
	}
	var add, remove []string
	if n.orders != nil {
		add, remove = n.orders.Add, n.orders.Remove
	}
	by, added, removed := n.orders.Ordered(), nameSet(add), nameSet(remove)
	listed := make(map[string]bool, len(l.listing))
	for _, p := range l.listing {
		listed[p.Name] = true
		if !removed[p.Name] {
			want(n.withOrders(p, by))
		}
	}
	topic := record.OnlyTopic(l.listing) // of partitions that the source does not know
	for _, name := range add {
		if !removed[name] && !listed[name] {
			want(n.withOrders(record.Partition{Name: name, Topic: topic}, by))
		}
	}
	for i := range next.Entries {
		e := &next.Entries[i]
		gone := !added[e.Name] && misses(l.missed, record.ID(i)) >= missesBeforeGone
		if !e.Removed && (removed[e.Name] || gone) {
			*e, changed = record.Partition{Name: e.Name, Removed: true}, true
		}
	}
	if !changed {
		return nil
	}
	return next
}

// withOrders returns a listed or added partition as the roster should have it: with what is
// ordered for its topic and for itself over the source's metadata.
func (n *Node) withOrders(p record.Partition, by record.Ordered) record.Partition {
	out := record.Partition{Name: p.Name, Topic: p.Topic, Meta: p.Meta}
	if !by.Any(p.Name, p.Topic) {
		return out
	}
	if out.Meta = by.Over(p.Name, p.Topic, p.Meta); record.MetaFits(out.Meta) {
		return out
	}
	// Each fits alone, all together do not: with all of it, no roster could be
	// written.
	n.do(Action{Do: DoNote, Note: NoteMeta, Name: p.Name})
	if out.Meta = by.OverAlone(p.Name, p.Meta); !record.MetaFits(out.Meta) {
		out.Meta = p.Meta
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
