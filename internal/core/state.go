package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/rota-dev/rota/internal/plan"
	"github.com/rota-dev/rota/internal/record"
)

// Clone returns an independent copy of the node. Records are shared, since they are
// never changed.
func (n *Node) Clone() *Node {
	c := *n
	c.out = nil
	c.own.sent = slices.Clone(n.own.sent)
	c.runs = slices.Clone(n.runs)
	c.gaveUp = slices.Clone(n.gaveUp)
	c.mine = slices.Clone(n.mine)
	c.peers = slices.Clone(n.peers)
	l := &c.lead
	l.burst.suspects = slices.Clone(l.burst.suspects)
	l.missed = slices.Clone(l.missed)
	l.waits = slices.Clone(l.waits)
	l.graces = slices.Clone(l.graces)
	l.failures = slices.Clone(l.failures)
	l.trials = slices.Clone(l.trials)
	l.bugLive = slices.Clone(l.bugLive)
	l.loads.cools = slices.Clone(l.loads.cools)
	l.size.exits = slices.Clone(l.size.exits)
	l.planner, l.packer, l.scratch = plan.Planner{}, nil, scratch{}
	return &c
}

// longest returns the longest of the durations that an age is compared with.
// Forever is left out, since no age reaches it.
func longest(all ...time.Duration) time.Duration {
	var most time.Duration
	for _, d := range all {
		if d != Forever {
			most = max(most, d)
		}
	}
	return most
}

// slowest returns the longest lease and heartbeat interval among the members in
// sight.
func (n *Node) slowest() (lease, beat time.Duration) {
	lease, beat = n.cfg.Lease, n.cfg.Heartbeat
	for i := range n.peers {
		if m := n.peers[i].rec; m != nil {
			lease, beat = max(lease, m.Lease), max(beat, m.Beat)
		}
	}
	return lease, beat
}

func (n *Node) encode(e *encoder) {
	e.num(uint64(n.cause))
	e.flag(n.ended)
	if n.ended {
		return
	}
	n.encodeOwn(e)
	n.encodeRuns(e)
	n.encodePlan(e)
	e.num(uint64(len(n.peers)))
	for i := range n.peers {
		n.encodePeer(e, &n.peers[i])
	}
	n.encodeTwins(e)
	e.flag(n.watch.All)
	e.flag(n.watch.Orders)
	e.session(n.watch.Leader)
	e.flag(n.all)
	e.cell(&n.list, Key{Cell: MemberCell})
	e.until(n.listPoll)
	e.since(n.vacant, 2*time.Second)
	e.flag(n.claiming)
	n.encodeLead(e)
}

func (n *Node) encodeOwn(e *encoder) {
	o, me := &n.own, n.cfg.Session
	e.num(uint64(o.state))
	e.rev(n.myKey(), o.rev)
	e.seq(me, o.seq)
	e.seq(me, o.known)
	e.num(uint64(len(o.sent)))
	for _, b := range o.sent {
		e.seq(me, b.seq)
		e.since(b.at, n.cfg.Lease) // if a jump cuts the lease short, each of them can extend it
	}
	e.since(o.lease, n.cfg.Orphan)
	e.num(uint64(o.flight))
	e.member(o.put)
	e.flag(o.reread)
	e.flag(o.dirty)
	e.flag(o.missing)
	e.until(o.due)
	e.until(o.wait)
	if o.known == 0 {
		e.since(n.born, n.cfg.Lease+n.cfg.Orphan)
	}
	e.until(n.endBy)
	e.since(n.leaving, n.cfg.Leave)
	for _, f := range [...]bool{n.returning, n.selfStop, n.closed, n.closing, n.lapsed, n.worksOn, o.mute && n.cfg.Continue, n.recheck, n.bump, n.creates} {
		e.flag(f)
	}
	e.until(n.abortAt)
	var longest time.Duration
	for i := range n.peers {
		if p := &n.peers[i]; p.rec != nil {
			longest = max(longest, wait(p.rec.Lease))
		}
	}
	e.since(n.back, longest)
	e.str(n.server)
}

func (n *Node) encodeRuns(e *encoder) {
	e.num(uint64(len(n.runs)))
	for i := range n.runs {
		r := &n.runs[i]
		e.num(uint64(r.id))
		e.token(r.id, r.token)
		e.num(uint64(r.phase))
		e.flag(r.cancelled)
		if r.phase == stopping {
			e.since(r.since, n.cfg.StopTime)
		}
		e.flag(r.looks)
		e.flag(r.denied)
		if r.looks && r.cancelled {
			e.since(r.ended, n.cfg.Margin)
		}
	}
	e.gaveUp(n.gaveUp)
	e.num(uint64(len(n.mine)))
	for i := range n.mine {
		e.num(uint64(n.mine[i].ID))
		e.row(n.mine[i].ID, &n.mine[i].Row)
	}
}

func (n *Node) encodePlan(e *encoder) {
	e.plan(n.plan)
	e.cell(&n.cell.cell, Key{Cell: PlanCell})
	e.plan(n.cell.put)
	e.plan(n.cell.known)
	e.flag(n.cell.doubt)
	e.until(n.cell.after)
	e.since(n.cell.fails, wait(n.cfg.Lease))
	e.inc(n.ackInc)
	e.gen(n.ackGen)
	e.inc(n.inc)
	e.until(n.poll)
	e.roster(n.roster)
	e.roster(n.rosterPut)
	e.cell(&n.rosterCell, Key{Cell: RosterCell})
	e.orders(n.orders)
	e.cell(&n.ordersCell, Key{Cell: OrdersCell})
	// Left out: n.era, which only makes the next incarnation higher, and n.writes,
	// which makes write IDs: they are only compared for equality, so another count
	// would make no difference.
}

func (n *Node) encodePeer(e *encoder, p *peer) {
	e.session(p.session)
	e.member(p.rec)
	most := wait(n.cfg.Lease) + 2*time.Second
	if p.rec != nil {
		e.rev(Key{MemberCell, p.session}, p.rev)
		most = max(most, wait(p.rec.Lease)+2*time.Second)
	}
	e.since(p.at, most)
	e.since(p.first, max(n.cfg.Return, maxDelta))
	e.flag(p.heard)
	e.num(uint64(p.flight))
	if p.flight == Put {
		e.member(p.put)
	}
	e.flag(p.reread)
	e.seq(p.session, p.floor)
	e.num(uint64(p.state))
	e.until(p.wait)
	e.since(p.ended, longest(n.cfg.Keep, n.cfg.Return))
	e.num(uint64(p.noticed))
	e.flag(p.proof)
	e.flag(p.absent)
	// Left out: planned, which follows from the plan, and line, which is meaningless
	// between steps.
}

// maxDelta is more than any δ in tests and explorations: members with a heartbeat
// of more than 20 s are not explored.
const maxDelta = 3 * time.Second

// encodeTwins encodes the order of two sessions of one name, as far as it matters:
// which came first, and whether one was seen to beat after the other came.
func (n *Node) encodeTwins(e *encoder) {
	for i := range n.peers {
		for j := range n.peers[:i] {
			p, q := &n.peers[i], &n.peers[j]
			if p.rec == nil || q.rec == nil || p.rec.Name != q.rec.Name {
				continue
			}
			e.flag(p.first < q.first)
			e.flag(p.first > q.first)
			e.flag(p.at > q.first.Add(delta(p.rec.Beat)))
			e.flag(q.at > p.first.Add(delta(q.rec.Beat)))
		}
	}
}

func (n *Node) encodeLead(e *encoder) {
	l, s := &n.lead, &n.lead.burst
	lease, beat := n.slowest()
	e.until(s.quiet)
	e.since(s.since, n.cfg.QuietMax)
	e.since(s.asked, n.cfg.Quiet/2)
	e.flag(s.proved)
	e.flag(s.open)
	if s.open {
		e.since(s.at, gap(beat))
	}
	e.num(uint64(len(s.suspects)))
	for _, id := range s.suspects {
		e.session(id)
	}
	e.num(uint64(s.why))
	e.num(uint64(s.came))
	e.num(uint64(s.left))
	e.num(uint64(l.tried))
	for _, f := range [...]bool{l.taking, l.ready, l.gotRoster, l.gotOrders, l.gotList, l.rosterStale, l.listed, l.complete, l.asking, l.bugSeen} {
		e.flag(f)
	}
	if n.plan != nil && n.plan.Hold {
		e.since(l.since, wait(lease))
	}
	e.until(l.rosterBy)
	e.ranked('v', 'r', l.minRoster)
	e.num(uint64(len(l.listing)))
	for i := range l.listing {
		e.partition(&l.listing[i])
	}
	e.num(uint64(len(l.missed)))
	for _, m := range l.missed {
		e.num(uint64(m.id))
		e.num(uint64(m.n))
	}
	e.until(l.ask)
	if n.cfg.Mode == record.Eager {
		e.since(l.planAt, n.cfg.Lease)
	}
	e.num(uint64(len(l.waits)))
	for _, w := range l.waits {
		e.num(uint64(w.id))
		e.gen(w.rev)
		e.since(w.since, longest(n.cfg.StopTime+2*beat, n.cfg.Stuck))
		e.flag(w.stuck)
	}
	graces := slices.SortedFunc(slices.Values(l.graces), func(a, b grace) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.who, b.who))
	})
	e.num(uint64(len(graces)))
	for _, g := range graces {
		e.num(uint64(g.id))
		e.session(g.who)
		e.until(g.until)
	}
	e.num(uint64(len(l.failures)))
	for _, f := range l.failures {
		e.num(uint64(f.id))
		e.num(uint64(f.count))
		e.token(f.id, f.token)
		e.str(f.cause)
		e.flag(f.stays)
		e.until(f.until)
		e.until(f.until.Add(calm))
		if n.cfg.Strategy == Pack {
			e.session(f.who)
		}
	}
	for _, t := range l.trials {
		e.num(uint64(t.id))
		e.token(t.id, t.token)
		e.since(t.since, calm)
	}
	if n.cfg.Strategy == Pack {
		e.loads(&l.loads)
	}
	if n.cfg.Scaling.on() {
		n.encodeSize(e)
	}
	if !l.bugSeen {
		return
	}
	e.num(uint64(len(l.bugLive)))
	for _, id := range l.bugLive {
		e.session(id)
	}
	e.ranked('v', 'o', l.bugVer)
}

func (n *Node) encodeSize(e *encoder) {
	s, set := &n.lead.size, &n.cfg.Scaling
	e.flag(s.begun)
	e.flag(s.asking)
	e.fleet(&s.asked)
	e.until(s.again)
	e.num(uint64(s.fails))
	e.since(s.grown, set.UpAfter)
	e.since(s.turned, set.DownAfter)
	e.since(s.stayed, set.Vanish)
	e.num(uint64(len(s.exits)))
	for _, x := range s.exits {
		e.session(x.who)
		e.since(x.since, set.Vanish)
		e.since(x.named, set.Vanish)
		e.flag(x.back)
		e.flag(x.sure)
	}
}

func (e *encoder) fleet(f *Fleet) {
	e.num(uint64(f.Want))
	e.num(uint64(len(f.Remove)))
	for _, s := range f.Remove {
		e.session(s)
	}
}

func (e *encoder) loads(l *loads) {
	e.num(uint64(l.known))
	e.measured(l.all, l.learnt)
	e.flag(l.packed)
	e.flag(l.fresh)
	e.flag(l.asking)
	e.until(l.ask)
	e.until(l.look)
	e.num(uint64(len(l.cools)))
	for _, c := range l.cools {
		e.num(uint64(c.id))
		e.until(c.until)
	}
	// Left out: said, which is for people.
}

func (e *encoder) measured(all []Load, learnt []Capacity) {
	e.num(uint64(len(all)))
	for _, x := range all {
		e.num(x.Speed)
		e.num(x.Backlog)
	}
	e.num(uint64(len(learnt)))
	for _, c := range learnt {
		e.session(c.Session)
		e.num(c.Units)
	}
}
