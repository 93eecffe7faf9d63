package core

import (
	"cmp"

	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// planCell is the cell of the plan, with the facts that are needed to understand an
// answer.
type planCell struct {
	cell
	put   *record.Plan // in flight
	known *record.Plan // newest plan seen when the Get in flight was sent
	doubt bool         // the last Put conflicted, or its outcome is unknown: read before writing
	after Time         // back-off: no Put before this instant
	fails Time         // since when writes fail, conflicts apart; Never if they do not
}

// readPlanSoon asks for a linearizable read of the plan.
func (n *Node) readPlanSoon() { n.cell.ask() }

// older orders plans by age: incarnation first, then generation.
func older(a, b *record.Plan) int {
	return cmp.Or(cmp.Compare(a.Incarnation, b.Incarnation), cmp.Compare(a.Gen, b.Gen))
}

// sawPlan takes a version of the plan. A watch may deliver stale versions and
// duplicates, so a version that looks older is only a reason to read the plan.
func (n *Node) sawPlan(p *record.Plan, rev Rev) {
	if n.cause != NotEnded {
		return
	}
	if n.plan == nil {
		n.inc = p.Incarnation
		n.adopt(p, rev)
		n.compareServer() // the server may have changed before this session began
		return
	}
	c := older(p, n.plan)
	switch {
	// no-older-plan: A plan that is older than the one applied is ignored.
	// Without it: C2 has stopped q and acknowledged that. Its watch shows it the plan
	// before, late, and C2 starts q again, while C1, the next owner, runs it.
	case rule.NoOlderPlan.Off() && c != 0 && p.Incarnation == n.inc:
		n.adopt(p, rev)
	// incarnation-after-loss: see storeLost.
	case c > 0 && p.Incarnation != n.inc && !rule.IncarnationAfterLoss.Off():
		n.end(ByStore) // another member has begun a new incarnation
	case c > 0:
		n.adopt(p, rev)
	case c == 0 && p.Write == n.plan.Write:
		n.cell.rev = rev
		n.pollLater()
	default:
		n.readPlanSoon()
	}
}

// adopt makes p the plan that this node acts on.
func (n *Node) adopt(p *record.Plan, rev Rev) {
	was := n.plan
	if p.Leader == n.cfg.Session {
		p = p.Full() // only a leader needs all rows
	}
	n.plan, n.cell.rev = p, rev
	n.cell.fails = Never // a plan was written
	n.creates = false
	if was == nil || was.Leader != p.Leader {
		n.vacant, n.claiming = Never, false
		n.lead.resign()
		if p.Leader == n.cfg.Session {
			n.takeOver()
		}
	}
	for i := range n.peers {
		n.peers[i].planned = false
	}
	for _, s := range p.Members {
		if i, ok := n.findPeer(s); ok {
			n.peers[i].planned = true
		}
	}
	if was == nil || was.ID != p.ID {
		n.planned()
	}
	// A plan of this leader that arrives late may name an owner that was forgotten
	// since.
	if n.lead.ready {
		n.askForOwners()
	}
	n.pollLater()
}

// pollLater sets the time of the next read, because a watch may miss a plan without
// notice. While the leader's heartbeats arrive, they tell the newest generation,
// and a rare read is enough; without them it is read every heartbeat.
func (n *Node) pollLater() {
	every := n.cfg.PollPlan
	if l := n.peer(n.plan.Leader); l == nil || l.rec == nil || n.now.Sub(l.at) > gap(l.rec.Beat) {
		every = n.cfg.Heartbeat
	}
	n.poll = n.now.Add(every)
}

// tookPlan takes the answer to a call on the plan.
func (n *Node) tookPlan(ev *Event) {
	c := &n.cell
	verb := c.flight
	c.flight = NoVerb
	if verb == Put {
		n.tookPlanPut(ev)
		return
	}
	known := c.known
	c.known = nil
	if ev.Outcome == Unknown {
		c.again = false
		c.wait = n.now.Add(n.cfg.Retry)
		return
	}
	fresh := c.got()
	if fresh {
		n.storeAnswered()
	}
	if n.bump {
		n.bumpPlan(ev)
		return
	}
	n.recheck = n.recheck && !fresh
	c.doubt = false
	switch {
	case ev.Outcome == NotFound && known != nil:
		n.storeLost() // a plan is never deleted
	case ev.Outcome == NotFound:
		n.creates = n.plan == nil
	// no-older-plan: see sawPlan.
	case known != nil && lost(ev.Entries[0].Plan, known) && !rule.NoOlderPlan.Off():
		// incarnation-after-loss: see storeLost.
		if rule.IncarnationAfterLoss.Off() {
			n.adopt(ev.Entries[0].Plan, ev.Entries[0].Rev)
		}
		n.storeLost()
	default:
		n.sawPlan(ev.Entries[0].Plan, ev.Entries[0].Rev)
	}
	if n.claiming {
		n.claim()
	}
}

// lost tells whether p, read after known had been seen, proves that the store lost
// known: p is older, or is another write of the same generation.
func lost(p, known *record.Plan) bool {
	c := older(p, known)
	return c < 0 || c == 0 && p.Write != known.Write
}

func (n *Node) tookPlanPut(ev *Event) {
	c := &n.cell
	switch ev.Outcome {
	case OK:
		p := c.put
		c.put, c.fails = nil, Never
		if n.bump {
			n.bump = false
		} else {
			n.sawPlan(p, ev.Rev)
		}
	case Conflict:
		// Another member wrote, or a request that was sent twice succeeded the first
		// time. Either way, read the plan before writing again.
		c.put, c.fails, c.doubt = nil, Never, true
		n.readPlanSoon()
	default:
		// The answer may be lost, and the plan written and seen all the same.
		if n.plan == nil || n.plan.Write != c.put.Write {
			c.fails = min(c.fails, n.now)
		}
		// known-writes-only: A leader acts only on a plan that is known to be in the store.
		// Without it: The leader's plan is lost on its way, and the leader takes it for
		// written. It starts what that plan gives it, while the plan in the store names
		// another owner.
		if rule.KnownWritesOnly.Off() && !n.bump && n.plan != nil {
			n.adopt(c.put, c.rev)
			c.put = nil
			return
		}
		c.put, c.doubt = nil, true
		c.after = n.now.Add(n.cfg.Retry)
		n.readPlanSoon()
	}
}

// putPlan writes p over revision prev.
func (n *Node) putPlan(p *record.Plan, prev Rev) {
	n.writes++
	p.Write = writeID(n.cfg.Session, n.writes)
	n.cell.put, n.cell.flight = p, Put
	// plan-is-compare-and-set: A plan is written only over the version that it was made
	// from.
	// Without it: C1's plan is in flight when C1 is declared dead. C2 leads and grants q.
	// Then C1's plan arrives and erases the grant, and q is granted once more under the
	// same token.
	n.do(Action{Do: DoCall, Verb: Put, Key: Key{Cell: PlanCell}, Prev: prev, Plan: p})
}

// writeID makes an ID that tells two writes apart. Sessions are random, so mixing
// in a counter is as good as drawing another random number.
func writeID(s record.Session, n uint64) uint64 {
	x := uint64(s) ^ n*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return max(x^x>>31, 1)
}

// nextIncarnation returns a number that is higher than seen and no lower than the
// wall clock. The store may have lost an incarnation that this session never saw;
// if its number were used again, the same token could be granted to two sessions.
// This is the only use of the wall clock: for tokens, never for exclusivity.
func (n *Node) nextIncarnation(seen uint32) uint32 {
	// incarnation-begins-once: A new incarnation has a number that none before it had, lost
	// ones included.
	// Without it: The store loses an incarnation with its grants. C3, which never saw it,
	// begins the next one under the same number: one token is granted to two sessions.
	if rule.IncarnationBeginsOnce.Off() {
		return seen + 1
	}
	return max(seen+1, n.era)
}

// bumpPlan gives the plan that was read a new incarnation and a hold, unless
// another member has done so. The rows stay as they were found: the next leader
// frees them when the hold ends.
func (n *Node) bumpPlan(ev *Event) {
	if !n.reached(n.cell.after) {
		n.cell.want, n.cell.wait = true, n.cell.after // back-off: the last try has just failed
		return
	}
	next := &record.Plan{Term: 1, Mode: n.cfg.Mode}
	var prev Rev
	if ev.Outcome == OK {
		e := &ev.Entries[0]
		if e.Plan.Incarnation > n.inc {
			n.bump = false
			return
		}
		*next = *e.Plan.Full()
		prev = e.Rev
	}
	next.Gen++
	next.Decided = next.Gen
	next.Leader = 0
	// hold-after-loss: After a loss nothing is granted until every old lease has run out;
	// an empty store may be a loss, too.
	// Without it: The store is emptied while C1 runs q. C2 finds no plan, makes the first
	// one and starts q: both run it.
	next.Hold = !rule.HoldAfterLoss.Off()
	next.Server = n.server
	next.Incarnation = n.nextIncarnation(n.inc)
	n.putPlan(next, prev)
}
