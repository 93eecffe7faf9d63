//go:build mutants

package agent

import (
	"testing"

	"github.com/rota-dev/rota/internal/rule"
)

// TestMutantWatchdog takes each rule of the watchdog out; its story must go
// wrong.
func TestMutantWatchdog(t *testing.T) {
	stories := map[rule.Rule]func() error{
		rule.ClockBeforeLease: clockFirst, rule.EndingIsFinal: staysEnding, rule.GoneWithDescendants: goneIsGone, rule.EndedAtTheInstant: atTheInstant,
	}
	for _, r := range rule.All() {
		if r.Entry().Layer != rule.Watchdog {
			continue
		}
		t.Run(r.String(), func(t *testing.T) {
			story := stories[r]
			if story == nil {
				t.Fatal("it has no story")
			}
			delete(stories, r)
			if err := story(); err != nil {
				t.Fatalf("with every rule in: %v", err)
			}
			undo, _ := rule.Take(r)
			defer undo()
			err := story()
			if err == nil {
				t.Fatalf("nobody noticed: %s", r.Entry().Without)
			}
			t.Log(err)
		})
	}
	for r := range stories {
		t.Errorf("%s is no rule of the watchdog", r)
	}
}
