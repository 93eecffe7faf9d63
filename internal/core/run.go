package core

import (
	"slices"
	"strings"
	"unicode"

	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// A run is one partition that this session runs, from DoStart until the shell
// reports Stopped or GivenUp.
type run struct {
	id        record.ID
	token     record.Token
	phase     phase
	cancelled bool
	since     Time // when it was told to stop
	ended     Time // when it was cancelled
	looks     bool // its function asks for its lease before it acts
	denied    bool // and knows by now that it must not
}

type phase uint8

const (
	starting phase = iota // the source has not confirmed it yet
	running
	stopping
)

func (n *Node) findRun(id record.ID) (int, bool) {
	return slices.BinarySearchFunc(n.runs, id, func(r run, id record.ID) int { return int(r.id) - int(id) })
}

func (n *Node) myRow(id record.ID) *record.OwnRow {
	i, ok := slices.BinarySearchFunc(n.mine, id, func(h record.OwnRow, id record.ID) int { return int(h.ID) - int(id) })
	if !ok {
		return nil
	}
	return &n.mine[i]
}

// apply applies a plan that is newer than the last one applied. It needs a roster
// at least as new as the plan's: in an older one an ID may be unknown or, after a
// loss, mean another partition.
func (n *Node) apply() {
	p := n.plan
	if p == nil || n.cause != NotEnded || p.Gen == n.ackGen && p.Incarnation == n.ackInc {
		return
	}
	// roster-before-plan: A plan is applied only with a roster that is at least as new as
	// the plan's.
	// Without it: The partition q is added and granted to C2. C2 sees the plan before the
	// roster, and starts an ID that it cannot name.
	if p.Roster > rosterVer(n.roster) && !rule.RosterBeforePlan.Off() {
		// A leader in a hold writes a new one; any other member has to read it.
		n.rosterCell.want = n.rosterCell.want || !(n.Leads() && p.Hold)
		return
	}
	n.mine = p.Mine(n.cfg.Session, n.mine[:0])
	n.ackInc, n.ackGen = p.Incarnation, p.Gen
	for i := range n.mine {
		// The leader waits for this acknowledgement; all others can wait for the next
		// heartbeat.
		if h := &n.mine[i]; h.State == record.Revoking {
			n.own.dirty = n.own.dirty || !n.ackSent(h.Rev)
		}
	}
	n.gaveUp = slices.DeleteFunc(n.gaveUp, func(g record.GaveUp) bool {
		h := n.myRow(g.ID)
		gone := h == nil || h.Token != g.Token
		n.own.dirty = n.own.dirty || gone
		return gone
	})
}

// ackSent tells whether the newest record sent already acknowledges generation rev.
func (n *Node) ackSent(rev uint64) bool {
	return n.own.put.AckGen >= rev
}

func rosterVer(r *record.Roster) uint64 {
	if r == nil {
		return 0
	}
	return r.Ver
}

// reconcile makes the runs agree with the applied plan: it stops partitions that
// are not this session's and starts those that are. It is idempotent.
func (n *Node) reconcile() {
	for i := range n.runs {
		r := &n.runs[i]
		h := n.myRow(r.id)
		keep := h != nil && h.State == record.Owned && h.Token == r.token && !n.selfStop
		if !keep {
			n.stop(r)
		}
		if r.phase == stopping {
			n.boundStop(r)
		}
	}
	if !n.mayStart() {
		return
	}
	for i := range n.mine {
		h := &n.mine[i]
		if h.State != record.Owned || n.hasGivenUp(h.ID) {
			continue
		}
		at, found := n.findRun(h.ID)
		if found {
			continue // before its name is looked up: this happens in every step, and a name has to be decoded
		}
		name := n.NameOf(h.ID)
		// roster-before-plan: see apply.
		if name == "" && !rule.RosterBeforePlan.Off() {
			continue // the roster does not name this ID, and its meaning is never guessed
		}
		n.runs = slices.Insert(n.runs, at, run{id: h.ID, token: h.Token, phase: starting})
		n.own.dirty = true
		n.do(Action{Do: DoStart, ID: h.ID, Token: h.Token, Name: name})
	}
}

// mayStart tells whether partitions may be started: only under a valid lease, with
// a plan that was read since the lease came back, and never under a hold, when a
// row may be older than grants that the store has lost.
func (n *Node) mayStart() bool {
	// nothing-starts-in-a-hold: Nothing is started under a hold.
	// Without it: C2 was granted q and declared dead before it had read a plan, and the
	// store forgets both. C2 finds q under its name in a plan on hold and starts it, while
	// C1, which was granted q since, runs it.
	if n.plan != nil && n.plan.Hold && !rule.NothingStartsInAHold.Off() {
		return false
	}
	return n.own.state == record.Live && n.cause == NotEnded && !n.lapsed && !n.recheck
}

func (n *Node) hasGivenUp(id record.ID) bool {
	return slices.ContainsFunc(n.gaveUp, func(g record.GaveUp) bool { return g.ID == id })
}

// NameOf returns the roster's name for a partition; empty if the roster lacks it.
func (n *Node) NameOf(id record.ID) string {
	if n.roster == nil || int(id) >= n.roster.Len() {
		return ""
	}
	return n.roster.At(id).Name
}

// stop lets a run finish its fetched messages.
func (n *Node) stop(r *run) {
	if r.phase != stopping {
		r.phase, r.since = stopping, n.now
		n.own.dirty = true
		n.do(Action{Do: DoStop, ID: r.id, Token: r.token})
	}
}

// cancel ends a run at once.
func (n *Node) cancel(r *run) {
	if r.phase != stopping {
		r.phase, r.since = stopping, n.now
		n.own.dirty = true
	}
	if !r.cancelled {
		r.cancelled, r.ended = true, n.now
		n.do(Action{Do: DoCancel, ID: r.id, Token: r.token})
	}
}

func (n *Node) cancelAll() {
	for i := range n.runs {
		n.cancel(&n.runs[i])
	}
}

// boundStop enforces the stop time. A run is cancelled shortly before its end; a
// handler that ignores that costs the process. This holds for the leader, too:
// nobody evicts a leader, and its partition would be stranded for ever.
func (n *Node) boundStop(r *run) {
	// stop-in-time: A handler that does not return within the stop time costs the process.
	// Without it: C2's handler ignores even its cancellation. The partition is revoked and
	// never stops.
	// leader-stops-in-time: The leader's own handlers have to stop in the same time as
	// everybody's.
	// Without it: The leader's handler hangs on q, which is revoked. Nobody evicts a
	// leader, so q waits for ever.
	if rule.StopInTime.Off() || rule.LeaderStopsInTime.Off() && n.Leads() {
		return
	}
	if n.reached(r.since.Add(n.cfg.StopTime - n.cfg.Margin)) {
		n.cancel(r)
	}
	if n.reached(r.since.Add(n.cfg.StopTime)) {
		n.abort()
	}
}

// tookRun takes the shell's news of one run.
func (n *Node) tookRun(ev *Event) {
	i, ok := n.findRun(ev.ID)
	if !ok || n.runs[i].token != ev.Token {
		return // a stale event about an earlier run
	}
	r := &n.runs[i]
	switch ev.Kind {
	case Started:
		if r.phase == starting {
			r.phase = running
			n.own.dirty = true
		}
	case Retrying:
		if r.phase == running {
			r.phase = starting
			n.own.dirty = true
		}
	case Looked:
		r.looks = true
	case Denied:
		r.looks, r.denied = true, true
	case GivenUp, Stopped:
		// giving-up-is-told: A partition that is given up is reported with its token, so
		// that it can be granted anew.
		// Without it: C1's source fails on q, and C1 drops q without a word. The row is
		// still C1's, so C1 starts the same grant once more.
		if ev.Kind == GivenUp && !rule.GivingUpIsTold.Off() && r.phase != stopping {
			at, _ := slices.BinarySearchFunc(n.gaveUp, ev.ID, func(g record.GaveUp, id record.ID) int { return int(g.ID) - int(id) })
			n.gaveUp = slices.Insert(n.gaveUp, at, record.GaveUp{ID: ev.ID, Token: ev.Token, Cause: oneLine(ev.Text)})
		}
		n.runs = slices.Delete(n.runs, i, i+1)
		n.own.dirty = true
		if len(n.runs) == 0 {
			n.abortAt = 0
			if n.lapsed {
				n.do(Action{Do: DoNote, Note: NoteLapsed})
			}
		}
	}
}

// oneLine makes a text from outside fit for a record: a cause that readers refuse
// would cost the heartbeat.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	const most = 200
	for i := range s {
		if i > most {
			return s[:i] + "…"
		}
	}
	return s
}
