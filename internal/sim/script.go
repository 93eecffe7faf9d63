package sim

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/check"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
	"github.com/rota-dev/rota/internal/scenario"
)

// A Script is a schedule without chance: commands of the scenario language at
// fixed instants. Directed generators make scripts, the shrinker cuts them, and
// a scenario file is one as soon as its waits have been timed. What is seen on
// the way does not matter, only the invariants do.
type Script struct {
	Setup []scenario.Command // what the group is like
	Lines []Line             // by time
	// Bursts: deaths of one instant are one reason for a plan. Not where
	// something keeps the leader from seeing them together.
	Bursts bool
	// Exact: after the store lost something everything is promised again at
	// once, as its author knows. Where chance or a generator struck, for three
	// leases only the sink is sure.
	Exact bool
	// Restless: it does not come to rest even without a fault, as when there is
	// no room for all partitions.
	Restless bool
}

// A Line is one command at its instant.
type Line struct {
	At time.Duration
	scenario.Command
}

// sorted puts lines in order; those of one instant stay as they are.
func (s *Script) sort() {
	slices.SortStableFunc(s.Lines, func(a, b Line) int { return cmp.Compare(a.At, b.At) })
}

// Played is what playing a script came to.
type Played struct {
	Steps     int
	Violation *check.Violation
	Useless   []int              // lines that had nobody to act on
	Closing   []scenario.Command // what had to be undone before it could rest
	Rested    bool               // it came so far that it should have rested
}

// tail is how long a script goes on after its last line before it is healed:
// long enough for a lease to run out and a late message to arrive.
const tail = 8 * time.Second

// Play plays the script and then heals what it left broken, whereupon everything
// has to come to rest. A handler that hangs is not healed: a group must get over
// it.
func (s *Script) Play(o Options) (p Played) { return s.play(o, nil) }

func (s *Script) play(o Options, marks *Marks) (p Played) {
	st := NewStage(o)
	st.w.hear = nil
	st.w.script = &scripted{bursts: s.Bursts, exact: s.Exact}
	if marks != nil {
		st.w.marks = marks
	}
	defer func() {
		if x := recover(); x != nil {
			p.Violation = &check.Violation{Invariant: "bug", At: st.w.now, Text: fmt.Sprintf("%v\n%s", x, debug.Stack())}
		}
		p.Steps = st.w.stats.Steps
	}()
	st.perform(s, &p)
	p.Violation = st.w.bad
	return p
}

func (s *Stage) perform(sc *Script, p *Played) {
	w := s.w
	for _, c := range sc.Setup {
		if s.Do(c) != nil {
			return
		}
	}
	for i, l := range sc.Lines {
		w.until(int64(l.At))
		if w.bad != nil {
			return
		}
		if err := s.Do(l.Command); err != nil {
			p.Useless = append(p.Useless, i)
			continue
		}
		s.trouble(l.Command)
	}
	w.until(w.now + int64(tail))
	if w.bad != nil {
		return
	}
	p.Closing = s.closing()
	for _, c := range p.Closing {
		if err := s.Do(c); err != nil {
			panic(fmt.Sprintf("closing: %s: %v", c, err)) // our own mistake
		}
	}
	if !sc.Restless {
		p.Rested = true
		w.rest()
	}
}

// trouble remembers what a command spoils, for rules that hold only where
// nothing was.
func (s *Stage) trouble(c scenario.Command) {
	switch c.Verb {
	case "store":
		s.w.script.spoiled = true
	case "bug":
		s.w.script.spoiled, s.w.script.bug = true, true
	case "kill":
		s.w.script.kill(s.w, c.Args)
	case "join", "order", "begin", "land":
	default:
		for _, name := range c.Args {
			if h := s.host(name); h != nil {
				h.troubled = true
			}
		}
	}
}

// closing is what it takes to end all faults that are still on.
func (s *Stage) closing() []scenario.Command {
	var out []scenario.Command
	undo := func(verb string, args ...string) {
		out = append(out, scenario.Command{Verb: verb, Args: args})
	}
	st := &s.w.store
	if st.stall > s.w.now || st.refuse {
		undo("store", "works")
	}
	if o := st.orders.Orders; o != nil {
		for _, name := range o.Drains {
			undo("order", "undrain", name)
		}
		for _, p := range o.Pins {
			undo("order", "unpin", p.Partition)
		}
		for _, p := range o.Bans {
			undo("order", "unban", p.Partition, p.Member)
		}
		if o.Freeze {
			undo("order", "thaw")
		}
	}
	if s.w.script.bug {
		undo("order", "thaw")
	}
	for _, h := range s.w.hosts {
		if !h.up {
			continue
		}
		if h.watchDrops || h.watchLate > 0 {
			undo("watch", h.name, "works")
		}
		if h.outLate > 0 || h.outLost {
			undo("requests", h.name, "works")
		}
		if h.inLate > 0 || h.inLost {
			undo("answers", h.name, "works")
		}
		if h.noReads {
			undo("reads", h.name, "work")
		}
		if h.hides != "" {
			undo("listing", h.name, "works")
		}
		if h.fails || h.silent {
			undo("source", h.name, "works")
		}
		if h.cutIn || h.cutOut {
			undo("heal", h.name)
		}
		if h.paused {
			undo("wake", h.name)
		}
	}
	return out
}

// scripted is what a world knows of the script it plays.
type scripted struct {
	bursts  bool
	exact   bool
	spoiled bool // the store itself has suffered
	bug     bool // a leader ended on one: the next wants an order
	killed  map[record.Session]int32
	instant int64
	burst   int32
	news    int32                             // the burst of all deaths since the last plan, or otherNews
	points  func(w *World, h *host, it *item) // sees everything that happens
}

func (s *scripted) met(w *World, h *host, it *item) {
	if s.points != nil {
		s.points(w, h, it)
	}
}

// kill notes who dies at which instant.
func (s *scripted) kill(w *World, names []string) {
	if w.now > s.instant+ms(20) || s.burst == 0 {
		s.instant = w.now
		s.burst++
	}
	if s.killed == nil {
		s.killed = map[record.Session]int32{}
	}
	for _, h := range w.hosts {
		if slices.Contains(names, h.name) && h.node != nil {
			s.killed[h.node.Session()] = s.burst
		}
	}
}

// otherNews: more has happened since the last plan than deaths of one instant.
const otherNews = -1

// changed is called when a member has come to life or is live no more. A death
// must be planned for in time.
func (s *scripted) changed(w *World, m *record.Member) {
	b := s.killed[m.Session]
	if m.State != record.Dead || b == 0 || s.news != 0 && s.news != b {
		b = otherNews
	}
	s.news = b
	if l := w.leader(); l != nil && m.State == record.Dead {
		w.push(w.now+int64(patience), item{kind: evOverdue, call: uint32(l.index), epoch: l.epoch, ev: core.Event{Session: m.Session}})
	}
}

// planned is I5 for deaths of one instant: if nothing else happened, one plan is
// made for all of them.
func (s *scripted) planned(w *World, was, p *record.Plan) {
	news := s.news
	s.news = 0
	if !s.bursts || news <= 0 {
		return
	}
	for _, gone := range was.Members {
		if slices.Contains(p.Members, gone) {
			continue
		}
		for _, left := range p.Members {
			if !slices.Contains(was.Members, left) {
				continue // it comes in with this plan, and whether it lives is not known yet
			}
			if s.killed[gone] == news && s.killed[left] == news {
				w.fail("I5", "%s and %s died at one instant, and plan %d is made for the first alone", w.nameOf(gone), w.nameOf(left), p.ID)
			}
		}
	}
}

// mostSteps is more than any script takes in which members do not chase their
// own tails.
const mostSteps = 20_000

// patience is how long a dead member may stay in the plan of a leader whom
// nothing ails: until every suspect has expired, and the distance of eager plans
// after that.
const patience = 12 * time.Second

// overdue asks whether a death has been planned for.
func (w *World) overdue(it *item) {
	l, p := w.hosts[it.call], w.store.plan.Plan
	if !l.up || l.epoch != it.epoch || l.troubled || w.script.spoiled || p == nil || p.Hold || p.Leader != l.node.Session() {
		return
	}
	if slices.Contains(p.Members, it.ev.Session) {
		w.fail("L1", "%s has been dead for %v and is still in the plan", w.nameOf(it.ev.Session), patience)
	}
}

// overstayed is I1 for handlers that ask nobody: whoever is not frozen has
// stopped by itself before another is granted what it ran.
func (w *World) overstayed(part, owner int32) {
	if w.now < w.blind {
		return
	}
	for _, h := range w.hosts {
		if !h.up || h.paused || h.who == owner || w.now < h.woke+ms(5) || worksOn(h) {
			continue
		}
		for _, r := range h.runs {
			if r.part == part {
				w.fail("I1", "%s is granted to %s while %s still runs it", w.names[part], w.checks.Who(owner), h.name)
			}
		}
	}
}

func (w *World) fail(invariant, format string, args ...any) {
	if w.bad == nil {
		w.bad = &check.Violation{Invariant: invariant, At: w.now, Text: fmt.Sprintf(format, args...)}
	}
}

// Text writes the script in the scenario language, without what is to be seen.
func (s *Script) Text(title string, catches ...rule.Rule) string {
	var b strings.Builder
	for line := range strings.Lines(title) {
		b.WriteString("# " + strings.TrimSpace(line) + "\n")
	}
	for _, c := range s.Setup {
		b.WriteString(c.String() + "\n")
	}
	if len(catches) > 0 {
		b.WriteString("catches")
		for _, r := range catches {
			b.WriteString(" " + r.String())
		}
		b.WriteString("\n")
	}
	now := time.Duration(0)
	for i, l := range s.Lines {
		if l.At > now {
			fmt.Fprintf(&b, "advance %v\n", l.At-now)
			if i > 0 && l.At-now >= time.Second {
				b.WriteString("----\n")
			}
			now = l.At
		}
		if i > 0 && s.merges(i) {
			text := strings.TrimSuffix(b.String(), "\n")
			b.Reset()
			b.WriteString(text + " " + strings.Join(l.Args, " ") + "\n")
			continue
		}
		b.WriteString(l.Command.String() + "\n")
	}
	return b.String()
}

// merges: line i can share the line of the one before it.
func (s *Script) merges(i int) bool {
	a, b := s.Lines[i-1], s.Lines[i]
	return a.At == b.At && a.Verb == b.Verb && slices.Contains([]string{"join", "kill", "wake", "sigstop", "suspend"}, a.Verb)
}
