// Package check judges histories: what members did, what the store held and
// what a sink accepted, in the order it happened. There is one checker per
// invariant, and the same code judges simulated runs, tests and event files of
// real processes.
//
//	I1  at most one member runs a partition with a valid lease, and nobody
//	    begins an effect without one
//	I2  a sink that checks tokens never accepts a lower one after a higher one,
//	    nor one token from two sessions
//	I3  tokens of a partition strictly grow
//	I4  a free partition runs nowhere, and whoever runs one is its owner
//	I5  there are no more plans than reasons for plans
//	I6  eager: when something is granted nobody consumes
//	I7  one start per grant and resume
//	L1  after faults end, every partition is owned and running and the plan
//	    names the members that live
//
// Partitions and sessions are numbered by the caller: by name, not by ID, for
// an ID that came to mean another name is one of the things to be caught.
package check

import (
	"fmt"
	"slices"

	"github.com/rota-dev/rota/internal/record"
)

// Kind says what happened.
type Kind uint8

const (
	Start    Kind = iota // Who runs Part@Token from now on
	Stop                 // Who runs Part no more
	Lease                // Who trusts its ownerships until Until
	Resume               // Who may start again what it ran: lease back, or a failed start retried
	Gone                 // Who's process is gone, and all it ran
	Row                  // the store's plan says of Part: State, Owner = Who, Token
	Plan                 // the store's plan has a new ID; Eager
	Change               // something a plan may answer; Burst tells which belong together
	Act                  // Who begins an effect on Part@Token
	Accept               // the sink accepted an effect on Part@Token by Who
	Refuse               // the sink refused one
	Rollback             // the store lost acknowledged writes; until Until, or Sure, only I2 is asked
	Sure                 // a later incarnation has ended its hold: everything is promised again, to all
)

// An Event is one line of a history. At is on one clock for all.
type Event struct {
	Kind  Kind
	State record.RowState
	Eager bool
	Who   int32
	Part  int32
	Burst int32
	At    int64
	Until int64
	Token record.Token
}

// Nobody is the Who of a free row.
const Nobody int32 = -1

// A Violation is a broken promise.
type Violation struct {
	Invariant string
	At        int64
	Text      string
}

func (v *Violation) Error() string { return v.Invariant + ": " + v.Text }

// A Checker takes a history event by event and says when it breaks.
type Checker struct {
	Who, Part func(int32) string // names for texts; numbers if nil

	members []member
	parts   []part
	blind   int64 // until then only I2 is asked: the store lost writes
	rolled  bool  // it did: tokens and plans may repeat what nobody alive remembers, so I3 and I5 are not asked again
	plans   int
	reasons int
	bursts  []int32
	found   *Violation
}

type member struct {
	lease   int64
	resumes int
}

type part struct {
	runs []started
	row  row
	high record.Token // highest token granted
	sink struct {
		token record.Token
		who   int32
		any   bool
	}
	last []started // newest start per session
}

type started struct {
	who     int32
	token   record.Token
	resumes int
}

type row struct {
	state record.RowState
	owner int32
	token record.Token
}

// Reset makes the checker ready for another history of the given size.
func (c *Checker) Reset(members, parts int) {
	*c = Checker{Who: c.Who, Part: c.Part, members: resize(c.members, members), parts: c.parts, bursts: c.bursts[:0]}
	for len(c.parts) < parts {
		c.parts = append(c.parts, part{})
	}
	c.parts = c.parts[:parts]
	for i := range c.parts {
		p := &c.parts[i]
		*p = part{runs: p.runs[:0], last: p.last[:0], row: row{owner: Nobody}}
	}
}

// Grow makes room for partitions that came up on the way.
func (c *Checker) Grow(parts int) {
	for len(c.parts) < parts {
		c.parts = append(c.parts, part{row: row{owner: Nobody}})
	}
}

func resize(s []member, n int) []member {
	if cap(s) < n {
		return make([]member, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// See takes the next event and returns the violation it completes, if any.
// After the first violation nothing more is judged.
func (c *Checker) See(e Event) *Violation {
	if c.found != nil {
		return c.found
	}
	for int(e.Who) >= len(c.members) {
		c.members = append(c.members, member{})
	}
	switch e.Kind {
	case Start:
		c.start(&e)
	case Stop:
		c.stop(e.Who, &c.parts[e.Part])
	case Gone:
		for i := range c.parts {
			c.stop(e.Who, &c.parts[i])
		}
		c.members[e.Who].lease = 0
	case Lease:
		c.members[e.Who].lease = e.Until
		c.exclusive(&e, e.Who)
	case Resume:
		c.members[e.Who].resumes++
	case Row:
		c.rowChanged(&e)
	case Plan:
		c.planned(&e)
	case Change:
		c.change(&e)
	case Act:
		if e.At >= c.blind && !c.valid(e.Who, e.At) {
			c.fail("I1", e.At, "%s begins an effect on %s@%s after the end of its lease", c.who(e.Who), c.part(e.Part), e.Token)
		}
	case Accept:
		c.accept(&e)
	case Rollback:
		c.rolled, c.blind = true, max(c.blind, e.Until)
	case Sure:
		c.blind = min(c.blind, e.At)
		c.outlived(&e)
	}
	return c.found
}

func (c *Checker) fail(inv string, at int64, format string, args ...any) {
	if c.found == nil {
		c.found = &Violation{inv, at, fmt.Sprintf(format, args...)}
	}
}

// who and part are what texts call a member and a partition.
func (c *Checker) who(n int32) string {
	if c.Who != nil {
		return c.Who(n)
	}
	return fmt.Sprintf("member %d", n)
}

func (c *Checker) part(n int32) string {
	if c.Part != nil {
		return c.Part(n)
	}
	return fmt.Sprintf("partition %d", n)
}

func (c *Checker) valid(who int32, at int64) bool { return c.members[who].lease > at }

func (c *Checker) start(e *Event) {
	p := &c.parts[e.Part]
	c.startOnce(e, p)
	for _, r := range p.runs {
		if r.who == e.Who && e.At >= c.blind {
			c.fail("I7", e.At, "%s starts %s@%s while it still runs @%s", c.who(e.Who), c.part(e.Part), e.Token, r.token)
		}
	}
	p.runs = append(p.runs, started{who: e.Who, token: e.Token})
	c.exclusive(e, e.Who)
	// I4, strong form: whoever may act is the owner that the plan names.
	if e.At >= c.blind && c.valid(e.Who, e.At) {
		switch r := p.row; {
		case r.state == record.Free:
			c.fail("I4", e.At, "%s starts %s@%s, which is free", c.who(e.Who), c.part(e.Part), e.Token)
		case r.owner != e.Who || r.token != e.Token:
			c.fail("I4", e.At, "%s starts %s@%s, which the plan gives to %s as @%s", c.who(e.Who), c.part(e.Part), e.Token, c.who(r.owner), r.token)
		}
	}
}

// startOnce is I7: the same ownership is started once, and once more for each
// time its lease came back or its source failed.
func (c *Checker) startOnce(e *Event, p *part) {
	now := started{e.Who, e.Token, c.members[e.Who].resumes}
	for i := range p.last {
		if p.last[i].who != e.Who {
			continue
		}
		if e.At >= c.blind && p.last[i].token == e.Token && p.last[i].resumes >= now.resumes {
			c.fail("I7", e.At, "%s starts %s@%s twice for one grant", c.who(e.Who), c.part(e.Part), e.Token)
		}
		p.last[i] = now
		return
	}
	p.last = append(p.last, now)
}

func (c *Checker) stop(who int32, p *part) {
	for i := range p.runs {
		if p.runs[i].who == who {
			p.runs = append(p.runs[:i], p.runs[i+1:]...)
			return
		}
	}
}

// exclusive is I1, asked whenever who may have become able to act: it started
// something, or its lease was extended. Time passing only takes that away.
func (c *Checker) exclusive(e *Event, who int32) {
	if e.At < c.blind || !c.valid(who, e.At) {
		return
	}
	for i := range c.parts {
		if e.Kind == Start && int32(i) != e.Part {
			continue
		}
		p := &c.parts[i]
		mine := false
		for _, r := range p.runs {
			mine = mine || r.who == who
		}
		if !mine || len(p.runs) < 2 {
			continue
		}
		for _, r := range p.runs {
			if r.who != who && c.valid(r.who, e.At) {
				c.fail("I1", e.At, "%s and %s both run %s with a valid lease", c.who(r.who), c.who(who), c.part(int32(i)))
				return
			}
		}
	}
}

func (c *Checker) rowChanged(e *Event) {
	p := &c.parts[e.Part]
	was := p.row
	p.row = row{e.State, e.Who, e.Token}
	switch e.State {
	case record.Free:
		p.row.owner = Nobody
		c.idle(e, p, "free")
	case record.Owned:
		granted := was.state != record.Owned || was.token != e.Token || was.owner != e.Who
		if !granted {
			return
		}
		if !c.rolled && e.Token <= p.high {
			c.fail("I3", e.At, "%s is granted as @%s after @%s", c.part(e.Part), e.Token, p.high)
		}
		p.high = max(p.high, e.Token)
		c.idle(e, p, "granted") // one write may free and grant: free is never seen then
		if e.Eager {
			c.barrier(e)
		}
	}
}

// outlived is what a hold is for: when it ends, nobody runs anything any more
// that an earlier incarnation gave, not even out of sight of the store.
func (c *Checker) outlived(e *Event) {
	for i := range c.parts {
		for _, r := range c.parts[i].runs {
			if c.valid(r.who, e.At) && r.token.Incarnation() < e.Token.Incarnation() {
				c.fail("I4", e.At, "the hold of incarnation %d is over while %s runs %s@%s with a valid lease",
					e.Token.Incarnation(), c.who(r.who), c.part(int32(i)), r.token)
				return
			}
		}
	}
}

// idle is I4 when a row changes hands: whoever ran it may not act any more.
func (c *Checker) idle(e *Event, p *part, now string) {
	for _, r := range p.runs {
		if e.At >= c.blind && c.valid(r.who, e.At) {
			c.fail("I4", e.At, "%s is %s while %s runs it with a valid lease", c.part(e.Part), now, c.who(r.who))
		}
	}
}

// barrier is I6: at an eager grant nobody consumes anything.
func (c *Checker) barrier(e *Event) {
	if e.At < c.blind {
		return
	}
	for i := range c.parts {
		for _, r := range c.parts[i].runs {
			if c.valid(r.who, e.At) {
				c.fail("I6", e.At, "%s is granted eagerly while %s still runs %s", c.part(e.Part), c.who(r.who), c.part(int32(i)))
				return
			}
		}
	}
}

// change and planned are I5: each plan needs a reason, and changes that belong
// together are one.
func (c *Checker) change(e *Event) {
	if e.Burst != 0 {
		for _, b := range c.bursts {
			if b == e.Burst {
				return
			}
		}
		c.bursts = append(c.bursts, e.Burst)
	}
	c.reasons++
}

func (c *Checker) planned(e *Event) {
	c.plans++
	if c.plans > c.reasons && !c.rolled {
		c.fail("I5", e.At, "plan number %d, and only %d reasons for one", c.plans, c.reasons)
	}
}

// accept is I2, by what the sink let pass.
func (c *Checker) accept(e *Event) {
	s := &c.parts[e.Part].sink
	switch {
	case s.any && e.Token < s.token:
		c.fail("I2", e.At, "the sink accepted %s@%s of %s after @%s of %s", c.part(e.Part), e.Token, c.who(e.Who), s.token, c.who(s.who))
	case s.any && e.Token == s.token && e.Who != s.who:
		c.fail("I2", e.At, "the sink accepted %s@%s from %s and from %s", c.part(e.Part), e.Token, c.who(s.who), c.who(e.Who))
	}
	s.any, s.token, s.who = true, e.Token, e.Who
}

// Plans is how many plans the history has made so far.
func (c *Checker) Plans() int { return c.plans }

// A Final is the state a history has come to rest in.
type Final struct {
	At      int64
	Live    []int32 // members that run and were not ended
	Planned []int32 // members of the plan
	Parts   []int32 // partitions that should run
}

// Settled is L1: it says what is missing, or nil when all is well. It does not
// spoil the checker: the history may go on.
func (c *Checker) Settled(f Final) *Violation {
	bad := func(format string, args ...any) *Violation {
		return &Violation{"L1", f.At, fmt.Sprintf(format, args...)}
	}
	if len(f.Live) == 0 {
		return nil
	}
	for _, m := range f.Live {
		if !slices.Contains(f.Planned, m) {
			return bad("%s lives and is not in the plan", c.who(m))
		}
	}
	for _, m := range f.Planned {
		if !slices.Contains(f.Live, m) {
			return bad("the plan names %s, which does not live", c.who(m))
		}
	}
	for _, id := range f.Parts {
		p := &c.parts[id]
		if p.row.state != record.Owned {
			return bad("%s has no owner", c.part(id))
		}
		running := false
		for _, r := range p.runs {
			running = running || r.who == p.row.owner && r.token == p.row.token && c.valid(r.who, f.At)
		}
		if !running {
			return bad("%s is owned by %s, which does not run it", c.part(id), c.who(p.row.owner))
		}
	}
	return nil
}
