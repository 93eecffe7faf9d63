package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-dev/rota/internal/check"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// say adds a line to the transcript, if anybody listens.
func (w *World) say(h *host, line string) {
	if w.log == nil && w.hear == nil {
		return
	}
	if h != nil {
		line = h.name + " " + line
	}
	if w.log != nil {
		w.log(w.now, line)
	}
	if w.hear != nil {
		w.hear(seenLine{text: line})
	}
}

func (w *World) sayEnd(h *host, c core.Cause) {
	if w.log != nil || w.hear != nil {
		w.say(h, "ends: "+c.String())
	}
}

func (w *World) sayRun(h *host, verb, part string, t record.Token) {
	item := ""
	if w.log != nil || w.hear != nil {
		item = fmt.Sprintf("%s@%d", part, t.Counter())
	}
	if w.log != nil {
		w.log(w.now, h.name+" "+verb+" "+item)
	}
	if w.hear != nil {
		w.hear(seenLine{who: h.name, verb: verb, items: []string{item}})
	}
}

// nameOf is the name of the host that had session s.
func (w *World) nameOf(s record.Session) string {
	for _, h := range w.hosts {
		if h.node != nil && h.node.Session() == s {
			return h.name
		}
	}
	if c := w.store.cell(core.Key{Cell: core.MemberCell, Session: s}); c != nil && c.Member != nil {
		return c.Member.Name + "′" // an earlier process of that name
	}
	if s == 0 {
		return "nobody"
	}
	return fmt.Sprintf("%x", uint64(s))
}

// note takes what a node says it decided.
func (w *World) note(h *host, a *core.Action) {
	switch a.Note {
	case core.NoteLapsed:
		w.marks.Lapses++
		if p := w.store.plan.Plan; p != nil && revoking(p) {
			w.marks.LapseInMove++
		}
	case core.NoteWorksOn:
		w.marks.WorkedOn++
	case core.NoteResumed:
		w.marks.Resumed++
		w.judge(check.Event{Kind: check.Resume, Who: h.who})
	case core.NoteEvicted:
		w.marks.Evicted++
	case core.NoteDead:
		if c := w.store.cell(core.Key{Cell: core.MemberCell, Session: a.Who}); c != nil && c.Member != nil && c.Member.Proof {
			w.marks.Proven++
		} else {
			w.marks.Declared++
		}
	case core.NoteReturned:
		w.marks.Returned++
	case core.NotePlan:
		if a.Why&(core.WhyLoad|core.WhyInterval) != 0 {
			w.marks.Balanced++
		}
	case core.NoteCleared:
		w.marks.Holds++
	case core.NoteStuck:
		w.marks.Stuck++
	case core.NoteSize:
		w.sized(h, a)
	case core.NoteLost:
		if !w.lossy {
			w.fail("alarm", "%s finds that the store lost writes, and it did not", h.name)
		}
	}
	if w.log == nil && w.hear == nil {
		return
	}
	who := w.nameOf(a.Who)
	switch a.Note {
	case core.NoteJoined:
		if w.hear == nil {
			w.say(h, "joins")
		}
	case core.NoteLead:
		w.say(h, "leads")
	case core.NotePlan:
		h.plan = a.Why.String()
		if a.Moved > 0 {
			h.plan += fmt.Sprintf("; %d moved", a.Moved)
		}
		if a.Placed > 0 {
			h.plan += fmt.Sprintf("; %d placed", a.Placed)
		}
		if w.hear == nil {
			w.say(h, "plans: "+h.plan)
		}
	case core.NoteDead:
		w.say(h, "declares "+who+" dead")
	case core.NoteEvicted:
		w.say(h, "evicts "+who)
	case core.NoteLapsed:
		w.say(h, "lapses: no lease")
	case core.NoteWorksOn:
		w.say(h, "works on: the store does not answer")
	case core.NoteResumed:
		w.say(h, "resumes: its lease is back")
	case core.NoteLeaving:
		w.say(h, "is leaving")
	case core.NoteQuarantined:
		w.say(h, "quarantines "+a.Name)
	case core.NoteBack:
		w.say(h, "wants "+who+" back")
	case core.NoteStays:
		w.say(h, "uses "+who+" again: it has not vanished")
	case core.NoteTwins:
		w.say(h, "sees two processes called "+who)
	case core.NoteStuck:
		w.say(h, fmt.Sprintf("finds %s@%d stuck: granted, never started", a.Name, a.Token.Counter()))
	case core.NoteLost:
		w.say(h, "finds that the store lost acknowledged writes")
	case core.NoteBug:
		w.say(h, "waits: "+who+" ended on a bug over this plan")
	case core.NoteNoRoster:
		w.say(h, "waits for a roster as new as the plan")
	case core.NoteReturned:
		w.say(h, "gives "+who+" its place back")
	case core.NoteCleared:
		w.say(h, "ends the hold")
	case core.NoteWorn:
		w.say(h, "finds the tokens of "+a.Name+" used up")
	case core.NoteLongLease:
		w.say(h, "does not take "+who+": its lease is too long")
	case core.NotePin:
		w.say(h, "ignores a pin to a member that is not here")
	}
}

// logPlan says what a write of the plan changed, as a person would.
func (w *World) logPlan(was, p *record.Plan) {
	if w.hear != nil && was != nil {
		w.hearPlan(was, p)
	}
	if w.log == nil {
		return
	}
	var b strings.Builder
	for i := range p.Rows {
		r := &p.Rows[i]
		var old record.Row
		if was != nil && i < len(was.Rows) {
			old = was.Rows[i]
		}
		if *r == old || w.store.roster.Roster == nil || i >= len(w.store.roster.Roster.Entries) {
			continue
		}
		name := w.store.roster.Roster.Entries[i].Name
		switch r.State {
		case record.Owned:
			fmt.Fprintf(&b, "  %s: %s@%d", name, w.nameOf(r.Owner), r.Token.Counter())
		case record.Revoking:
			fmt.Fprintf(&b, "  %s: %s→%s", name, w.nameOf(r.Owner), w.nameOf(r.To))
		case record.Free:
			fmt.Fprintf(&b, "  %s: free", name)
			if r.Reason != record.NoReason {
				fmt.Fprintf(&b, " (%s)", r.Reason)
			}
			if r.To != 0 {
				fmt.Fprintf(&b, " for %s", w.nameOf(r.To))
			}
		}
	}
	if b.Len() > 0 {
		w.log(w.now, fmt.Sprintf("plan %d%s", p.ID, b.String()))
	}
}

// hearPlan tells a plan as a scenario does: who is meant to own what.
func (w *World) hearPlan(was, p *record.Plan) {
	if was.Incarnation != p.Incarnation {
		w.hear(seenLine{text: "a new incarnation"})
	}
	if was.ID == p.ID && slices.Equal(was.Members, p.Members) {
		return
	}
	why := ""
	if l := w.leader(); l != nil {
		why = l.plan
	}
	if was.ID == p.ID {
		why += ", aimed anew"
	}
	if n := len(p.Members); n > 12 {
		w.hear(seenLine{text: fmt.Sprintf("plan %d (%s)  %d members, %d partitions", p.ID, why, n, len(p.Rows))})
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "plan %d (%s)", p.ID, why)
	for _, m := range p.Members {
		fmt.Fprintf(&b, "  %s:%s", w.nameOf(m), w.aims(p, func(r *record.Row) bool { return r.Reason == record.NoReason && aim(r) == m }))
	}
	for reason := record.Paused; reason <= record.Failing; reason++ {
		if s := w.aims(p, func(r *record.Row) bool { return r.Reason == reason }); s != " -" {
			fmt.Fprintf(&b, "  %s:%s", reason, s)
		}
	}
	w.hear(seenLine{text: b.String()})
}

// aim is who a row is meant for.
func aim(r *record.Row) record.Session {
	if r.State == record.Owned {
		return r.Owner
	}
	return r.To
}

// rowName is what a row is about, as far as the store still knows.
func (w *World) rowName(i int) string {
	if r := w.store.roster.Roster; r != nil && i < len(r.Entries) {
		return r.Entries[i].Name
	}
	return fmt.Sprintf("partition %d", i)
}

func (w *World) aims(p *record.Plan, mine func(*record.Row) bool) string {
	s := ""
	for i := range p.Rows {
		if mine(&p.Rows[i]) {
			s += " " + w.rowName(i)
		}
	}
	if s == "" {
		return " -"
	}
	return s
}
