// Dev is the program of those who develop rota: what scripts/ and the Makefile call,
// and no user needs.
package main

import (
	"context"
	"io"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/lab"
	"github.com/spf13/cobra"
)

func main() { cli.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.Run(ctx, lab.DevCmd(), func(*cobra.Command) {}, args, stdout, stderr)
}
