package lab

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/lab/bench"
	"github.com/rota-dev/rota/internal/pack"
)

// benchSheet is what rota bench plan has to say.
type benchSheet struct {
	flags       *benchPlanFlags
	rows        []bench.Row
	seconds     float64
	interrupted bool
}

// table tells it to a terminal.
func (s *benchSheet) table() string {
	var b strings.Builder
	for _, l := range s.head() {
		fmt.Fprintf(&b, "%-11s %s\n", l[0], l[1])
	}
	for _, delta := range s.deltas() {
		fmt.Fprintf(&b, "\n%s", plainTable(s.figures(delta)))
	}
	if ahead := s.ahead(); len(ahead) > 1 {
		fmt.Fprintf(&b, "\n%s", plainTable(ahead))
	}
	if asked := s.asked(); len(asked) > 1 {
		fmt.Fprintf(&b, "\n%s", plainTable(asked))
	}
	if plot := bench.FrontText(s.rows, 76); plot != "" {
		fmt.Fprintf(&b, "\n%s", plot)
	}
	return b.String()
}

// head says what was done, as labels and texts.
func (s *benchSheet) head() (lines [][2]string) {
	f := s.flags
	if s.interrupted {
		lines = append(lines, [2]string{"interrupted", "the figures are of the traces that were finished"})
	}
	lines = append(lines,
		[2]string{"measured", fmt.Sprintf("load %s: %s, %s, %s from %d on", f.load, cli.Count(f.partitions, "partition"), cli.Count(f.steps, "step"), cli.Count(f.seeds, "seed"), f.seed)},
		[2]string{"took", fmt.Sprintf("%s on %s", seconds(s.seconds), cli.Count(f.usedCores(), "core"))},
		[2]string{"cbs", f.against()})
	if r := s.reproduced(); len(r) > 0 {
		lines = append(lines, [2]string{"published", reproducedWords(r)})
		for _, x := range r {
			if !x.OK {
				lines = append(lines, [2]string{"", fmt.Sprintf("off: %s at delta %d is %.4f / %.2f, published %.4f / %.1f", x.Algorithm, x.Delta, x.CBS, x.ER, x.PublishedCBS, x.PublishedER)})
			}
		}
	}
	return lines
}

// against says what cbs is measured by.
func (f *benchPlanFlags) against() string {
	switch len(f.algorithms) {
	case 0:
		return "against the fewest of all prices in each step"
	case len(bench.Paper):
		return "against the fewest of the papers' twelve in each step"
	case 1:
		return "against " + f.algorithms[0]
	}
	return "against the fewest of " + strings.Join(f.algorithms, ", ") + " in each step"
}

// reproduced compares with the papers, if what was run is their experiment.
func (s *benchSheet) reproduced() []bench.Reproduced {
	f := s.flags
	if f.load != "walk" || f.partitions != 200 || f.steps < 500 || f.seeds < 3 || len(f.algorithms) != len(bench.Paper) {
		return nil
	}
	return bench.Reproduce(s.rows)
}

func reproducedWords(all []bench.Reproduced) string {
	n := map[string]int{}
	for _, r := range all {
		n[r.Within]++
	}
	text := fmt.Sprintf("%d of %s within 2 %% in E[R] and 0.01 in cbs", n["tolerance"], cli.Count(len(all), "figure"))
	if n["spread"] > 0 {
		text += fmt.Sprintf(", %d where single traces lie, which is what they are of", n["spread"])
	}
	if n[""] > 0 {
		text += fmt.Sprintf(", %d off", n[""])
	}
	return text
}

func (s *benchSheet) deltas() (deltas []int) {
	for _, r := range s.rows {
		if !slices.Contains(deltas, r.Delta) {
			deltas = append(deltas, r.Delta)
		}
	}
	return deltas
}

// figures are the rows of one delta, as a table with its header.
func (s *benchSheet) figures(delta int) [][]string {
	day := s.flags.load == "day"
	head := []string{fmt.Sprintf("delta %d", delta), "members", "cbs", "E[R]", "moves", "l2 gap", "plan µs", "× BFD"}
	if day {
		head = append(head, "in trough")
	}
	out := [][]string{head}
	bfd, _ := s.find("BFD", delta)
	for _, r := range s.rows {
		if r.Delta != delta {
			continue
		}
		times := "-"
		if bfd.PlanUS > 0 {
			times = fmt.Sprintf("%.2f", r.PlanUS/bfd.PlanUS)
		}
		line := []string{r.Algorithm, within(r, 2, r.Members, r.MembersSD), within(r, 4, r.CBS, r.CBSSD), within(r, 2, r.ER, r.ERSD),
			within(r, 1, r.Moves, r.MovesSD), fmt.Sprintf("%.4f", r.L2Gap), fmt.Sprintf("%.0f", r.PlanUS), times}
		if day {
			line = append(line, fmt.Sprintf("%.2f", r.Trough))
		}
		out = append(out, line)
	}
	return out
}

// within is a mean over seeds and how far they lie apart.
func within(r bench.Row, digits int, mean, sd float64) string {
	if r.Seeds < 2 {
		return fmt.Sprintf("%.*f", digits, mean)
	}
	return fmt.Sprintf("%.*f ±%.*f", digits, mean, digits, sd)
}

func (s *benchSheet) find(name string, delta int) (bench.Row, bool) {
	i := slices.IndexFunc(s.rows, func(r bench.Row) bool { return r.Algorithm == name && r.Delta == delta })
	if i < 0 {
		return bench.Row{}, false
	}
	return s.rows[i], true
}

// ahead sets pack beside the papers' best.
func (s *benchSheet) ahead() [][]string {
	out := [][]string{{"pack against", "delta", "price", "E[R]", "moves", "members", "plan time"}}
	for _, name := range []string{"MWF", "MBF", "BFD"} {
		for _, delta := range s.deltas() {
			other, ok := s.find(name, delta)
			if !ok || len(s.flags.prices) == 0 {
				continue
			}
			best, found := s.rival(other)
			if !found {
				out = append(out, []string{name, fmt.Sprint(delta), "-", "no price needs as few members"})
				continue
			}
			out = append(out, []string{name, fmt.Sprint(delta), fmt.Sprintf("%g", best.Price), change(best.ER, other.ER), change(best.Moves, other.Moves),
				change(best.Members, other.Members), fmt.Sprintf("× %.2f", best.PlanUS/other.PlanUS)})
		}
	}
	return out
}

const aheadWords = "Of the prices that need no more members than the other, or else at most 2 % more, the one that moves least."

// rival is the price of pack to be set beside a row: see aheadWords.
func (s *benchSheet) rival(other bench.Row) (best bench.Row, found bool) {
	for _, most := range []float64{1.0005, 1.02} {
		for _, r := range s.rows {
			if r.Price > 0 && r.Delta == other.Delta && r.Members <= other.Members*most && (!found || r.ER < best.ER) {
				best, found = r, true
			}
		}
		if found {
			break
		}
	}
	return best, found
}

// asked sets every price beside what is asked of the default one.
func (s *benchSheet) asked() [][]string {
	out := [][]string{{"price", "beside", "members", "E[R]", "moves", "as asked"}}
	for _, v := range bench.Judge(s.rows) {
		price, kept := fmt.Sprintf("%g", v.Price), "no"
		if v.Price == pack.DefaultPrice {
			price += ", the default"
		}
		if v.Kept {
			kept = "yes"
		}
		out = append(out, []string{price, v.Against, share(v.OfMembers, 4), share(v.OfER, 3), share(v.OfMoves, 3), kept})
	}
	return out
}

const askedWords = "What is asked of the default price, and what the others come to: the largest shares of the other's figures, and the delta they are of."

func share(s bench.Share, digits int) string {
	return fmt.Sprintf("%.*f at %d", digits, s.Of, s.Delta)
}

// change is from one figure to another, in percent.
func change(now, was float64) string {
	if was == 0 {
		return "-"
	}
	return strings.Replace(fmt.Sprintf("%+.1f %%", 100*(now-was)/was), "-", "−", 1)
}

// plainTable lines up cells for a terminal: words left, figures right.
func plainTable(cells [][]string) string {
	var wide []int
	for _, line := range cells {
		for i, cell := range line {
			if i == len(wide) {
				wide = append(wide, 0)
			}
			if i < len(line)-1 || len(line) == len(cells[0]) { // a remark at the end of a short line may stick out
				wide[i] = max(wide[i], utf8.RuneCountInString(cell))
			}
		}
	}
	var b strings.Builder
	for _, line := range cells {
		text := fmt.Sprintf("%-*s", wide[0], line[0])
		for i, cell := range line[1:] {
			text += "  " + fmt.Sprintf("%*s", wide[i+1], cell)
		}
		fmt.Fprintln(&b, strings.TrimRight(text, " "))
	}
	return b.String()
}

// files are the report.
func (s *benchSheet) files() map[string]string {
	svg := bench.FrontSVG(s.rows)
	var body strings.Builder
	body.WriteString(htmlHead(s.head()))
	body.WriteString(svg)
	if ahead := s.ahead(); len(ahead) > 1 {
		body.WriteString("<h2>Pack beside the papers' best</h2>\n<p>" + aheadWords + "</p>\n" + htmlTable(ahead))
	}
	if asked := s.asked(); len(asked) > 1 {
		body.WriteString("<h2>Prices beside the goal</h2>\n<p>" + askedWords + "</p>\n" + htmlTable(asked))
	}
	for _, delta := range s.deltas() {
		fmt.Fprintf(&body, "<h2>Delta %d</h2>\n%s", delta, htmlTable(s.figures(delta)))
	}
	if r := s.reproduced(); len(r) > 0 {
		cells := [][]string{{"algorithm", "delta", "cbs", "published", "E[R]", "published", "within"}}
		for _, x := range r {
			within := x.Within
			if !x.OK {
				within = "off"
			}
			cells = append(cells, []string{x.Algorithm, fmt.Sprint(x.Delta), fmt.Sprintf("%.4f", x.CBS), fmt.Sprintf("%.4f", x.PublishedCBS), fmt.Sprintf("%.2f", x.ER), fmt.Sprintf("%.1f", x.PublishedER), within})
		}
		fmt.Fprintf(&body, "<h2>What the papers report</h2>\n<p>%s.</p>\n%s", html.EscapeString(reproducedWords(r)), htmlTable(cells))
	}
	return map[string]string{"index.html": htmlPage("rota bench plan", body.String()), "front.svg": svg, "rows.json": jsonText(s.rows)}
}
