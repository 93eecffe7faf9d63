package sim

import (
	"flag"
	"fmt"
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
					t.Error(err)
					return
				}
				file := filepath.Join("..", "scenario", "files", s.Name+".txt")
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if err := play(s, Options{Partitions: 6}); err != nil {
				t.Error(err)
			}
		})
	}
}

// play plays s; a core that panics fails it.
func play(s *scenario.Scenario, o Options) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: panic: %v", s.Name, p)
		}
	}()
	return s.Run(NewStage(o))
}
