package sim

import (
	"context"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestSchedules plays a short batch; `rota sim` plays long ones.
func TestSchedules(t *testing.T) {
	n := 20_000
	if testing.Short() {
		n = 6_000
	}
	b := Batch{Options: Options{Members: 4, Partitions: 6}, Schedules: n, Seed: 1}
	r := b.Play(context.Background())
	if b.Telling() == testing.Short() || len(r.Missing) > 0 {
		t.Errorf("%d schedules are telling: %v; missing %v", n, b.Telling(), r.Missing)
	}
	for _, v := range r.Violations {
		t.Errorf("seed %d: %s: %s", v.Seed, v.Invariant, v.Text)
	}
	if r.Schedules != n || r.MinSteps < leastSteps || r.MinLiveFaults < leastFaults {
		t.Errorf("%d schedules, the shortest of %d steps, the calmest with %d faults", r.Schedules, r.MinSteps, r.MinLiveFaults)
	}
	// Silence means little where nothing happened.
	for _, mark := range r.Marks.Missing() {
		t.Errorf("no schedule met the situation %q", mark)
	}
	if r.Marks.Aborts = 0; !slices.Equal(r.Marks.Missing(), []string{"aborts"}) {
		t.Errorf("a mark that was not reached is not missed: %v", r.Marks.Missing())
	}
	t.Logf("%.0f schedules and %.0f steps per second", r.SchedulesPerS, r.StepsPerS)
}

// TestSeedsThatOnceFailed plays testdata/seeds again.
func TestSeedsThatOnceFailed(t *testing.T) {
	text, err := os.ReadFile("testdata/seeds")
	if err != nil {
		t.Fatal(err)
	}
	played := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		word, why, _ := strings.Cut(line, " ")
		seed, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			t.Fatalf("testdata/seeds: %v", err)
		}
		played++
		if v := New(Options{Members: 4, Partitions: 6}).Play(seed).Violation; v != nil {
			t.Errorf("seed %d (%s): %v", seed, strings.TrimSpace(why), v)
		}
	}
	if played == 0 {
		t.Error("there are none")
	}
}

// TestSameSeedSameRun: a run is its seed.
func TestSameSeedSameRun(t *testing.T) {
	o := Options{Members: 4, Partitions: 6}
	for seed := range uint64(50) {
		var a, b []string
		ra := Replay(o, seed, func(l string) { a = append(a, l) })
		rb := Replay(o, seed, func(l string) { b = append(b, l) })
		if !reflect.DeepEqual(a, b) || ra.Steps != rb.Steps || len(a) == 0 {
			t.Fatalf("seed %d played twice gives two runs", seed)
		}
	}
	// What a world played before leaves no trace in what it plays next.
	w := New(o)
	w.Play(1)
	if got, want := w.Play(7).Steps, New(o).Play(7).Steps; got != want {
		t.Errorf("seed 7 takes %d steps after seed 1, %d alone", got, want)
	}
}

func TestMarksAddAllFields(t *testing.T) {
	var m, sum Marks
	v := reflect.ValueOf(&m).Elem()
	for i := range v.NumField() {
		v.Field(i).SetInt(int64(i + 1))
	}
	sum.add(&m)
	if sum != m {
		t.Errorf("add forgets a field: %+v", sum)
	}
}

func BenchmarkSchedule(b *testing.B) {
	w := New(Options{Members: 4, Partitions: 6})
	steps := 0
	for seed := uint64(0); b.Loop(); seed++ {
		steps += w.Play(seed).Steps
	}
	b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "steps/s")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "schedules/s")
}
