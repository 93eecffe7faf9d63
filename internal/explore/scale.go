package explore

import (
	"slices"

	"github.com/rota-dev/rota/internal/core"
)

// scale lets a process call the Scaler. Nobody is removed that owns something.
func (w *world) scale(who int, f *core.Fleet) {
	m := mail{kind: scaled, who: uint8(who)}
	plan := w.store.plan.cur.Plan
	for _, s := range f.Remove {
		m.ev.Entries = append(m.ev.Entries, core.Entry{Key: core.Key{Cell: core.MemberCell, Session: s}})
		if plan.Leader != session(who) {
			continue // deposed, and does not know yet
		}
		for i := range plan.Rows {
			if plan.Rows[i].Owner == s {
				w.fail("size", "%s asks for the removal of a member that owns %s", w.cfg.label(who), w.cfg.Parts[i])
			}
		}
	}
	w.post(m)
}

// carryOut is the platform at work: it asks processes to leave.
func (w *world) carryOut(m *mail) {
	for i := range w.procs {
		p := &w.procs[i]
		gone := slices.ContainsFunc(m.ev.Entries, func(e core.Entry) bool { return e.Session == session(i) })
		if gone && p.state == up && !p.leaves {
			p.leaves = true
			w.step(i, &core.Event{Kind: core.Leave})
		}
	}
}
