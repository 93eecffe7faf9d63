//go:build mutants

package sim

import (
	"testing"

	"github.com/rota-dev/rota/internal/scenario"
)

// TestMutantShrunk: what a defect was caught by becomes a short scenario file
// that fails with the defect in, and passes without it.
func TestMutantShrunk(t *testing.T) {
	bases, err := AllBases(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"M2", "M7", "M12", "M15", "M16", "M18", "M19", "M23", "M25", "M26", "M27", "M29"} {
		t.Run(id, func(t *testing.T) {
			c, _ := Hunt{ID: id, Bases: bases, Limit: 200_000, Scripted: true}.Play(t.Context())
			if c.Directed == nil {
				t.Fatal("not caught")
			}
			was := &c.Directed.Script
			s, ok := c.Shorten(id)
			if !ok || s.size() > was.size() {
				t.Errorf("it grew from %d to %d", was.size(), s.size())
			}
			t.Logf("%d lines, then %d:\n%s", len(was.Lines), len(s.Lines), toldTruly(t, &s, id))
		})
	}
}

// TestMutantSeedsAreRetold: a random schedule too.
func TestMutantSeedsAreRetold(t *testing.T) {
	for id, seeds := range map[string]uint64{"M2": 200, "M7": 200, "M14": 200, "M18": 200, "M20": 200} {
		t.Run(id, func(t *testing.T) {
			o := Options{Members: 4, Partitions: 6}
			for seed := range seeds {
				with := o
				undo, _ := with.Defect(id)
				broken := New(with).Play(seed).Violation != nil
				undo()
				if !broken {
					continue
				}
				if s, ok := ShortenSeed(o, seed, id); ok {
					if _, err := Tell(&s, "a test", id); err == nil {
						t.Logf("seed %d:\n%s", seed, toldTruly(t, &s, id))
						return
					}
				}
			}
			t.Errorf("none of %d seeds can be told", seeds)
		})
	}
}

// toldTruly tells a script and plays the file.
func toldTruly(t *testing.T, s *Script, id string) string {
	t.Helper()
	text, err := Tell(s, "a test", id)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.Text("cannot be told"))
	}
	sc, err := scenario.Parse(id, text)
	if err != nil {
		t.Fatal(err)
	}
	if err := play(sc, stageOptions()); err != nil {
		t.Errorf("without the defect: %v", err)
	}
	o := stageOptions()
	undo, _ := o.Defect(id)
	defer undo()
	if err := play(sc, o); err == nil {
		t.Error("with the defect in it passes")
	}
	return text
}
