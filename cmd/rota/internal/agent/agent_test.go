package agent

import (
	"context"
	"io"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/spf13/cobra"
)

// agentRoot is the program, as far as this room has commands of it.
func agentRoot() *cobra.Command {
	root := &cobra.Command{Use: "rota"}
	root.AddCommand(RunCmd(), WatchdogCmd())
	return root
}

func agentRuns(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.Run(ctx, agentRoot(), func(*cobra.Command) {}, args, stdout, stderr)
}

func TestMain(m *testing.M) { trial.Main(m, func() { cli.Main(agentRuns) }) }
