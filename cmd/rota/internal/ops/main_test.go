package ops

import (
	"context"
	"strings"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/spf13/cobra"
)

// rotaRuns runs the program, as far as this room has commands of it.
func rotaRuns(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	root := &cobra.Command{Use: "rota"}
	root.AddCommand(StatusCmd(), ExplainCmd(), PartitionsCmd(), TopicsCmd(), DeadCmd(), GroupCmd(), GroupsCmd(), OrdersCmd(), HistoryCmd(), DeclareDeadCmd(), CheckCmd())
	root.AddCommand(OrderCmds()...)
	var out, err strings.Builder
	code = cli.Run(ctx, root, func(*cobra.Command) {}, args, &out, &err)
	return code, out.String(), err.String()
}
