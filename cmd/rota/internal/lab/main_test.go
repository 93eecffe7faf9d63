package lab

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/agent"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/demo"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/spf13/cobra"
)

func TestMain(m *testing.M) { trial.Main(m, func() { cli.Main(run) }) }

// run runs the program, as far as this room needs it: its own commands, and those
// that rota bench failover calls.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "dev" { // the other program
		return cli.Run(ctx, DevCmd(), func(*cobra.Command) {}, args[1:], stdout, stderr)
	}
	root := &cobra.Command{Use: "rota"}
	root.AddCommand(SimCmd(), ExploreCmd(), PlanCmd(), BenchCmd(), agent.RunCmd(), demo.ServeCmd())
	return cli.Run(ctx, root, func(*cobra.Command) {}, args, stdout, stderr)
}

func rotaRuns(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, err strings.Builder
	code = run(ctx, args, &out, &err)
	return code, out.String(), err.String()
}
