package lab

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
)

// bar is one line on a terminal that tells how far a batch is.
type bar struct {
	w     io.Writer
	cols  int
	total int
	began time.Time
	drawn int // characters of the line that stands there

	progress
}

type progress struct {
	schedules, violations int
	rate                  float64 // schedules per second
}

func (b *bar) draw() {
	line := b.line()
	pad := max(0, b.drawn-len(line)) // blanks work on every terminal, escapes do not
	fmt.Fprintf(b.w, "\r%s%s", line, strings.Repeat(" ", pad))
	b.drawn = len(line)
}

func (b *bar) clear() {
	if b.drawn > 0 {
		// Two more for the ^C that a terminal echoes.
		fmt.Fprintf(b.w, "\r%s\r", strings.Repeat(" ", min(b.drawn+2, b.cols-1)))
	}
}

func (b *bar) line() string {
	part := float64(b.schedules) / float64(b.total)
	text := fmt.Sprintf("  0%%  no figures yet  %s so far", cli.Roughly(time.Since(b.began)))
	if b.rate > 0 {
		left := time.Duration(float64(b.total-b.schedules) / b.rate * float64(time.Second))
		text = fmt.Sprintf("%3.0f%%  %s schedules/s  %s  %s left", 100*part, cli.Grouped(b.rate), cli.Count(b.violations, "violation"), cli.Roughly(left))
	}
	const cells = 20
	full := int(part * cells)
	line := "[" + strings.Repeat("#", full) + strings.Repeat(".", cells-full) + "] " + text
	if b.cols > len(line) {
		return line
	}
	return text[:min(len(text), b.cols-1)] // a full line would wrap
}
