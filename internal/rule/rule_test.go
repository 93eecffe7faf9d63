package rule_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rota-dev/rota/internal/rule"
	"github.com/rota-dev/rota/internal/scenario"
)

var (
	kebab    = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	sentence = regexp.MustCompile(`^[A-Z][^.]*\.$`)
	number   = regexp.MustCompile(`^[MRSW][0-9]+b?$`)
)

// TestEveryEntryIsWhole: each rule has a name of its own, one sentence, an aim, and
// somebody who must notice that it is missing.
func TestEveryEntryIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rule.All() {
		e := r.Entry()
		if seen[e.Name] || seen[e.Old] {
			t.Errorf("%s or %s is there twice", e.Name, e.Old)
		}
		seen[e.Name], seen[e.Old] = true, true
		if !kebab.MatchString(e.Name) || !number.MatchString(e.Old) {
			t.Errorf("rule %d is called %q, once %q", r, e.Name, e.Old)
		}
		if !sentence.MatchString(e.Says) || len(e.Says) > 120 {
			t.Errorf("%s: %q is not one sentence", r, e.Says)
		}
		if e.Without == "" || len(e.Without) > 60 || strings.ToLower(e.Without[:1]) != e.Without[:1] {
			t.Errorf("%s: %q is not a few words", r, e.Without)
		}
		if e.Serves == "" || e.Layer == "" {
			t.Errorf("%s: of the layer %q, serves %q", r, e.Layer, e.Serves)
		}
		// What the design calls a defect is what all evidence rests on.
		if design := e.Old[0] == 'M'; design && !e.Must(rule.Simulator) || design && e.Layer == rule.Core && !e.Must(rule.Explorer) {
			t.Errorf("%s: its lack is noticed by %v alone", r, e.By)
		}
		outer := e.Layer == rule.Shell || e.Layer == rule.Watchdog
		if (e.Test != "") != e.Must(rule.Members) || outer != e.Must(rule.Members) || !outer && !e.Must(rule.Scenario) {
			t.Errorf("%s of the %s: noticed by %v, test %q", r, e.Layer, e.By, e.Test)
		}
		if got, err := rule.Named(e.Name); got != r || err != nil {
			t.Errorf("%s is found as %s, %v", r, got, err)
		}
		if _, err := rule.Named(e.Old); err == nil || err.Error() != e.Old+" is called "+e.Name+" now" {
			t.Errorf("%s: %v", e.Old, err)
		}
	}
	for _, name := range []string{"", "M99", "stop"} {
		if r, err := rule.Named(name); r != rule.None || err == nil {
			t.Errorf("%q is found as %s", name, r)
		}
	}
}

// TestEveryRuleHasItsScenario: a story of the rule's name fails without it (as the
// simulator's tests show).
func TestEveryRuleHasItsScenario(t *testing.T) {
	all, err := scenario.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rule.Known() {
		i := slices.IndexFunc(all, func(s *scenario.Scenario) bool { return s.Name == r.String() })
		if i < 0 {
			t.Errorf("there is no scenario %s", r)
		} else if !slices.Contains(all[i].Catches, r) {
			t.Errorf("the scenario %s does not say that it catches it", r)
		}
	}
}

// TestTake: a rule that is taken out is out until it is put back, where the build
// can take rules out at all.
func TestTake(t *testing.T) {
	undo, ok := rule.Take(rule.StopAck)
	if ok != rule.CanTake || rule.StopAck.Off() != rule.CanTake || rule.SelfStop.Off() {
		t.Errorf("taken %v, off %v", ok, rule.StopAck.Off())
	}
	undo()
	if rule.StopAck.Off() {
		t.Error("it is not back")
	}
	if undo, ok := rule.Take(rule.None); !ok || rule.None.Off() {
		t.Error("nothing cannot be taken out")
	} else {
		undo()
	}
}

// BenchmarkOff shows what asking for a rule costs: without the tag mutants, as much
// as an empty loop. (Not b.Loop, which keeps calls from being inlined.)
func BenchmarkOff(b *testing.B) {
	out := 0
	for range b.N {
		if rule.StopAck.Off() {
			out++
		}
	}
	_ = out
}
