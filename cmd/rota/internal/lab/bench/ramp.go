package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A Ramp is a group that changed its size under a load that changed, as make ramp measures
// it: a line of JSON with the settings, and one for each moment.
type Ramp struct {
	Scaler     string  `json:"scaler"`
	Partitions int     `json:"partitions"`
	Capacity   float64 `json:"capacity"` // messages per second that a member handles
	Target     float64 `json:"target"`   // the share of it that a plan fills
	Least      int     `json:"least"`
	Spare      int     `json:"spare"`

	moments []rampMoment
}

// A rampMoment is what was measured at one time.
type rampMoment struct {
	At      float64 `json:"at"`   // seconds
	Rate    float64 `json:"rate"` // messages per second that arrive
	Sent    int     `json:"sent"`
	Handled int     `json:"handled"`
	Needed  int     `json:"needed"` // members that the planner needs, and the spare ones
	Want    int     `json:"want"`
	Have    int     `json:"have"`
}

// ReadRamp reads such a file.
func ReadRamp(r io.Reader) (*Ramp, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	out := &Ramp{}
	if err := d.Decode(out); err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	for {
		var m rampMoment
		switch err := d.Decode(&m); {
		case errors.Is(err, io.EOF) && len(out.moments) > 1 && out.Capacity > 0 && out.Target > 0:
			return out, nil
		case errors.Is(err, io.EOF):
			return nil, errors.New("a ramp needs a capacity, a target and two moments")
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", len(out.moments)+2, err)
		}
		out.moments = append(out.moments, m)
	}
}

// A rampPanel is one plot above the same time.
type rampPanel struct {
	title     string
	top, high float64 // where it is in the picture
	most      float64 // the highest value
	b         *strings.Builder
	x         func(at float64) float64
}

func (p *rampPanel) y(v float64) float64 { return p.top + p.high - v/p.most*p.high }

const (
	rampWide, rampLeft, rampRight = 940.0, 52.0, 170.0
	rampHigh                      = 520.0
)

// RampSVG draws the load, the members that were wanted and there, and the backlog.
func RampSVG(r *Ramp) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="Load, members and backlog over time">`+"\n", rampWide, rampHigh, rampWide, rampHigh)
	b.WriteString(svgStyle + membersStyle + rampStyle)
	fmt.Fprintf(&b, `<rect class="paper" width="%.0f" height="%.0f"/>`+"\n", rampWide, rampHigh)
	end := r.moments[len(r.moments)-1].At
	x := func(at float64) float64 { return rampLeft + at/end*(rampWide-rampLeft-rampRight) }
	most, late := 1.0, 1.0
	for _, m := range r.moments {
		most, late = max(most, float64(m.Have), float64(m.Want), float64(m.Needed)), max(late, r.late(&m))
	}
	members := &rampPanel{"members", 34, 270, most * 1.08, &b, x}
	members.frame()
	members.lines([]rampLine{
		{"load, in members", "c3", false, func(m *rampMoment) float64 { return m.Rate / r.Capacity / r.Target }},
		{"needed, with the spare", "c0", true, func(m *rampMoment) float64 { return float64(m.Needed) }},
		{"wanted", "c2", true, func(m *rampMoment) float64 { return float64(m.Want) }},
		{"have", "c1", true, func(m *rampMoment) float64 { return float64(m.Have) }},
	}, r.moments)
	backlog := &rampPanel{"backlog, in seconds of arrivals", 350, 120, late * 1.15, &b, x}
	backlog.frame()
	backlog.lines([]rampLine{{"backlog", "c5", false, r.late}}, r.moments)
	for v := 0.0; v <= end; v += rampTick(end) {
		fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%.1f" text-anchor="middle">%g</text>`+"\n", x(v), rampHigh-32, v)
	}
	fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%.1f" text-anchor="middle">seconds</text>`+"\n</svg>\n", (rampLeft+rampWide-rampRight)/2, rampHigh-12)
	return b.String()
}

// rampStyle lets the members that were wanted be seen behind those that were there: they
// are the same most of the time.
const rampStyle = "<style>.c2 { stroke-width: 6; opacity: .45; }</style>\n"

// rampTick is the time between two numbers of the axis.
func rampTick(end float64) float64 {
	for _, step := range []float64{10, 30, 60, 300} {
		if end/step <= 12 {
			return step
		}
	}
	return end
}

// late is the backlog in seconds of what arrives.
func (r *Ramp) late(m *rampMoment) float64 {
	if m.Rate <= 0 {
		return 0
	}
	return float64(m.Sent-m.Handled) / m.Rate
}

func (p *rampPanel) frame() {
	fmt.Fprintf(p.b, `<text class="title" x="%.1f" y="%.1f">%s</text>`+"\n", rampLeft, p.top-12, p.title)
	for _, v := range ticks(p.most) {
		fmt.Fprintf(p.b, `<path class="grid" d="M%.1f %.1fH%.1f"/><text class="tick" x="%.1f" y="%.1f" text-anchor="end">%g</text>`+"\n", rampLeft, p.y(v), rampWide-rampRight, rampLeft-6, p.y(v)+4, v)
	}
	fmt.Fprintf(p.b, `<path class="axis" d="M%.1f %.1fV%.1fH%.1f"/>`+"\n", rampLeft, p.top, p.y(0), rampWide-rampRight)
}

// A rampLine is one figure over time; one of whole numbers has steps.
type rampLine struct {
	name, class string
	steps       bool
	of          func(*rampMoment) float64
}

// lines draws them, with their names at their ends.
func (p *rampPanel) lines(all []rampLine, moments []rampMoment) {
	var taken []float64
	for _, l := range all {
		var path strings.Builder
		for i := range moments {
			m := &moments[i]
			switch {
			case i == 0:
				fmt.Fprintf(&path, "M%.1f %.1f", p.x(m.At), p.y(l.of(m)))
			case l.steps:
				if v := l.of(m); v != l.of(&moments[i-1]) || i == len(moments)-1 {
					fmt.Fprintf(&path, "H%.1fV%.1f", p.x(m.At), p.y(v))
				}
			default:
				fmt.Fprintf(&path, "L%.1f %.1f", p.x(m.At), p.y(l.of(m)))
			}
		}
		fmt.Fprintf(p.b, `<path class="%s" d="%s"/>`+"\n", l.class, path.String())
		y := beside(&taken, p.y(l.of(&moments[len(moments)-1]))+4)
		fmt.Fprintf(p.b, `<text class="label t%s" x="%.1f" y="%.1f">%s</text>`+"\n", l.class, rampWide-rampRight+8, y, l.name)
	}
}
