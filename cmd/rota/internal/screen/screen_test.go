package screen

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestCellsOfText(t *testing.T) {
	for s, want := range map[string]int{"": 0, "orders.3": 8, "größe": 5, "注文": 4, "e\u0301": 1, "…": 1, "✅": 2, "🚀x": 3, "한국": 4} {
		if got := Cells(s); got != want {
			t.Errorf("%q takes %d cells, want %d", s, got, want)
		}
	}
}

func TestClipMarksTheCut(t *testing.T) {
	for _, c := range []struct {
		s     string
		width int
		want  string
	}{
		{"orders", 6, "orders"}, {"orders", 5, "orde…"}, {"注文です", 5, "注文…"}, {"注文です", 4, "注…"}, {"a bcd", 3, "a…"}, {"orders", 1, "…"}, {"orders", 0, ""}, {"", 0, ""},
	} {
		if got := Clip(c.s, c.width); got != c.want {
			t.Errorf("%q in %d cells: %q, want %q", c.s, c.width, got, c.want)
		}
	}
}

func TestWrapKeepsEveryWordIfItMay(t *testing.T) {
	s := "problem: orders.6: no member may take it: look at drains, bans and limits"
	for width := 20; width < 90; width++ {
		lines := Wrap(s, width, 9)
		if got := strings.Join(strings.Fields(strings.Join(lines, " ")), " "); got != s {
			t.Errorf("in %d cells: %q", width, lines)
		}
		for _, l := range lines {
			if Cells(l) > width {
				t.Errorf("%d cells, of %d: %q", Cells(l), width, l)
			}
		}
	}
	if got := Wrap(s, 30, 2); len(got) != 2 || !strings.HasSuffix(got[1], "…") {
		t.Errorf("in two lines: %q", got)
	}
}

// TestEveryPictureFits lays random tables and sections out on terminals of all sizes.
func TestEveryPictureFits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func() string { return strings.Repeat([]string{"x", "注", "e\u0301", "word "}[r.IntN(4)], r.IntN(40)) }
	for range 3000 {
		width, height := 1+r.IntN(120), 1+r.IntN(60)
		var sections []Section
		for range r.IntN(6) {
			g := Grid{}
			for range 1 + r.IntN(7) {
				g.Columns = append(g.Columns, Column{Name: fmt.Sprintf("COLUMN%d", len(g.Columns)), Drop: r.IntN(4)})
			}
			for range r.IntN(30) {
				row := Row{}
				for range g.Columns {
					row.Texts = append(row.Texts, word())
				}
				g.Rows = append(g.Rows, row)
			}
			sections = append(sections, Section{Lines: g.Lines(width), Head: r.IntN(2), Least: r.IntN(6), Most: r.IntN(20), Last: r.IntN(5) == 0})
		}
		lines := Fit(width, height, sections)
		if len(lines) > height {
			t.Fatalf("%d lines, of %d", len(lines), height)
		}
		for _, l := range lines {
			if Cells(l.Text) > width || strings.Contains(l.Text, "\n") {
				t.Fatalf("%d cells, of %d: %q", Cells(l.Text), width, l.Text)
			}
		}
	}
}

func TestWhatIsLeftOutIsCounted(t *testing.T) {
	many := func(n int) (out []Line) {
		for i := range n {
			out = append(out, Line{Text: fmt.Sprint(i)})
		}
		return out
	}
	for _, c := range []struct {
		height   int
		sections []Section
		want     string
	}{
		{20, []Section{{Lines: many(3)}, {Lines: many(4)}}, "0 1 2  0 1 2 3"},
		{13, []Section{{Lines: many(30), Head: 1, Least: 3, Most: 4}, {Lines: many(30), Least: 4}}, "0 1 2 3 4 5 6 …23  0 1 2 …27"},
		{8, []Section{{Lines: many(3), Least: 3}, {Lines: many(30), Head: 1, Least: 3}}, "0 1 2 0 1 2 3 …26"},
		{4, []Section{{Lines: many(3), Least: 3}, {Lines: many(30), Head: 1, Least: 3}}, "0 1 2 …29"},
		{12, []Section{{Lines: many(2), Least: 2}, {Lines: many(30), Least: 3, Last: true}, {Lines: many(1), Least: 1}}, "0 1  23 24 25 26 27 28 29  0"},
		{12, []Section{{Lines: many(2), Least: 2}, {Lines: many(1), Least: 3, Last: true}, {Lines: many(1), Least: 1}}, "0 1  0        0"},
	} {
		for i := range c.sections {
			c.sections[i].More = func(n int) string { return fmt.Sprintf("…%d", n) }
		}
		if got := strings.Join(Texts(Fit(80, c.height, c.sections)), " "); got != c.want {
			t.Errorf("in %d lines: %q, want %q", c.height, got, c.want)
		}
	}
}

func TestNarrowTerminalsLoseTheColumnsThatMatterLeast(t *testing.T) {
	g := Grid{Columns: []Column{{Name: "MEMBER"}, {Name: "PID", Drop: 2}, {Name: "SESSION", Drop: 3}, {Name: "RUNS"}}, Rows: []Row{{Texts: []string{"c1", "4711", "0123456789abcdef", "q0 q1 q2 q3 q4 q5 q6"}}}}
	for width, want := range map[int]string{
		60: "MEMBER  PID   SESSION           RUNS|c1      4711  0123456789abcdef  q0 q1 q2 q3 q4 q5 q6",
		50: "MEMBER  PID   SESSION           RUNS|c1      4711  0123456789abcdef  q0 q1 q2 q3 q4 q5…",
		40: "MEMBER  PID   RUNS|c1      4711  q0 q1 q2 q3 q4 q5 q6",
		24: "MEMBER  RUNS|c1      q0 q1 q2 q3 q4…",
	} {
		if got := strings.Join(Texts(g.Lines(width)), "|"); got != want {
			t.Errorf("in %d cells:\n%s\nwant\n%s", width, got, want)
		}
	}
}

func TestColoursAreACodeAndItsEnd(t *testing.T) {
	lines := []Line{{"bad", Bad}, {"", Head}, {"plain", Plain}}
	if got := Redraw(lines, true); got != "\x1b[H\x1b[K\x1b[31mbad\x1b[0m\r\n\x1b[K\r\n\x1b[Kplain\r\n\x1b[J" {
		t.Errorf("with colours %q", got)
	}
	if got := Redraw(lines, false); got != "\x1b[H\x1b[Kbad\r\n\x1b[K\r\n\x1b[Kplain\r\n\x1b[J" {
		t.Errorf("without colours %q", got)
	}
}
