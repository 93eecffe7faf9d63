package sim

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

func TestQuick(t *testing.T) {
	w := New(Options{Members: 4, Partitions: 6})
	n := 2000
	if s := os.Getenv("N"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	minSteps, minFaults, total := 1<<30, 1<<30, 0
	bad := map[string][]uint64{}
	for seed := range uint64(n) {
		r := w.Run(seed)
		total += r.Steps
		if r.Violation != nil {
			k := r.Violation.Invariant
			bad[k] = append(bad[k], seed)
			if len(bad[k]) < 4 {
				t.Errorf("seed %d: %v", seed, r.Violation)
			}
			continue
		}
		minSteps, minFaults = min(minSteps, r.Steps), min(minFaults, r.Faults)
	}
	for k, v := range bad {
		t.Errorf("%s: %d of %d, first %v", k, len(v), n, v[:min(8, len(v))])
	}
	t.Logf("avg steps %d min steps %d min faults %d marks %+v", total/n, minSteps, minFaults, w.Marks())
}

func TestTrace(t *testing.T) {
	s := os.Getenv("SEED")
	if s == "" {
		t.Skip()
	}
	seed, _ := strconv.ParseUint(s, 10, 64)
	w := New(Options{Members: 4, Partitions: 6})
	w.log = func(a int64, line string) { fmt.Println(at(a), line) }
	r := w.Run(seed)
	fmt.Printf("%+v\n", w.opt.noise)
	fmt.Println(r.Violation)
}
