package rotatest

import (
	"fmt"

	"github.com/rota-dev/rota"
)

// This is a checker for linearizability of our own, although porcupine exists: the
// root module may require no other module, and the suites for drivers are part of it.
// test/porcupine_test.go, in a module that may require porcupine, gives both checkers
// the same histories, good and bad ones, and fails if they disagree.

// judgeCell judges the history of one cell. Linearizability is hard to check in
// general, and simple with revisions: a write names the version it replaced, so the
// successful writes form chains, each from a creation to a deletion, and every read
// belongs to the version it found. It remains to check that the calls can have
// happened in that order (cell.chain), and that the chains can have followed each
// other (apart). A refused write belongs to no version, so histories with refusals
// need a search for an order (search).
func judgeCell(ops []*op) error {
	c := &cell{byRev: map[rota.Rev]*op{}, byValue: map[string]*op{}, next: map[rota.Rev]*op{}, reads: map[rota.Rev][]*op{}}
	for _, o := range ops {
		own := *o // a copy, since resolve changes it
		c.ops = append(c.ops, &own)
	}
	for _, step := range []func() error{c.collect, c.resolve, c.link, c.linkUnknown, c.order, c.refusals, c.search} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// cell is one cell's history, filled in step by step.
type cell struct {
	ops     []*op
	byRev   map[rota.Rev]*op   // the write that made a revision
	byValue map[string]*op     // the write of a value, whatever its outcome
	next    map[rota.Rev]*op   // the write or deletion that replaced a revision
	reads   map[rota.Rev][]*op // the reads that found a revision
}

// collect indexes the writes by value and revision.
func (c *cell) collect() error {
	for _, o := range c.ops {
		if o.verb != put {
			continue
		}
		if twin := c.byValue[o.value]; twin != nil {
			return fmt.Errorf("a value was written twice, which cannot be judged: %v; %v", twin, o)
		}
		c.byValue[o.value] = o
		if o.end != done {
			continue
		}
		if o.rev == 0 {
			return fmt.Errorf("a write got revision 0: %v", o)
		}
		if twin := c.byRev[o.rev]; twin != nil {
			return fmt.Errorf("two writes got one revision: %v; %v", twin, o)
		}
		c.byRev[o.rev] = o
	}
	return nil
}

// resolve finds the write that each read found, and thereby the writes of unknown
// outcome that have happened. A write of unknown outcome that no read found can be
// ignored: no client knows its revision, so no call can depend on it.
func (c *cell) resolve() error {
	for _, o := range c.ops {
		if o.verb != get || o.end != done {
			continue
		}
		w := c.byRev[o.rev]
		if w == nil {
			if w = c.byValue[o.value]; w == nil {
				return fmt.Errorf("a read of a value that nobody wrote: %v", o)
			}
			switch {
			case w.end == conflict:
				return fmt.Errorf("a refused write has happened: %v; %v", w, o)
			case w.end == done || w.rev != 0 || o.rev == 0:
				return fmt.Errorf("a read of a value at another revision than its own: %v; %v", w, o)
			}
			w.rev = o.rev
			c.byRev[o.rev] = w
		}
		if w.value != o.value {
			return fmt.Errorf("a read of another value than was written: %v; %v", w, o)
		}
		c.reads[o.rev] = append(c.reads[o.rev], o)
	}
	return nil
}

// happened tells whether the write certainly happened.
func (o *op) happened() bool { return o.end == done || o.verb == put && o.end == unknown && o.rev != 0 }

// link joins each write to the one it replaced.
func (c *cell) link() error {
	for _, o := range c.ops {
		if o.verb == get || !o.happened() || o.verb == put && o.prev == 0 {
			continue
		}
		if c.byRev[o.prev] == nil {
			return fmt.Errorf("a write over a revision that nobody wrote: %v", o)
		}
		if other := c.next[o.prev]; other != nil {
			return fmt.Errorf("a fork: two writes over one revision: %v; %v", other, o)
		}
		c.next[o.prev] = o
	}
	return nil
}

// linkUnknown lets a deletion of unknown outcome end a chain that has no other end. It
// has no return time, so it may also have happened after everything else, which no
// call can tell from never. Of several such deletions the earliest permits the most
// orders.
func (c *cell) linkUnknown() error {
	for _, o := range c.ops {
		if o.verb != del || o.end != unknown || c.byRev[o.prev] == nil {
			continue
		}
		if other := c.next[o.prev]; other == nil || other.verb == del && other.end == unknown && o.call < other.call {
			c.next[o.prev] = o
		}
	}
	return nil
}

// A chain is a part of the history that no other call can interrupt: the versions of
// the cell from a creation to a deletion, or one read that found nothing.
type chain struct {
	first    *op
	firstRet int64 // the first return in it: the chain began before that
	lastCall int64 // the last call in it: the chain ended after that
}

// order builds the chains and checks that they can have followed each other.
func (c *cell) order() error {
	var chains []chain
	linked := 0
	for _, o := range c.ops {
		switch {
		case o.verb == get && o.end == missing:
			chains = append(chains, chain{o, o.ret, o.call})
		case o.verb == put && o.prev == 0 && o.happened():
			ch, n, err := c.chain(o)
			if err != nil {
				return err
			}
			chains = append(chains, ch)
			linked += n
		}
	}
	if linked != len(c.byRev) {
		return fmt.Errorf("%d writes form a circle, without a creation", len(c.byRev)-linked)
	}
	return apart(chains)
}

// chain follows the versions from a creation on, with the reads of each. Such an order
// is possible if no call in it began after a later one had returned.
func (c *cell) chain(create *op) (ch chain, writes int, err error) {
	ch = chain{create, forever, 0}
	latest := create // of the calls so far, the one that began last
	step := func(o *op) error {
		if latest.call > o.ret {
			return fmt.Errorf("out of order: %v; but before it in the cell's history comes %v", o, latest)
		}
		ch.firstRet, ch.lastCall = min(ch.firstRet, o.ret), max(ch.lastCall, o.call)
		return nil
	}
	later := func(o *op) {
		if o.call > latest.call {
			latest = o
		}
	}
	for o := create; o != nil; o = c.next[o.rev] {
		if err := step(o); err != nil {
			return ch, writes, err
		}
		later(o)
		if o.verb == del {
			return ch, writes, nil
		}
		writes++
		for _, r := range c.reads[o.rev] { // among themselves in any order
			if err := step(r); err != nil {
				return ch, writes, err
			}
		}
		for _, r := range c.reads[o.rev] {
			later(r)
		}
	}
	ch.lastCall = forever // never deleted
	return ch, writes, nil
}

// apart checks that the chains can have followed each other. Two can if all calls of
// one began before any call of the other returned. If every two can, all can (Gibbons
// and Korach 1997: zones).
func apart(chains []chain) error {
	for i, a := range chains {
		for _, b := range chains[:i] {
			if a.lastCall > b.firstRet && b.lastCall > a.firstRet {
				return fmt.Errorf("neither can have come before the other: %s; %s", a.describe(), b.describe())
			}
		}
	}
	return nil
}

func (ch *chain) describe() string {
	if ch.first.verb == get {
		return ch.first.String()
	}
	if ch.lastCall == forever {
		return fmt.Sprintf("the chain that begins with %v and was never deleted", ch.first)
	}
	return fmt.Sprintf("the chain that begins with %v and was still there at %d", ch.first, ch.lastCall)
}

// refusals finds writes that were refused although the cell was at the revision they
// named from before the call until after the return.
func (c *cell) refusals() error {
	earliest := map[rota.Rev]int64{} // the earliest time at which a revision may have been replaced
	for _, o := range c.ops {
		if at, ok := earliest[o.prev]; o.verb != get && o.end != conflict && (!ok || o.call < at) {
			earliest[o.prev] = o.call
		}
	}
	for _, o := range c.ops {
		if o.end != conflict || c.byRev[o.prev] == nil {
			continue
		}
		at, replaced := earliest[o.prev]
		begun, lasted := false, !replaced || at > o.ret
		for _, x := range append(c.reads[o.prev], c.byRev[o.prev]) {
			begun = begun || x.ret < o.call
			lasted = lasted || x.call > o.ret
		}
		if begun && lasted {
			return fmt.Errorf("refused though nothing had changed: %v; %v", c.byRev[o.prev], o)
		}
	}
	return nil
}
