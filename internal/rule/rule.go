// Package rule is the rule book: every rule that rota obeys has one name, one
// sentence and the invariant it serves. The name is the rule's switch in the code
// (StopAck.Off), its scenario (internal/scenario/files/stop-ack.txt) and its
// heading in docs/rules.md.
//
// A build with the tag mutants can take rules out, one at a time. "No violations"
// means nothing unless the same harness notices the lack of every rule: the tests,
// `rota sim --mutants` and docs/evidence.md are made from this book.
package rule

import (
	"fmt"
	"slices"
)

// A Rule is one rule of the book.
type Rule uint8

// An Entry is what the book says of a rule.
type Entry struct {
	Name    string `json:"rule"`
	Says    string `json:"-"`       // the rule, in one sentence
	Without string `json:"without"` // what is wrong without it, in a few words
	Serves  Aim    `json:"serves"`
	Layer   Layer  `json:"layer"`
	By      []By   `json:"by"`             // who must notice that it is missing
	Test    string `json:"test,omitempty"` // the test with whole members, or commands, that fails without it
	Old     string `json:"old"`            // its number in earlier lists
}

// An Aim is what a rule is for: an invariant of internal/check, or one of the aims
// that no invariant asks for.
type Aim string

const (
	I1 Aim = "I1" // at most one member runs a partition with a valid lease
	I2 Aim = "I2" // a sink that checks tokens is not deceived
	I3 Aim = "I3" // tokens grow
	I4 Aim = "I4" // a free partition runs nowhere, and an owned one at its owner alone
	I5 Aim = "I5" // no more plans than reasons for plans
	I6 Aim = "I6" // eager: nobody consumes when something is granted
	I7 Aim = "I7" // one start per grant
	L1 Aim = "L1" // once nothing goes wrong any more, everything comes to rest

	Speed   Aim = "speed"   // partitions are idle for longer without it
	Comfort Aim = "comfort" // more moves than necessary without it
	Order   Aim = "order"   // the group is harder to run, or to understand, without it
)

// A Layer is where a rule lives.
type Layer string

const (
	Core     Layer = "core"     // internal/core: the protocol
	Shell    Layer = "shell"    // the root package, which carries it out
	Watchdog Layer = "watchdog" // rota run: ends commands in time
	Harness  Layer = "harness"  // outside of rota: the sink
)

// By is a way to notice that a rule is missing.
type By string

const (
	Explorer  By = "explorer"  // exhaustive search of the core
	Simulator By = "simulator" // directed and random schedules
	Scenario  By = "scenario"  // the scenario of the rule's name
	Members   By = "members"   // whole members in a synctest bubble, or real commands
)

// Must tells whether the lack of the rule must be noticed this way.
func (e *Entry) Must(by By) bool { return slices.Contains(e.By, by) }

// Entry is what the book says of r.
func (r Rule) Entry() *Entry { return &Book[r] }

func (r Rule) String() string { return Book[r].Name }

// All lists every rule.
func All() []Rule {
	var all []Rule
	for r := None + 1; int(r) < len(Book); r++ {
		all = append(all, r)
	}
	return all
}

// Known lists the rules whose lack the harness can notice: all but those that are
// the shell's or the watchdog's alone.
func Known() []Rule {
	return slices.DeleteFunc(All(), func(r Rule) bool { return !Book[r].Must(Scenario) })
}

// Named returns the rule of that name. Numbers of earlier lists are refused with
// the name to use.
func Named(name string) (Rule, error) {
	for _, r := range All() {
		switch name {
		case Book[r].Name:
			return r, nil
		case Book[r].Old:
			return None, fmt.Errorf("%s is called %s now", name, Book[r].Name)
		}
	}
	return None, fmt.Errorf("no rule is called %q; docs/rules.md lists them all", name)
}

// MarshalText writes the rule's name.
func (r Rule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads it.
func (r *Rule) UnmarshalText(text []byte) (err error) {
	*r, err = Named(string(text))
	return err
}
