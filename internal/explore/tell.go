package explore

import (
	"fmt"
	"strings"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// tell says what a move is, in w, before it is made.
func (w *world) tell(m move) string {
	name := w.cfg.label(int(m.who))
	switch m.op {
	case opTime:
		return "a tick passes"
	case opArrive, opApply:
		return w.tellMail(&w.mail[m.arg])
	case opShow:
		return fmt.Sprintf("%s sees %s", name, w.tellKey(w.procs[m.who].behind[m.arg].key))
	case opMiss:
		return fmt.Sprintf("%s is not shown %s", name, w.tellKey(w.procs[m.who].behind[m.arg].key))
	case opThaw:
		return name + " wakes up"
	case opJoin:
		return name + " starts"
	case opStrike:
		if f := Fault(m.arg); f == Rollback || f == Empty || f == Order {
			return f.String()
		}
		return fmt.Sprintf("%s: %s", name, Fault(m.arg))
	case opLose:
		return "lost: " + w.tellMail(&w.mail[m.arg])
	case opMute:
		return "answer lost: " + w.tellMail(&w.mail[m.arg])
	case opDelay:
		return "delayed: " + w.tellMail(&w.mail[m.arg])
	case opRepeat:
		return "and once more later: " + w.tellMail(&w.mail[m.arg])
	case opEffect:
		r := w.procs[m.who].runs[m.arg]
		return fmt.Sprintf("%s sends an effect on %s@%s", name, w.cfg.partName(r.part), r.token)
	case opTwo:
		return fmt.Sprintf("%s and %s crash", name, w.cfg.label(int(m.arg)))
	case opFlood:
		return "all that waits for " + name + " reaches it at once"
	case opVanish:
		return "gone with its sender: " + w.tellMail(&w.mail[m.arg])
	case opProve:
		return fmt.Sprintf("%s is shown a proof that %s is gone", name, w.cfg.label(int(m.arg)))
	}
	return "?"
}

func (w *world) tellMail(m *mail) string {
	name := w.cfg.label(int(m.who))
	switch m.kind {
	case request, answer:
		what := w.tellCall(m)
		if m.kind == answer {
			return fmt.Sprintf("%s hears of its %s: %s", name, what, [...]string{"done", "conflict", "not found", "unknown"}[m.ev.Outcome])
		}
		if m.late {
			return fmt.Sprintf("late: %s's %s", name, what)
		}
		return fmt.Sprintf("%s: %s", name, what)
	case show:
		return fmt.Sprintf("%s is shown an old version of %s", name, w.tellKey(m.ev.Key))
	case started, stopped, givenUp:
		return fmt.Sprintf("%s: %s@%s %s", name, w.cfg.partName(m.run.part), m.run.token, map[mailKind]string{started: "has started", stopped: "has stopped", givenUp: "is given up"}[m.kind])
	case listing:
		return name + ": the source lists its partitions"
	case measured:
		return name + ": the source measures loads"
	case scaled:
		return name + ": the Scaler is asked for members"
	case closed:
		return name + ": the source is closed"
	case gap:
		return name + ": its watches begin anew"
	case effect:
		return fmt.Sprintf("%s's effect on %s@%s reaches the sink", name, w.cfg.partName(m.run.part), m.run.token)
	}
	return "?"
}

func (w *world) tellCall(m *mail) string {
	verb := [...]string{core.Put: "write of", core.Get: "read of", core.Delete: "delete of", core.List: "list of"}[m.ev.Verb]
	what := verb + " " + w.tellKey(m.ev.Key)
	if m.kind != request || m.ev.Verb != core.Put {
		return what
	}
	switch e := &m.ev.Entries[0]; {
	case e.Plan != nil:
		return what + " " + w.tellPlan(e.Plan)
	case e.Member != nil:
		return fmt.Sprintf("%s %v seq %d ack %d", what, e.Member.State, e.Member.Seq, e.Member.AckGen)
	}
	return what
}

func (w *world) tellKey(k core.Key) string {
	switch k.Cell {
	case core.PlanCell:
		return "the plan"
	case core.RosterCell:
		return "the roster"
	case core.OrdersCell:
		return "the orders"
	}
	if k.Session == 0 {
		return "all members"
	}
	return w.label(k.Session) + "'s record"
}

func (w *world) tellPlan(p *record.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "gen %d leader %s", p.Gen, w.label(p.Leader))
	if p.Hold {
		b.WriteString(" hold")
	}
	for i := range p.Rows {
		r := &p.Rows[i]
		name := fmt.Sprint(i)
		if i < len(w.cfg.Parts) {
			name = w.cfg.Parts[i]
		}
		switch r.State {
		case record.Free:
			fmt.Fprintf(&b, ", %s free", name)
		case record.Owned:
			fmt.Fprintf(&b, ", %s@%d %s", name, r.Token.Counter(), w.label(r.Owner))
		case record.Revoking:
			fmt.Fprintf(&b, ", %s@%d %s revoking", name, r.Token.Counter(), w.label(r.Owner))
		}
	}
	return b.String()
}

// tellChange says who runs what now.
func (w *world) tellChange() string {
	var b strings.Builder
	for i := range w.procs {
		p := &w.procs[i]
		if p.state == waiting {
			continue
		}
		b.WriteString(" | ")
		b.WriteString(w.cfg.label(i))
		if p.state != up {
			b.WriteString(map[procState]string{paused: " frozen", asleep: " asleep", gone: " gone"}[p.state])
		}
		if !p.alive() {
			continue
		}
		for _, r := range p.runs {
			fmt.Fprintf(&b, " %s@%d", w.cfg.partName(r.part), r.token.Counter())
			if r.asked {
				b.WriteString("(stopping)")
			}
		}
		if left := p.node.Lease() - w.local(p); left > 0 {
			fmt.Fprintf(&b, " lease %d", (left+core.Time(tick)-1)/core.Time(tick))
		} else {
			b.WriteString(" no lease")
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "  [" + strings.TrimPrefix(b.String(), " | ") + "]"
}
