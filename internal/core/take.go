package core

import (
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// take turns an event into facts. It returns whether anything changed that a
// pass looks at: a plain heartbeat of somebody else does not.
func (n *Node) take(ev *Event) bool {
	switch ev.Kind {
	case Begin:
		n.born, n.own.lease = n.now, n.now
		n.cell.fails = Never
	case Answer:
		return n.takeAnswer(ev)
	case Seen:
		return n.takeSeen(ev)
	case Gap:
		// What came between is unknown: read what a watch would have shown.
		n.readPlanSoon()
		n.rosterCell.want = n.plan != nil
		n.ordersCell.want = n.watch.Orders
		n.list.want = n.watch.All
	case Listed:
		n.tookPartitions(ev)
	case Started, Stopped, Retrying, GivenUp:
		n.tookRun(ev)
	case Closed:
		n.closed = n.closing
	case Proven:
		n.proven(ev.Session)
	case Leave:
		if n.leaving == Never {
			n.leaving, n.returning = n.now, ev.Returning
		}
	case Jumped:
		// What sleep took is on this clock if it counts suspend; then there is
		// time to stop in order. Otherwise nobody knows how late it is.
		until := n.now
		if ev.CountsSuspend {
			until = n.now.Add(n.cfg.Margin)
		} else {
			n.own.forgetSends() // when they were sent, nobody knows either
		}
		n.own.lease = min(n.own.lease, until)
	case Server:
		n.sawServer(ev.Text)
	case Tick:
		return false // Steps has asked whether it is time
	}
	return true
}

func (n *Node) takeAnswer(ev *Event) bool {
	n.era = max(n.era, ev.Era)
	switch {
	case ev.Verb == List:
		n.tookMembers(ev)
	case ev.Key.Cell == PlanCell:
		n.tookPlan(ev)
	case ev.Key.Cell == RosterCell:
		n.tookRoster(ev)
	case ev.Key.Cell == OrdersCell:
		n.tookOrders(ev)
	case ev.Key.Session != n.cfg.Session:
		return n.tookPeer(ev)
	case ev.Verb == Put:
		n.tookPut(ev)
	default:
		n.tookGet(ev)
	}
	return true
}

func (n *Node) takeSeen(ev *Event) bool {
	if n.own.known == 0 {
		// Until it has joined a session notices no loss of the store, so what it
		// saw before might be lost: it reads everything once it has.
		return false
	}
	changed := ev.First
	n.all = n.all || ev.First && ev.AllMembers && n.watch.All
	for i := range ev.Entries {
		e := &ev.Entries[i]
		switch e.Cell {
		case PlanCell:
			if e.Deleted {
				n.readPlanSoon()
			} else {
				n.sawPlan(e.Plan, e.Rev)
			}
			changed = true
		case RosterCell:
			if !e.Deleted {
				n.sawRoster(e.Roster, e.Rev)
			}
			changed = true
		case OrdersCell:
			if !e.Deleted {
				n.sawOrders(e.Orders, e.Rev)
			}
			changed = true
		case MemberCell:
			changed = n.sawMember(e, ev.First) || changed
		}
	}
	return changed
}

// sawMember takes what a watch shows of a member.
func (n *Node) sawMember(e *Entry, first bool) bool {
	switch {
	case e.Session == n.cfg.Session:
		// Others may end a session; the sooner it knows the better.
		if e.Deleted || e.Member.State > record.Leaving {
			n.own.reread = n.own.flight == NoVerb || n.own.reread
			return true
		}
		return false
	case e.Deleted:
		if p := n.peer(e.Session); p != nil {
			p.reread = true // what a watch does not show proves nothing: look
		}
		return true
	}
	suspected := n.lead.suspects(e.Session)
	changed := n.sawPeer(e.Member, e.Rev, !first)
	// The leader acknowledges its own plans like anyone: its heartbeat tells
	// that there is one we have not seen.
	if n.plan != nil && e.Session == n.plan.Leader && e.Member.AckInc == n.plan.Incarnation && e.Member.AckGen > n.plan.Gen {
		n.poll = min(n.poll, n.now.Add(n.cfg.Retry))
		changed = true
	}
	return changed || suspected || n.waitsForTwin(e.Member)
}

// waitsForTwin: somebody is held back until this member beats.
func (n *Node) waitsForTwin(m *record.Member) bool {
	for i := range n.peers {
		if p := &n.peers[i]; p.noticed == noticedNothing && !p.planned && p.is(record.Live) && p.rec.Name == m.Name && p.session != m.Session {
			return true
		}
	}
	return false
}

// proven: the kernel saw the process of s exit, so nobody needs to wait for its
// lease. The proof is permanent: a conflict is just tried again.
func (n *Node) proven(s record.Session) {
	// proof-ends-the-wait: A death that the kernel has proved is not waited for.
	// Without it: C2's process is killed, and its supervisor saw it exit. Its partitions
	// are idle for a whole lease all the same.
	if rule.ProofEndsTheWait.Off() {
		return
	}
	p := n.addPeer(s)
	p.proof = true
	p.reread = p.reread || p.rec == nil
}

// sawServer takes note of the server that the store is connected to.
func (n *Node) sawServer(id string) {
	n.server = id
	if n.plan != nil {
		n.compareServer()
	}
}

// compareServer: a store that may lose acknowledged writes, and is another
// server than the one that took this plan, has lost some as far as anyone can
// tell. A session that joins asks this of the first plan it reads: without that
// it leads on, and a member that is cut off keeps what is granted again.
func (n *Node) compareServer() {
	known := n.server != "" && n.plan.Server != ""
	// server-of-the-first-plan: A session compares the store's server with the first plan
	// that it reads.
	// Without it: The store fails over to a server that lacks the newest plan. C3 joins
	// there, leads on from the plan before and starts p, which C2, cut off, still runs.
	if n.cfg.Volatile && known && n.server != n.plan.Server && !rule.ServerOfTheFirstPlan.Off() {
		n.storeLost()
	}
}
