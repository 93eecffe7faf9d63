package core

import (
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// take turns an event into facts. It returns whether a pass is needed: a plain
// heartbeat of another member needs none.
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
		// Changes during the gap are unknown: read the records that the watches would
		// have shown.
		n.readPlanSoon()
		n.rosterCell.want = n.plan != nil
		n.ordersCell.want = n.watch.Orders
		n.list.want = n.watch.All
	case Listed:
		n.tookPartitions(ev)
	case Started, Stopped, Retrying, GivenUp, Looked, Denied:
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
		// A clock that counts suspend shows how much time has passed, so there is
		// time to stop in order. With any other clock the time that has passed is
		// unknown.
		until := n.now
		if ev.CountsSuspend {
			until = n.now.Add(n.cfg.Margin)
		} else {
			n.own.forgetSends() // how long ago they were sent is unknown, too
		}
		n.own.lease = min(n.own.lease, until)
	case Server:
		n.sawServer(ev.Text)
	case Measured:
		n.tookLoads(ev)
	case Scaled:
		n.tookScaled(ev)
	case Tick:
		return false // Steps has compared the time with n.wake
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
		// A session that has not joined cannot notice a loss of the store, so it must
		// not rely on watches yet. It reads everything once it has joined.
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

// sawMember takes a member's record as a watch shows it. It returns whether a pass
// is needed.
func (n *Node) sawMember(e *Entry, first bool) bool {
	switch {
	case e.Session == n.cfg.Session:
		// Another member may have ended this session: the sooner it knows, the
		// better. A Put in flight will conflict and be read back anyway.
		if e.Deleted || e.Member.State > record.Leaving {
			n.own.reread = n.own.flight == NoVerb || n.own.reread
			return true
		}
		return false
	case e.Deleted:
		if p := n.peer(e.Session); p != nil {
			p.reread = true // a watch proves no absence: read the record
		}
		return true
	}
	// Even a plain heartbeat needs a pass if it comes from a suspect, or from a
	// member whose twin is held back.
	suspected := n.lead.suspects(e.Session)
	changed := n.sawPeer(e.Member, e.Rev, !first)
	// The leader acknowledges its own plans like any member, so its heartbeat
	// reveals a plan that the watch has missed.
	if n.plan != nil && e.Session == n.plan.Leader && e.Member.AckInc == n.plan.Incarnation && e.Member.AckGen > n.plan.Gen {
		n.poll = min(n.poll, n.now.Add(n.cfg.Retry))
		changed = true
	}
	return changed || suspected || n.waitsForTwin(e.Member)
}

// waitsForTwin tells whether another session of m's name is held back until m
// beats.
func (n *Node) waitsForTwin(m *record.Member) bool {
	for i := range n.peers {
		if p := &n.peers[i]; p.noticed == noticedNothing && !p.planned && p.is(record.Live) && p.rec.Name == m.Name && p.session != m.Session {
			return true
		}
	}
	return false
}

// proven takes the kernel's proof that the process of s has exited, so that nobody
// needs to wait for its lease. The proof is permanent: after a conflict the
// declaration is retried.
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

// sawServer notes which server the store is connected to.
func (n *Node) sawServer(id string) {
	n.server = id
	if n.plan != nil {
		n.compareServer()
	}
}

// compareServer compares the store's server with the one that took the plan. If
// they differ, a store that may lose acknowledged writes must be taken to have lost
// some. A session that joins compares the first plan that it reads, too.
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
