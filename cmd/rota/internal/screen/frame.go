package screen

import (
	"fmt"
	"slices"
	"strings"
)

// A Section is a part of a picture.
type Section struct {
	Lines []Line
	Head  int // how many lines at the beginning are of no use without another: names of columns
	Least int // how many lines it gets before others get more
	Most  int // how many it gets before others have what they want; zero: as many as Least

	// More says how many lines are left out.
	More func(n int) string

	// Last says that the last lines are shown and not the first, without a count, and
	// that empty lines fill the room that nobody wants: a story, above what stays at the
	// bottom.
	Last bool
}

// want is how many lines a section can use.
func (s *Section) want() int { return len(s.Lines) }

// Fit puts sections below each other, with an empty line between two, in a picture of
// at most height lines. What does not fit is counted.
func Fit(width, height int, sections []Section) (out []Line) {
	sections = slices.DeleteFunc(slices.Clone(sections), func(s Section) bool { return s.want() == 0 && !s.Last })
	between := 1
	if height < 12 {
		between = 0
	}
	for i := 0; i < len(sections); i++ { // one that gets too little to be of use leaves its room to others
		shares := share(height-between*(len(sections)-1), sections)
		if sections[i].cut(width, shares[i]) == nil {
			sections, i = slices.Delete(sections, i, i+1), -1
		}
	}
	shares := share(height-between*(len(sections)-1), sections)
	for i := range sections {
		if i > 0 && between > 0 {
			out = append(out, Line{})
		}
		out = append(out, sections[i].cut(width, shares[i])...)
	}
	return out[:min(len(out), max(height, 0))]
}

// share gives each section lines of the room: first what it needs to be of use, then
// what it may have, then what it wants. Earlier sections come first.
func share(room int, sections []Section) []int {
	out := make([]int, len(sections))
	for _, upTo := range []func(s *Section) int{
		func(s *Section) int { return s.Least },
		func(s *Section) int { return max(s.Least, s.Most) },
		func(s *Section) int { return s.want() },
	} {
		for i := range sections {
			s := &sections[i]
			more := max(min(min(upTo(s), s.want())-out[i], room), 0)
			out[i] += more
			room -= more
		}
	}
	if i := slices.IndexFunc(sections, func(s Section) bool { return s.Last }); i >= 0 {
		out[i] += max(room, 0)
	}
	return out
}

// cut is a section in n lines, or nil if it cannot be shown. The last line counts what is
// left out.
func (s *Section) cut(width, n int) []Line {
	if s.Last {
		shown := slices.Clone(s.Lines[max(0, len(s.Lines)-n):])
		return append(shown, make([]Line, max(n-len(shown), 0))...)
	}
	if len(s.Lines) <= n {
		return s.Lines
	}
	if n <= 0 {
		return nil
	}
	shown := slices.Clone(s.Lines[:n-1])
	if len(shown) <= s.Head {
		shown = nil // the names of columns alone say nothing
	}
	text := fmt.Sprintf("… and %d more", len(s.Lines)-max(n-1, s.Head))
	if s.More != nil {
		text = s.More(len(s.Lines) - max(n-1, s.Head))
	}
	return append(shown, Line{Clip(text, width), Dim})
}

// colours are the codes of the tones.
var colours = map[Tone]string{Bad: "\x1b[31m", Change: "\x1b[33m", Dim: "\x1b[2m", Head: "\x1b[1m"}

// Coloured is a line with the codes of its tone, if colour says so.
func (l Line) Coloured(colour bool) string {
	if code := colours[l.Tone]; colour && code != "" && l.Text != "" {
		return code + l.Text + "\x1b[0m"
	}
	return l.Text
}

// Redraw is what replaces the last picture on a terminal by this one. The terminal has
// at least one line more than the picture. Each line is erased before it is written: a
// terminal that erases behind a line of its full width takes the last letter away.
func Redraw(lines []Line, colour bool) string {
	var b strings.Builder
	b.WriteString("\x1b[H")
	for _, l := range lines {
		b.WriteString("\x1b[K" + l.Coloured(colour) + "\r\n")
	}
	b.WriteString("\x1b[J")
	return b.String()
}
