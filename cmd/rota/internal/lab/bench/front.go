package bench

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// A point of the front: few members are low, little moved is left.
type point struct {
	name     string
	pack     bool
	x, y     float64 // E[R], and members beyond the lower bound in percent
	labelled string
}

// points are the rows of one delta, or the means over all of them.
func points(rows []Row, delta int, mean bool) []point {
	var out []point
	n := map[string]float64{}
	for _, r := range rows {
		if !mean && r.Delta != delta {
			continue
		}
		i := slices.IndexFunc(out, func(p point) bool { return p.name == r.Algorithm })
		if i < 0 {
			i = len(out)
			out = append(out, point{name: r.Algorithm, pack: r.Price > 0, labelled: strings.TrimPrefix(r.Algorithm, "pack ")})
		}
		n[r.Algorithm]++
		out[i].x += r.ER
		out[i].y += 100 * r.L2Gap
	}
	for i := range out {
		out[i].x /= n[out[i].name]
		out[i].y /= n[out[i].name]
	}
	return out
}

// crop leaves out what lies far above the others, which would flatten the plot:
// next fit does. It returns what is left, what is not, and the edges.
func crop(all []point) (in, out []point, right, top float64) {
	for _, p := range all {
		if p.name == "NF" || p.name == "NFD" {
			out = append(out, p)
			continue
		}
		in = append(in, p)
		right, top = max(right, p.x), max(top, p.y)
	}
	if len(in) == 0 {
		in, out = out, nil
		for _, p := range in {
			right, top = max(right, p.x), max(top, p.y)
		}
	}
	return in, out, max(1.08*right, 0.1), max(1.12*top, 0.5)
}

// beyond says what was left out.
func beyond(out []point) string {
	var words []string
	for _, p := range out {
		words = append(words, fmt.Sprintf("%s (%.1f, %.0f %%)", p.name, p.x, p.y))
	}
	if len(words) == 0 {
		return ""
	}
	return "above the upper edge: " + strings.Join(words, ", ")
}

// FrontText draws the front, as the mean over deltas, in so many columns.
func FrontText(rows []Row, cols int) string {
	const lines, margin = 16, 7
	in, out, right, top := crop(points(rows, 0, true))
	if len(in) == 0 {
		return ""
	}
	wide := max(30, cols-margin-1)
	grid := make([][]rune, lines)
	for i := range grid {
		grid[i] = []rune(strings.Repeat(" ", wide))
	}
	at := func(p point) (int, int) {
		return min(wide-1, int(p.x/right*float64(wide))), max(0, min(lines-1, lines-1-int(p.y/top*float64(lines))))
	}
	for _, p := range in {
		x, y := at(p)
		if grid[y][x] == ' ' || p.pack {
			grid[y][x] = map[bool]rune{true: '●', false: '○'}[p.pack]
		}
	}
	for _, p := range in {
		x, y := at(p)
		write(grid[y], x, p.labelled)
	}
	var b strings.Builder
	b.WriteString("members beyond the lower bound, %\n")
	for i, line := range grid {
		label := ""
		if i%5 == 0 || i == lines-1 {
			label = fmt.Sprintf("%.1f", top*float64(lines-1-i)/float64(lines))
		}
		fmt.Fprintf(&b, "%*s |%s\n", margin-2, label, strings.TrimRight(string(line), " "))
	}
	fmt.Fprintf(&b, "%*s +%s\n", margin-2, "", strings.Repeat("-", wide))
	fmt.Fprintf(&b, "%*s 0%*s\n", margin-2, "", wide-1, fmt.Sprintf("E[R], what is moved per step, in members' capacities: %.1f", right))
	fmt.Fprintf(&b, "%*s ○ the papers'   ● pack, by price   means over all deltas\n", margin-2, "")
	if s := beyond(out); s != "" {
		fmt.Fprintf(&b, "%*s %s\n", margin-2, "", s)
	}
	return b.String()
}

// write puts a label beside a mark, where nothing else stands; else nowhere.
func write(line []rune, x int, label string) {
	text := []rune(label)
	free := func(from, to int) bool {
		return from >= 0 && to <= len(line) && strings.TrimSpace(string(line[from:to])) == ""
	}
	switch n := len(text); {
	case free(x+1, x+n+2):
		copy(line[x+1:], text)
	case free(x-n-1, x):
		copy(line[x-n:], text)
	}
}

// The sizes of the plot, in pixels.
const (
	panelWide, panelHigh = 470.0, 340.0
	padLeft, padRight    = 60.0, 14.0
	padTop, padBottom    = 34.0, 46.0
)

// FrontSVG draws the front of each delta, side by side.
func FrontSVG(rows []Row) string {
	var deltas []int
	for _, r := range rows {
		if !slices.Contains(deltas, r.Delta) {
			deltas = append(deltas, r.Delta)
		}
	}
	across := min(2, max(1, len(deltas)))
	down := (len(deltas) + across - 1) / across
	wide, high := float64(across)*panelWide, float64(down)*panelHigh+34
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="Members against what is moved, for each algorithm and delta">`+"\n", wide, high, wide, high)
	b.WriteString(svgStyle)
	fmt.Fprintf(&b, `<rect class="paper" width="%.0f" height="%.0f"/>`+"\n", wide, high)
	fmt.Fprintf(&b, `<circle class="other" cx="64" cy="18" r="4"/><text class="label" x="74" y="22">the papers' algorithms</text>`+
		`<path class="line" d="M220 18h24"/><circle class="pack" cx="232" cy="18" r="4"/><text class="label strong" x="250" y="22">pack, by price</text>`+
		`<text class="label" x="350" y="22">left and low is better</text>`+"\n")
	for i, delta := range deltas {
		x, y := float64(i%across)*panelWide, 34+float64(i/across)*panelHigh
		fmt.Fprintf(&b, `<g transform="translate(%.0f %.0f)">`+"\n", x, y)
		panel(&b, points(rows, delta, false), fmt.Sprintf("delta %d", delta))
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

const svgStyle = `<style>
:root { --paper: #ffffff; --ink: #1f2328; --faint: #d8dee4; --soft: #59636e; --accent: #0550ae; }
@media (prefers-color-scheme: dark) { :root { --paper: #0d1117; --ink: #f0f6fc; --faint: #30363d; --soft: #9da7b3; --accent: #58a6ff; } }
text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: var(--ink); }
.paper { fill: var(--paper); } .grid { stroke: var(--faint); fill: none; } .axis { stroke: var(--soft); fill: none; }
.tick { fill: var(--soft); font-size: 11px; } .title { font-weight: 600; font-size: 13px; } .label { font-size: 11px; fill: var(--soft); }
.strong { fill: var(--accent); font-weight: 600; } .other { fill: var(--paper); stroke: var(--soft); stroke-width: 1.5; }
.pack { fill: var(--accent); } .line { stroke: var(--accent); stroke-width: 1.5; fill: none; } .lead { stroke: var(--soft); stroke-width: .6; }
</style>
`

// panel draws one front.
func panel(b *strings.Builder, all []point, title string) {
	in, out, right, top := crop(all)
	px := func(x float64) float64 { return padLeft + x/right*(panelWide-padLeft-padRight) }
	py := func(y float64) float64 { return panelHigh - padBottom - y/top*(panelHigh-padTop-padBottom) }
	fmt.Fprintf(b, `<text class="title" x="%.1f" y="20">%s</text>`+"\n", padLeft, html.EscapeString(title))
	if s := beyond(out); s != "" {
		fmt.Fprintf(b, `<text class="tick" x="%.1f" y="20" text-anchor="end">%s</text>`+"\n", panelWide-padRight, html.EscapeString(s))
	}
	for _, v := range ticks(right) {
		fmt.Fprintf(b, `<path class="grid" d="M%.1f %.1fV%.1f"/><text class="tick" x="%.1f" y="%.1f" text-anchor="middle">%g</text>`+"\n", px(v), padTop, py(0), px(v), py(0)+15, v)
	}
	for _, v := range ticks(top) {
		fmt.Fprintf(b, `<path class="grid" d="M%.1f %.1fH%.1f"/><text class="tick" x="%.1f" y="%.1f" text-anchor="end">%g %%</text>`+"\n", padLeft, py(v), panelWide-padRight, padLeft-6, py(v)+4, v)
	}
	fmt.Fprintf(b, `<path class="axis" d="M%.1f %.1fV%.1fH%.1f"/>`+"\n", padLeft, padTop, py(0), panelWide-padRight)
	fmt.Fprintf(b, `<text class="tick" x="%.1f" y="%.1f" text-anchor="middle">E[R]: moved per step, in members' capacities</text>`+"\n", (padLeft+panelWide-padRight)/2, panelHigh-12)
	fmt.Fprintf(b, `<text class="tick" transform="translate(12 %.1f) rotate(-90)" text-anchor="middle">members beyond the lower bound</text>`+"\n", (padTop+panelHigh-padBottom)/2)

	var line []string
	l := labels{right: panelWide - padRight, bottom: py(0)}
	for _, p := range in {
		if p.pack {
			line = append(line, fmt.Sprintf("%.1f %.1f", px(p.x), py(p.y)))
		}
		l.taken = append(l.taken, box{px(p.x) - 5, py(p.y) - 5, px(p.x) + 5, py(p.y) + 5})
	}
	if len(line) > 1 {
		fmt.Fprintf(b, `<path class="line" d="M%s"/>`+"\n", strings.Join(line, "L"))
	}
	for _, p := range in {
		class, text := "other", "label"
		if p.pack {
			class, text = "pack", "label strong"
		}
		x, y := px(p.x), py(p.y)
		at, far := l.put(x, y, p.labelled, p.pack)
		if far {
			fmt.Fprintf(b, `<path class="lead" d="M%.1f %.1fL%.1f %.1f"/>`, x, y, min(max(x, at.x1), at.x2), min(max(y, at.y1), at.y2))
		}
		fmt.Fprintf(b, `<circle class="%s" cx="%.1f" cy="%.1f" r="4"><title>%s: E[R] %.2f, %.2f %% beyond the lower bound</title></circle><text class="%s" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n",
			class, x, y, html.EscapeString(p.name), p.x, p.y, text, (at.x1+at.x2)/2, at.y2-2, html.EscapeString(p.labelled))
	}
}

// ticks are about five round numbers up to top.
func ticks(top float64) []float64 {
	step := math.Pow(10, math.Floor(math.Log10(top/4)))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if top/(step*m) <= 6 {
			step *= m
			break
		}
	}
	var out []float64
	for i := 0; float64(i)*step <= top; i++ {
		out = append(out, math.Round(float64(i)*step*1e6)/1e6)
	}
	return out
}

type box struct{ x1, y1, x2, y2 float64 }

// labels finds places for labels where nothing else is.
type labels struct {
	taken         []box
	right, bottom float64
}

// put returns where a label goes, and whether that is so far from its point that
// a line should lead there. The line of pack bends to the lower left: labels
// below it are clear of it.
func (l *labels) put(x, y float64, text string, below bool) (at box, far bool) {
	wide := 7*float64(len(text)) + 2
	sides := [][2]float64{{0, -1}, {0.9, -0.5}, {0.9, 0.5}, {-0.9, -0.5}, {-0.9, 0.5}, {0, 1}}
	if below {
		sides = [][2]float64{{-1.1, 0.5}, {0, 1}, {-0.9, 0}, {0, -1}, {0.9, -0.5}}
	}
	for _, away := range []float64{12, 18, 26, 36, 48, 62} {
		for _, side := range sides {
			cx, cy := x+side[0]*(away+wide/2-6), y+side[1]*away
			at = box{cx - wide/2, cy - 6, cx + wide/2, cy + 6}
			if at.x1 < padLeft+2 || at.x2 > l.right || at.y1 < padTop || at.y2 > l.bottom-1 || slices.ContainsFunc(l.taken, at.meets) {
				continue
			}
			l.taken = append(l.taken, at)
			return at, away > 18
		}
	}
	return box{x - wide/2, y - 18, x + wide/2, y - 6}, false
}

func (b box) meets(o box) bool {
	return b.x1 < o.x2 && o.x1 < b.x2 && b.y1 < o.y2 && o.y1 < b.y2
}
