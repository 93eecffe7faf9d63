package core

import (
	"cmp"
	"slices"

	"github.com/rota-dev/rota/internal/plan"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// A message that kills the process that handles it goes from member to member with its partition,
// and takes the other partitions of each with it. So the plan counts, per partition, how
// many owners died in a row while it was theirs. One that ran well for a minute since is
// absolved, and so is one whose last owner turns out to have lived. Those with two deaths or more are accused and are placed apart from each
// other, so that each further death halves their number; the one that is left over is
// quarantined.

// A trial is a partition with deaths on its account that runs at present.
type trial struct {
	id    record.ID
	token record.Token
	since Time
}

// accused is how many deaths it takes to be accused: one may be anything.
const accused = 2

// ahead is how many deaths more than any other partition the guilty one has. Those that
// shared its members have died with it each time but the last two at most.
const ahead = 2

// mostKills is where counting ends.
const mostKills = 1 << 16

func (d *draft) findKill(id record.ID) (int, bool) {
	return slices.BinarySearchFunc(d.next.Kills, id, func(k record.Kill, id record.ID) int { return cmp.Compare(k.ID, id) })
}

// blame counts the death of a row's owner.
func (d *draft) blame(id record.ID, p *peer) {
	n := d.n
	if n.cfg.Quarantine == 0 || !p.is(record.Dead) {
		return
	}
	if !d.blamed {
		d.next.Kills, d.blamed = slices.Clone(d.next.Kills), true
	}
	i, found := d.findKill(id)
	if !found {
		d.next.Kills = slices.Insert(d.next.Kills, i, record.Kill{ID: id, Count: n.forgiven(id)})
	}
	k := &d.next.Kills[i]
	if last := n.peer(k.Last); last != nil && last.rec != nil && last.rec.Name != p.rec.Name {
		k.Elsewhere = true
	}
	k.Count, k.Last = min(k.Count+1, mostKills), p.session
}

// forgiven returns the count that an operator forgave a partition.
func (n *Node) forgiven(id record.ID) uint32 {
	if n.orders == nil || n.cfg.Quarantine == 0 {
		return 0
	}
	name := n.NameOf(id)
	for _, r := range n.orders.Release {
		if r.Partition == name {
			return r.Kills
		}
	}
	return 0
}

// deaths returns how many owners in a row died with partition id, since it was forgiven.
func (d *draft) deaths(id record.ID) uint32 {
	i, ok := d.findKill(id)
	if !ok {
		return 0
	}
	return d.next.Kills[i].Count - min(d.next.Kills[i].Count, d.n.forgiven(id))
}

// absolve forgets the deaths of partitions that have run well for long enough.
func (d *draft) absolve() {
	n, l := d.n, &d.n.lead
	if len(d.next.Kills) == 0 {
		l.trials = nil
		return
	}
	old := l.trials
	l.trials = nil
	var innocent []record.ID
	for _, k := range d.next.Kills {
		// survivor-absolves: A partition is not accused of the death of a process that is
		// back under another session.
		// Without it: C1, C2 and C3 have q in turn, and each is cut off with it. All three
		// are alive and come back, and q is granted to nobody.
		if n.survived(k.Last) && !rule.SurvivorAbsolves.Off() {
			innocent = append(innocent, k.ID)
			continue
		}
		r := &d.rows[k.ID]
		if r.State != record.Owned || n.waiting(k.ID, r) {
			continue
		}
		t := trial{k.ID, r.Token, n.now}
		if i := slices.IndexFunc(old, func(o trial) bool { return o.id == t.id && o.token == t.token }); i >= 0 {
			t = old[i]
		}
		// running-well-absolves: A partition that has run well for a minute is accused
		// no more.
		// Without it: Members die for other reasons, one a month. Some day a partition has
		// been there three times, and is quarantined.
		if n.reached(t.since.Add(calm)) && !rule.RunningWellAbsolves.Off() {
			innocent = append(innocent, k.ID)
		} else {
			l.trials = append(l.trials, t)
		}
	}
	if len(innocent) > 0 {
		d.next.Kills = slices.DeleteFunc(slices.Clone(d.next.Kills), func(k record.Kill) bool { return has(innocent, k.ID) })
		d.blamed, d.changed = true, true
	}
}

// survived tells whether the process of a session that was declared dead is alive.
func (n *Node) survived(s record.Session) bool {
	return s != 0 && slices.ContainsFunc(n.peers, func(p peer) bool { return p.rec != nil && p.rec.Was == s })
}

// quarantined tells whether partition id runs nowhere until an operator releases it.
func (d *draft) quarantined(id record.ID) bool {
	if d.n.cfg.Quarantine == 0 || int(id) >= len(d.rows) {
		return false
	}
	deaths := d.deaths(id)
	if d.rows[id].Reason == record.Quarantined {
		return deaths > 0
	}
	// quarantine: A partition that has killed several owners under more than one name, and
	// more than any other, is granted to nobody.
	// Without it: A message of q kills every process that handles it. q goes round for
	// ever, and with it everything that shares its member.
	if deaths < d.n.cfg.Quarantine || rule.Quarantine.Off() {
		return false
	}
	i, _ := d.findKill(id)
	if !d.next.Kills[i].Elsewhere {
		return false // its member may be at fault
	}
	for _, k := range d.next.Kills {
		if k.ID != id && d.rows[k.ID].Reason != record.Quarantined && d.deaths(k.ID)+ahead > deaths {
			return false
		}
	}
	return true
}

// apart tells the planner to place accused partitions that need a place on different members, as
// far as there are any. A place that is kept for a member that returns is theirs first.
// Where members have limits, they are placed like all others.
func (d *draft) apart() {
	sc := &d.n.lead.scratch
	limited := func(m plan.Member) bool { return m.Limit > 0 }
	// accused-apart: Partitions whose owners died twice in a row are placed on different
	// members.
	// Without it: A message of q kills its process. q and p go together from member to
	// member, and nobody can tell which of them it is.
	if len(d.next.Kills) == 0 || slices.ContainsFunc(sc.open, limited) || rule.AccusedApart.Off() {
		return
	}
	var free, placed []record.ID
	for _, k := range d.next.Kills {
		part := &sc.parts[k.ID]
		switch {
		case part.Off || d.deaths(k.ID) < accused:
		case d.rows[k.ID].State != record.Free:
			placed = append(placed, k.ID)
		case part.Pin == plan.None && (part.Owner == plan.None || d.n.cfg.Return == 0):
			free = append(free, k.ID)
		}
	}
	slices.SortStableFunc(free, func(a, b record.ID) int { return cmp.Compare(d.deaths(b), d.deaths(a)) })
	all := slices.Concat(placed, free)
	for _, id := range free {
		alone := !slices.ContainsFunc(all, func(other record.ID) bool { return other != id && d.deaths(other) >= d.deaths(id) })
		d.setApart(id, placed, alone)
		placed = append(placed, id)
	}
}

// rival is how bad it is to be with a partition that has as many deaths: worse than to be
// with any number of those that have fewer.
const rival = 2 << 20

// setApart pins an accused partition to the member with the fewest of those that have as
// many deaths: these cannot be told from it yet. One that nobody has to be told from goes
// to another name than it has just killed: it may have been that member's fault.
func (d *draft) setApart(id record.ID, placed []record.ID, alone bool) {
	sc, best, least := &d.n.lead.scratch, plan.None, 0
	for m := range sc.open {
		if !sc.open[m].Open() || sc.parts[id].Avoids(int32(m)) {
			continue
		}
		bad := 0
		for _, other := range placed {
			part := &sc.parts[other]
			switch at := cmp.Or(part.Pin+1, part.Owner+1) - 1; {
			case at != int32(m):
			case d.deaths(other) >= d.deaths(id):
				bad += rival
			default:
				bad++ // the next death would accuse it once more
			}
		}
		if alone && d.onlyKilled(id, m) {
			bad += rival / 2
		}
		if best == plan.None || bad < least {
			best, least = m, bad
		}
	}
	if best != plan.None {
		sc.parts[id].Pin = int32(best)
	}
}

// onlyKilled tells whether all processes that partition id has killed had the name of
// member m.
func (d *draft) onlyKilled(id record.ID, m int) bool {
	i, _ := d.findKill(id)
	n, members := d.n, d.n.lead.scratch.members
	last := n.peer(d.next.Kills[i].Last)
	return !d.next.Kills[i].Elsewhere && last != nil && last.rec != nil && last.rec.Name == n.peer(members[m]).rec.Name
}
