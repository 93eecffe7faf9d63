package line

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rota-dev/rota"
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
	case "meta":
		return "sees new metadata of " + what + ": " + cmp.Or(pairs(l.Meta), "none")
	case "stop":
		return "stops " + what + ": " + cmp.Or(l.Because, "asked to")
	case "stopped":
		return "has stopped " + what + because(l)
	case "lapsed":
		return "pauses: it has no lease; everything it ran has stopped"
	case "works_on":
		return "works on without a lease: the store does not answer, and --on-store-loss says continue"
	case "resumed":
		return "resumes: its lease is back"
	case "dead":
		return fmt.Sprintf("declares %s dead: nothing was heard of it for longer than its lease", cmp.Or(l.AboutName, name(l.About)))
	case "evicted":
		return fmt.Sprintf("evicts %s: it did not stop in time", cmp.Or(l.AboutName, name(l.About)))
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
	case "writes_lost":
		return "ends this session: the store has lost acknowledged writes"
	case "size":
		return saySize(l)
	case "condition":
		return "note: " + rota.ConditionInfo{Partition: l.Partition, Text: l.Because}.String()
	case "error":
		return fmt.Sprintf("could not handle message %s of %s, attempt %d%s", l.Message, what, l.Attempt, because(l))
	case "dead_letter":
		return fmt.Sprintf("dead-lettered message %s of %s after attempt %d%s", l.Message, what, l.Attempt, because(l))
	case "missed":
		return fmt.Sprintf("%d events were not written: the file was too slow", l.N)
	case "gone":
		return "is gone" + because(l)
	}
	return ""
}

// pairs puts metadata into words: a=1 b=2.
func pairs(m rota.Meta) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, " ")
}

func because(l *Line) string {
	if l.Because == "" {
		return ""
	}
	return ": " + l.Because
}

func sayPlan(l *Line) string {
	out := fmt.Sprintf("makes plan %d", l.Plan)
	if w := Causes(l.Causes); w != "" {
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

func saySize(l *Line) string {
	out := fmt.Sprintf("wants %d members, has %d", l.Want, l.Have)
	if len(l.Going) > 0 {
		out += "; to go: " + strings.Join(plain.Texts(l.Going), ", ")
	}
	return out + because(l)
}

// Causes says why a plan was made: c3 died and an operator ordered it.
func Causes(causes []rota.Cause) string {
	words := map[rota.Why]struct{ who, what string }{
		rota.WhyJoined: {"a member", "joined"}, rota.WhyLeft: {"a member", "left"}, rota.WhyDied: {"a member", "died"},
		rota.WhyEvicted: {"a member", "was evicted"}, rota.WhyReturned: {"a member", "came back"}, rota.WhyOrders: {"an operator", "ordered it"},
		rota.WhyRoster: {"the partitions", "changed"}, rota.WhyOwnerless: {"a partition", "had no owner"},
		rota.WhyLoad: {"a member", "was overloaded"}, rota.WhySize: {"a member", "is to go"}, rota.WhyInterval: {"a better plan", "was found"},
	}
	var out []string
	for _, c := range causes {
		w, known := words[c.Why]
		if !known {
			out = append(out, plain.Text(string(c.Why)))
			continue
		}
		if len(c.Members) > 0 {
			w.who = naming(plain.Texts(c.Members), c.More)
		}
		out = append(out, w.who+" "+w.what)
	}
	return strings.Join(out, " and ")
}

// naming joins names: a, b and c, or a, b, c and 7 more.
func naming(names []string, more int) string {
	last := len(names) - 1
	switch {
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	case last == 0:
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
