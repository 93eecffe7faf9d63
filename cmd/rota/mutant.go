//go:build mutants

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/core"
)

// A build for tests: ROTA_DEFECT="M7 M24" takes these rules out of every member
// that this program runs, so that tests with real processes can show that they
// notice.
func init() {
	for _, id := range strings.Fields(os.Getenv("ROTA_DEFECT")) {
		_, inCore := core.Mutate(id)
		if _, inShell := rota.Mutate(id); !inCore && !inShell {
			fmt.Fprintf(os.Stderr, "rota: ROTA_DEFECT: there is no rule %q to take out; see internal/defect\n", id)
			os.Exit(exitUsage)
		}
	}
}
