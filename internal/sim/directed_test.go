package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/scenario"
)

// TestEveryFaultAtEveryPoint: the mission's scenes, with every fault at every
// point of them, one at a time. `rota sim --directed all` does it to every
// scenario.
func TestEveryFaultAtEveryPoint(t *testing.T) {
	prefix := "s0-"
	if testing.Short() {
		prefix = "s0-09"
	}
	bases, err := AllBases(Options{}, prefix)
	if err != nil {
		t.Fatal(err)
	}
	r := Directed{Bases: bases, Most: 1 << 30}.Play(t.Context())
	for _, v := range r.Violations {
		t.Errorf("%s breaks %s: %s\n%s", v.String(), v.Invariant, v.Text, v.Script.Text("as it was played"))
	}
	if r.Schedules != r.Total {
		t.Errorf("%d of %d played", r.Schedules, r.Total)
	}
	for _, kind := range DirectedKinds {
		if r.Faults[kind] == 0 && !testing.Short() {
			t.Errorf("%s never struck", kind)
		}
	}
	t.Logf("%d schedules, %d steps, %.0f s", r.Schedules, r.Steps, r.Seconds)
}

// TestPointsAreWhereThingsHappen: a base has points of every kind, its faults
// strike within its time, and without a fault it is the scenario.
func TestPointsAreWhereThingsHappen(t *testing.T) {
	s := parse(t, `
		group partitions=4
		join c1 c2
		stabilize
		advance 3s
		kill c1
		stabilize`)
	b, err := NewBase(s, Options{Partitions: 6})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[pointKind]int{}
	for _, p := range b.points {
		kinds[p.what]++
	}
	for k := stepPoint; k <= leadPoint; k++ {
		if kinds[k] == 0 {
			t.Errorf("no point of kind %d", k)
		}
	}
	hosts := map[string]bool{}
	for _, k := range b.Strikes() {
		hosts[k.Host] = true
		if k.Kind != "none" && (k.At < 0 || k.At > b.end+10*time.Second || len(k.add) == 0) {
			t.Errorf("%s at %v of a play of %v", k.Kind, k.At, b.end)
		}
	}
	if !hosts["c1"] || !hosts["c2"] {
		t.Errorf("faults struck %v", hosts)
	}
	plain := b.With(Strike{Kind: "none"})
	if !slices.EqualFunc(plain.Lines, b.Lines, func(a, b Line) bool { return a.At == b.At && a.String() == b.String() }) {
		t.Errorf("without a fault it is %v, not %v", plain.Lines, b.Lines)
	}
}

func parse(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("test", text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestASeedCanBeStruckToo: a random schedule, told as a script, is a base like
// any other.
func TestASeedCanBeStruckToo(t *testing.T) {
	b, err := SeedBase(Options{Members: 4, Partitions: 6}, 3)
	if err != nil {
		t.Fatal(err)
	}
	r := Directed{Bases: []*Base{b}, Most: 1 << 30}.Play(t.Context())
	for _, v := range r.Violations {
		t.Errorf("%s breaks %s: %s\n%s", v.String(), v.Invariant, v.Text, v.Script.Text("as it was played"))
	}
	if r.Schedules != r.Total || r.Total < 1000 {
		t.Errorf("%d of %d played", r.Schedules, r.Total)
	}
}

// TestBusyMembersAreNoticed: whoever goes round in circles breaks a promise,
// even if every circle is safe.
func TestBusyMembersAreNoticed(t *testing.T) {
	s := Script{Lines: []Line{line(0, "join c1")}}
	for at := time.Second; at < 3*time.Hour; at += time.Second {
		s.Lines = append(s.Lines, line(at, "order pause q0"), line(at+500*time.Millisecond, "order resume q0"))
	}
	if v := s.Play(stageOptions()).Violation; v == nil || v.Invariant != "busy" {
		t.Errorf("%v", v)
	}
}
