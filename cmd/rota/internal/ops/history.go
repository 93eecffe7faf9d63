package ops

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/internal/line"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/spf13/cobra"
)

// HistoryCmd shows the plans of the past.
func HistoryCmd() *cobra.Command {
	var t connect.Target
	var v view
	last := 20
	cmd := &cobra.Command{
		Use:   "history",
		Short: "List the newest plans: when and why each was made, and how much moved",
		Long: `History shows what the group's record of its plans holds, the oldest first: number,
time, cause with up to three members each, how many partitions got another owner, and
how many members the plan counts on. It keeps 1000 plans. It does not hold which
partitions moved, from whom to whom: that is in the event lines of the members (rota run
--events). A plan may be missing from it when the store was slow. Times are those of the
leaders' clocks.`,
		Example: `  rota history
  rota history --last 1000 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return v.show(cmd, &t, func(w io.Writer, st *rota.Status) error { return printHistory(w, newest(st, last), time.Now()) },
				func(st *rota.Status) (any, error) { return newest(st, last), nil })
		},
	}
	t.Flags(cmd)
	v.flags(cmd, true)
	v.inspects = true
	cmd.Flags().Var(cli.Whole(&last, 1, math.MaxInt), "last", "how many")
	return cmd
}

func newest(st *rota.Status, n int) []rota.PlanInfo {
	return append([]rota.PlanInfo{}, st.History[max(0, len(st.History)-n):]...)
}

func printHistory(w io.Writer, plans []rota.PlanInfo, now time.Time) error {
	if len(plans) == 0 {
		_, err := fmt.Fprintln(w, "no plan is on record")
		return err
	}
	tw := cli.Table(w)
	fmt.Fprintln(tw, "PLAN\tTIME\t\tMOVES\tMEMBERS\tBECAUSE")
	for _, h := range plain.Copy(plans) {
		fmt.Fprintf(tw, "%d\t%s\t%s\t%d\t%d\t%s\n", h.Plan, h.Time.Format(time.DateTime), cli.Ago(now.Sub(h.Time)), h.Moves, h.Members, cmp.Or(line.Causes(h.Causes), "no cause on record"))
	}
	return tw.Flush()
}
