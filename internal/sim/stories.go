package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/scenario"
)

// Stories are faults that need more than one stroke: each is one theme, played
// at every member of every scenario.

func (b *Base) stories() []Strike {
	var all []Strike
	for _, s := range b.starts {
		all = append(all, s.deaf())
		if !b.forgets() {
			all = append(all, s.unequal())
		}
	}
	for _, c := range b.cells {
		if c.plan && len(c.up) >= 5 {
			all = append(all, c.flap())
		}
	}
	if b.quiet {
		all = append(all, b.tardy()...)
	}
	for i := range b.last {
		p := &b.last[i]
		if len(p.runs) > 0 {
			all = append(all, b.reorder(p), b.wipe(p), b.forget(p))
		}
	}
	return all
}

// forgets tells whether the store loses everything. Then nobody can know how long the leases
// were that it knew of, so leases that differ are at a documented limit (docs/guarantees.md).
func (b *Base) forgets() bool {
	return slices.ContainsFunc(b.Lines, func(l Line) bool {
		return l.Verb == "store" && l.Args[0] == "loses" && len(l.Args) == 2
	})
}

// a story is lines at offsets from its beginning.
func story(kind, host string, at time.Duration, text string) Strike {
	s := Strike{Kind: kind, At: at, Host: host}
	for row := range strings.Lines(text) {
		words := strings.Fields(row)
		if len(words) == 0 {
			continue
		}
		d, err := time.ParseDuration(words[0])
		if err != nil {
			panic(err) // our own mistake
		}
		s.add = append(s.add, line(at+d, strings.Join(words[1:], " ")))
	}
	return s
}

// deaf: a member beats and hears nothing. What is taken from it is not given to
// anybody until it has been evicted and its lease is over.
func (s startPoint) deaf() Strike {
	return story("deaf", s.host, s.at, fmt.Sprintf(`
		1ms watch %[1]s drops
		1ms reads %[1]s fail
		2ms order drain %[1]s
		45s watch %[1]s works
		45s reads %[1]s work`, s.host))
}

// unequal: a member whose lease is longer than the others' is cut off.
func (s startPoint) unequal() Strike {
	k := story("unequal", s.host, s.at, fmt.Sprintf(`
		1500ms cut %[1]s
		11s heal %[1]s`, s.host))
	k.setup = []scenario.Command{{Verb: "member", Args: []string{s.host, "lease=9s"}}}
	return k
}

// flap: one dies, and three others are silent in turns, each for not quite as
// long as would make them dead.
func (c *cellPoint) flap() Strike {
	const turn = 1400 * time.Millisecond
	var b strings.Builder
	fmt.Fprintf(&b, "%v kill %s\n", 2*turn, c.up[1])
	unsteady := c.up[len(c.up)-3:]
	for i, name := range unsteady {
		fmt.Fprintf(&b, "%v sigstop %s\n", time.Duration(i)*turn, name)
	}
	for i := range 15 {
		at, name := time.Duration(i+2)*turn, unsteady[i%3]
		fmt.Fprintf(&b, "%v wake %s\n%v sigstop %s\n", at, name, at+10*time.Millisecond, name)
	}
	for _, name := range unsteady {
		fmt.Fprintf(&b, "%v wake %s\n", 17*turn, name)
	}
	return story("flap", c.up[1], c.at, b.String())
}

// tardy: two die together that beat at the same instants, one just before its
// beat, the other just after it, and that last beat was as late as a healthy one
// can be. The silence of the second becomes W just when it would be dropped from
// the suspects of the first.
func (b *Base) tardy() []Strike {
	const beat = 2 * time.Second
	var all []Strike
	for i := range b.last {
		for j := range b.last {
			x, y := &b.last[i], &b.last[j]
			if i == j || (x.lease-y.lease)%beat != 0 {
				continue
			}
			at := x.lease - 5*time.Second // a beat of both
			for at < b.end+beat {
				at += beat
			}
			all = append(all, story("tardy", x.host+"+"+y.host, at, fmt.Sprintf(`
				-1s requests %[2]s late 600ms
				-10ms kill %[1]s
				1ms kill %[2]s`, x.host, y.host)))
		}
	}
	return all
}

// reorder: a partition is removed, another comes, and the first returns.
func (b *Base) reorder(p *point) Strike {
	return story("reorder", p.host, b.end, fmt.Sprintf(`
		1s order remove %[1]s
		2s order add another
		3s order add %[1]s`, p.runs[0]))
}

// wipe: the store loses everything while a member is cut off, and a new one
// finds it empty.
func (b *Base) wipe(p *point) Strike {
	k := story("wipe", p.host, b.end, fmt.Sprintf(`
		3s cut %[1]s
		3001ms store loses 10m
		5500ms join newcomer
		15s heal %[1]s`, p.host))
	k.exact = true
	return k
}

// forget: the store loses its newest plans, and a member that can only write
// does not learn of it. What it acknowledged once means nothing now.
func (b *Base) forget(p *point) Strike {
	return story("forget", p.host, b.end, fmt.Sprintf(`
		1000ms order pause %[2]s
		1400ms order resume %[2]s
		1800ms order pause %[2]s
		2200ms order resume %[2]s
		3000ms reads %[1]s fail
		3000ms watch %[1]s drops
		3001ms store loses plan 1500ms
		3002ms order set %[2]s seen=1
		4000ms join newcomer
		19s order drain %[1]s
		25s watch %[1]s works
		25s reads %[1]s work`, p.host, p.runs[0]))
}
