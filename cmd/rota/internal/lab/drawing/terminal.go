package drawing

import (
	"fmt"
	"html"
	"regexp"
	"strings"

	"github.com/rota-dev/rota/cmd/rota/internal/screen"
)

// tones are the classes for the codes that a screen uses.
var tones = map[string]string{"": "", "0": "", "1": "bold", "2": "soft", "31": "hot", "33": "warm"}

// code finds what a terminal obeys and does not show.
var code = regexp.MustCompile("\x1b\\[([0-9;]*)([A-Za-z])")

// Cells of the terminal, in pixels.
const (
	cellWidth  = 8.43 // of 14 px in most fonts
	cellHeight = 19.0
	edge       = 18.0 // around the text
	bar        = 34.0 // for the title of the window
)

// terminal draws a frame as a terminal of so many columns and rows shows it. A text has
// the length of its cells, whatever font the reader has: columns stay below each other.
func terminal(frame, title string, columns, rows int) (string, error) {
	c := newCanvas(2*edge+cellWidth*float64(columns), bar+2*edge+cellHeight*float64(rows), title)
	c.line("rule", 0, bar, c.width, bar)
	for i := range 3 {
		c.dot("box", 20+18*float64(i), bar/2, 5)
	}
	c.text("small soft mono", middle, c.width/2, bar/2+4, title)
	c.b.WriteString("<style>.cell { font: 14px ui-monospace, \"DejaVu Sans Mono\", Menlo, Consolas, monospace; } .cell.bold { font-weight: 600; } .warm { fill: #9a6700; } @media (prefers-color-scheme: dark) { .warm { fill: #d29922; } }</style>\n")
	for i, text := range strings.Split(frame, "\r\n") {
		class, x := "", 0
		for text != "" {
			shown := text
			at := code.FindStringSubmatchIndex(text)
			if at != nil {
				shown = text[:at[0]]
			}
			c.cells(class, x, i, shown)
			x += screen.Cells(shown)
			if at == nil {
				break
			}
			if text[at[4]:at[5]] == "m" {
				known := false
				if class, known = tones[text[at[2]:at[3]]]; !known {
					return "", fmt.Errorf("line %d: the picture of a terminal has no class for the code %q", i+1, text[at[2]:at[3]])
				}
			}
			text = text[at[1]:]
		}
		if x > columns || i >= rows && x > 0 {
			return "", fmt.Errorf("line %d has %d cells: a terminal of %d × %d was wanted", i+1, x, columns, rows)
		}
	}
	return c.String(), nil
}

// cells writes a text word by word: renderers differ in how they stretch blanks.
func (c *canvas) cells(class string, x, row int, text string) {
	y := bar + edge + cellHeight*float64(row) + 13
	for i, word := range strings.SplitAfter(text, "  ") {
		if i > 0 || word != "" {
			if shown := strings.TrimRight(word, " "); shown != "" {
				lead := len(shown) - len(strings.TrimLeft(shown, " "))
				shown = shown[lead:]
				fmt.Fprintf(&c.b, "<text class=%q x=\"%g\" y=\"%g\" textLength=\"%g\" lengthAdjust=\"spacingAndGlyphs\">%s</text>\n",
					strings.TrimSpace("cell "+class), tenth(edge+cellWidth*float64(x+lead)), y, tenth(cellWidth*float64(screen.Cells(shown))), html.EscapeString(shown))
			}
		}
		x += screen.Cells(word)
	}
}
