package core

import (
	"github.com/rota-dev/rota/internal/rule"
)

// A cell tracks the calls on one shared record: at most one is in flight, and a
// failed read is retried after a back-off.
type cell struct {
	rev    Rev
	want   bool // to be read
	again  bool // a read was asked for during the one in flight, which may be stale
	flight Verb
	wait   Time
	floor  uint64 // version known when the read in flight was sent
}

// ask requests a read that is sent from now on: one in flight does not count.
func (c *cell) ask() {
	c.want = true
	c.again = c.flight == Get || c.flight == List
}

// got notes that a read was answered. It tells whether that read was fresh: no
// other was asked for while it was in flight.
func (c *cell) got() bool {
	c.want, c.again = c.again, false
	return !c.want
}

// readCells sends the reads that were asked for.
func (n *Node) readCells() {
	if n.own.known == 0 {
		return // not joined yet: a loss would not be noticed, see takeSeen
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
			c.floor = max(c.floor, n.plan.Roster) // a roster is written before the plan that names it
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
