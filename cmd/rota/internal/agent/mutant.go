//go:build mutants

package agent

import (
	"fmt"
	"os"
	"strings"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/core"
)

// Each variable takes one rule of the watchdog out; internal/defect says which.
var (
	mutClockLate bool // W1
	mutRevive    bool // W2
	mutGoneEarly bool // W3
	mutTicksOnly bool // W4
)

// mutate takes a rule of the watchdog out until undo is called.
func mutate(id string) (undo func(), ok bool) {
	m, ok := map[string]*bool{"W1": &mutClockLate, "W2": &mutRevive, "W3": &mutGoneEarly, "W4": &mutTicksOnly}[id]
	if !ok {
		return nil, false
	}
	*m = true
	return func() { *m = false }, true
}

// A build for tests: ROTA_DEFECT="M7 M24" takes these rules out of every member
// that this program runs, so that tests with real processes can show that they
// notice.
func init() {
	for _, id := range strings.Fields(os.Getenv("ROTA_DEFECT")) {
		_, inCore := core.Mutate(id)
		_, inShell := rota.Mutate(id)
		if _, here := mutate(id); !inCore && !inShell && !here {
			fmt.Fprintf(os.Stderr, "rota: ROTA_DEFECT: there is no rule %q to take out; see internal/defect\n", id)
			os.Exit(cli.ExitUsage)
		}
	}
}
