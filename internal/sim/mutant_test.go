//go:build mutants

package sim

import (
	"testing"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/defect"
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
		for _, id := range s.Catches {
			t.Run(s.Name+"/"+id, func(t *testing.T) {
				o := Options{Partitions: 6}
				undo, ok := o.Defect(id)
				if !ok {
					t.Fatalf("no such defect: %s", id)
				}
				defer undo()
				err := play(s, o)
				if err == nil {
					t.Fatalf("%s was not noticed", id)
				}
				t.Log(err)
			})
		}
	}
}

// TestMutantHunt looks for each defect with schedules that were not written for
// it: every scenario but its own, with a fault at every point, and random ones.
func TestMutantHunt(t *testing.T) {
	bases, err := AllBases(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range defect.Table {
		if !d.Must(defect.Simulator) {
			continue
		}
		t.Run(d.ID, func(t *testing.T) {
			c, ok := Hunt{ID: d.ID, Bases: bases, Limit: 200_000}.Play(t.Context())
			switch {
			case !ok:
				t.Fatal("no such defect in this build")
			case !c.Caught():
				t.Fatalf("%s: not caught in %d schedules", d.Rule, c.Schedules)
			}
			t.Logf("%s: %s after %d schedules: %s", d.Rule, c.Invariant(), c.Schedules, c.What())
		})
	}
}

// TestMutantTableIsComplete: whatever can be built in is in the table, and the
// other way round.
func TestMutantTableIsComplete(t *testing.T) {
	for _, id := range append(core.Mutants(), "M10", "M11", "M24") {
		if _, ok := defect.Find(id); !ok {
			t.Errorf("%s can be built in and is not in the table", id)
		}
	}
	for _, d := range defect.Table {
		undo, ok := (&Options{}).Defect(d.ID)
		if !ok {
			t.Errorf("%s is in the table and cannot be built in", d.ID)
			continue
		}
		undo()
	}
}

// TestMutantsAllHaveAScenario: no rule goes without a story that fails without
// it.
func TestMutantsAllHaveAScenario(t *testing.T) {
	all, err := scenario.All()
	if err != nil {
		t.Fatal(err)
	}
	caught := map[string]bool{}
	for _, s := range all {
		for _, id := range s.Catches {
			caught[id] = true
		}
	}
	for _, d := range defect.Table {
		if d.Must(defect.Scenario) && !caught[d.ID] {
			t.Errorf("no scenario catches %s", d.ID)
		}
	}
}
