//go:build mutants

package sim

import (
	"slices"
	"testing"

	"github.com/rota-dev/rota/internal/rule"
	"github.com/rota-dev/rota/internal/scenario"
)

// TestMutantShrunk: what noticed the lack of a rule becomes a short scenario file
// that fails without the rule, and passes with it.
func TestMutantShrunk(t *testing.T) {
	bases, err := AllBases(Options{})
	if err != nil {
		t.Fatal(err)
	}
	// Shortened, this one has a single member, which ends: then nothing is left to settle.
	bases = slices.DeleteFunc(bases, func(b *Base) bool { return b.Name == "accused-apart" })
	for _, r := range []rule.Rule{rule.DeadAfterTheLease, rule.SelfStop, rule.EvictedIsNotStopped, rule.WaitForSuspects, rule.OneNameOneID, rule.TokensGrow, rule.AbsenceIsNotDeath, rule.LeaderStopsInTime, rule.SuspectsOnce, rule.ExpiryBeforeDrop, rule.LeaseOfThatRecord, rule.HoldAfterLoss} {
		t.Run(r.String(), func(t *testing.T) {
			c, _ := Hunt{Rule: r, Bases: bases, Limit: 200_000, Scripted: true}.Play(t.Context())
			if c.Directed == nil {
				t.Fatal("not caught")
			}
			was := &c.Directed.Script
			s, ok := c.Shorten(r)
			if !ok || s.size() > was.size() {
				t.Errorf("it grew from %d to %d", was.size(), s.size())
			}
			t.Logf("%d lines, then %d:\n%s", len(was.Lines), len(s.Lines), toldTruly(t, &s, r))
		})
	}
}

// TestMutantSeedsAreRetold: a random schedule too.
func TestMutantSeedsAreRetold(t *testing.T) {
	for r, seeds := range map[rule.Rule]uint64{rule.DeadAfterTheLease: 200, rule.SelfStop: 200, rule.EagerBarrier: 200, rule.TokensGrow: 200, rule.KnownWritesOnly: 200} {
		t.Run(r.String(), func(t *testing.T) {
			o := Options{Members: 4, Partitions: 6}
			for seed := range seeds {
				undo, _ := rule.Take(r)
				broken := New(o).Play(seed).Violation != nil
				undo()
				if !broken {
					continue
				}
				if s, ok := ShortenSeed(o, seed, r); ok {
					if _, err := Tell(&s, "a test", r); err == nil {
						t.Logf("seed %d:\n%s", seed, toldTruly(t, &s, r))
						return
					}
				}
			}
			t.Errorf("none of %d seeds can be told", seeds)
		})
	}
}

// toldTruly tells a script and plays the file.
func toldTruly(t *testing.T, s *Script, r rule.Rule) string {
	t.Helper()
	text, err := Tell(s, "a test", r)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.Text("cannot be told"))
	}
	sc, err := scenario.Parse(r.String(), text)
	if err != nil {
		t.Fatal(err)
	}
	if err := play(sc, stageOptions()); err != nil {
		t.Errorf("with the rule in: %v", err)
	}
	undo, _ := rule.Take(r)
	defer undo()
	if err := play(sc, stageOptions()); err == nil {
		t.Error("without the rule it passes")
	}
	return text
}
