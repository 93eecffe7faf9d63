// Rota is the one binary: it runs members, shows groups and checks both.
package main

import (
	"context"
	_ "embed"
	"io"
	"strconv"

	"github.com/rota-dev/rota/cmd/rota/internal/agent"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/demo"
	"github.com/rota-dev/rota/cmd/rota/internal/lab"
	"github.com/rota-dev/rota/cmd/rota/internal/ops"
	"github.com/spf13/cobra"
)

// notices are the licences of what others have made and this binary contains, as
// make notices has found them.
//
//go:embed THIRD-PARTY-NOTICES
var notices string

func main() { cli.Main(run) }

// run is the whole program but for the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.Run(ctx, rootCmd(), connect.WarnOfExposed, args, stdout, stderr)
}

func rootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "rota",
		Short: "Keep a duty roster for queues",
		Long: `Rota keeps a duty roster for queues: at every moment at most one member may
act on a partition, and none is idle for longer than it must be.`,
		Example: `  rota up                  a group at work on this machine: processes, messages, all real
  rota run                 one more member for it, in another terminal of the same folder
  rota status              who leads, who owns what, what is waited for
  rota explain demo.3      the same in words, for one partition
  rota sim                 look for broken promises in 20000 simulated schedules
  rota bench failover      how long partitions wait when members come, go and die
  rota bench store         how fast a store is from here, and the lease for it
  rota help sim            more about one command
  rota completion bash     completion for your shell`,
		Version: cli.Version(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(
		demo.UpCmd(),
		agent.RunCmd(),
		agent.LeaseCmd(),
		demo.ServeCmd(),
		demo.ProduceCmd(),
		ops.StatusCmd(),
		ops.ExplainCmd(),
		ops.PartitionsCmd(),
		ops.TopicsCmd(),
		ops.DeadCmd(),
		ops.GroupCmd(),
		ops.GroupsCmd(),
		ops.OrdersCmd(),
		ops.HistoryCmd(),
		ops.DeclareDeadCmd(),
		ops.CheckCmd(),
		lab.SimCmd(),
		lab.ExploreCmd(),
		lab.PlanCmd(),
		lab.BenchCmd(),
		agent.WatchdogCmd(),
		cli.VersionCmd(notices),
	)
	root.AddCommand(ops.OrderCmds()...)
	root.PersistentFlags().String("config", "", "read settings from this YAML file: lease: 5s for --lease 5s; ROTA_LEASE wins over it, a flag over both")
	root.PersistentFlags().BoolFunc("shared-folder", "use a folder that belongs to another user or that others may write to; they can replace what is in it", func(v string) error {
		on, err := strconv.ParseBool(v)
		connect.SharedFolder.Store(on)
		return err
	})
	return root
}
