package explore

import (
	"fmt"
	"slices"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// A Violation is a broken promise. The invariants are those of package check;
// here they are asked of every state instead of a history.
type Violation struct {
	Invariant string `json:"invariant"`
	Text      string `json:"text"`
}

func (v *Violation) Error() string { return v.Invariant + ": " + v.Text }

func (w *world) fail(inv, format string, args ...any) {
	if w.bad == nil {
		w.bad = &Violation{inv, fmt.Sprintf(format, args...)}
	}
}

// judge asks what must hold in every state: I1, at most one runs a partition
// with a valid lease; and I4, whoever does is the owner that the plan names.
func (w *world) judge() {
	for i := range w.procs {
		p := &w.procs[i]
		if len(p.runs) == 0 || !w.valid(p) {
			continue
		}
		for _, r := range p.runs {
			for j := range w.procs[:i] {
				q := &w.procs[j]
				if w.valid(q) && slices.ContainsFunc(q.runs, func(x run) bool { return x.part == r.part }) {
					w.fail("I1", "%s and %s both run %s with a valid lease", w.cfg.label(j), w.cfg.label(i), w.cfg.partName(r.part))
				}
			}
			if !w.rolled {
				w.owner(i, &r)
			}
		}
	}
}

// overtime: whoever is awake has stopped at the end of its lease.
func (w *world) overtime(who int) {
	p := &w.procs[who]
	if p.state != up || w.valid(p) || w.mayAct(p) { // whoever works on may
		return
	}
	for _, r := range p.runs {
		if !r.cancel || p.hung && !w.stops(who, r) {
			w.fail("I1", "%s goes on with %s after the end of its lease", w.cfg.label(who), w.cfg.partName(r.part))
		}
	}
}

// stops: the end of the run is on its way.
func (w *world) stops(who int, r run) bool {
	return slices.ContainsFunc(w.mail, func(m mail) bool { return m.kind == stopped && int(m.who) == who && m.run.part == r.part })
}

// owner is I4. A store that lost a write breaks it by itself.
func (w *world) owner(who int, r *run) {
	plan, roster := w.store.plan.cur.Plan, w.store.roster.cur.Roster
	if plan == nil || int(r.id) >= len(plan.Rows) {
		w.fail("I4", "%s runs %s, which the plan does not know", w.cfg.label(who), w.cfg.partName(r.part))
		return
	}
	row := &plan.Rows[r.id]
	switch {
	case row.State == record.Free:
		w.fail("I4", "%s runs %s@%s, which is free", w.cfg.label(who), w.cfg.partName(r.part), r.token)
	case row.Owner != session(who) || row.Token != r.token:
		w.fail("I4", "%s runs %s@%s, which the plan gives to %s as @%s", w.cfg.label(who), w.cfg.partName(r.part), r.token, w.label(row.Owner), row.Token)
	case roster == nil || int(r.id) >= len(roster.Entries) || w.cfg.part(roster.Entries[r.id].Name) != r.part:
		w.fail("I4", "%s runs %s as partition %d, which has another name", w.cfg.label(who), w.cfg.partName(r.part), r.id)
	}
}

func (w *world) label(s record.Session) string {
	if n := who(s); n >= 0 && n < len(w.procs) {
		return w.cfg.label(n)
	}
	return "nobody"
}

// judgePlan asks what must hold of a write of the plan: I3, tokens grow; I5, no
// more plans than reasons; I6, an eager grant finds nobody at work.
func (w *world) judgePlan(was, now *record.Plan) {
	if w.cfg.Plans > 0 && w.counts && was != nil && was.ID != now.ID {
		w.plans++
		if w.plans > w.cfg.Plans {
			w.fail("I5", "plan number %d, and only %d reasons for one", w.plans, w.cfg.Plans)
		}
	}
	roster := w.store.roster.cur.Roster
	for i := range now.Rows {
		r := &now.Rows[i]
		if r.State != record.Owned {
			continue
		}
		if was != nil && i < len(was.Rows) && was.Rows[i].State == record.Owned && was.Rows[i].Owner == r.Owner && was.Rows[i].Token == r.Token {
			continue
		}
		if roster != nil && i < len(roster.Entries) {
			if n := w.cfg.part(roster.Entries[i].Name); int(n) < len(w.high) {
				if r.Token <= w.high[n] && !w.rolled {
					w.fail("I3", "%s is granted as @%s after @%s", w.cfg.partName(n), r.Token, w.high[n])
				}
				w.high = slices.Clone(w.high)
				w.high[n] = max(w.high[n], r.Token)
			}
		}
		if now.Mode == record.Eager && !w.rolled {
			w.barrier(i)
		}
	}
}

func (w *world) barrier(id int) {
	for i := range w.procs {
		if p := &w.procs[i]; len(p.runs) > 0 && w.valid(p) {
			w.fail("I6", "partition %d is granted eagerly while %s still runs %s", id, w.cfg.label(i), w.cfg.partName(p.runs[0].part))
		}
	}
}

// land is an effect that reaches the sink; I2 is asked of what it accepts.
func (w *world) land(who int, r *run) {
	if int(r.part) >= len(w.sinks) {
		return
	}
	s := w.sinks[r.part]
	old := r.token < s.token || r.token == s.token && s.who != 0 && session(who) != s.who
	switch {
	case old && !rule.SinkChecksTokens.Off(): // sink-checks-tokens: see effect.
		return // refused
	case old:
		w.fail("I2", "the sink accepted %s@%s of %s after @%s of %s", w.cfg.partName(r.part), r.token, w.cfg.label(who), s.token, w.label(s.who))
	}
	w.sinks = slices.Clone(w.sinks)
	w.sinks[r.part] = sink{r.token, session(who)}
}

// age counts how long the plan has named a dead member. Nothing but the time the
// settling takes explains that, while the leader is awake.
func (w *world) age() {
	if !w.namesDead() || w.procs[max(who(w.store.plan.cur.Plan.Leader), 0)].state != up {
		w.waits = 0
		return
	}
	if w.waits++; w.waits > w.cfg.Wait {
		w.fail("L1", "a dead member has been in the plan for %d ticks", w.waits)
	}
}

// namesDead: the plan names a member that is dead.
func (w *world) namesDead() bool {
	plan := w.store.plan.cur.Plan
	return plan != nil && slices.ContainsFunc(plan.Members, func(s record.Session) bool {
		c := w.store.slot(core.Key{Cell: core.MemberCell, Session: s})
		return c != nil && c.cur.Member != nil && c.cur.Member.State == record.Dead
	})
}

// over: all that the configuration asks for has been answered.
func (w *world) over() bool {
	if w.cfg.Wait == 0 {
		return false
	}
	plan := w.store.plan.cur.Plan
	return plan != nil && len(plan.Members) < len(w.procs)
}

// rest is L1's goal: every partition runs where the plan says, and the plan names
// those who live. Where nobody lives there is nothing to ask.
func (w *world) rest() bool {
	plan := w.store.plan.cur.Plan
	any := false
	for i := range w.procs {
		p := &w.procs[i]
		if p.alive() && !p.leaves {
			any = true
			if plan == nil || !slices.Contains(plan.Members, session(i)) {
				return false
			}
		} else if plan != nil && slices.Contains(plan.Members, session(i)) && w.others(i) {
			return false
		}
	}
	if !any {
		return true
	}
	roster := w.store.roster.cur.Roster
	if roster == nil {
		return false
	}
	for id, e := range roster.Entries {
		if !e.Removed && !w.paused(e.Name) && !w.quarantined(record.ID(id)) && !w.runs(record.ID(id)) {
			return false
		}
	}
	return len(roster.Entries) > 0
}

// others: somebody else lives, who should have noticed.
func (w *world) others(who int) bool {
	for i := range w.procs {
		if i != who && w.procs[i].alive() && !w.procs[i].leaves {
			return true
		}
	}
	return false
}

func (w *world) paused(name string) bool {
	o := w.store.orders.cur.Orders
	return o != nil && slices.Contains(o.Pauses, name)
}

func (w *world) quarantined(id record.ID) bool {
	plan := w.store.plan.cur.Plan
	return int(id) < len(plan.Rows) && plan.Rows[id].Reason == record.Quarantined
}

// runs: the partition runs where the plan says.
func (w *world) runs(id record.ID) bool {
	plan := w.store.plan.cur.Plan
	if int(id) >= len(plan.Rows) || plan.Rows[id].State != record.Owned {
		return false
	}
	row := &plan.Rows[id]
	n := who(row.Owner)
	if n < 0 || n >= len(w.procs) {
		return false
	}
	p := &w.procs[n]
	return w.valid(p) && slices.ContainsFunc(p.runs, func(r run) bool { return r.id == id && r.token == row.Token && !r.asked })
}
