package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/rule"
	"github.com/rota-dev/rota/internal/scenario"
)

// A Base is a scenario turned into a script, and every point of it at which
// something can be made to go wrong.
type Base struct {
	Name    string
	Catches []rule.Rule // that the scenario was written for
	Script
	points []point
	cells  []cellPoint
	starts []startPoint
	end    time.Duration
	last   []point // how everybody is at the end
	quiet  bool    // nothing in it hinders the leader's sight: deaths of one instant are one burst
}

// A startPoint is an instant at which a member has begun to run a partition.
type startPoint struct {
	at         time.Duration
	host, part string
}

// A point is an instant at which a member takes a step or the store does what a
// member asked for.
type point struct {
	at    time.Duration
	host  string
	what  pointKind
	lease time.Duration // when its lease ends, as things are
	runs  []string      // what it runs
}

type pointKind uint8

const (
	stepPoint  pointKind = iota // the member is about to take a step
	callPoint                   // the store is about to do what it asked for
	writePoint                  // and that is a write
	leadPoint                   // of the plan
)

// cellPoint is a write, with all who are up: each may see it late.
type cellPoint struct {
	at   time.Duration
	plan bool
	up   []string
}

// longest is how much of a wait in which nothing happens is worth playing.
const longest = 10 * time.Second

// NewBase plays a scenario and notes its commands with their instants.
func NewBase(s *scenario.Scenario, o Options) (*Base, error) {
	st := NewStage(o)
	b := &Base{Name: s.Name, Catches: s.Catches, quiet: true}
	st.w.script = &scripted{points: b.note}
	for i := range s.Blocks {
		for _, c := range s.Blocks[i].Commands {
			b.take(c, st.Now())
			if d, err := duration(c.Args, 0); c.Verb == "advance" && err == nil && d >= 3*longest {
				c.Args = []string{longest.String()}
			}
			if err := st.Do(c); err != nil {
				return nil, fmt.Errorf("%s:%d: %s: %w", s.Name, c.Line, c, err)
			}
		}
	}
	if v := st.w.bad; v != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, v)
	}
	b.Exact = true
	b.finish(st, o)
	return b, nil
}

// SeedBase makes a base of a random schedule, told as a script.
func SeedBase(o Options, seed uint64) (*Base, error) {
	s, _ := Retell(o, seed)
	b := &Base{Name: fmt.Sprintf("seed %d", seed), Script: s}
	st := NewStage(Options{Partitions: o.Partitions})
	st.w.hear = nil
	st.w.script = &scripted{points: b.note}
	var p Played
	st.perform(&s, &p)
	if st.w.bad != nil {
		return nil, fmt.Errorf("%s: %w", b.Name, st.w.bad)
	}
	b.finish(st, Options{Partitions: o.Partitions})
	return b, nil
}

// finish notes how a base ends.
func (b *Base) finish(st *Stage, o Options) {
	b.end = st.Now()
	for _, h := range st.w.hosts {
		if h.up && !h.paused && !h.cutIn && !h.cutOut {
			b.last = append(b.last, st.w.pointOf(h))
		}
	}
	b.Bursts = b.quiet
	b.Restless = b.Script.Play(o).Violation != nil
}

// take notes a command as lines with one name each, so that whoever is gone by
// then does not spoil it for the others.
func (b *Base) take(c scenario.Command, now time.Duration) {
	switch c.Verb {
	case "stabilize", "advance", "who", "waits", "records":
		return
	case "group":
		b.Setup = append(b.Setup, c)
		// A seat kept for a name that died is planned away by itself.
		b.quiet = b.quiet && !slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "return=") })
		return
	case "member":
		if len(b.Lines) == 0 {
			b.Setup = append(b.Setup, c)
			return
		}
	case "join", "kill", "prove", "sigstop", "wake", "suspend", "heal":
		for _, name := range c.Args {
			b.Lines = append(b.Lines, Line{now, scenario.Command{Verb: c.Verb, Args: []string{name}}})
		}
		b.quiet = b.quiet && (c.Verb == "join" || c.Verb == "kill")
		return
	case "order", "requests", "leave":
	default:
		b.quiet = false
	}
	b.Lines = append(b.Lines, Line{now, c})
}

// note takes what happens as a point.
func (b *Base) note(w *World, h *host, it *item) {
	if h == nil || !h.up || it.epoch != h.epoch {
		return
	}
	p := w.pointOf(h)
	if it.kind == evStarted {
		b.starts = append(b.starts, startPoint{p.at, h.name, w.names[it.run.part]})
	}
	switch it.kind {
	case evTick, evCore, evBegin, evAnswer, evSeen, evListing, evMeasured, evScaled, evStarted, evStopped, evFailed, evRetry:
	case evApply:
		p.what = callPoint
		if it.ev.Verb == core.Put {
			p.what = writePoint
			c := cellPoint{at: p.at, plan: it.ev.Key.Cell == core.PlanCell}
			if c.plan {
				p.what = leadPoint
			}
			for _, o := range w.hosts {
				if o.up {
					c.up = append(c.up, o.name)
				}
			}
			b.cells = append(b.cells, c)
		}
	default:
		return
	}
	same := func(o point) bool { return o.at == p.at && o.host == p.host && o.what == p.what }
	if slices.ContainsFunc(b.points[max(0, len(b.points)-40):], same) {
		return
	}
	b.points = append(b.points, p)
}

func (w *World) pointOf(h *host) point {
	p := point{at: time.Duration(w.now), host: h.name, lease: time.Duration(h.global(h.node.Lease()))}
	for _, r := range h.runs {
		p.runs = append(p.runs, w.names[r.part])
	}
	slices.Sort(p.runs)
	return p
}

// A Strike is one fault at one point of a base.
type Strike struct {
	Kind  string
	At    time.Duration
	Host  string
	add   []Line
	setup []scenario.Command
	exact bool
}

// DirectedKinds are the faults that directed generators know.
var DirectedKinds = []string{
	"none", "freeze", "suspend", "kill", "kill-after-write", "kill-two", "cut", "cut-in", "cut-out", "lose-request", "lose-answer",
	"late-request", "late-answer", "late-read", "miss-read", "late-effect", "roll-plan", "roll-all", "stall", "hang", "leave",
	"deaf", "reorder", "flap", "tardy", "unequal", "wipe", "forget",
}

// A moment is how far from an instant a fault strikes: nothing happens in
// between.
const moment = 10 * time.Microsecond

// Strikes lists every fault at every point.
func (b *Base) Strikes() []Strike {
	all := []Strike{{Kind: "none"}}
	for i := range b.points {
		all = append(all, b.points[i].strikes()...)
		all = append(all, b.effects(&b.points[i])...)
	}
	for i := range b.cells {
		all = append(all, b.cells[i].strikes()...)
	}
	if b.quiet {
		all = append(all, b.pairs()...)
	}
	return append(all, b.stories()...)
}

func line(at time.Duration, words string) Line {
	f := strings.Fields(words)
	return Line{max(at, 0), scenario.Command{Verb: f[0], Args: f[1:]}}
}

// strikes are the faults of one member.
func (p *point) strikes() []Strike {
	var out []Strike
	add := func(kind string, lines ...Line) {
		out = append(out, Strike{Kind: kind, At: p.at, Host: p.host, add: lines})
	}
	h, before, after := p.host, p.at-moment, p.at+moment
	end := max(p.lease, p.at) // of the lease
	switch p.what {
	case stepPoint:
		for _, wake := range []time.Duration{end - 200*time.Millisecond, end + 100*time.Millisecond, end + time.Second, end + 4*time.Second} {
			add("freeze", p.asleep("sigstop", before, wake)...)
		}
		add("suspend", p.asleep("suspend", before, end+time.Second)...)
		add("kill", line(before, "kill "+h), line(before+3*time.Second, "join "+h))
		for kind, way := range map[string]string{"cut": "", "cut-in": " in", "cut-out": " out"} {
			add(kind, line(before, "cut "+h+way), line(end+time.Second, "heal "+h))
		}
		slices.SortStableFunc(out, func(a, b Strike) int { return strings.Compare(a.Kind, b.Kind) })
		add("lose-request", line(before, "requests "+h+" lost"), line(after, "requests "+h+" works"))
		// One lands after its caller gave up, one after its sender is dead.
		for _, late := range []string{"1270ms", "6s"} {
			add("late-request", line(before, "requests "+h+" late "+late), line(after, "requests "+h+" works"))
		}
		if len(p.runs) > 0 {
			add("hang", line(before, "handler "+h+" stubborn"))
		}
		add("leave", line(before, "leave "+h))
	case callPoint, writePoint, leadPoint:
		add("lose-answer", line(before, "answers "+h+" lost"), line(after, "answers "+h+" works"))
		add("late-answer", line(before, "answers "+h+" late 1200ms"), line(after, "answers "+h+" works"))
		if p.what != callPoint {
			add("kill-after-write", line(after, "kill "+h), line(after+3*time.Second, "join "+h))
		}
	}
	return out
}

// asleep is a pause, in which its handlers were about to begin something.
func (p *point) asleep(verb string, from, to time.Duration) []Line {
	lines := []Line{line(from, verb+" "+p.host)}
	for _, part := range p.runs[:min(2, len(p.runs))] {
		lines = append(lines, line(from, "begin "+p.host+" "+part))
	}
	return append(lines, line(to, "wake "+p.host), line(to+5*time.Millisecond, "land"))
}

// effects are deeds begun at a point that reach the sink only when the next
// owner's have.
func (b *Base) effects(p *point) []Strike {
	var out []Strike
	for _, part := range p.runs {
		i := slices.IndexFunc(b.starts, func(s startPoint) bool { return s.part == part && s.host != p.host && s.at > p.at })
		if p.what != stepPoint || i < 0 {
			continue
		}
		next := b.starts[i]
		at := next.at + 10*time.Millisecond
		out = append(out, Strike{Kind: "late-effect", At: p.at, Host: p.host, add: []Line{
			line(p.at-moment, "begin "+p.host+" "+part),
			line(at, "begin "+next.host+" "+part), line(at, "land "+next.host), line(at+10*time.Millisecond, "land "+p.host),
		}})
	}
	return out
}

// strikes are the faults of the store and of those who watch it.
func (c *cellPoint) strikes() []Strike {
	var out []Strike
	add := func(kind, host string, lines ...Line) {
		out = append(out, Strike{Kind: kind, At: c.at, Host: host, add: lines})
	}
	before, after := c.at-moment, c.at+moment
	for _, h := range c.up {
		add("late-read", h, line(before, "watch "+h+" late 2500ms"), line(after, "watch "+h+" works"))
		add("miss-read", h, line(before, "watch "+h+" drops"), line(after, "watch "+h+" works"))
	}
	for _, back := range []string{"20µs", "3s"} { // just this write, or more
		if c.plan {
			add("roll-plan", "", line(after, "store loses plan "+back))
		}
		add("roll-all", "", line(after, "store loses "+back))
	}
	add("stall", "", line(before, "store stalls 3s"))
	return out
}

// pairs kills two at each instant at which something happens.
func (b *Base) pairs() []Strike {
	var out []Strike
	for _, c := range b.cells {
		for i, x := range c.up {
			for _, y := range c.up[i+1:] {
				for _, at := range []time.Duration{c.at - moment, c.at + moment} {
					out = append(out, Strike{Kind: "kill-two", At: at, Host: x + "+" + y, add: []Line{line(at, "kill "+x), line(at, "kill "+y)}})
				}
			}
		}
	}
	return out
}

// loses: the store forgets something in it as it is.
func (b *Base) loses() bool {
	return slices.ContainsFunc(b.Lines, func(l Line) bool { return l.Verb == "store" && l.Args[0] == "loses" })
}

// With is the base with a strike in it.
func (b *Base) With(k Strike) Script {
	s := Script{Setup: append(slices.Clip(b.Setup), k.setup...), Restless: b.Restless, Exact: b.Exact && k.Kind == "none" || k.exact && !b.loses(), Bursts: b.Bursts && (k.Kind == "none" || k.Kind == "kill-two" || k.Kind == "tardy")}
	s.Lines = append(slices.Clone(b.Lines), k.add...)
	s.sort()
	return s
}
