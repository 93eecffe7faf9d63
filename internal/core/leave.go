package core

import (
	"slices"

	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// leave takes the next step of a leaver. It works on until the plan has taken its
// rows, but no longer than cfg.Leave; one that is the last or means to return stops
// at once.
func (n *Node) leave() {
	if n.leaving == Never || n.cause != NotEnded {
		return
	}
	if n.own.state == record.Live {
		n.own.state, n.own.dirty = record.Leaving, true
		n.do(Action{Do: DoNote, Note: NoteLeaving})
	}
	// leaver-works-on: A leaver works on until the plan has taken its partitions.
	// Without it: C2 is told to leave and stops at once. Its partitions are idle until the
	// leader has noticed and planned.
	if !n.selfStop && (n.returning || rule.LeaverWorksOn.Off() || n.last() || n.reached(n.leaving.Add(n.cfg.Leave))) {
		n.selfStop = true
		for i := range n.runs {
			n.stop(&n.runs[i])
		}
	}
	rows := slices.ContainsFunc(n.mine, func(h record.OwnRow) bool { return h.State == record.Owned })
	if len(n.runs) > 0 || (rows || n.leadsOut()) && !n.selfStop {
		return
	}
	switch {
	case !n.closing:
		n.closing = true
		n.endBy = n.now.Add(n.cfg.Lease)
		n.do(Action{Do: DoClose})
	case n.closed && n.own.known == 0 || n.reached(n.endBy): // it never joined, or LEFT cannot be written
		n.leftFor(ByLeave)
	case n.closed && n.own.state != record.Left:
		n.own.state, n.own.dirty = record.Left, true
	}
}

// leadsOut tells whether this node leads and has not yet made the plan without itself, or
// what that plan moves has not moved yet.
func (n *Node) leadsOut() bool {
	// leaving-leader-leads-on: see leading.
	if !n.Leads() || rule.LeavingLeaderLeadsOn.Off() {
		return false
	}
	return n.peer(n.cfg.Session).planned || slices.ContainsFunc(n.plan.Rows, func(r record.Row) bool { return r.State == record.Revoking })
}

// alone tells whether this node leads and sees no other live member, so that nobody
// will take its rows.
func (n *Node) alone() bool {
	if !n.Leads() || !n.lead.ready {
		return false
	}
	for i := range n.peers {
		if p := &n.peers[i]; p.session != n.cfg.Session && p.is(record.Live) {
			return false
		}
	}
	return true
}

// last tells whether this node is alone, and nobody who is leaving waits for its
// plan either.
func (n *Node) last() bool {
	// last-leader-frees-leavers: When everybody leaves, the leader first makes the plan
	// that the others wait for.
	// Without it: C1 to C5 are told to leave together. C1, which leads, sees nobody else
	// alive and goes. The others wait a second for a plan that nobody makes.
	waits := func(p peer) bool { return p.session != n.cfg.Session && p.is(record.Leaving) && p.planned }
	return n.alone() && (rule.LastLeaderFreesLeavers.Off() || !slices.ContainsFunc(n.peers, waits))
}

// end begins the end of the session: every run is cancelled, and nothing is started
// any more. When all have stopped, finish says LEFT if it can.
func (n *Node) end(cause Cause) {
	if n.cause != NotEnded {
		return
	}
	n.cause = cause
	n.endBy = n.now.Add(n.cfg.Lease)
	n.worksOn = false
	n.cancelAll()
}

// finish ends the session once nothing runs any more, after it has said LEFT if it
// can.
func (n *Node) finish() {
	if n.ended || n.cause == NotEnded || len(n.runs) > 0 {
		return
	}
	overtime := n.reached(n.endBy)
	if n.bump && !overtime {
		return // first the plan gets its new incarnation
	}
	o := &n.own
	// An orphan does not reach the store. After DEAD or a deletion there is no
	// version to write over: rev is 0.
	canSay := o.rev != 0 && (n.cause == ByFence || n.cause == ByStore || n.cause == ByFailure)
	if !canSay || overtime {
		n.leftFor(n.cause)
		return
	}
	switch {
	case o.state != record.Left:
		o.state, o.dirty, o.reread, o.wait = record.Left, true, false, n.now
	case o.reread: // one try is enough: W frees the rows in any case
		n.leftFor(n.cause)
	}
}

// leftFor ends the session at once. If it is ending already, the first cause
// stands.
func (n *Node) leftFor(cause Cause) {
	if n.cause != NotEnded {
		cause = n.cause
	}
	n.cause, n.ended, n.wake = cause, true, Never
	n.do(Action{Do: DoEnd, Cause: cause})
}

// storeLost is called when the store has lost an acknowledged write, so that none
// of its records can be trusted. Every session ends, the plan gets a new
// incarnation, and nothing is granted until every old lease has run out.
func (n *Node) storeLost() {
	// incarnation-after-loss: When the store has lost an acknowledged write, every session
	// ends and the plan gets a new incarnation.
	// Without it: The store loses the plan that moved q from C1 to C2. C1 goes on from the
	// version before, in which q is its own: both run it.
	if !rule.IncarnationAfterLoss.Off() {
		n.beginAnew(Action{Do: DoNote, Note: NoteLost})
	}
}

// beginAnew begins a new incarnation of the plan, which ends every session. The
// note tells why.
func (n *Node) beginAnew(why Action) {
	if n.cause != NotEnded {
		return
	}
	n.bump = true
	n.do(why)
	n.end(ByStore)
	n.readPlanSoon()
}
