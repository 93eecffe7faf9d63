package main

import "github.com/spf13/cobra"

func benchCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure, and compare with what others have measured",
		Long:  "Bench measures what rota promises to be good at, beside others that do the same.",
		Example: `  rota bench plan              placing by load, beside the algorithms of the papers
  rota help bench plan         more about it`,
	}
	cmd.AddCommand(benchPlanCmd())
	return cmd
}
