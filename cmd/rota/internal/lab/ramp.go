package lab

import (
	"fmt"
	"io"
	"os"

	"github.com/rota-dev/rota/cmd/rota/internal/lab/bench"
	"github.com/spf13/cobra"
)

// rampCmd draws what make ramp has measured.
func rampCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ramp FILE",
		Short:   "Draw what make ramp has measured",
		Example: "  go run ./cmd/rota/internal/dev ramp build/ramp/local.jsonl >docs/pictures/ramp.svg",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			r, err := bench.ReadRamp(f)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), bench.RampSVG(r))
			return err
		},
	}
}
