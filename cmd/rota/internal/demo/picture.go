package demo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/screen"
)

// A picture is all that rota up can show at one moment.
type picture struct {
	title   string
	state   string // of the group; "" before it begins
	members []shownMember
	waits   []string
	story   []string
	hints   []string
	leaving bool
}

// A shownMember is one member in the picture.
type shownMember struct {
	name    string
	pid     int
	state   string
	rate    string
	runs    []string // partitions, by name
	lease   string   // what waits for the end of its lease
	trouble bool
}

// lines are as much of the picture as fits: what the group does, which partitions wait,
// the members, the latest of the story, and what to try.
func (p *picture) lines(width, height int) []screen.Line {
	state := cmp.Or(p.state, "the group begins …")
	if p.state == "" && p.leaving {
		state = ""
	}
	var head []screen.Line
	for _, text := range []string{p.title, state} {
		if text == "" {
			continue
		}
		for _, part := range screen.Wrap(text, width, 2) {
			head = append(head, screen.Line{Text: part})
		}
	}
	if n := len(p.waits); n > 0 {
		text := p.waits[0]
		if n > 1 {
			text += fmt.Sprintf("; %d wait in all", n)
		}
		head = append(head, screen.Line{Text: screen.Clip(text, width), Tone: screen.Change})
	}
	hints := p.hintLines(width, height)
	members := screen.Section{Head: 1, Least: 6, Most: max(height*2/5, 6), More: func(n int) string { return fmt.Sprintf("… %d more of %s", n, cli.Count(len(p.members), "member")) }}
	if len(p.members) > 0 {
		members.Lines = p.grid(height).Lines(width)
	}
	return screen.Fit(width, height, []screen.Section{
		{Lines: head, Least: len(head)},
		members,
		{Lines: p.storyLines(width), Least: 4, Most: max(height/4, 4), Last: true},
		{Lines: hints, Least: len(hints)},
	})
}

func (p *picture) storyLines(width int) (out []screen.Line) {
	for _, text := range p.story {
		out = append(out, screen.Line{Text: screen.Clip(text, width)})
	}
	return out
}

// hintLines are what to try. Where there is little room, the commands that need no
// process id are left to rota help.
func (p *picture) hintLines(width, height int) (out []screen.Line) {
	hints := p.hints
	if p.leaving {
		hints = []string{"everybody leaves"}
	}
	if few := max(height/4, 2); len(hints) > few {
		hints = append(slices.Clone(hints[:few-1]), hints[len(hints)-1])
	}
	for _, text := range hints {
		out = append(out, screen.Line{Text: screen.Clip(text, width), Tone: screen.Dim})
	}
	return out
}

// grid is the table of members. If not all fit, those in trouble come first.
func (p *picture) grid(height int) *screen.Grid {
	members := slices.Clone(p.members)
	if len(members) > height*2/5-1 {
		slices.SortStableFunc(members, func(a, b shownMember) int {
			return cmp.Compare(map[bool]int{true: 0, false: 1}[a.trouble], map[bool]int{true: 0, false: 1}[b.trouble])
		})
	}
	g := &screen.Grid{Columns: []screen.Column{{Name: "MEMBER"}, {Name: "PID", Drop: 1}, {Name: "STATE"}, {Name: "MESSAGES/S", Drop: 2}, {Name: "RUNS"}}}
	for _, m := range members {
		names := ""
		if n := len(m.runs); n > 0 {
			names = fmt.Sprintf("%d: %s", n, strings.Join(m.runs, " "))
		}
		row := screen.Row{Texts: []string{m.name, fmt.Sprint(m.pid), m.state, m.rate, cmp.Or(m.lease, names, "nothing")}}
		if m.trouble {
			row.Tone = screen.Bad
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}
