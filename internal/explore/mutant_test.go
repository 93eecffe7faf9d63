//go:build mutants

package explore

import (
	"strings"
	"testing"

	"github.com/rota-dev/rota/internal/defect"
)

// TestMutantsAreExplored takes each rule out and explores the configuration that
// must notice.
func TestMutantsAreExplored(t *testing.T) {
	for _, d := range defect.Table {
		if !d.Must(defect.Explorer) {
			continue
		}
		t.Run(d.ID, func(t *testing.T) {
			r := Catch(t.Context(), d.ID, Options{})
			switch {
			case r == nil:
				t.Fatalf("no configuration catches %s", d.ID)
			case r.Violation == nil:
				t.Fatalf("%s was not noticed in %s: %d states", d.Rule, r.Config, r.States)
			}
			t.Logf("%s: %s: %v, %d steps, %d states, %.1f s\n%s", d.Rule, r.Config, r.Violation, r.Depth, r.States, r.Seconds, strings.Join(r.Trace, "\n"))
		})
	}
}
