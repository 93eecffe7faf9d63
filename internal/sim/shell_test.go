package sim

import (
	"slices"
	"testing"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/scenario"
)

// TestTheSimulatorDoesWhatTheShellDoes: every event, answer and action of the core
// has a row in Deeds, and happens in the scenario that the row names. The same
// files are played with whole members by TestScenariosWithWholeMembers.
func TestTheSimulatorDoesWhatTheShellDoes(t *testing.T) {
	all, err := scenario.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range Deeds {
		if d.Not != "" {
			continue
		}
		i := slices.IndexFunc(all, func(s *scenario.Scenario) bool { return s.Name == d.Play })
		if i < 0 {
			t.Errorf("%s: there is no scenario %q", d.What, d.Play)
			continue
		}
		st := NewStage(Options{Partitions: 6})
		met := d.by == byConfig
		st.w.tap = func(_ *core.Node, _ core.Time, ev *core.Event) {
			met = met || d.by == byEvent && ev.Kind == d.Event.Kind && (ev.Kind != core.Answer || ev.Outcome == d.Event.Outcome)
		}
		st.w.acts = func(a *core.Action) { met = met || d.by == byAction && a.Do == d.Do }
		if err := all[i].Run(st); err != nil {
			t.Error(err)
		}
		if !met {
			t.Errorf("in %s the shell never %s", d.Play, d.What)
		}
	}
	for k := range core.Kinds {
		if k != core.Answer && !slices.ContainsFunc(Deeds, func(d Deed) bool { return d.by == byEvent && d.Event.Kind == k }) {
			t.Errorf("event %d: no row in Deeds", k)
		}
	}
	for o := range core.Outcomes {
		if !slices.ContainsFunc(Deeds, func(d Deed) bool { return d.Event.Kind == core.Answer && d.Event.Outcome == o }) {
			t.Errorf("outcome %d: no row in Deeds", o)
		}
	}
	for a := range core.Dos {
		if !slices.ContainsFunc(Deeds, func(d Deed) bool { return d.by == byAction && d.Do == a }) {
			t.Errorf("action %d: no row in Deeds", a)
		}
	}
}
