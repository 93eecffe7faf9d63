//go:build mutants

package agent

import (
	"fmt"
	"os"
	"strings"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/rule"
)

// A build for tests: ROTA_DEFECT="self-stop stop-ack" takes these rules out of every
// member that this program runs, so that tests with real processes can show that
// they notice.
func init() {
	for _, name := range strings.Fields(os.Getenv("ROTA_DEFECT")) {
		r, err := rule.Named(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "rota: ROTA_DEFECT:", err)
			os.Exit(cli.ExitUsage)
		}
		rule.Take(r)
	}
}
