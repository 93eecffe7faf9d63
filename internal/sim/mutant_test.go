//go:build mutants

package sim

import (
	"testing"

	"github.com/rota-dev/rota/internal/rule"
	"github.com/rota-dev/rota/internal/scenario"
)

// TestMutantScenarios takes each rule out and plays the scenarios that say they
// catch it: every one of them must fail.
func TestMutantScenarios(t *testing.T) {
	all, err := scenario.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for _, r := range s.Catches {
			t.Run(s.Name+"/"+r.String(), func(t *testing.T) {
				undo, _ := rule.Take(r)
				defer undo()
				err := play(s, stageOptions())
				if err == nil {
					t.Fatalf("nobody noticed: %s", r.Entry().Without)
				}
				t.Log(err)
			})
		}
	}
}

// TestMutantHunt looks for the lack of each rule with schedules that were not
// written for it: every scenario but its own, with a fault at every point, and random ones.
func TestMutantHunt(t *testing.T) {
	bases, err := AllBases(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rule.Known() {
		if !r.Entry().Must(rule.Simulator) {
			continue
		}
		t.Run(r.String(), func(t *testing.T) {
			c, _ := Hunt{Rule: r, Bases: bases, Limit: 200_000}.Play(t.Context())
			if !c.Caught() {
				t.Fatalf("%s: not noticed in %d schedules", r.Entry().Without, c.Schedules)
			}
			t.Logf("%s: %s after %d schedules: %s", r.Entry().Without, c.Invariant(), c.Schedules, c.What())
		})
	}
}
