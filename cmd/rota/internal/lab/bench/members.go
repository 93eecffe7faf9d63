package bench

import (
	"fmt"
	"html"
	"strings"
)

// MembersSVG draws how many members each strategy had over time, and how many
// there must be at the least.
func MembersSVG(outcomes []Outcome, bound History) string {
	const wide, high, left, right, top, bottom = 940.0, 420.0, 52.0, 130.0, 24.0, 46.0
	series := []line{{"lower bound", "c0", bound}}
	for i, o := range outcomes {
		series = append(series, line{o.Strategy, fmt.Sprintf("c%d", 1+i%6), o.History})
	}
	most, steps := 1.0, 1.0
	for _, s := range series {
		for _, v := range s.Means {
			most = max(most, v)
		}
		steps = max(steps, float64(len(s.Means)*s.Per))
	}
	most *= 1.08
	px := func(step float64) float64 { return left + step/steps*(wide-left-right) }
	py := func(v float64) float64 { return high - bottom - v/most*(high-top-bottom) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="Members over time, for each strategy">`+"\n", wide, high, wide, high)
	b.WriteString(svgStyle + membersStyle)
	fmt.Fprintf(&b, `<rect class="paper" width="%.0f" height="%.0f"/>`+"\n", wide, high)
	for _, v := range ticks(most) {
		fmt.Fprintf(&b, `<path class="grid" d="M%.1f %.1fH%.1f"/><text class="tick" x="%.1f" y="%.1f" text-anchor="end">%g</text>`+"\n", left, py(v), wide-right, left-6, py(v)+4, v)
	}
	for _, v := range ticks(steps) {
		fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%.1f" text-anchor="middle">%g</text>`+"\n", px(v), py(0)+16, v)
	}
	fmt.Fprintf(&b, `<path class="axis" d="M%.1f %.1fV%.1fH%.1f"/>`+"\n", left, top, py(0), wide-right)
	fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%.1f" text-anchor="middle">step</text>`+"\n", (left+wide-right)/2, high-10)
	fmt.Fprintf(&b, `<text class="tick" transform="translate(12 %.1f) rotate(-90)" text-anchor="middle">members</text>`+"\n", (top+high-bottom)/2)
	var taken []float64
	for _, s := range series {
		s.draw(&b, px, py)
		if len(s.Means) > 0 {
			y := beside(&taken, py(s.Means[len(s.Means)-1])+4)
			fmt.Fprintf(&b, `<text class="label t%s" x="%.1f" y="%.1f">%s</text>`+"\n", s.class, wide-right+8, y, html.EscapeString(s.name))
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

const membersStyle = `<style>
:root { --c0: #8c959f; --c1: #0550ae; --c2: #bc4c00; --c3: #1a7f37; --c4: #8250df; --c5: #9a6700; --c6: #bf3989; }
@media (prefers-color-scheme: dark) { :root { --c0: #6e7681; --c1: #58a6ff; --c2: #ffa657; --c3: #56d364; --c4: #d2a8ff; --c5: #e3b341; --c6: #ff9bce; } }
.c0 { stroke: var(--c0); stroke-dasharray: 3 3; } .c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); } .c3 { stroke: var(--c3); } .c4 { stroke: var(--c4); } .c5 { stroke: var(--c5); } .c6 { stroke: var(--c6); }
.tc0 { fill: var(--c0); } .tc1 { fill: var(--c1); } .tc2 { fill: var(--c2); } .tc3 { fill: var(--c3); } .tc4 { fill: var(--c4); } .tc5 { fill: var(--c5); } .tc6 { fill: var(--c6); }
.c0, .c1, .c2, .c3, .c4, .c5, .c6 { fill: none; stroke-width: 1.6; }
</style>
`

// line is one figure over time.
type line struct {
	name, class string
	History
}

func (l line) draw(b *strings.Builder, px, py func(float64) float64) {
	var path []string
	for i, v := range l.Means {
		path = append(path, fmt.Sprintf("%.1f %.1f", px((float64(i)+0.5)*float64(l.Per)), py(v)))
	}
	if len(path) == 1 {
		path = append(path, fmt.Sprintf("%.1f %.1f", px(float64(l.Per)), py(l.Means[0])))
	}
	if len(path) > 0 {
		fmt.Fprintf(b, `<path class="%s" d="M%s"/>`+"\n", l.class, strings.Join(path, "L"))
	}
}

// beside finds a height near y at which no label stands yet.
func beside(taken *[]float64, y float64) float64 {
	free := func(at float64) bool {
		for _, t := range *taken {
			if at < t+13 && t < at+13 {
				return false
			}
		}
		return true
	}
	for away := 0.0; ; away++ {
		for _, at := range []float64{y - away, y + away} {
			if free(at) {
				*taken = append(*taken, at)
				return at
			}
		}
	}
}
