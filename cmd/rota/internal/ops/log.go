package ops

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/spf13/cobra"
)

// OrdersCmd shows what operators have ordered.
func OrdersCmd() *cobra.Command {
	var t connect.Target
	var v view
	cmd := &cobra.Command{
		Use:   "orders",
		Short: "Show the orders that stand, and the log of those given: by whom, when and why",
		Long: `Orders shows what the group is to obey now, and the last 100 orders that were given.
One that is planned is in the leader's plan; partitions may still be changing hands for
it, which rota status shows. One that waits has not been seen by a leader yet.`,
		Example: `  rota orders
  rota orders -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return v.show(cmd, &t, func(w io.Writer, st *rota.Status) error { return printOrders(w, st, time.Now()) },
				func(st *rota.Status) (any, error) { return st.Orders, nil })
		},
	}
	t.Flags(cmd)
	v.flags(cmd, true)
	v.inspects = true
	return cmd
}

func printOrders(w io.Writer, st *rota.Status, now time.Time) error {
	st = plain.Copy(st)
	stand := ordersNow(st, now)
	for _, text := range stand {
		fmt.Fprintln(w, text)
	}
	if len(stand) == 0 {
		fmt.Fprintln(w, "no order stands")
	}
	if len(st.Orders.Log) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	tw := cli.Table(w)
	fmt.Fprintln(tw, "TIME\t\tSTATE\tWHO\tORDER\tWHY")
	for _, l := range st.Orders.Log {
		state := "waits"
		if l.Planned {
			state = "planned"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Time.Format(time.DateTime), cli.Ago(now.Sub(l.Time)), state, l.Who, l.What, cmp.Or(l.Why, "-"))
	}
	return tw.Flush()
}
