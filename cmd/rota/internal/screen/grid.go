package screen

import (
	"cmp"
	"slices"
	"strings"
)

// A Tone says what a line is about. A terminal with colours shows it.
type Tone int

const (
	Plain  Tone = iota
	Bad         // somebody should look at it
	Change      // it is about to change by itself, or was ordered
	Dim         // it can be left unread
	Head        // the names of columns
)

// A Line is one line of a picture.
type Line struct {
	Text string
	Tone Tone
}

// Texts are the lines without their tones.
func Texts(lines []Line) (out []string) {
	for _, l := range lines {
		out = append(out, l.Text)
	}
	return out
}

// A Column is one of a Grid. Where a terminal is narrow, the columns with the highest
// Drop are left out first; those with zero stay.
type Column struct {
	Name string
	Drop int
}

// A Row has a text for each Column.
type Row struct {
	Tone  Tone
	Texts []string
}

// A Grid is a table. Its last column takes the room that is left. Columns in which no row
// has anything are left out.
type Grid struct {
	Columns []Column
	Rows    []Row
	Last    int // cells of the last column, if it has as much to say, before others are dropped for it; zero is leastOf
}

const (
	gap     = 2  // cells between columns
	leastOf = 16 // cells of the last column
)

// Lines lays the table out in width cells: a head, and a line for each row.
func (g *Grid) Lines(width int) []Line {
	var shown []int
	for i := range g.Columns {
		if i == 0 || slices.ContainsFunc(g.Rows, func(r Row) bool { return r.Texts[i] != "" }) {
			shown = append(shown, i)
		}
	}
	wide := g.widths(width)
	for g.needs(shown, wide) > width {
		at := slices.IndexFunc(shown, func(i int) bool { return g.Columns[i].Drop > 0 && g.Columns[i].Drop == g.mostDrop(shown) })
		if at < 0 {
			break
		}
		shown = slices.Delete(shown, at, at+1)
	}
	names := make([]string, len(g.Columns))
	for i, c := range g.Columns {
		names[i] = c.Name
	}
	out := []Line{{g.line(names, shown, wide, width), Head}}
	for _, r := range g.Rows {
		out = append(out, Line{g.line(r.Texts, shown, wide, width), r.Tone})
	}
	return out
}

func (g *Grid) mostDrop(shown []int) (most int) {
	for _, i := range shown {
		most = max(most, g.Columns[i].Drop)
	}
	return most
}

// widths is what each column wants. No one but the last gets more than a third of the
// whole: names may be very long.
func (g *Grid) widths(width int) []int {
	out := make([]int, len(g.Columns))
	for i, c := range g.Columns {
		out[i] = Cells(c.Name)
		for _, r := range g.Rows {
			out[i] = max(out[i], Cells(r.Texts[i]))
		}
		if i < len(out)-1 {
			out[i] = min(out[i], max(width/3, Cells(c.Name)))
		}
	}
	return out
}

// needs is how many cells a line must have. The last column can be clipped.
func (g *Grid) needs(shown, wide []int) (n int) {
	for at, i := range shown {
		w := wide[i]
		if at == len(shown)-1 {
			w = min(w, cmp.Or(g.Last, leastOf))
		} else {
			w += gap
		}
		n += w
	}
	return n
}

func (g *Grid) line(texts []string, shown, wide []int, width int) string {
	var b strings.Builder
	for at, i := range shown {
		if at == len(shown)-1 {
			b.WriteString(texts[i])
			break
		}
		b.WriteString(pad(Clip(texts[i], wide[i]), wide[i]+gap))
	}
	return Clip(strings.TrimRight(b.String(), " "), width)
}
