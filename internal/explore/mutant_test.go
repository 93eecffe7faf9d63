//go:build mutants

package explore

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rota-dev/rota/internal/rule"
)

var update = flag.Bool("update", false, "write the shortest histories that break without each rule")

// TestMutantsAreExplored takes each rule out and explores the configuration that
// must notice. The shortest history that breaks without it is kept beside the rule
// book, for docs/rules.md.
func TestMutantsAreExplored(t *testing.T) {
	for _, r := range rule.Known() {
		if !r.Entry().Must(rule.Explorer) {
			continue
		}
		t.Run(r.String(), func(t *testing.T) {
			found := Without(t.Context(), r, Options{Cores: 1}) // so that it is the same way each time
			if found == nil || found.Violation == nil {
				t.Fatalf("nobody noticed: %s", r.Entry().Without)
			}
			if found.Violation.Invariant != string(r.Entry().Serves) {
				t.Errorf("it serves %s, and without it %v", r.Entry().Serves, found.Violation)
			}
			text := fmt.Sprintf("%s\n%v\n\n%s\n", found.Config, found.Violation, strings.Join(found.Trace, "\n"))
			path := "../rule/histories/" + r.String() + ".txt"
			if *update {
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if kept, err := os.ReadFile(path); err != nil || string(kept) != text {
				t.Errorf("%s (%v) is not what happens now; go test -tags mutants ./internal/explore -run Mutants -update writes it:\n%s", path, err, text)
			}
		})
	}
}
