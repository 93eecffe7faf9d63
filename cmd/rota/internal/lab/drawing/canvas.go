package drawing

import (
	"fmt"
	"html"
	"strings"
)

// A canvas collects the shapes of one picture. Positions are in pixels from the top left.
type canvas struct {
	b             strings.Builder
	width, height float64
	label         string // for those who cannot see the picture
}

// look is the style sheet. The picture brings its own paper: a page may be dark where
// the reader's system is light. Colours stand in rules and not in variables, since some
// renderers do not know variables.
const look = `<style>
text { font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; }
.bold { font-weight: 600; } .small { font-size: 11.5px; } .soft { fill: #59636e; } .mono { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
.paper { fill: #ffffff; stroke: #d1d9e0; } .box { fill: #f6f8fa; stroke: #818b98; } .room { fill: none; stroke: #818b98; stroke-dasharray: 5 4; }
.rule { stroke: #d1d9e0; fill: none; } .wire { stroke: #59636e; fill: none; stroke-width: 1.4; } .tip { fill: #59636e; }
.a { fill: #54aeff; } .b { fill: #fd8c73; } .c { fill: #6bc46d; } .none { fill: #eaeef2; stroke: #818b98; stroke-dasharray: 3 3; } .hot { fill: #cf222e; } .cut { stroke: #cf222e; stroke-width: 2; }
.on { fill: #1f2328; }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc; } .soft { fill: #9da7b3; }
.paper { fill: #0d1117; stroke: #3d444d; } .box { fill: #1b222b; stroke: #656c76; } .room { stroke: #656c76; }
.rule { stroke: #3d444d; } .wire { stroke: #9da7b3; } .tip { fill: #9da7b3; }
.a { fill: #1f6feb; } .b { fill: #bd561d; } .c { fill: #238636; } .none { fill: #21262d; stroke: #656c76; } .hot { fill: #ff7b72; } .cut { stroke: #ff7b72; }
.on { fill: #ffffff; }
}
</style>
`

func newCanvas(width, height float64, label string) *canvas {
	c := &canvas{width: width, height: height, label: label}
	c.rect("paper", 0.5, 0.5, width-1, height-1, 8)
	return c
}

// String is the picture as a file.
func (c *canvas) String() string {
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" role=\"img\" aria-label=%q>\n%s%s</svg>\n",
		c.width, c.height, c.width, c.height, html.EscapeString(c.label), look, c.b.String())
}

func (c *canvas) rect(class string, x, y, w, h, round float64) {
	fmt.Fprintf(&c.b, "<rect class=%q x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" rx=\"%g\"/>\n", class, tenth(x), tenth(y), tenth(w), tenth(h), round)
}

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&c.b, "<path class=%q d=\"M%g %gL%g %g\"/>\n", class, tenth(x1), tenth(y1), tenth(x2), tenth(y2))
}

// arrow is a horizontal or vertical line with a tip at its second end.
func (c *canvas) arrow(x1, y1, x2, y2 float64) {
	const long, half = 8, 4
	var tip string
	switch {
	case x2 > x1:
		tip = fmt.Sprintf("M%g %gl%d %dv%dz", tenth(x2), tenth(y2), -long, -half, 2*half)
	case x2 < x1:
		tip = fmt.Sprintf("M%g %gl%d %dv%dz", tenth(x2), tenth(y2), long, -half, 2*half)
	case y2 > y1:
		tip = fmt.Sprintf("M%g %gl%d %dh%dz", tenth(x2), tenth(y2), -half, -long, 2*half)
	default:
		tip = fmt.Sprintf("M%g %gl%d %dh%dz", tenth(x2), tenth(y2), -half, long, 2*half)
	}
	c.line("wire", x1, y1, x2, y2)
	fmt.Fprintf(&c.b, "<path class=\"tip\" d=%q/>\n", tip)
}

// dot marks an instant.
func (c *canvas) dot(class string, x, y, r float64) {
	fmt.Fprintf(&c.b, "<circle class=%q cx=\"%g\" cy=\"%g\" r=\"%g\"/>\n", class, tenth(x), tenth(y), r)
}

// cross marks an instant at which something breaks.
func (c *canvas) cross(x, y float64) {
	c.line("cut", x-5, y-5, x+5, y+5)
	c.line("cut", x-5, y+5, x+5, y-5)
}

// Where a text is anchored.
const (
	left   = "start"
	middle = "middle"
	right  = "end"
)

func (c *canvas) text(class, anchor string, x, y float64, s string) {
	fmt.Fprintf(&c.b, "<text class=%q text-anchor=%q x=\"%g\" y=\"%g\">%s</text>\n", class, anchor, tenth(x), tenth(y), html.EscapeString(s))
}

// tenth rounds a position: more digits only make files longer.
func tenth(x float64) float64 { return float64(int(x*10+0.5)) / 10 }
