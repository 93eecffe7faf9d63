package core

import (
	"time"

	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// succeed replaces a leader that is gone: this node waits for its turn, reads the
// plan and claims it, or accepts a new leader that it finds there. Two claims at
// once are harmless: one compare-and-set wins.
func (n *Node) succeed() {
	if n.cause != NotEnded || n.own.known == 0 || n.own.state != record.Live || n.lapsed {
		return // without a lease this session may have been declared dead: it must not lead
	}
	if n.creates {
		n.create()
		return
	}
	if n.plan == nil || n.Leads() {
		return
	}
	l := n.peer(n.plan.Leader)
	if l != nil && l.flight == NoVerb && !l.reread && n.expired(l) {
		// In line, as for a claim: one declaration is enough.
		if p := n.claimDelay(); p == 0 || n.reached(l.at.Add(wait(l.rec.Lease)+p)) {
			n.declare(l, record.Dead)
		}
	}
	if !n.vacated() {
		n.vacant = Never
		return
	}
	if n.vacant == Never {
		n.vacant = n.now
	}
	if n.claiming || n.cell.flight == Put || !n.reached(n.vacant.Add(n.claimDelay())) || !n.reached(n.cell.after) {
		return // a claim is in progress, is not due yet or has just failed
	}
	n.claiming = true
	n.readPlanSoon()
}

// vacated tells whether the plan has no leader, or one that leads no more: it is
// evicted, ended or without a record.
func (n *Node) vacated() bool {
	if n.plan.Leader == 0 {
		return true
	}
	l := n.peer(n.plan.Leader)
	if l == nil || l.rec == nil {
		return l != nil && l.absent
	}
	// leaving-leader-leads-on: see leading.
	return !l.is(record.Live) && (!l.is(record.Leaving) || rule.LeavingLeaderLeadsOn.Off())
}

// claimDelay is one Step for each member ahead of this one in line; those known to
// be leaving, ended or overdue do not count. Members far back are spread by hash
// instead, so that they do not all claim at once.
func (n *Node) claimDelay() time.Duration {
	ahead := 0
	for _, s := range n.plan.Members {
		if s == n.cfg.Session {
			break
		}
		if s == n.plan.Leader {
			continue
		}
		p := n.peer(s)
		fit := p == nil || p.is(record.Live) && n.now.Sub(p.at) < overdue(p.rec)
		if fit {
			ahead++
		}
	}
	if ahead > 3 {
		return 3*n.cfg.Step + time.Duration(n.cfg.Hash%7)*n.cfg.Step + n.cfg.Step*time.Duration(n.cfg.Hash%100)/100
	}
	return time.Duration(ahead) * n.cfg.Step
}

// claim makes this node the leader of the plan just read. If that plan names a new
// leader, adopt has withdrawn the claim.
func (n *Node) claim() {
	n.claiming = false
	if n.cause != NotEnded || n.own.state != record.Live || n.lapsed {
		return
	}
	next := *n.plan.Full()
	next.Gen++
	next.Term++
	next.Leader = n.cfg.Session
	n.putPlan(&next, n.cell.rev)
}

// create makes the first plan of a group. It has a hold unless the store is known
// to be new: an emptied store looks just like a new group.
func (n *Node) create() {
	if n.cell.flight != NoVerb || n.cell.want || !n.reached(n.cell.after) {
		return
	}
	// hold-after-loss: see bumpPlan.
	n.putPlan(&record.Plan{
		Incarnation: n.nextIncarnation(n.inc),
		Gen:         1,
		Decided:     1,
		Term:        1,
		Hold:        !n.cfg.Fresh && !rule.HoldAfterLoss.Off(),
		Leader:      n.cfg.Session,
		Server:      n.server,
	}, 0)
}
