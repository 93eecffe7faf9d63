package defect

import (
	"strings"
	"testing"
)

func TestEveryRowIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Table {
		if seen[d.ID] {
			t.Errorf("%s is there twice", d.ID)
		}
		seen[d.ID] = true
		if d.Rule == "" || len(d.Rule) > 60 || strings.ToLower(d.Rule[:1]) != d.Rule[:1] {
			t.Errorf("%s: %q is not a few words", d.ID, d.Rule)
		}
		if len(d.By) == 0 || !d.Must(Scenario) {
			t.Errorf("%s: no scenario must fail with it", d.ID)
		}
		// The defects of the design are what all evidence rests on.
		if d.ID[0] == 'M' && !d.Must(Simulator) || d.ID[0] == 'M' && d.Layer == Core && !d.Must(Explorer) {
			t.Errorf("%s: caught by %v alone", d.ID, d.By)
		}
		if (d.Test != "") != d.Must(Members) || (d.Layer == Shell) != d.Must(Members) {
			t.Errorf("%s of the %s: test %q", d.ID, d.Layer, d.Test)
		}
	}
	for _, d := range Outer {
		if seen[d.ID] {
			t.Errorf("%s is there twice", d.ID)
		}
		seen[d.ID] = true
		if d.Rule == "" || len(d.Rule) > 60 || strings.ToLower(d.Rule[:1]) != d.Rule[:1] {
			t.Errorf("%s: %q is not a few words", d.ID, d.Rule)
		}
		if d.Test == "" || !d.Must(Members) || (d.ID[0] == 'W') != (d.Layer == Watchdog) || (d.ID[0] == 'S') != (d.Layer == Shell) {
			t.Errorf("%s of the %s: test %q", d.ID, d.Layer, d.Test)
		}
	}
	if d, ok := Find("M5b"); !ok || d.ID != "M5b" {
		t.Errorf("M5b found as %v", d)
	}
	if _, ok := Find("M99"); ok {
		t.Error("M99 is found")
	}
}
