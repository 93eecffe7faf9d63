package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/scenario"
)

// A Stage is a world without chance: one latency, perfect clocks, and nothing
// happens but what the play says. It plays scenario files.
type Stage struct {
	w     *World
	say   func(time.Duration, string)
	lines []seenLine
}

// seenLine is something seen; runs of one member's same deeds become one line.
type seenLine struct {
	text  string
	who   string
	verb  string
	items []string
}

// NewStage makes a stage with nobody on it.
func NewStage(o Options) *Stage {
	if o.Latency == 0 {
		o.Latency = int64(time.Millisecond)
	}
	o.Config.Fresh, o.Config.Quarantine = true, 3 // as Config has it by default
	parts := o.Partitions
	o.Members = 0
	o.noEffects = true
	s := &Stage{w: New(o)}
	s.w.calm = true
	s.w.hosts = nil
	s.w.reset(1)
	s.w.hear = s.heard
	s.w.opt.Partitions = parts
	return s
}

// Say sets who hears of everything as it happens.
func (s *Stage) Say(f func(at time.Duration, line string)) { s.say = f }

// Now is the stage's time.
func (s *Stage) Now() time.Duration { return time.Duration(s.w.now) }

func (s *Stage) heard(l seenLine) {
	if s.say != nil {
		text := l.text
		if l.verb != "" {
			text = l.who + " " + l.verb + " " + strings.Join(l.items, " ")
		}
		s.say(s.Now(), text)
	}
	if l.verb != "" {
		for i := range s.lines {
			if o := &s.lines[i]; o.who == l.who && o.verb == l.verb {
				o.items = append(o.items, l.items...)
				return
			}
		}
	}
	s.lines = append(s.lines, l)
}

// Seen returns what was seen since the last call.
func (s *Stage) Seen() ([]string, error) {
	var out []string
	for _, l := range s.lines {
		if l.verb != "" {
			slices.SortStableFunc(l.items, natural)
			out = append(out, l.who+" "+l.verb+" "+strings.Join(l.items, " "))
			continue
		}
		out = append(out, l.text)
	}
	s.lines = nil
	if v := s.w.bad; v != nil {
		return out, fmt.Errorf("a promise is broken: %w", v)
	}
	return out, nil
}

// natural orders q2 before q10.
func natural(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// Advance lets time pass.
func (s *Stage) Advance(d time.Duration) { s.w.until(s.w.now + int64(d)) }

func (s *Stage) host(name string) *host {
	for _, h := range s.w.hosts {
		if h.name == name {
			return h
		}
	}
	return nil
}

// Join starts a process. The member's name is what stands before a slash.
func (s *Stage) Join(name string) {
	h := s.host(name)
	if h == nil {
		h = &host{name: name, index: len(s.w.hosts)}
		s.w.hosts = append(s.w.hosts, h)
	}
	if !h.up {
		s.w.join(h)
	}
}

// Kill, Cut, Heal and Leave do to a process what their names say; they tell
// whether there is such a process.
func (s *Stage) Kill(name string) bool {
	return s.with(name, func(h *host) { s.w.say(h, "is killed"); s.w.kill(h) })
}

func (s *Stage) Cut(name string) bool {
	return s.with(name, func(h *host) { h.cutIn, h.cutOut = true, true })
}

func (s *Stage) Heal(name string) bool {
	return s.with(name, func(h *host) { s.w.reconnect(h) })
}

func (s *Stage) Leave(name string) bool {
	return s.with(name, func(h *host) { s.w.deliverSoon(h, core.Event{Kind: core.Leave}) })
}

func (s *Stage) with(name string, f func(*host)) bool {
	h := s.host(name)
	if h == nil || !h.up {
		return false
	}
	f(h)
	return true
}

// Settled tells what keeps the group from being at rest; "" if nothing.
func (s *Stage) Settled() string {
	if v := s.w.atRest(); v != nil {
		return v.Text
	}
	return ""
}

// Owners is one line per member: who leads, who owns what.
func (s *Stage) Owners() []string {
	var out []string
	p := s.w.store.plan.Plan
	for _, h := range s.w.hosts {
		if !h.up {
			continue
		}
		line := h.name + ":"
		if p != nil && p.Leader == h.node.Session() {
			line = h.name + " leads:"
		}
		var items []string
		for _, r := range h.runs {
			items = append(items, fmt.Sprintf("%s@%d", s.w.names[r.part], r.token.Counter()))
		}
		slices.SortFunc(items, natural)
		if len(items) == 0 {
			items = []string{"stands by"}
		}
		out = append(out, line+" "+strings.Join(items, " "))
	}
	return out
}

// Do runs one command of a scenario.
func (s *Stage) Do(c scenario.Command) error {
	if s.w.bad != nil {
		return nil // Seen will tell
	}
	switch c.Verb {
	case "group":
		return s.group(c.Args)
	case "member":
		return s.member(c.Args)
	case "join":
		for _, name := range c.Args {
			s.Join(name)
		}
		return nil
	case "stabilize":
		return s.stabilize()
	case "advance":
		d, err := duration(c.Args, 0)
		s.Advance(d)
		return err
	case "order":
		return s.order(c.Args)
	case "load":
		return s.load(c.Args)
	case "meter":
		s.w.meter.fails = len(c.Args) == 1 && c.Args[0] == "fails"
		return nil
	case "scaler":
		return s.setScaler(c.Args)
	case "store":
		return s.store(c.Args)
	case "declare":
		s.declare(c.Args)
		return nil
	case "land":
		s.land(c.Args)
		return nil
	case "who":
		for _, l := range s.Owners() {
			s.heard(seenLine{text: l})
		}
		return nil
	case "waits":
		s.waits()
		return nil
	case "records":
		for _, e := range s.w.store.members {
			s.heard(seenLine{text: fmt.Sprintf("%s is %s", s.w.nameOf(e.Session), e.Member.State)})
		}
		return nil
	}
	return s.toMembers(c)
}

// toMembers runs the commands that are about processes.
func (s *Stage) toMembers(c scenario.Command) error {
	w := s.w
	names, rest := c.Args, ""
	switch c.Verb {
	case "watch", "handler", "source", "begin", "requests", "answers", "reads", "listing":
		if len(c.Args) < 2 {
			return fmt.Errorf("wants a member and more")
		}
		names, rest = c.Args[:1], c.Args[1]
	case "cut", "leave":
		if n := len(names); n > 1 && (names[n-1] == "in" || names[n-1] == "out" || names[n-1] == "returning") {
			names, rest = names[:n-1], names[n-1]
		}
	}
	for _, name := range names {
		if c.Verb == "source" && name == "lists" {
			return s.lists(rest)
		}
		h := s.host(name)
		if h != nil && !h.up && (c.Verb == "cut" || c.Verb == "heal") {
			h.cutIn, h.cutOut = c.Verb == "cut", c.Verb == "cut" // whoever starts there is cut off
			continue
		}
		if h == nil || !h.up {
			return fmt.Errorf("no process called %q is up", name)
		}
		switch c.Verb {
		case "kill":
			w.mark(h, Crash)
			w.kill(h)
		case "bug":
			s.bug(h)
		case "prove":
			session := h.node.Session()
			w.kill(h)
			if l := w.leader(); l != nil {
				w.deliverSoon(l, core.Event{Kind: core.Proven, Session: session})
			}
		case "leave":
			h.leaves = true
			w.deliverSoon(h, core.Event{Kind: core.Leave, Returning: rest == "returning"})
		case "sigstop", "suspend":
			w.pause(h, c.Verb == "suspend")
		case "jump":
			w.deliverSoon(h, core.Event{Kind: core.Jumped})
		case "requests", "answers":
			return s.traffic(h, c.Verb, c.Args[1:])
		case "reads":
			h.noReads = rest == "fail"
		case "listing":
			h.hides = strings.TrimPrefix(rest, "without-")
			if rest == "works" {
				h.hides = ""
			}
		case "wake":
			w.wake(h)
		case "cut":
			h.cutIn, h.cutOut = rest != "out", rest != "in"
		case "heal":
			w.reconnect(h)
		case "watch":
			return s.watch(h, c.Args[1:])
		case "handler":
			return s.handler(h, c.Args[1:])
		case "source":
			h.fails, h.silent = rest == "fails" || rest == "refuses", rest == "silent"
			h.refuses = rest == "refuses"
			if rest == "stumbles" {
				w.stumble(h)
			}
		case "begin":
			return s.begin(h, rest)
		}
	}
	return nil
}

func duration(args []string, i int) (time.Duration, error) {
	if i >= len(args) {
		return 0, fmt.Errorf("wants a duration such as 4.5s")
	}
	return time.ParseDuration(args[i])
}

func (s *Stage) stabilize() error {
	w := s.w
	limit := w.now + int64(2*time.Minute)
	for w.bad == nil {
		s.Advance(10 * time.Millisecond)
		if s.Settled() == "" && s.quiet() {
			return nil
		}
		if w.now > limit {
			return fmt.Errorf("does not settle within two minutes: %s", s.Settled())
		}
	}
	return nil
}

// quiet: the leader waits for nothing either.
func (s *Stage) quiet() bool {
	w := s.w
	l, p := w.leader(), w.store.plan.Plan
	if l == nil || len(l.node.Waits()) > 0 || w.store.roster.Roster == nil || p.Roster != w.store.roster.Roster.Ver {
		return false
	}
	if o := w.store.orders.Orders; o != nil && o.Ver != p.Orders {
		return false
	}
	return !slices.ContainsFunc(w.hosts, func(h *host) bool { return h.up && h.leaves })
}

// waits shows the leader's wait set.
func (s *Stage) waits() {
	l := s.w.leader()
	if l == nil {
		return
	}
	for _, x := range l.node.Waits() {
		what := "for " + s.w.nameOf(x.Row.Owner) + " to start"
		switch x.Row.State {
		case record.Revoking:
			what = "for " + s.w.nameOf(x.Row.Owner) + " to stop, then goes to " + s.w.nameOf(x.Row.To)
		case record.Free:
			what = "to go to " + s.w.nameOf(x.Row.To)
		}
		if x.Stuck {
			what += ": stuck"
		}
		s.heard(seenLine{text: x.Name + " waits " + what})
	}
}
