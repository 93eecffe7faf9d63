package core

import (
	"github.com/rota-dev/rota/internal/rule"
)

// A cell is the reading side of one shared record: at most one call on it is
// under way, and a call that failed is tried again a little later.
type cell struct {
	rev    Rev
	want   bool // to be read
	again  bool // asked for while a read was under way, which may be too old
	flight Verb
	wait   Time
	floor  uint64 // version known when the read under way was sent
}

// ask wants a read that is sent from now on.
func (c *cell) ask() {
	c.want = true
	c.again = c.flight == Get || c.flight == List
}

// got takes note that a read was answered, and tells whether it was one that
// had been asked for by then.
func (c *cell) got() bool {
	c.want, c.again = c.again, false
	return !c.want
}

// readCells sends the reads that are wanted.
func (n *Node) readCells() {
	if n.own.known == 0 {
		return // not joined yet: nothing to plan for
	}
	if n.plan != nil && n.cause == NotEnded && n.reached(n.poll) {
		n.cell.want = true
	}
	if c := &n.cell; c.want && c.flight == NoVerb && n.reached(c.wait) {
		c.flight, c.known = Get, n.plan
		n.do(Action{Do: DoCall, Verb: Get, Key: Key{Cell: PlanCell}})
	}
	if n.cause != NotEnded {
		return
	}
	if c := &n.rosterCell; c.want && c.flight == NoVerb && n.reached(c.wait) {
		c.flight, c.floor = Get, rosterVer(n.roster)
		// lost-roster-is-noticed: A roster that is older than the plan's proves that the
		// store lost the newer one.
		// Without it: The store loses the roster and keeps the plan. Every member waits for
		// a roster that never comes.
		if !n.plan.Hold && !rule.LostRosterIsNoticed.Off() {
			c.floor = max(c.floor, n.plan.Roster) // it was there before the plan was
		}
		n.do(Action{Do: DoCall, Verb: Get, Key: Key{Cell: RosterCell}})
	}
	if c := &n.ordersCell; c.want && c.flight == NoVerb && n.reached(c.wait) {
		c.flight, c.floor = Get, ordersVer(n.orders)
		n.do(Action{Do: DoCall, Verb: Get, Key: Key{Cell: OrdersCell}})
	}
	if c := &n.list; c.want && c.flight == NoVerb && n.reached(c.wait) {
		c.flight = List
		n.do(Action{Do: DoCall, Verb: List, Key: Key{Cell: MemberCell}})
	}
}
