package core

import (
	"slices"
	"time"

	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// A failure is a partition that was given up and has not run well since. The leader
// remembers it, so that a partition that fails everywhere does not wander from
// member to member, with a plan for each step.
type failure struct {
	id    record.ID
	who   record.Session // who gave it up last
	count int            // how often in a row
	token record.Token   // of the newest grant that was given up
	cause string         // of that; empty if the record had no room for it
	stays bool           // another member would not do better
	until Time           // it is not granted before
}

// mostPauses is how often the pause between two grants doubles: from 2 s to 8 s. After an
// outage of the broker nobody waits longer than that.
const mostPauses = 2

// calm is how long a partition must have run after its last grant so that its next
// failure is the first of a new series. It is longer than a source takes to fail.
const calm = time.Minute

// noteFailure notes that m has given up a grant of partition id, once. It returns whether
// the partition stays with m. The first failure of a series moves it at once.
func (n *Node) noteFailure(id record.ID, token record.Token, m *record.Member) (stays bool) {
	l := &n.lead
	at := slices.IndexFunc(m.GaveUp, func(g record.GaveUp) bool { return g.ID == id && g.Token == token })
	cause := m.GaveUp[at].Cause
	i, known := l.findFailure(id)
	if !known {
		l.failures = slices.Insert(l.failures, i, failure{id: id, who: m.Session, count: 1, token: token, cause: cause, until: n.now})
		return false
	}
	f := &l.failures[i]
	if f.token == token {
		return f.stays // the plan that frees it could not be written
	}
	// failure-follows-the-partition: A partition that is given up twice in a row for the
	// same reason stays where it is.
	// Without it: The broker refuses q to every member. q goes from member to member,
	// with a new plan for each step.
	f.stays = (f.cause == cause || f.cause == "" || cause == "") && !rule.FailureFollowsThePartition.Off()
	f.who, f.token, f.cause = m.Session, token, cause
	// back-off-across-grants: A partition that is given up again and again is granted
	// after growing pauses.
	// Without it: The broker refuses q to every member. q is granted and given up all the
	// time, for ever.
	if f.until = n.now; !rule.BackOffAcrossGrants.Off() {
		f.until = n.now.Add(n.cfg.Again << (f.count - 1))
	}
	f.count = min(f.count+1, mostPauses+1)
	return f.stays
}

func (l *lead) findFailure(id record.ID) (int, bool) {
	return slices.BinarySearchFunc(l.failures, id, func(f failure, id record.ID) int { return int(f.id) - int(id) })
}

// backsOff tells whether it is too early to grant partition id again.
func (n *Node) backsOff(id record.ID) bool {
	i, ok := n.lead.findFailure(id)
	return ok && !n.reached(n.lead.failures[i].until)
}

// failed tells whether session s has given a partition up lately.
func (n *Node) failed(s record.Session) bool {
	return slices.ContainsFunc(n.lead.failures, func(f failure) bool { return f.who == s })
}

// forgetFailures drops the failures of partitions that have run well since.
func (n *Node) forgetFailures() {
	l := &n.lead
	l.failures = slices.DeleteFunc(l.failures, func(f failure) bool { return n.reached(f.until.Add(calm)) })
}
