package screen

import (
	"strings"
	"unicode"
)

// wide are the characters that take two cells of a terminal: East Asian ones, and
// pictures that terminals draw as wide.
var wide = [][2]rune{
	{0x1100, 0x115f}, {0x231a, 0x231b}, {0x23e9, 0x23f3}, {0x25fd, 0x25fe}, {0x2614, 0x2615}, {0x2648, 0x2653}, {0x267f, 0x267f},
	{0x2693, 0x2693}, {0x26a1, 0x26a1}, {0x26aa, 0x26ab}, {0x26bd, 0x26be}, {0x26c4, 0x26c5}, {0x26ce, 0x26ce}, {0x26d4, 0x26d4},
	{0x26ea, 0x26ea}, {0x26f2, 0x26f5}, {0x26fa, 0x26fd}, {0x2705, 0x2705}, {0x270a, 0x270b}, {0x2728, 0x2728}, {0x274c, 0x274e},
	{0x2753, 0x2757}, {0x2795, 0x2797}, {0x27b0, 0x27bf}, {0x2b1b, 0x2b1c}, {0x2b50, 0x2b55}, {0x2e80, 0x303e}, {0x3041, 0xa4cf},
	{0xa960, 0xa97f}, {0xac00, 0xd7a3}, {0xf900, 0xfaff}, {0xfe30, 0xfe6f}, {0xff00, 0xff60}, {0xffe0, 0xffe6}, {0x16fe0, 0x18fff},
	{0x1aff0, 0x1b2ff}, {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f19a}, {0x1f200, 0x1f320}, {0x1f32d, 0x1f64f},
	{0x1f680, 0x1f6ff}, {0x1f7e0, 0x1f7eb}, {0x1f90c, 0x1faff}, {0x20000, 0x3fffd},
}

func cell(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	}
	for _, w := range wide {
		if w[0] <= r && r <= w[1] {
			return 2
		}
	}
	return 1
}

// Cells is how many cells of a terminal a text takes. The text is printable.
func Cells(s string) (n int) {
	for _, r := range s {
		n += cell(r)
	}
	return n
}

// Clip cuts a text that takes more than width cells, and marks the cut.
func Clip(s string, width int) string {
	if Cells(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	n := 0
	for i, r := range s {
		if n+cell(r) > width-1 {
			return strings.TrimRight(s[:i], " ") + "…"
		}
		n += cell(r)
	}
	return s
}

// wrapped is the indentation of all lines of a sentence but the first.
const wrapped = "  "

// Wrap breaks a sentence between words into lines of at most width cells. If it needs
// more than most lines, the last is clipped.
func Wrap(s string, width, most int) (out []string) {
	if Cells(s) <= width || most < 2 || width < 20 {
		return []string{Clip(s, width)}
	}
	line := ""
	words := strings.Split(s, " ")
	for i, word := range words {
		switch {
		case line == "" || Cells(line)+1+Cells(word) <= width:
			if line != "" && line != wrapped {
				line += " "
			}
			line += word
		case len(out) == most-1:
			return append(out, Clip(line+" "+strings.Join(words[i:], " "), width))
		default:
			out = append(out, Clip(line, width))
			line = wrapped + word
		}
	}
	return append(out, Clip(line, width))
}

// pad fills a text up with blanks.
func pad(s string, width int) string { return s + strings.Repeat(" ", max(width-Cells(s), 0)) }
