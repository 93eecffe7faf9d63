package core

import (
	"slices"
	"strings"
	"unicode"

	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// A run is one partition this session runs, from the order to start until the
// shell said that it has stopped.
type run struct {
	id        record.ID
	token     record.Token
	phase     phase
	cancelled bool
	since     Time // when it was told to stop
}

type phase uint8

const (
	starting phase = iota // not confirmed by the source
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

// apply takes over a plan newer than the one applied. It needs a roster at
// least as new: with an older one an ID might mean another partition.
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
		// A leader in a hold writes one; anybody else has to find it.
		n.rosterCell.want = n.rosterCell.want || !(n.Leads() && p.Hold)
		return
	}
	n.mine = p.Mine(n.cfg.Session, n.mine[:0])
	n.ackInc, n.ackGen = p.Incarnation, p.Gen
	for i := range n.mine {
		// Someone waits for this answer; all else rides on the next heartbeat.
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

// reconcile makes what runs agree with the plan applied: stop what is not mine,
// start what is. It may be called at any time, any number of times.
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
		name := n.NameOf(h.ID)
		// roster-before-plan: see apply.
		if name == "" && !rule.RosterBeforePlan.Off() {
			continue // a plan that no roster explains: what an ID means is never guessed
		}
		if at, found := n.findRun(h.ID); !found {
			n.runs = slices.Insert(n.runs, at, run{id: h.ID, token: h.Token, phase: starting})
			n.own.dirty = true
			n.do(Action{Do: DoStart, ID: h.ID, Token: h.Token, Name: name})
		}
	}
}

// mayStart: only while the lease holds, with a plan read since it last did not;
// and nothing under a hold: a row in such a plan is what the store remembers, not
// what it granted.
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

// NameOf is what the roster calls a partition; empty if it does not know it.
func (n *Node) NameOf(id record.ID) string {
	if n.roster == nil || int(id) >= len(n.roster.Entries) {
		return ""
	}
	return n.roster.Entries[id].Name
}

// stop lets a run finish what it has fetched.
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
		r.cancelled = true
		n.do(Action{Do: DoCancel, ID: r.id, Token: r.token})
	}
}

// boundStop bounds how long a run may take to stop. A handler that ignores even its
// cancellation costs the process: the leader's too, for nobody evicts a leader
// and its partition would be stranded for ever.
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

// tookRun takes what the shell says of one run.
func (n *Node) tookRun(ev *Event) {
	i, ok := n.findRun(ev.ID)
	if !ok || n.runs[i].token != ev.Token {
		return // a late word about an earlier run
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

// oneLine makes a text from outside fit for a record: a cause that no reader
// accepts would cost a heartbeat.
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
