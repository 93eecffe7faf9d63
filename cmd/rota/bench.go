package main

import "github.com/spf13/cobra"

func benchCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure rota on this machine",
		Long:    "Bench measures rota on this machine: what docs/performance.md tells of another one.",
		Example: "  rota bench failover      how long partitions wait when members come, go and die",
	}
	cmd.AddCommand(benchFailoverCmd(), benchPageCmd())
	return cmd
}
