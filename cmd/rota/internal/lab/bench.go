package lab

import "github.com/spf13/cobra"

func BenchCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure, and compare with what others do",
		Long:  "Bench measures what rota promises to be good at, beside others that do the same.",
		Example: `  rota bench failover          how long partitions wait when members come, go and die
  rota bench store             how fast a store is here, and the lease that it wants
  rota bench plan              placing by load, beside the algorithms of the papers
  rota help bench plan         more about one of them`,
	}
	cmd.AddCommand(benchFailoverCmd(), benchStoreCmd(), benchPlanCmd())
	return cmd
}
