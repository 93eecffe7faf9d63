package core

import (
	"slices"

	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// tookOrders takes the answer to a read of the orders.
func (n *Node) tookOrders(ev *Event) {
	c := &n.ordersCell
	c.flight = NoVerb
	var found *record.Orders
	var rev Rev
	switch ev.Outcome {
	case OK:
		found, rev = ev.Entries[0].Orders, ev.Entries[0].Rev
	case NotFound:
	default:
		c.again = false
		c.wait = n.now.Add(n.cfg.Retry)
		return
	}
	if !c.got() {
		return
	}
	n.lead.gotOrders = true
	switch v := ordersVer(found); {
	case v < c.floor, v == c.floor && v != 0 && v == ordersVer(n.orders) && rev != c.rev:
		n.storeLost() // orders that were seen are lost
	case found != nil:
		n.sawOrders(found, rev)
	}
}

func ordersVer(o *record.Orders) uint64 {
	if o == nil {
		return 0
	}
	return o.Ver
}

func (n *Node) sawOrders(o *record.Orders, rev Rev) {
	if o.Ver <= ordersVer(n.orders) {
		if rev != n.ordersCell.rev {
			n.ordersCell.ask() // stale, or another write of that version: read them
		}
		return
	}
	n.orders, n.ordersCell.rev = o, rev
	n.lead.rosterStale = true
	n.news()
}

func (n *Node) frozen() bool {
	// freeze-moves-nothing: Under a freeze no partition moves that has an owner.
	// Without it: An operator freezes the group for an upgrade. C2 joins, and half of the
	// partitions move.
	return n.orders != nil && n.orders.Freeze && !rule.FreezeMovesNothing.Off()
}

func (n *Node) paused(name string) bool {
	// paused-runs-nowhere: A paused partition is granted to nobody.
	// Without it: An operator pauses q to repair its data, and a member runs it all the
	// same.
	return n.orders != nil && slices.Contains(n.orders.Pauses, name) && !rule.PausedRunsNowhere.Off()
}
