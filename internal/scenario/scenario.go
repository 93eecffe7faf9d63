// Package scenario holds stories about groups: what happens to the members, and
// what must come of it. A story is a text file that reads like the document it
// comes from. The simulator plays it with bare cores, and whole members, in
// virtual time or as real processes, can play the same files.
//
// A file is a series of blocks. A block is commands, a line of four dashes, and
// what is seen while they run:
//
//	join c1 c2
//	stabilize
//	----
//	c1 leads
//	plan 1 (joined, roster; 0 moves)  c1: q0 q1  c2: q2 q3
//	c1 starts q0@1 q1@1
//	c2 starts q2@1 q3@1
//
// A line belongs to the commands if its first word is a verb (see Verbs). What
// is seen is compared as a set: what happens within a millisecond has no order
// that all players could agree on. What must come after what is the checkers'
// affair, and a new block's. Everything after a # is a comment.
package scenario

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rota-dev/rota/internal/rule"
)

//go:embed files/*.txt
var files embed.FS

// A Scenario is one file.
type Scenario struct {
	Name    string      // of the file, without its ending
	Catches []rule.Rule // that it must fail without
	AsIs    string      // why no fault more may strike it; "" if any may
	Blocks  []Block
	text    string
}

// A Block is commands and what is seen while they run.
type Block struct {
	Commands []Command
	Want     []string
	first    int // line of the first wanted line
	last     int // line after the last
	comments map[string]string
}

// A Command is one line of a block.
type Command struct {
	Verb string
	Args []string
	Line int
}

func (c Command) String() string { return strings.Join(append([]string{c.Verb}, c.Args...), " ") }

// Verbs are what a scenario can ask for.
var Verbs = map[string]string{
	"group":     "KEY=VALUE…: settings of the group, before anything else (partitions, strategy, mode, lease, heartbeat, stop-time, orphan, return, grace, fresh, class, rejoin, abort=returns, failures)",
	"member":    "NAME KEY=VALUE…: settings of one member (lease, heartbeat, limit; took, how long it takes to open the store)",
	"catches":   "RULE…: without which this scenario must fail",
	"as-is":     "WHY: it stands at a documented limit, where one fault more breaks a promise: no directed schedules",
	"join":      "NAME…: start processes; NAME/2 is a second one under the same name",
	"stabilize": "let time pass until everything is owned and running",
	"advance":   "DURATION: let time pass",
	"kill":      "NAME…: SIGKILL, all at one instant",
	"prove":     "NAME: SIGKILL, and the kernel's proof of death for the leader",
	"leave":     "NAME… [returning]: SIGTERM",
	"sigstop":   "NAME…: the process stands still",
	"wake":      "NAME…: SIGCONT, or the end of a suspend",
	"suspend":   "NAME…: the machine sleeps",
	"jump":      "NAME: its host's clocks disagree",
	"requests":  "NAME works|late DURATION|lost: what it sends to the store",
	"answers":   "NAME works|late DURATION|lost: what the store answers it",
	"reads":     "NAME work|fail: its reads, writes work all the same",
	"listing":   "NAME without-NAME|works: its listings lack a member",
	"load":      "PARTITION|all SPEED: so much arrives per second from now on",
	"meter":     "fails|works: the source can or cannot count arrivals",
	"scaler":    "works|fails|hangs: what becomes of a call to the Scaler",
	"waits":     "show the leader's wait set",
	"cut":       "NAME… [in|out]: no traffic with the store, or one way only; also for a process that is still to start",
	"heal":      "NAME…: the traffic flows again",
	"watch":     "NAME drops|works|late DURATION: what watches show",
	"handler":   "NAME works|slow DURATION|hangs|stubborn: how handlers stop",
	"source":    "NAME fails|refuses|works|stumbles|silent: it fails starts, fails them for another reason, works, fails once, does not list; or: source lists N",
	"begin":     "NAME PARTITION: a handler begins an effect on a sink that checks tokens",
	"land":      "[NAME…]: the effects that are under way, or those of some, reach the sink",
	"order":     "pause|resume|remove|add|pin|unpin|ban|unban|drain|undrain|freeze|thaw|set …: an operator's order",
	"store":     "stalls DURATION|loses DURATION|loses plan DURATION|loses roster DURATION|loses orders DURATION|deletes NAME|wears PARTITION|becomes ID|refuses plans|works",
	"declare":   "NAME…: an operator's word that the process is gone for good",
	"bug":       "NAME: the member ends on a bug, having stopped everything",
	"who":       "show who owns what",
	"records":   "show the members' records",
}

// All returns every embedded scenario, by name.
func All() ([]*Scenario, error) {
	names, err := fs.Glob(files, "files/*.txt")
	if err != nil {
		return nil, err
	}
	var all []*Scenario
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s, err := Parse(strings.TrimSuffix(path.Base(name), ".txt"), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Parse reads a scenario.
func Parse(name, text string) (*Scenario, error) {
	s := &Scenario{Name: name, text: text}
	var b *Block
	wanting := false
	for i, raw := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		line, comment, _ := strings.Cut(raw, "#")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case words[0] == "----" && len(words) > 1:
			return nil, fmt.Errorf("%s:%d: %q behind ----: what is seen begins on the next line", name, i+1, words[1])
		case words[0] == "----":
			if b == nil || wanting {
				return nil, fmt.Errorf("%s:%d: ---- without commands before it", name, i+1)
			}
			wanting = true
			b.first, b.last = i+1, i+1
			continue
		case words[0] == "catches":
			for _, name := range words[1:] {
				r, err := rule.Named(name)
				if err != nil {
					return nil, fmt.Errorf("%s:%d: catches: %w", s.Name, i+1, err)
				}
				s.Catches = append(s.Catches, r)
			}
			continue
		case words[0] == "as-is":
			s.AsIs = strings.Join(words[1:], " ")
			continue
		case Verbs[words[0]] != "":
			if b == nil || wanting {
				s.Blocks = append(s.Blocks, Block{comments: map[string]string{}})
				b, wanting = &s.Blocks[len(s.Blocks)-1], false
			}
			b.Commands = append(b.Commands, Command{words[0], words[1:], i + 1})
			b.first, b.last = i+1, i+1
			continue
		case !wanting:
			return nil, fmt.Errorf("%s:%d: unknown verb %q; known are %s", name, i+1, words[0], strings.Join(verbNames(), ", "))
		}
		want := tidy(line)
		b.Want = append(b.Want, want)
		b.last = i + 1
		if comment != "" {
			b.comments[want] = strings.TrimSpace(comment)
		}
	}
	if len(s.Blocks) == 0 {
		return nil, fmt.Errorf("%s: no commands", name)
	}
	return s, nil
}

func verbNames() []string {
	var names []string
	for v := range Verbs {
		names = append(names, v)
	}
	slices.Sort(names)
	return names
}

// tidy makes lines comparable: one space between words, two where a new part
// begins.
func tidy(line string) string { return strings.Join(strings.Fields(line), " ") }

// A World is whatever plays a scenario.
type World interface {
	// Do runs one command.
	Do(Command) error
	// Seen returns what was seen since the last call, in order, and whether a
	// promise was broken.
	Seen() ([]string, error)
}

// Run plays s on w. It returns the first difference as an error.
func (s *Scenario) Run(w World) error {
	for i := range s.Blocks {
		b := &s.Blocks[i]
		got, err := b.run(s.Name, w)
		if err != nil {
			return err
		}
		if d := difference(b.Want, got); d != "" {
			return fmt.Errorf("%s:%d: after %q:\n%s", s.Name, b.Commands[0].Line, b.Commands[len(b.Commands)-1], d)
		}
	}
	return nil
}

func (b *Block) run(name string, w World) ([]string, error) {
	for _, c := range b.Commands {
		if err := w.Do(c); err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", name, c.Line, c, err)
		}
	}
	got, err := w.Seen()
	if err != nil {
		return got, fmt.Errorf("%s:%d: %w\nseen so far:\n%s", name, b.Commands[0].Line, err, indent(got))
	}
	return got, nil
}

// difference says what is missing and what is too much.
func difference(want, got []string) string {
	var out strings.Builder
	w, g := sorted(want), sorted(got)
	for len(w) > 0 || len(g) > 0 {
		switch {
		case len(g) == 0 || len(w) > 0 && w[0] < g[0]:
			fmt.Fprintf(&out, "\tmissing: %s\n", w[0])
			w = w[1:]
		case len(w) == 0 || g[0] < w[0]:
			fmt.Fprintf(&out, "\tseen:    %s\n", g[0])
			g = g[1:]
		default:
			w, g = w[1:], g[1:]
		}
	}
	return out.String()
}

func sorted(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = tidy(l)
	}
	slices.Sort(out)
	return out
}

func indent(lines []string) string {
	return "\t" + strings.Join(lines, "\n\t")
}

// Rewrite plays s on w and returns its text with what was really seen; comments
// on lines that are still seen are kept.
func (s *Scenario) Rewrite(w World) (string, error) {
	lines := strings.Split(strings.TrimSuffix(s.text, "\n"), "\n")
	var out []string
	at := 0
	for i := range s.Blocks {
		b := &s.Blocks[i]
		got, err := b.run(s.Name, w)
		if err != nil {
			return "", err
		}
		head := lines[at:b.first]
		out = append(out, head...)
		if len(got) > 0 && strings.TrimSpace(head[len(head)-1]) != "----" {
			out = append(out, "----")
		}
		for _, g := range got {
			if c := b.comments[tidy(g)]; c != "" {
				g += "  # " + c
			}
			out = append(out, g)
		}
		at = b.last
	}
	out = append(out, lines[at:]...)
	return strings.Join(out, "\n") + "\n", nil
}
