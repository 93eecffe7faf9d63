package core

import (
	"cmp"
	"slices"

	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// Awaited is what a partition waits for until it is where the plan wants it.
type Awaited uint8

const (
	AwaitNothing Awaited = iota
	AwaitStop            // its owner was told to stop and has not confirmed it
	AwaitGrant           // the leader has not granted it yet
	AwaitAck             // its owner has not applied the plan that granted it
	AwaitStart           // its owner has started it, and the source has not confirmed it
)

// Awaits tells what row id of a plan waits for. The owner is the record of the
// row's Owner, nil if there is none.
func Awaits(p *record.Plan, id record.ID, r *record.Row, owner *record.Member) Awaited {
	switch {
	case r.State == record.Revoking:
		return AwaitStop
	case r.State == record.Free && r.To != 0 && r.Reason == record.NoReason:
		return AwaitGrant
	case r.State == record.Free:
		return AwaitNothing
	case owner == nil:
		return AwaitAck
	// start-ack: A grant is complete only when its owner has confirmed the start.
	// Without it: C2 is granted q, and its source does not open it. The plan looks
	// complete, and nobody is told that q does not run.
	case rule.StartAck.Off():
		return AwaitNothing
	case !acked(p, owner, r.Rev):
		return AwaitAck
	case has(owner.Starting, id):
		return AwaitStart
	}
	return AwaitNothing
}

// An await is one row of the wait set: a row that is not yet where the plan wants
// it.
type await struct {
	id    record.ID
	rev   uint64
	since Time
	stuck bool
}

// keepWaits keeps the wait set and since when each row waits, and reports starts
// that are stuck.
func (n *Node) keepWaits() {
	l := &n.lead
	old := l.waits
	l.waits = l.scratch.waits[:0]
	for i := range n.plan.Rows {
		r := &n.plan.Rows[i]
		if !n.waiting(record.ID(i), r) {
			continue
		}
		w := await{id: record.ID(i), rev: r.Rev, since: n.now}
		if j, ok := slices.BinarySearchFunc(old, w.id, func(a await, id record.ID) int { return cmp.Compare(a.id, id) }); ok && old[j].rev == w.rev {
			w = old[j]
		}
		l.waits = append(l.waits, w)
	}
	l.scratch.waits = old
	for i := range l.waits {
		w := &l.waits[i]
		if n.plan.Rows[w.id].State == record.Owned && !w.stuck && n.reached(w.since.Add(n.cfg.Stuck)) {
			w.stuck = true
			n.do(Action{Do: DoNote, Note: NoteStuck, ID: w.id, Token: n.plan.Rows[w.id].Token, Name: n.NameOf(w.id)})
		}
	}
}

// waiting tells whether a row waits for anything, by the records that this leader
// knows.
func (n *Node) waiting(id record.ID, r *record.Row) bool {
	var owner *record.Member
	if r.State == record.Owned {
		owner = n.peer(r.Owner).rec
	}
	return Awaits(n.plan, id, r, owner) != AwaitNothing
}

// has tells whether a list of a record contains id. Such lists ascend.
func has(ids []record.ID, id record.ID) bool {
	_, found := slices.BinarySearch(ids, id)
	return found
}

// acked tells whether a member has applied a plan of p's incarnation that is at
// least as new as generation rev.
func acked(p *record.Plan, m *record.Member, rev uint64) bool {
	// ack-belongs-to-its-revoke: An acknowledgement counts only if it is at least as new as
	// the revoke.
	// Without it: C1 has acknowledged generation 3, and has not seen generation 4, which
	// revokes q. The leader takes the old acknowledgement for the answer and grants q to
	// C2: both run it.
	if rule.AckBelongsToItsRevoke.Off() {
		return m.AckGen >= 1
	}
	// ack-of-this-incarnation: An acknowledgement counts only for the incarnation that it
	// names.
	// Without it: The store is restored from a backup. C2 can write and not read, so it
	// does not know. What it acknowledged of the lost plans looks new enough: q is freed,
	// and C3 starts it while C2 runs it.
	return m.AckGen >= rev && (m.AckInc == p.Incarnation || rule.AckOfThisIncarnation.Off())
}

// Waits returns the wait set as the leader sees it.
func (n *Node) Waits() []Wait {
	var out []Wait
	for _, w := range n.lead.waits {
		r := n.plan.Rows[w.id]
		out = append(out, Wait{Name: n.NameOf(w.id), Row: r, Stuck: w.stuck})
	}
	return out
}

// A Wait is one row that is not yet where the plan wants it.
type Wait struct {
	Name  string
	Row   record.Row
	Stuck bool
}
