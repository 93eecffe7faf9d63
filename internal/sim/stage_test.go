package sim

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-dev/rota/internal/scenario"
)

var update = flag.Bool("update", false, "write what was seen into the scenario files")

// TestScenarios plays every scenario with bare cores.
func TestScenarios(t *testing.T) {
	all, err := scenario.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			if *update {
				text, err := s.Rewrite(NewStage(Options{Partitions: 6}))
				if err != nil {
					t.Fatal(err)
				}
				file := filepath.Join("..", "scenario", "files", s.Name+".txt")
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if err := s.Run(NewStage(Options{Partitions: 6})); err != nil {
				t.Error(err)
			}
		})
	}
}
