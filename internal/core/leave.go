package core

import (
	"slices"

	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// leave walks a leaver out: it keeps working until the plan has taken its rows,
// but not for longer than it takes to see that nobody will.
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
	if !n.selfStop && (n.returning || rule.LeaverWorksOn.Off() || n.alone() || n.reached(n.leaving.Add(n.cfg.Leave))) {
		n.selfStop = true
		for i := range n.runs {
			n.stop(&n.runs[i])
		}
	}
	rows := slices.ContainsFunc(n.mine, func(h record.OwnRow) bool { return h.State == record.Owned })
	if len(n.runs) > 0 || rows && !n.selfStop {
		return
	}
	switch {
	case !n.closing:
		n.closing = true
		n.endBy = n.now.Add(n.cfg.Lease)
		n.do(Action{Do: DoClose})
	case n.closed && n.own.known == 0 || n.reached(n.endBy):
		n.leftFor(ByLeave)
	case n.closed && n.own.state != record.Left:
		n.own.state, n.own.dirty = record.Left, true
	}
}

// alone: the plan's leader sees nobody else alive, so nobody will take the rows.
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

// end closes the session: nothing is started any more and everything is
// cancelled; when all has stopped the session says so if it can, and is over.
func (n *Node) end(cause Cause) {
	if n.cause != NotEnded {
		return
	}
	n.cause = cause
	n.endBy = n.now.Add(n.cfg.Lease)
	for i := range n.runs {
		n.cancel(&n.runs[i])
	}
}

// finish ends the session once nothing runs any more.
func (n *Node) finish() {
	if n.ended || n.cause == NotEnded || len(n.runs) > 0 {
		return
	}
	overtime := n.reached(n.endBy)
	if n.bump && !overtime {
		return // first the plan gets its new incarnation
	}
	o := &n.own
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

func (n *Node) leftFor(cause Cause) {
	if n.cause != NotEnded {
		cause = n.cause
	}
	n.cause, n.ended, n.wake = cause, true, Never
	n.do(Action{Do: DoEnd, Cause: cause})
}

// storeLost: the store has forgotten what it acknowledged, so nothing it says
// about anybody can be trusted. Every session ends, the plan gets a new
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

// beginAnew ends every session by a new incarnation of the plan, and says why.
func (n *Node) beginAnew(why Action) {
	if n.cause != NotEnded {
		return
	}
	n.bump = true
	n.do(why)
	n.end(ByStore)
	n.readPlanSoon()
}
