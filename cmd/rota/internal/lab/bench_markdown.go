package lab

import (
	"fmt"
	"strings"

	"github.com/rota-dev/rota/cmd/rota/internal/lab/bench"
)

// markdown is the figures as docs/packing.md has them: a column for each delta.
func (s *benchSheet) markdown() string {
	members := "Members / E[R]:"
	if s.flags.load == "day" {
		members = "Members (in the trough of the day) / E[R]:"
	}
	text := members + "\n\n" + markdownTable(s.byDelta(func(r bench.Row) string {
		if s.flags.load == "day" {
			return fmt.Sprintf("%.2f (%.2f) / %s", r.Members, r.Trough, within(r, 2, r.ER, r.ERSD))
		}
		return fmt.Sprintf("%.2f / %s", r.Members, within(r, 2, r.ER, r.ERSD))
	}))
	text += "\ncbs:\n\n" + markdownTable(s.byDelta(func(r bench.Row) string { return fmt.Sprintf("%.4f", r.CBS) }))
	if asked := s.asked(); len(asked) > 1 {
		text += "\n" + askedWords + "\n\n" + markdownTable(asked)
	}
	return text
}

// byDelta has a line for each algorithm and a column for each delta.
func (s *benchSheet) byDelta(cell func(bench.Row) string) [][]string {
	deltas := s.deltas()
	out := [][]string{{""}}
	for _, d := range deltas {
		out[0] = append(out[0], fmt.Sprintf("δ = %d", d))
	}
	for _, first := range s.rows {
		if first.Delta != deltas[0] {
			break // rows come delta by delta
		}
		line := []string{first.Algorithm}
		for _, d := range deltas {
			if r, ok := s.find(first.Algorithm, d); ok {
				line = append(line, cell(r))
			}
		}
		out = append(out, line)
	}
	return out
}

func markdownTable(cells [][]string) string {
	var b strings.Builder
	for i, line := range cells {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(line)) + "|\n")
		}
	}
	return b.String()
}
