package ops

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/screen"
)

// notes are what a person should know about a group: problems, holds, orders,
// conditions, in this order.
func notes(st *rota.Status, now time.Time) (out []screen.Line) {
	for _, text := range problems(st.Problems) {
		out = append(out, screen.Line{Text: "problem: " + text, Tone: screen.Bad})
	}
	if st.Hold {
		out = append(out, screen.Line{Text: "hold: " + holdWords(st), Tone: screen.Change})
	}
	for _, text := range ordersNow(st, now) {
		out = append(out, screen.Line{Text: "order: " + text, Tone: screen.Change})
	}
	for _, c := range st.Conditions {
		out = append(out, screen.Line{Text: fmt.Sprintf("condition: %s (rota group check)", c)})
	}
	for _, text := range conditionsOf(st) {
		out = append(out, screen.Line{Text: "condition: " + text})
	}
	return out
}

// A shared text is one that several members or partitions have.
type shared struct {
	members, partitions []string
	text                string
}

func (s *shared) String() string {
	var about []string
	if len(s.members) > 0 {
		about = append(about, few(s.members))
	}
	if len(s.partitions) > 0 {
		about = append(about, few(s.partitions))
	}
	return strings.Join(append(about, s.text), ": ")
}

// few lists the first of many names: what is said about them matters more.
func few(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:2], ", "), len(names)-2)
}

// gathered makes one of all that say the same, in the order in which they come.
func gathered(all []shared) (out []string) {
	var first []*shared
	by := map[string]*shared{}
	for _, x := range all {
		s := by[x.text]
		if s == nil {
			s = &shared{text: x.text}
			by[x.text], first = s, append(first, s)
		}
		for _, m := range x.members {
			if !slices.Contains(s.members, m) {
				s.members = append(s.members, m)
			}
		}
		s.partitions = append(s.partitions, x.partitions...)
	}
	for _, s := range first {
		slices.SortFunc(s.members, cli.Natural)
		slices.SortFunc(s.partitions, cli.Natural)
		out = append(out, s.String())
	}
	return out
}

func problems(all []rota.Problem) []string {
	var out []shared
	for _, p := range all {
		s := shared{partitions: p.Partitions, text: p.Text}
		if p.Member != "" {
			s.members = []string{p.Member}
		}
		out = append(out, s)
	}
	return gathered(out)
}

// conditionsOf are those of members that are no problems.
func conditionsOf(st *rota.Status) []string {
	var out []shared
	for i := range st.Members {
		m := &st.Members[i]
		if m.State != rota.MemberLive && m.State != rota.MemberLeaving {
			continue
		}
		for _, c := range m.Conditions {
			if c.Code == rota.ConditionHold || isProblem(st, m, c) {
				continue
			}
			s := shared{members: []string{m.Name}, text: c.Text}
			if c.Partition != "" {
				s.partitions = []string{c.Partition}
			}
			out = append(out, s)
		}
	}
	return gathered(out)
}

// isProblem tells whether a condition is among the problems, so that it is not shown
// twice.
func isProblem(st *rota.Status, m *rota.MemberInfo, c rota.ConditionInfo) bool {
	return slices.ContainsFunc(st.Problems, func(p rota.Problem) bool {
		return p.Code == c.Code && p.Member == m.Name && p.Text == c.Text && (c.Partition == "" || slices.Contains(p.Partitions, c.Partition))
	})
}

// ordersNow are the orders that the group obeys now, each with who gave it and why.
func ordersNow(st *rota.Status, now time.Time) (out []string) {
	o := &st.Orders
	if o.Freeze {
		out = append(out, "frozen, nothing moves that need not (rota thaw)"+given(st, now, "freeze"))
	}
	for _, group := range byWords(st, now, "pause", o.Paused) {
		out = append(out, fmt.Sprintf("paused %s (rota resume)%s", some(group.names), group.words))
	}
	for _, group := range byWords(st, now, "drain", o.Drains) {
		out = append(out, fmt.Sprintf("drained %s (rota undrain)%s", some(group.names), group.words))
	}
	pinned := map[string][]string{}
	for _, p := range cli.SortedKeys(o.Pins) {
		pinned[o.Pins[p]] = append(pinned[o.Pins[p]], p)
	}
	for _, m := range cli.SortedKeys(pinned) {
		for _, group := range byWords(st, now, "pin", pinned[m]) {
			out = append(out, fmt.Sprintf("%s %s pinned to %s (rota unpin)%s", some(group.names), isOrAre(group.names), m, group.words))
		}
	}
	for _, p := range cli.SortedKeys(o.Bans) {
		out = append(out, fmt.Sprintf("%s is kept away from %s (rota unban)%s", p, some(o.Bans[p]), given(st, now, "ban", p)))
	}
	for _, t := range cli.SortedKeys(o.Topics) {
		out = append(out, fmt.Sprintf("partitions of topic %s have %s (rota topics set)%s", t, labels(o.Topics[t]), given(st, now, "set", t)))
	}
	return out
}

func isOrAre(names []string) string {
	if len(names) == 1 {
		return "is"
	}
	return "are"
}

// A worded list has the names of one order.
type worded struct {
	words string
	names []string
}

// byWords groups names by the order that was given about them.
func byWords(st *rota.Status, now time.Time, verb string, names []string) (out []worded) {
	for _, name := range names {
		words := given(st, now, verb, name)
		i := slices.IndexFunc(out, func(w worded) bool { return w.words == words })
		if i < 0 {
			i = len(out)
			out = append(out, worded{words: words})
		}
		out[i].names = append(out[i].names, name)
	}
	return out
}

// given says who gave an order last, when and why, if the log of orders reaches back
// that far.
func given(st *rota.Status, now time.Time, verb string, about ...string) string {
	for _, l := range slices.Backward(st.Orders.Log) {
		words := strings.Fields(l.What)
		if !slices.Contains(words, verb) || len(about) > 0 && !slices.Contains(words, about[0]) {
			continue
		}
		out := fmt.Sprintf(", by %s %s", l.Who, cli.Ago(now.Sub(l.Time)))
		if l.Why != "" {
			out += ": " + l.Why
		}
		return out
	}
	return ""
}

// holdWords says how long the leader still waits, if it has said so.
func holdWords(st *rota.Status) string {
	for _, m := range st.Members {
		for _, c := range m.Conditions {
			if m.Session == st.Leader && c.Code == rota.ConditionHold {
				return c.Text
			}
		}
	}
	return "nothing is granted until every lease that this store may have forgotten is over"
}
