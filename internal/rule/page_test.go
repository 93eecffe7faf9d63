package rule_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rota-dev/rota/internal/rule"
	"github.com/rota-dev/rota/internal/scenario"
)

var update = flag.Bool("update", false, "write docs/rules.md")

// TestRulesPage: docs/rules.md is what the book, the code, the scenarios and the
// explorer's histories make of it.
func TestRulesPage(t *testing.T) {
	path := filepath.Join(root, "docs", "rules.md")
	page := makePage(t)
	if *update {
		if err := os.WriteFile(path, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := os.ReadFile(path); err != nil || !bytes.Equal(kept, page) {
		t.Errorf("docs/rules.md is stale (%v): go test ./internal/rule -update", err)
	}
}

func makePage(t *testing.T) []byte {
	var b bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	src := readSources(t)
	stories, err := scenario.All()
	if err != nil {
		t.Fatal(err)
	}
	p("# The rules\n")
	p("Generated from [internal/rule](../internal/rule/book.go) by `go test ./internal/rule -update`; not edited by hand.\n")
	p("Each rule has one name. `git grep` finds it in the rule book, at its line in the code, in its scenario and on this page. A build with `-tags mutants` can take rules out, one at a time, and the lack of every single one is noticed: [evidence.md](evidence.md) has the figures. How the rules fit together is in [ARCHITECTURE.md](../ARCHITECTURE.md#the-rules).\n")
	p("I1 to I7 and L1 are the invariants of [internal/check](../internal/check/check.go):\n")
	p("| | |\n|---|---|")
	for _, aim := range aims {
		p("| %s | %s |", aim.aim, aim.means)
	}
	p("\n| rule | says | serves | was |\n|---|---|---|---|")
	for _, r := range rule.All() {
		e := r.Entry()
		p("| [%s](#%s) | %s | %s | %s |", r, r, e.Says, e.Serves, e.Old)
	}
	for _, r := range rule.All() {
		e := r.Entry()
		p("\n## %s\n", r)
		p("%s\n", e.Says)
		p("Without it: %s\n", src.why[r])
		history, err := os.ReadFile("histories/" + r.String() + ".txt")
		if (err == nil) != e.Must(rule.Explorer) {
			t.Errorf("%s: noticed by %v; its history: %v", r, e.By, err)
		}
		own := slices.IndexFunc(stories, func(s *scenario.Scenario) bool { return s.Name == r.String() })
		steps := 0
		if err == nil {
			head, trace, _ := strings.Cut(string(history), "\n\n")
			config, broken, _ := strings.Cut(head, "\n")
			p("The shortest history that breaks, found by `rota explore` (%s): %s\n", config, broken)
			p("```\n%s```\n", trace)
			before, _, _ := strings.Cut(trace, "and from here on:\n")
			steps = strings.Count(before, "\n")
		} else if own >= 0 {
			text, err := os.ReadFile(filepath.Join(root, "internal", "scenario", "files", r.String()+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			p("A history that breaks, its scenario:\n")
			p("```\n%s```\n", text)
		}
		p("- serves: %s", e.Serves)
		p("- where: %s", places(src, r))
		p("- noticed by: %s", noticed(r, steps, stories))
		p("- was: %s, %s", e.Old, e.Without)
	}
	return b.Bytes()
}

var aims = []struct {
	aim   rule.Aim
	means string
}{
	{rule.I1, "at most one member runs a partition with a valid lease, and nobody without one"},
	{rule.I2, "a sink that checks tokens never accepts a lower one after a higher one, nor one token of two sessions"},
	{rule.I3, "tokens of a partition strictly grow"},
	{rule.I4, "a free partition runs nowhere, and an owned one at its owner alone"},
	{rule.I5, "there are no more plans than reasons for plans"},
	{rule.I6, "eager: when something is granted nobody consumes"},
	{rule.I7, "one start per grant and resume"},
	{rule.L1, "once nothing goes wrong any more, everything comes to rest: every partition is owned and runs"},
	{rule.Speed, "no invariant: partitions are idle for longer without it"},
	{rule.Comfort, "no invariant: partitions move more often without it"},
	{rule.Order, "no invariant: the group is harder to run or to understand without it"},
}

// places links the functions that tell of a rule or ask for it, the one with the
// sentence first.
func places(src *sources, r rule.Rule) string {
	all := slices.Concat(src.says[r], src.asks[r])
	var out []string
	for i, p := range all {
		if slices.Index(all, p) == i {
			out = append(out, fmt.Sprintf("`%s` in [%s](../%s)", p.function, p.file, p.file))
		}
	}
	return strings.Join(out, ", ")
}

// noticed tells how each harness notices that the rule is missing.
func noticed(r rule.Rule, steps int, stories []*scenario.Scenario) string {
	e := r.Entry()
	var by []string
	if e.Must(rule.Explorer) {
		by = append(by, fmt.Sprintf("the explorer, in %d steps", steps))
	}
	if e.Must(rule.Simulator) {
		by = append(by, "the simulator, by schedules that were not made for it (`rota sim --mutant "+r.String()+"`)")
	}
	var names []string
	for _, s := range stories {
		if slices.Contains(s.Catches, r) {
			link := fmt.Sprintf("[%s](../internal/scenario/files/%s.txt)", s.Name, s.Name)
			if s.Name == r.String() {
				names = slices.Insert(names, 0, link)
			} else {
				names = append(names, link)
			}
		}
	}
	switch len(names) {
	case 0:
	case 1:
		by = append(by, "the scenario "+names[0])
	default:
		by = append(by, "the scenarios "+strings.Join(names, ", "))
	}
	if e.Test != "" {
		by = append(by, "`"+e.Test+"`")
	}
	return strings.Join(by, "; ")
}
