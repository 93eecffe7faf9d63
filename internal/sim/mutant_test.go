//go:build mutants

package sim

import (
	"testing"

	"github.com/rota-dev/rota/internal/core"
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
	for _, id := range append(core.Mutants(), "M10", "M11", "M24") {
		if !caught[id] {
			t.Errorf("no scenario catches %s", id)
		}
	}
}
