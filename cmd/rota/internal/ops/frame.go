package ops

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/screen"
	"github.com/rota-dev/rota/internal/line"
	"github.com/rota-dev/rota/internal/plain"
)

// statusFrame is the group as far as it fits on a terminal. What matters most is on
// top: problems and orders, partitions that do not run, then members, then the rest.
func statusFrame(st *rota.Status, store string, now time.Time, width, height int) []screen.Line {
	st = plain.Copy(st)
	idle, busy := partitionRows(st, now)
	members := memberRows(st, now)
	var head []screen.Line
	for _, text := range append(append(heading(st, store, now), loadWords(st, now)...), censusOf(st, idle, busy)) {
		for _, part := range screen.Wrap(text, width, 2) {
			head = append(head, screen.Line{Text: part})
		}
	}
	rest := 3 // of what runs, unless there is worse to show
	if len(idle) > 0 {
		rest = 0
	}
	sections := []screen.Section{
		{Lines: head, Least: len(head)},
		{Lines: wrappedNotes(notes(st, now), width, height/3), Least: 5, Most: height / 3, More: func(n int) string { return fmt.Sprintf("… %s (--all)", more(n, "line")) }},
		section(idleGrid(idle), width, 4, height/4, "partition", "that do not run (--all)"),
		section(memberGrid(st, members), width, 5, height/4, "member", "(--all)"),
		section(busyGrid(st, busy), width, rest, 0, "partition", "that run (--all)"),
	}
	return screen.Fit(width, height, sections)
}

func section(g *screen.Grid, width, least, most int, thing, rest string) screen.Section {
	if len(g.Rows) == 0 {
		return screen.Section{}
	}
	return screen.Section{Lines: g.Lines(width), Head: 1, Least: least, Most: most, More: func(n int) string {
		return fmt.Sprintf("… %s %s", more(n, thing), rest)
	}}
}

// more is a number of things beyond those shown.
func more(n int, thing string) string {
	return strings.Replace(cli.Count(n, thing), " ", " more ", 1)
}

// wrappedNotes has the notes in full, if they fit, and otherwise as much of each as lets
// more of them be read.
func wrappedNotes(notes []screen.Line, width, room int) (out []screen.Line) {
	for most := 3; most > 0; most-- {
		out = nil
		for _, n := range notes {
			for _, part := range screen.Wrap(n.Text, width, most) {
				out = append(out, screen.Line{Text: part, Tone: n.Tone})
			}
		}
		if len(out) <= room {
			break
		}
	}
	return out
}

// A shownPartition is one with the word for how it is.
type shownPartition struct {
	*rota.PartitionInfo
	state string
	since string
	wait  string
	rank  int // how little it matters
}

// partitionRows are the partitions that do not run, the gravest first, and those that
// do, by name.
func partitionRows(st *rota.Status, now time.Time) (idle, busy []shownPartition) {
	stateOf, names := PartitionStates(st), namesOf(st)
	waits := map[string]string{}
	for _, w := range st.Waits {
		waits[w.Partition] = fmt.Sprintf("%s (%s)", WaitWords[w.For], cmp.Or(names[w.Member], w.Member, "nobody"))
	}
	for i := range st.Partitions {
		p := shownPartition{PartitionInfo: &st.Partitions[i], since: "-"}
		if p.Reason == rota.ReasonRemoved {
			continue
		}
		p.state = stateOf(p.PartitionInfo)
		p.wait = cmp.Or(waits[p.Name], idleWords[p.state], "-")
		if !p.Since.IsZero() {
			p.since = cli.Ago(now.Sub(p.Since))
		}
		switch {
		case Runs(p.state):
			busy = append(busy, p)
			continue
		case p.Reason == rota.ReasonPaused || p.Reason == rota.ReasonReturning:
			p.rank = 3
		case p.state == starting || p.state == stopping || waits[p.Name] != "":
			p.rank = 2
		case p.state == ownerSilent:
			p.rank = 1
		}
		idle = append(idle, p)
	}
	byName := func(a, b shownPartition) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cli.Natural(a.Name, b.Name))
	}
	slices.SortFunc(idle, byName)
	slices.SortFunc(busy, byName)
	return idle, busy
}

// idleWords say what ends a state that the plan itself does not change.
var idleWords = map[string]string{
	ownerSilent:                    "a heartbeat of its owner, or the end of its lease",
	string(rota.ReasonUnplaced):    "a member that may take it",
	string(rota.ReasonPaused):      "rota resume",
	string(rota.ReasonQuarantined): "rota release",
	string(rota.ReasonReturning):   "the member that had it, for --return",
	string(rota.ReasonFailing):     "its source, which is tried again",
}

func namesOf(st *rota.Status) map[string]string {
	out := map[string]string{}
	for _, m := range st.Members {
		out[m.Session] = m.Name
	}
	return out
}

func idleGrid(all []shownPartition) *screen.Grid {
	g := &screen.Grid{Last: 34, Columns: []screen.Column{{Name: "PARTITION"}, {Name: "STATE"}, {Name: "OWNER", Drop: 1}, {Name: "SINCE", Drop: 2}, {Name: "BECAUSE", Drop: 3}, {Name: "WAITS FOR"}}}
	for _, p := range all {
		tone := screen.Bad
		if p.rank > 1 {
			tone = screen.Change
		}
		g.Rows = append(g.Rows, screen.Row{Tone: tone, Texts: []string{p.Name, p.state, cmp.Or(p.Member, "-"), p.since, cmp.Or(line.Causes(p.Causes), "-"), p.wait}})
	}
	return g
}

func busyGrid(st *rota.Status, all []shownPartition) *screen.Grid {
	g := &screen.Grid{Columns: []screen.Column{{Name: "PARTITION"}, {Name: "STATE", Drop: 4}, {Name: "OWNER"}}}
	if st.Load != nil {
		g.Columns = append(g.Columns, screen.Column{Name: "PER SECOND", Drop: 2}, screen.Column{Name: "BACKLOG", Drop: 1})
	}
	g.Columns = append(g.Columns, screen.Column{Name: "TOKEN", Drop: 5}, screen.Column{Name: "SINCE", Drop: 3}, screen.Column{Name: "BECAUSE"})
	for _, p := range all {
		row := []string{p.Name, p.state, cmp.Or(p.Member, "-")}
		if st.Load != nil {
			row = append(row, fmt.Sprintf("%.4g", p.Speed), cli.Grouped(int(p.Backlog)))
		}
		g.Rows = append(g.Rows, screen.Row{Texts: append(row, fmt.Sprint(uint32(p.Token)), p.since, cmp.Or(line.Causes(p.Causes), "-"))})
	}
	return g
}

// A shownMember is one with the word for how it is.
type shownMember struct {
	rota.MemberInfo
	state string
	sent  string
	tone  screen.Tone
}

// mostEnded is how many members that have ended are shown.
const mostEnded = 5

// memberRows are the members: those in trouble, those that change, those that live, all
// by name, then those that have ended last.
func memberRows(st *rota.Status, now time.Time) (out []shownMember) {
	live, ended := MemberOrder(st)
	for _, m := range live {
		s := shownMember{MemberInfo: m, state: MemberState(st, &m), sent: cli.Ago(now.Sub(m.Sent))}
		switch {
		case m.Silent || m.State == rota.MemberEvicted:
			s.tone = screen.Bad
		case m.State != rota.MemberLive || !m.Planned || slices.Contains(st.Orders.Drains, m.Name):
			s.tone = screen.Change
		}
		out = append(out, s)
	}
	urgency := map[screen.Tone]int{screen.Bad: 0, screen.Change: 1, screen.Plain: 2}
	slices.SortStableFunc(out, func(a, b shownMember) int { return cmp.Compare(urgency[a.tone], urgency[b.tone]) })
	for _, m := range ended[:min(len(ended), mostEnded)] {
		out = append(out, shownMember{m, MemberState(st, &m), "last " + cli.Ago(now.Sub(m.Sent)), screen.Dim})
	}
	return out
}

func memberGrid(st *rota.Status, all []shownMember) *screen.Grid {
	g := &screen.Grid{Columns: []screen.Column{{Name: "MEMBER"}, {Name: "STATE"}, {Name: "HEARTBEAT", Drop: 1}, {Name: "PARTITIONS"}}}
	if st.Load != nil {
		g.Columns = append(g.Columns, screen.Column{Name: "LOAD", Drop: 2})
	}
	g.Columns = append(g.Columns, screen.Column{Name: "PID", Drop: 3}, screen.Column{Name: "SESSION", Drop: 5}, screen.Column{Name: "LABELS", Drop: 4})
	for _, m := range all {
		row := []string{m.Name, m.state, m.sent, fmt.Sprint(m.Partitions)}
		if st.Load != nil {
			row = append(row, loadOf(&m.MemberInfo))
		}
		g.Rows = append(g.Rows, screen.Row{Tone: m.tone, Texts: append(row, fmt.Sprint(m.PID), m.Session, labels(m.Labels))})
	}
	return g
}

// censusOf counts members and partitions by how they are.
func censusOf(st *rota.Status, idle, busy []shownPartition) string {
	live, _ := MemberOrder(st)
	var members, partitions census
	for i := range live {
		state, _, _ := strings.Cut(MemberState(st, &live[i]), ",")
		if state == "leads" {
			state = "live"
		}
		members.add(state)
	}
	for _, p := range slices.Concat(busy, idle) {
		partitions.add(countedState(p.state))
	}
	return fmt.Sprintf("%s%s; %s%s", cli.Count(len(live), "member"), members.String(), cli.Count(len(idle)+len(busy), "partition"), partitions.String())
}

// countedState is the state of several partitions.
func countedState(state string) string {
	switch {
	case state == runs:
		return "run"
	case state == ownerSilent:
		return "with a silent owner"
	case state == "free" || strings.HasPrefix(state, "for ") || strings.HasPrefix(state, "nobody"):
		return "without an owner"
	}
	return state
}

// A census counts words, in the order in which they come.
type census struct {
	words []string
	count map[string]int
}

func (c *census) add(word string) {
	if c.count == nil {
		c.count = map[string]int{}
	}
	if c.count[word] == 0 {
		c.words = append(c.words, word)
	}
	c.count[word]++
}

func (c *census) String() string {
	if len(c.words) == 0 {
		return ""
	}
	var out []string
	for _, w := range c.words {
		out = append(out, fmt.Sprintf("%s %s", cli.Grouped(c.count[w]), w))
	}
	return ": " + strings.Join(out, ", ")
}
