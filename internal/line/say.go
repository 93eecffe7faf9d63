package line

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/rota-dev/rota/internal/plain"
)

// Say puts the line into words; "" for what people need not be told one by one.
// name turns a session into a member's name.
func (l *Line) Say(name func(session string) string) string {
	l = plain.Copy(l)
	called := name
	name = func(session string) string { return plain.Text(called(session)) }
	what := fmt.Sprintf("%s@%d", l.Partition, uint32(l.Token))
	switch l.Event {
	case "joined":
		return fmt.Sprintf("joined (session %s, pid %d)", l.Session, l.PID)
	case "leader":
		return fmt.Sprintf("leads from now on (term %d)", l.Term)
	case "plan":
		return sayPlan(l)
	case "start":
		return "runs " + what
	case "stop":
		return "stops " + what + ": " + cmp.Or(l.Because, "asked to")
	case "drained":
		return "has stopped " + what + because(l)
	case "paused":
		return "pauses: it has no lease; everything it ran has stopped"
	case "resumed":
		return "resumes: its lease is back"
	case "dead":
		return fmt.Sprintf("declares %s dead: nothing was heard of it for longer than its lease", name(l.About))
	case "evicted":
		return fmt.Sprintf("evicts %s: it did not stop in time", name(l.About))
	case "leaving":
		return "is leaving: its partitions are handed over"
	case "left":
		return "has left"
	case "fenced":
		return "is fenced: the group has ended this session, because it was silent for too long or did not stop in time"
	case "orphaned":
		return "gives up: the store was out of reach for too long"
	case "store_lost":
		return "cannot use the store" + because(l)
	case "store_back":
		return "reaches the store again"
	case "condition":
		return "note" + because(l)
	case "error":
		return fmt.Sprintf("could not handle message %s of %s, attempt %d%s", l.Message, what, l.Attempt, because(l))
	case "missed":
		return fmt.Sprintf("%d events were not written: the file was too slow", l.N)
	case "gone":
		return "is gone" + because(l)
	}
	return ""
}

func because(l *Line) string {
	if l.Because == "" {
		return ""
	}
	return ": " + l.Because
}

func sayPlan(l *Line) string {
	out := fmt.Sprintf("makes plan %d", l.Plan)
	if w := PlanWords(l.Because); w != "" {
		out += ", because " + w
	}
	switch {
	case l.Moved > 0 && l.Placed > 0:
		out += fmt.Sprintf(": %d to move, %d to place", l.Moved, l.Placed)
	case l.Moved > 0:
		out += fmt.Sprintf(": %d to move", l.Moved)
	case l.Placed > 0:
		out += fmt.Sprintf(": %d to place", l.Placed)
	default:
		out += ": nothing moves"
	}
	return out
}

// PlanWords says why a plan was made: "died (c3), orders" is c3 died and an
// operator ordered it.
func PlanWords(why string) string {
	words := map[string]struct{ who, what string }{
		"joined": {"a member", "joined"}, "left": {"a member", "left"}, "died": {"a member", "died"}, "evicted": {"a member", "was evicted"},
		"orders": {"an operator", "ordered it"}, "roster": {"the partitions", "changed"}, "ownerless": {"a partition", "had no owner"},
		"returned": {"a member", "came back"},
	}
	var out []string
	for w := range strings.SplitSeq(why, ", ") {
		w, names, _ := strings.Cut(w, " (")
		s, ok := words[w]
		switch {
		case w == "":
			continue
		case !ok:
			out = append(out, w)
			continue
		case names != "":
			s.who = naming(strings.Fields(strings.TrimSuffix(names, ")")))
		}
		out = append(out, s.who+" "+s.what)
	}
	return strings.Join(out, " and ")
}

// naming joins names: a, b and c. What comes as "and 7 more" stays so.
func naming(names []string) string {
	if n := len(names); n > 3 && names[n-1] == "more" {
		return strings.Join(names[:n-3], ", ") + " " + strings.Join(names[n-3:], " ")
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}
