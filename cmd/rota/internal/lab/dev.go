package lab

import "github.com/spf13/cobra"

// DevCmd is what only rota's developers need: the pages of docs/, and measuring with
// more choices. It is a program of its own, internal/dev.
func DevCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "rota-dev",
		Short: "Write the pages of docs/, and measure what only developers measure",
		Example: `  go run ./cmd/rota/internal/dev evidence docs/evidence >docs/evidence.md
  go run ./cmd/rota/internal/dev bench page -o page build/bench >docs/performance.md
  go run ./cmd/rota/internal/dev ramp build/ramp/local.jsonl >docs/pictures/ramp.svg
  go run ./cmd/rota/internal/dev pictures docs/pictures`,
	}
	bench := &cobra.Command{Use: "bench", Short: "Measure, and compare what was measured", Example: "  rota-dev bench page build/bench"}
	bench.AddCommand(devFailoverCmd(), benchPageCmd())
	root.AddCommand(evidenceCmd(), picturesCmd(), bench, rampCmd())
	root.PersistentFlags().String("config", "", "read settings from this YAML file")
	return root
}
