package main

import (
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestNoticesWhatItShould plays a handful of mutants of the real core with few
// schedules: the tool must neither overlook a change nor see one where there is
// none.
func TestNoticesWhatItShould(t *testing.T) {
	t.Parallel()
	root, err := workspace()
	if err != nil {
		t.Skip(err)
	}
	set, err := mutate(root, "./internal/core")
	if err != nil {
		t.Fatal(err)
	}
	equivalent, err := readList("equivalent.txt")
	if err != nil {
		t.Fatal(err)
	}
	r := &run{root: root, dir: t.TempDir(), set: set, amount: Baseline{Random: 50, Seed: 1, Most: 300}, despite: true, stderr: io.Discard}
	if err := r.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	var some []Mutant // for which it is asked where they make a difference
	for i := 0; i < len(set.Mutants); i += len(set.Mutants)/100 + 1 {
		some = append(some, set.Mutants[i])
	}
	for _, m := range set.Mutants {
		if equivalent[m.ID] != "" {
			some = append(some, m)
		}
	}
	if err := r.look(t.Context(), some); err != nil {
		t.Fatal(err)
	}
	b, err := readBaseline(r.baseline)
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]int{}
	for _, m := range set.Mutants {
		numbers[m.ID] = m.N
	}
	var c *process
	defer func() { c.end() }()
	play := func(id string, n int, how string) Verdict {
		t.Helper()
		if c == nil {
			if c, err = startProcess(t.Context(), r.bin, r.baseline); err != nil {
				t.Fatal(err)
			}
		}
		v, err := c.play(n, how)
		if err != nil || v.Failed != "" {
			t.Fatalf("%s: %v %s; %s", id, err, v.Failed, c.end())
		}
		if v.By == byHang {
			c.end()
			c = nil
		}
		return v
	}

	// Number 0 is no mutant, and all is played.
	if v := play("none", 0, wholly); v.By != "" || v.Played != b.schedules()-len(b.Fails) {
		t.Errorf("without a mutant: %+v, want %d schedules and no notice", v, b.schedules())
	}
	for id, by := range map[string]string{
		"Node.pass: cut: n.beat() #1":      byScenario,
		"Node.pass: cut: n.reconcile() #1": byScenario,
		"Node.credit: cut: i++ #1":         byHang, // in a loop until i is large enough
	} {
		if numbers[id] == 0 {
			t.Errorf("there is no %s any more: choose another", id)
			continue
		}
		if v := play(id, numbers[id], wholly); v.By != by || v.What == "" {
			t.Errorf("%s: %+v, want it noticed by %s", id, v, by)
		}
	}
	tried := 0
	for _, id := range slices.Sorted(maps.Keys(equivalent)) {
		if n := numbers[id]; n != 0 && b.count(n) > 0 && tried < 3 {
			tried++
			if v := play(id, n, wholly); v.By != "" {
				t.Errorf("%s: %+v, and it is listed as equivalent", id, v)
			}
		}
	}
	for _, m := range some {
		play(m.ID, m.N, checking) // fails by itself
	}
	if v := play("none, once more", 0, wholly); v.By != "" {
		t.Errorf("something of an earlier mutant is left: %+v", v)
	}
}

// TestMarks: only a mark that was sure to be reached is missed.
func TestMarks(t *testing.T) {
	t.Parallel()
	b := &Baseline{Marks: [][]int{{certain - 1, certain, 1}, {0, 0, certain}}}
	if got := strings.Join(b.unreached([]int{0, 1, 1}), " "); got != "" {
		t.Errorf("%s: the first was rare anyway", got)
	}
	if got := strings.Join(b.unreached([]int{1, 1, 0}), " "); got != "leader_killed" {
		t.Errorf("got %q", got)
	}
}
