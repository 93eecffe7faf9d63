package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/rota-dev/rota/internal/record"
	"github.com/spf13/cobra"
)

// Operators change a group by its orders: one record, one compare-and-set per
// command. The leader sees it and plans.

// errNoChange says that the group obeys the order already.
var errNoChange = errors.New("no change: already in effect")

// mostOrders is how many orders of the past are kept.
const mostOrders = 100

// applyOrder writes one order by compare-and-set. On a conflict it reads the orders
// again and retries.
func applyOrder(ctx context.Context, store rota.Store, group, verb string, args []string, log record.Order) error {
	return changeOrders(ctx, store, group, func(o *record.Orders) (bool, error) { return o.Give(verb, args...) }, log)
}

func changeOrders(ctx context.Context, store rota.Store, group string, change func(*record.Orders) (bool, error), log record.Order) error {
	key := group + "/orders"
	for {
		o := &record.Orders{}
		e, err := store.Get(ctx, key)
		if err != nil && !errors.Is(err, rota.ErrNotFound) {
			return err
		}
		if err == nil {
			if o, err = record.DecodeOrders(e.Value); err != nil {
				return unreadable("orders", err)
			}
		}
		switch changed, err := change(o); {
		case err != nil:
			return cli.BadUsage(err)
		case !changed:
			return errNoChange
		}
		o.Ver++
		o.Log = append(o.Log, log)
		o.Log = o.Log[max(0, len(o.Log)-mostOrders):]
		b, err := record.Encode(o)
		if err != nil {
			return cli.BadUsage(err)
		}
		if err := fits(ctx, store, group, o); err != nil {
			return err
		}
		_, err = store.Put(ctx, key, b, e.Rev)
		if !errors.Is(err, rota.ErrConflict) {
			return err
		}
	}
}

// unreadable says what is to be done about a record that the command needs.
func unreadable(which string, err error) error {
	return fmt.Errorf("the %s in the store: %w: %w; rota group repair mends it", which, rota.ErrUnreadable, err)
}

// fits refuses orders with which no roster could be written: the leader would
// have to leave them undone.
func fits(ctx context.Context, store rota.Store, group string, o *record.Orders) error {
	e, err := store.Get(ctx, group+"/roster")
	switch {
	case errors.Is(err, rota.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	r, err := record.DecodeRoster(e.Value)
	if err != nil {
		return unreadable("roster", err)
	}
	if err := o.Fit(r); err != nil {
		return cli.BadUsage(fmt.Errorf("the group could not write that down: %w", err))
	}
	return nil
}

func operator() string {
	name := "somebody"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}

// An order is one command that gives orders.
type order struct {
	use, short, long, example string
	args                      cobra.PositionalArgs
	// check refuses arguments that do not fit the group as it is.
	check func(st *rota.Status, args []string) error
	done  func(args []string) string
	// complete offers partitions or members.
	complete func(st *rota.Status) []string
}

func orderCmd(o order) *cobra.Command {
	var t connect.Target
	var why string
	cmd := &cobra.Command{
		Use: o.use, Short: o.short, Long: o.long, Example: o.example, Args: o.args,
		RunE: func(cmd *cobra.Command, args []string) error {
			st, store, err := inspect(cmd.Context(), &t)
			if err != nil {
				return err
			}
			defer store.Close()
			if o.check != nil {
				if err := o.check(st, args); err != nil {
					return err
				}
			}
			done, what := o.done(args), strings.TrimSpace(cmd.Name()+" "+strings.Join(args, " "))
			if cmd.Parent() != nil && cmd.Parent().HasParent() {
				what = cmd.Parent().Name() + " " + what
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), connect.StoreTime)
			defer cancel()
			err = applyOrder(ctx, store, t.Group, cmd.Name(), args, record.Order{At: time.Now().UnixMilli(), Who: operator(), What: what, Why: why})
			switch {
			case errors.Is(err, errNoChange):
				done = err.Error()
			case cli.IsUsage(err), errors.Is(err, rota.ErrUnreadable):
				return err
			case err != nil:
				return cli.Unreachable(t.Store, err)
			}
			return sayDone(cmd.OutOrStdout(), done, st)
		},
	}
	if o.complete != nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return completeFrom(cmd.Context(), t, o.complete, args, typed)
		}
	}
	t.Flags(cmd)
	cmd.Flags().StringVar(&why, "why", "", "why, for the log of orders")
	return cmd
}

func sayDone(w io.Writer, done string, st *rota.Status) error {
	if !slices.ContainsFunc(st.Members, func(m rota.MemberInfo) bool { return m.State == rota.MemberLive }) {
		done += "; no member is live, so it is done once one is"
	}
	_, err := fmt.Fprintln(w, plain.Text(done))
	return err
}

// completeFrom asks the group for names, if it can be asked quickly.
func completeFrom(ctx context.Context, t connect.Target, names func(*rota.Status) []string, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	t.Dir = cmp.Or(t.Dir, connect.DefaultDir)
	st, store, err := inspect(ctx, &t)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer store.Close()
	var out []string
	for _, n := range names(st) {
		if strings.HasPrefix(n, typed) && n == plain.Text(n) && !slices.Contains(args, n) {
			out = append(out, n)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func partitionNames(st *rota.Status) (out []string) {
	for _, p := range st.Partitions {
		if p.Reason != rota.ReasonRemoved {
			out = append(out, p.Name)
		}
	}
	return out
}

func memberNames(st *rota.Status) (out []string) {
	for _, m := range st.Members {
		if m.State == rota.MemberLive {
			out = append(out, m.Name)
		}
	}
	return out
}

// These refuse names that the group does not have.
func knownPartitions(st *rota.Status, args []string) error {
	return cli.Known("partition", partitionNames(st), args...)
}

func knownPartition(st *rota.Status, args []string) error { return knownPartitions(st, args[:1]) }

func knownMembers(st *rota.Status, args []string) error {
	return cli.Known("live member", memberNames(st), args...)
}

func knownPair(st *rota.Status, args []string) error {
	return cmp.Or(knownPartition(st, args), knownMembers(st, args[1:]))
}

// settable refuses metadata that is rota's own.
func settable(st *rota.Status, args []string) error {
	for _, pair := range args[1:] {
		if strings.HasPrefix(pair, "rota.") {
			return cli.Usagef("%q: keys that begin with rota. are rota's own: choose another", pair)
		}
	}
	return knownPartition(st, args)
}

// said is a sentence about all arguments, saidOf one about the first and the rest.
func said(format string) func(args []string) string {
	return func(args []string) string { return strings.Replace(format, "%s", strings.Join(args, ", "), 1) }
}

func saidOf(format string) func(args []string) string {
	return func(args []string) string { return fmt.Sprintf(format, args[0], strings.Join(args[1:], ", ")) }
}

func OrderCmds() []*cobra.Command {
	both := func(st *rota.Status) []string { return append(partitionNames(st), memberNames(st)...) }
	return []*cobra.Command{
		orderCmd(order{use: "pause PARTITION...", short: "Let nobody run a partition until it is resumed", args: cobra.MinimumNArgs(1), complete: partitionNames,
			long:    "Pause takes partitions from their owners. They stay without one, also when members\ncome and go, until they are resumed.",
			example: "  rota pause orders.3 --why 'poison message'",
			check:   knownPartitions, done: said("%s: paused; nobody runs it until rota resume")}),
		orderCmd(order{use: "resume PARTITION...", short: "End a pause", args: cobra.MinimumNArgs(1), complete: func(st *rota.Status) []string { return st.Orders.Paused },
			example: "  rota resume orders.3",
			done:    said("%s: resumed")}),
		orderCmd(order{use: "drain MEMBER...", short: "Take all partitions from a member", args: cobra.MinimumNArgs(1), complete: memberNames,
			long:    "Drain moves all partitions of a member, by its name, to others. It stays in the group\nand gets nothing until rota undrain.",
			example: "  rota drain c2 --why 'host goes down for service'",
			check:   knownMembers, done: said("%s: drained; it gets nothing until rota undrain")}),
		orderCmd(order{use: "undrain MEMBER...", short: "Let a drained member have partitions again", args: cobra.MinimumNArgs(1), complete: func(st *rota.Status) []string { return st.Orders.Drains },
			example: "  rota undrain c2",
			done:    said("%s: may have partitions again")}),
		orderCmd(order{use: "pin PARTITION MEMBER", short: "Tie a partition to a member, by its name", args: cobra.ExactArgs(2), complete: both,
			long:    "Pin moves a partition to a member and keeps it there. While no member of that name is\nthere, the pin is ignored.",
			example: "  rota pin orders.3 c2",
			check:   knownPair, done: saidOf("%s: pinned to %s")}),
		orderCmd(order{use: "unpin PARTITION...", short: "Let a pinned partition go", args: cobra.MinimumNArgs(1),
			complete: func(st *rota.Status) []string { return cli.SortedKeys(st.Orders.Pins) },
			example:  "  rota unpin orders.3",
			done:     said("%s: pinned no more")}),
		orderCmd(order{use: "ban PARTITION MEMBER...", short: "Keep a partition away from members, by their names", args: cobra.MinimumNArgs(2), complete: both,
			long:    "Ban takes a partition from a member, if that owns it, and does not give it to it again\nuntil rota unban. With nobody else to run it, it waits.",
			example: "  rota ban orders.3 c2 --why 'cannot reach the ledger from there'",
			check:   knownPair, done: saidOf("%s: kept away from %s until rota unban")}),
		orderCmd(order{use: "unban PARTITION [MEMBER]...", short: "Lift a ban; without members, all of a partition", args: cobra.MinimumNArgs(1),
			complete: func(st *rota.Status) []string { return cli.SortedKeys(st.Orders.Bans) },
			example:  "  rota unban orders.3 c2",
			done: func(args []string) string {
				return args[0] + ": may be run by " + cmp.Or(strings.Join(args[1:], ", "), "anybody") + " again"
			}}),
		orderCmd(order{use: "freeze", short: "Move nothing that need not move", args: cobra.NoArgs,
			long:    "Freeze stops voluntary moves: members that join get nothing. Partitions whose owner is\ngone still get another.",
			example: "  rota freeze --why deployment",
			done:    said("frozen: nothing moves that need not, until rota thaw")}),
		orderCmd(order{use: "thaw", short: "End a freeze", args: cobra.NoArgs, example: "  rota thaw", done: said("thawed: partitions may move again")}),
	}
}

func PartitionsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "partitions",
		Short: "List, add, remove and describe partitions",
		Example: `  rota partitions list
  rota partitions add orders.64 orders.65
  rota partitions remove orders.3
  rota partitions set orders.3 region=eu limit=`,
	}
	cmd.AddCommand(
		partitionsListCmd(),
		orderCmd(order{use: "add PARTITION...", short: "Add partitions that the source does not list, or bring removed ones back", args: cobra.MinimumNArgs(1),
			example: "  rota partitions add orders.64", done: said("%s: added")}),
		orderCmd(order{use: "remove PARTITION...", short: "Let partitions go: nobody runs them any more", args: cobra.MinimumNArgs(1), complete: partitionNames,
			example: "  rota partitions remove orders.3",
			check:   knownPartitions, done: said("%s: removed; nobody runs it any more")}),
		orderCmd(order{use: "set PARTITION KEY=VALUE...", short: "Set metadata of a partition; KEY= takes a key away", args: cobra.MinimumNArgs(2), complete: partitionNames,
			long:    "Set changes the metadata of a partition. Its owner sees it at once, without a restart;\nit wins over what the source says.",
			example: "  rota partitions set orders.3 region=eu limit=",
			check:   settable, done: saidOf("%s: set %s")}),
	)
	return cmd
}
