package bench

import (
	"fmt"
	"testing"
)

func TestTry(t *testing.T) {
	l, _ := FindLoad("walk")
	e := &Experiment{Algorithms: append([]Algorithm{}, Paper...), Load: l, Partitions: 200, Capacity: 100, Steps: 500, Deltas: []int{5, 10, 15, 20, 25}, Seed: 1, Seeds: 4}
	rows, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		fmt.Printf("%-6s %2d  %.4f / %.2f  moves %.1f members %.1f gap %.4f %.1f µs sd %.4f %.2f\n", r.Algorithm, r.Delta, r.CBS, r.ER, r.Moves, r.Members, r.L2Gap, r.PlanUS, r.CBSSD, r.ERSD)
	}
}
