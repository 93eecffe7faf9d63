package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/rule"
	"github.com/rota-dev/rota/internal/scenario"
)

// A Shrinker cuts a script that breaks a promise down to the shortest it finds
// that still does.
type Shrinker struct {
	Fails func(*Script) bool
	Tries int // at most so many; 0 means 20 000
	tried int
}

// Shrink cuts: lines, members, settings, partitions, times, again and again
// until nothing more can go.
func (k *Shrinker) Shrink(s Script) Script {
	if k.Tries == 0 {
		k.Tries = 20_000
	}
	best := s.clone()
	for {
		was := best.size()
		k.dropMembers(&best)
		k.dropLines(&best)
		k.dropSetup(&best)
		k.fewerPartitions(&best)
		k.tidyTimes(&best)
		if best.size() == was || k.tried >= k.Tries {
			return best
		}
	}
}

func (s *Script) clone() Script {
	c := *s
	c.Setup, c.Lines = slices.Clone(s.Setup), slices.Clone(s.Lines)
	return c
}

// size is what shrinking makes smaller: words, and digits of times.
func (s *Script) size() int {
	n := 0
	for _, c := range s.Setup {
		n += 1 + len(c.Args)
	}
	now := time.Duration(0)
	for _, l := range s.Lines {
		n += 10 * (1 + len(l.Args))
		n += len((l.At - now).String())
		now = l.At
	}
	return n
}

// try keeps c if it still fails.
func (k *Shrinker) try(best *Script, c Script) bool {
	if k.tried >= k.Tries {
		return false
	}
	k.tried++
	if !k.Fails(&c) {
		return false
	}
	*best = c
	return true
}

// dropLines drops many lines at a time, then fewer.
func (k *Shrinker) dropLines(best *Script) {
	for n := max(1, len(best.Lines)/2); n >= 1; n /= 2 {
		for at := 0; at < len(best.Lines); {
			c := best.clone()
			c.Lines = slices.Delete(c.Lines, at, min(at+n, len(c.Lines)))
			if !k.try(best, c) {
				at += n
			}
		}
	}
}

// dropMembers drops everything about one member.
func (k *Shrinker) dropMembers(best *Script) {
	var names []string
	for _, l := range best.Lines {
		if l.Verb == "join" {
			names = append(names, l.Args...)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Backward(slices.Compact(names)) {
		about := func(args []string) bool { return slices.Contains(args, name) }
		c := best.clone()
		c.Lines = slices.DeleteFunc(c.Lines, func(l Line) bool { return about(l.Args) })
		c.Setup = slices.DeleteFunc(c.Setup, func(x scenario.Command) bool { return about(x.Args) })
		k.try(best, c)
	}
}

// dropSetup drops settings, but for the number of partitions.
func (k *Shrinker) dropSetup(best *Script) {
	for i := len(best.Setup) - 1; i >= 0; i-- {
		for j := len(best.Setup[i].Args) - 1; j >= 0; j-- {
			if strings.HasPrefix(best.Setup[i].Args[j], "partitions=") {
				continue
			}
			c := best.clone()
			c.Setup[i].Args = slices.Delete(slices.Clone(c.Setup[i].Args), j, j+1)
			if n := len(c.Setup[i].Args); n == 0 || n == 1 && c.Setup[i].Verb == "member" {
				c.Setup = slices.Delete(c.Setup, i, i+1)
				k.try(best, c)
				break
			}
			k.try(best, c)
		}
	}
}

// fewerPartitions tries every smaller number, the smallest first. What is said
// about one that is gone is said about another.
func (k *Shrinker) fewerPartitions(best *Script) {
	for i, x := range best.Setup {
		j := slices.IndexFunc(x.Args, func(a string) bool { return strings.HasPrefix(a, "partitions=") })
		if x.Verb != "group" || j < 0 {
			continue
		}
		have, _ := strconv.Atoi(strings.TrimPrefix(x.Args[j], "partitions="))
		for n := 1; n < have; n++ {
			c := best.clone()
			c.Setup[i].Args = slices.Clone(x.Args)
			c.Setup[i].Args[j] = fmt.Sprintf("partitions=%d", n)
			for l := range c.Lines {
				c.Lines[l].Args = within(c.Lines[l].Args, n)
			}
			if k.try(best, c) {
				return
			}
		}
	}
}

func within(args []string, n int) []string {
	out := slices.Clone(args)
	for i, a := range out {
		if q, err := strconv.Atoi(strings.TrimPrefix(a, "q")); err == nil && strings.HasPrefix(a, "q") && q >= n {
			out[i] = partName(q % n)
		}
	}
	return out
}

// tidyTimes makes waits shorter and rounder.
func (k *Shrinker) tidyTimes(best *Script) {
	for i := range best.Lines {
		was := time.Duration(0)
		if i > 0 {
			was = best.Lines[i-1].At
		}
		gap := best.Lines[i].At - was
		if gap == 0 {
			continue
		}
		to := []time.Duration{0}
		for _, unit := range []time.Duration{time.Second, 100 * time.Millisecond, 10 * time.Millisecond, time.Millisecond} {
			to = append(to, gap.Truncate(unit), gap.Truncate(unit)+unit)
		}
		for _, d := range to {
			if len(d.String()) >= len(gap.String()) {
				continue
			}
			c := best.clone()
			for j := i; j < len(c.Lines); j++ {
				c.Lines[j].At += d - gap
			}
			if k.try(best, c) {
				break
			}
		}
	}
}

// Tell writes a script that breaks a promise as a scenario file. Where the lack of
// a rule is to blame, what is seen with the rule in is what the file wants.
// Otherwise it wants nothing yet: `go test ./internal/sim -run Scenarios -update`
// fills that in once the bug is mended.
func Tell(s *Script, title string, r rule.Rule) (string, error) {
	bad := s.without(r)
	if bad.Violation == nil {
		return "", fmt.Errorf("no promise is broken")
	}
	title += "\nIt breaks " + bad.Violation.Invariant + ": " + first(bad.Violation.Text)
	if r == rule.None {
		return s.whole(&bad).Text(title) + ending(s, &bad), nil
	}
	sc, err := scenario.Parse("shrunk", s.whole(&bad).Text(title, r)+ending(s, &bad))
	if err != nil {
		return "", err
	}
	return sc.Rewrite(NewStage(stageOptions()))
}

func first(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// stageOptions are how scenarios are played.
func stageOptions() Options { return Options{Partitions: 6} }

// without plays the script with a rule taken out, if there is one to take.
func (s *Script) without(r rule.Rule) Played {
	undo, _ := rule.Take(r)
	defer undo()
	return s.Play(stageOptions())
}

// whole is the script without what came too late, or had nobody to act on.
func (s *Script) whole(p *Played) *Script {
	c := s.clone()
	kept := c.Lines[:0]
	for i, l := range c.Lines {
		if !slices.Contains(p.Useless, i) && int64(l.At) <= p.Violation.At {
			kept = append(kept, l)
		}
	}
	c.Lines = kept
	return &c
}

// ending lets time pass until the promise is broken.
func ending(s *Script, p *Played) string {
	last := time.Duration(0)
	for _, l := range s.Lines {
		if int64(l.At) <= p.Violation.At {
			last = l.At
		}
	}
	if len(p.Closing) == 0 && !p.Rested {
		d := time.Duration(p.Violation.At) - last
		return fmt.Sprintf("advance %v\n", d.Truncate(100*time.Millisecond)+100*time.Millisecond)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "advance %v\n", tail)
	for _, c := range p.Closing {
		b.WriteString(c.String() + "\n")
	}
	b.WriteString("stabilize\n")
	return b.String()
}

// Shorten shrinks a script that breaks a promise: with the rule taken out and not
// with it in, or, if there is none, as the code is. If it can be told
// as a scenario, so can the short one.
func Shorten(s Script, r rule.Rule) (Script, bool) {
	v := s.without(r).Violation
	if v == nil {
		return s, false
	}
	fails := func(c *Script) bool {
		got := c.without(r).Violation
		return got != nil && got.Invariant == v.Invariant && (r == rule.None || c.without(rule.None).Violation == nil)
	}
	told := func(c *Script) bool {
		if !fails(c) {
			return false
		}
		_, err := Tell(c, "", r)
		return err == nil
	}
	k := Shrinker{Fails: fails}
	if told(&s) {
		k.Fails = told
	}
	return k.Shrink(s), true
}

// Shorten turns what noticed the lack of a rule into the shortest script found; ok
// is false if a random schedule cannot be told as one.
func (c *Catch) Shorten(r rule.Rule) (s Script, ok bool) {
	if c.Directed != nil {
		return Shorten(c.Directed.Script, r)
	}
	if c.Failure == nil {
		return s, false
	}
	return ShortenSeed(Options{Members: 4, Partitions: 6}, c.Failure.Seed, r)
}

// ShortenSeed does so for a random schedule.
func ShortenSeed(o Options, seed uint64, r rule.Rule) (Script, bool) {
	undo, ok := rule.Take(r)
	if !ok {
		return Script{}, false
	}
	defer undo()
	played := New(o).Play(seed)
	if played.Violation == nil {
		return Script{}, false
	}
	s, ok := Likeness(o, seed, 400, func(s *Script) bool {
		v := s.without(r).Violation
		return v != nil && v.Invariant == played.Violation.Invariant
	})
	if !ok {
		return s, false
	}
	return Shorten(s, r)
}
