package drawing

import (
	"fmt"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/agent"
	"github.com/rota-dev/rota/internal/core"
)

// A lane is a time line: seconds from the left edge of the picture.
type lane struct{ x, perSecond, from float64 }

func (l lane) at(d time.Duration) float64 { return l.x + (d.Seconds()-l.from)*l.perSecond }

// axis draws the seconds below a lane.
func (l lane) axis(c *canvas, y float64, from, to, step time.Duration) {
	c.line("wire", l.at(from), y, l.at(to), y)
	for t := from; t <= to; t += step {
		c.line("wire", l.at(t), y, l.at(t), y+5)
		c.text("small soft", middle, l.at(t), y+19, fmt.Sprintf("%g s", t.Seconds()))
	}
}

// span is a bar with its name in it.
func (l lane) span(c *canvas, class string, y float64, from, to time.Duration, text string) {
	c.rect(class, l.at(from), y, l.at(to)-l.at(from), 26, 4)
	c.text("on small", middle, (l.at(from)+l.at(to))/2, y+17, text)
}

// mark is an instant with a sentence beside it.
func (l lane) mark(c *canvas, at time.Duration, y1, y2 float64, anchor, text string) {
	x := l.at(at)
	c.line("wire", x, y1, x, y2)
	gap := 6.0
	if anchor == right {
		gap = -6
	}
	c.text("small", anchor, x+gap, y2, text)
}

// Lease shows the last lease of a member that is cut off, at the default durations, and
// the hold after a store has lost writes.
func Lease() string {
	t := core.DefaultTiming()
	const s, ms = time.Second, time.Millisecond
	c := newCanvas(900, 700, "A member is cut off from the store: it stops before its lease ends, and is declared dead after that; below, the hold after a store has lost writes")
	sent := t.Heartbeat // the last heartbeat that arrives
	seen := sent + 50*ms
	end, stop, dead := sent+t.Lease, sent+t.Lease-t.Margin, seen+t.W()
	kill := end - agent.EndTime(t.Lease)

	c.text("bold", left, 24, 32, "A lease, when its owner is cut off from the store")
	wide := lane{150, 82, 0}
	c.text("bold", left, 24, 80, "c1")
	c.text("small soft", left, 24, 96, "owns q3")
	wide.span(c, "a", 64, sent, end, fmt.Sprintf("its lease: %g s from the sending of the last confirmed heartbeat", t.Lease.Seconds()))
	for _, beat := range []time.Duration{0, sent} {
		c.dot("a", wide.at(beat), 124, 6)
		c.arrow(wide.at(beat), 130, wide.at(beat), 158)
	}
	c.text("small soft", left, wide.at(0)+12, 128, fmt.Sprintf("a heartbeat every %g s", t.Heartbeat.Seconds()))
	for _, beat := range []time.Duration{2 * t.Heartbeat, 3 * t.Heartbeat} {
		c.dot("none", wide.at(beat), 124, 6)
		c.cross(wide.at(beat), 124)
	}
	c.text("small soft", left, wide.at(2*t.Heartbeat)+12, 128, "no answer")

	c.text("bold", left, 24, 184, "the others")
	wide.span(c, "none", 166, seen, dead, "")
	c.text("small", middle, (wide.at(seen)+wide.at(dead))/2, 183, fmt.Sprintf("W = %g s in which they see no newer heartbeat, on their own clock", t.W().Seconds()))
	wide.mark(c, dead, 166, 212, right, "c1 is declared DEAD")

	c.text("bold", left, 24, 242, "q3")
	wide.span(c, "a", 226, 0, stop, "c1 may act on it, under token 1")
	wide.span(c, "b", 226, dead, dead+1200*ms, "c2, token 2")
	wide.axis(c, 270, 0, 8*s, s)

	c.line("rule", 24, 312, 876, 312)
	c.text("bold", left, 24, 340, "The last second of it, larger")
	near := lane{40, 690, (end - 700*ms).Seconds()}
	near.span(c, "a", 354, end-700*ms, stop, "c1 acts")
	near.span(c, "none", 354, stop, end, "c1 stops")
	near.span(c, "b", 354, dead, end+500*ms, "c2 acts")
	for _, m := range []struct {
		at     time.Duration
		y      float64
		anchor string
		text   string
	}{
		{stop, 468, left, "lease end − L/10: everything that c1 runs is cancelled"},
		{kill, 446, left, "lease end − L/20: the watchdog ends commands, also those of a frozen rota"},
		{end, 424, left, "lease end: what still runs costs the process"},
		{dead, 402, left, "DEAD, one plan, start"},
	} {
		near.mark(c, m.at, 380, m.y, m.anchor, m.text)
	}
	c.text("small soft", left, 40, 496, fmt.Sprintf("W = L · 1.01 / 0.99, rounded up to 0.1 s: %g s for L = %g s. Two clocks may each be 1 %% off; a heartbeat is seen after it was sent.", t.W().Seconds(), t.Lease.Seconds()))

	c.line("rule", 24, 520, 876, 520)
	c.text("bold", left, 24, 548, "The hold, when the store has lost writes it had acknowledged")
	hold := lane{150, 82, 0}
	claim := 600 * ms
	c.text("bold", left, 24, 582, "the group")
	c.text("small soft", left, 24, 598, "all partitions")
	hold.span(c, "a", 566, 0, claim, "")
	hold.span(c, "none", 566, claim, claim+t.W(), "")
	c.text("small", middle, (hold.at(claim)+hold.at(claim+t.W()))/2, 583, fmt.Sprintf("the hold: nothing is granted for W of the longest lease, %g s here", t.W().Seconds()))
	hold.span(c, "b", 566, claim+t.W(), 8*s+200*ms, "granted anew")
	hold.mark(c, claim, 592, 644, left, "noticed: a new incarnation begins, sessions of the old one end")
	hold.mark(c, claim+t.W(), 592, 620, right, "every lease that the store may have forgotten is over")
	hold.axis(c, 660, 0, 8*s, s)
	return c.String()
}
