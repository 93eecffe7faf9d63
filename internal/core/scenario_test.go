package core_test

import (
	"testing"

	"github.com/rota-dev/rota/internal/scenario"
	"github.com/rota-dev/rota/internal/sim"
)

// TestScenarios plays every scenario with bare cores: each is a story about a rule of
// this package, or a row of the mission.
func TestScenarios(t *testing.T) {
	all, err := scenario.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			if err := s.Run(sim.NewStage(sim.Options{Partitions: 6})); err != nil {
				t.Error(err)
			}
		})
	}
}
