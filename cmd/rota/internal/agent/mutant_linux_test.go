//go:build mutants

package agent

import (
	"testing"

	"github.com/rota-dev/rota/internal/defect"
)

// TestMutantWatchdog takes each rule of the watchdog out; its story must go
// wrong.
func TestMutantWatchdog(t *testing.T) {
	stories := map[string]func() error{"W1": clockFirst, "W2": staysEnding, "W3": goneIsGone, "W4": atTheInstant}
	for _, d := range defect.Outer {
		if d.Layer != defect.Watchdog {
			continue
		}
		t.Run(d.ID, func(t *testing.T) {
			story, undo := stories[d.ID], func() {}
			if story != nil {
				if err := story(); err != nil {
					t.Fatalf("with every rule in: %v", err)
				}
				undo, _ = mutate(d.ID)
			}
			if undo == nil || story == nil {
				t.Fatal("it is in the table and cannot be built in, or has no story")
			}
			defer undo()
			delete(stories, d.ID)
			err := story()
			if err == nil {
				t.Fatalf("nobody noticed: %s", d.Rule)
			}
			t.Log(err)
		})
	}
	for id := range stories {
		t.Errorf("%s is not in the table", id)
	}
}
