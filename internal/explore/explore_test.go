package explore

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	want := os.Getenv("EXPLORE")
	for _, c := range Configs {
		if want != "" && !strings.Contains(c.Name, want) {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 12*time.Second)
		r := Explore(ctx, c, Options{})
		cancel()
		t.Logf("%-30s %9d states %10d transitions depth %d exhausted %v %.1fs %.0f/s", r.Config, r.States, r.Transitions, r.Depth, r.Exhausted, r.Seconds, float64(r.Transitions)/r.Seconds)
		if r.Violation != nil {
			t.Errorf("%v\n%s", r.Violation, strings.Join(r.Trace, "\n"))
		}
	}
}
