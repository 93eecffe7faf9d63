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
	"strconv"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/spf13/cobra"
)

// errNoChange says that the group obeys the order already.
var errNoChange = errors.New("no change: already in effect")

// applyOrder gives a group an order and returns its version.
func applyOrder(ctx context.Context, store rota.Store, group string, o rota.Order) (uint64, error) {
	ver, changed, err := rota.Give(ctx, store, group, o)
	switch {
	case errors.Is(err, rota.ErrOrder):
		return 0, cli.BadUsage(err)
	case err == nil && !changed:
		return ver, errNoChange
	}
	return ver, err
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
	verb                      string // of record.Orders.Give; the command's name if empty
	args                      cobra.PositionalArgs
	// check refuses arguments that do not fit the group as it is.
	check func(st *rota.Status, args []string) error
	done  func(args []string) string
	// give makes the arguments of the order of those of the command, if they differ.
	give func(st *rota.Status, args []string) []string
	// warn says what follows that may not be meant.
	warn func(st *rota.Status, args []string) string
	// missing says what the group still has to do, once the plan obeys the order; "" if
	// that is all.
	missing func(st *rota.Status, args []string) string
	// complete offers partitions or members.
	complete func(st *rota.Status) []string
}

// An orderRun is one call of a command that gives an order.
type orderRun struct {
	order
	target connect.Target
	why    string
	output string
	wait   bool
	time   time.Duration
}

// orderDone is what the command prints as JSON.
type orderDone struct {
	Order    string `json:"order"`
	Ver      uint64 `json:"ver"`
	Changed  bool   `json:"changed"`             // false: the group obeyed it already
	InEffect *bool  `json:"in_effect,omitempty"` // with --wait
	Text     string `json:"text"`                // for people
}

func orderCmd(o order) *cobra.Command {
	r := &orderRun{order: o, time: time.Minute}
	cmd := &cobra.Command{
		Use: o.use, Short: o.short, Long: o.long, Example: o.example, Args: o.args,
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd, args) },
	}
	if o.complete != nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return completeFrom(cmd.Context(), r.target, o.complete, args, typed)
		}
	}
	r.target.Flags(cmd)
	cmd.Flags().StringVar(&r.why, "why", "", "why, for the log of orders")
	cmd.Flags().BoolVar(&r.wait, "wait", false, "until the order has taken effect")
	cmd.Flags().Var(cli.Span(&r.time), "wait-time", "how long to --wait at most; then the exit code is 1, and the order stands")
	outputFlag(cmd, &r.output)
	return cmd
}

func (r *orderRun) run(cmd *cobra.Command, args []string) error {
	st, store, err := inspect(cmd.Context(), &r.target)
	if err != nil {
		return err
	}
	defer store.Close()
	if r.check != nil {
		if err := r.check(st, args); err != nil {
			return err
		}
	}
	what := strings.TrimSpace(cmd.Name() + " " + strings.Join(args, " "))
	if cmd.Parent() != nil && cmd.Parent().HasParent() {
		what = cmd.Parent().Name() + " " + what
	}
	done := &orderDone{Order: what, Changed: true, Text: r.done(args)}
	given := args
	if r.give != nil {
		given = r.give(st, args)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), connect.StoreTime)
	defer cancel()
	done.Ver, err = applyOrder(ctx, store, r.target.Group, rota.Order{Do: cmp.Or(r.verb, cmd.Name()), Args: given, Who: operator(), What: what, Why: r.why})
	switch {
	case errors.Is(err, errNoChange):
		done.Changed, done.Text = false, err.Error()
	case cli.IsUsage(err), errors.Is(err, rota.ErrUnreadable):
		return err
	case err != nil:
		return cli.Unreachable(r.target.Store, err)
	}
	if r.warn != nil {
		done.Text += r.warn(st, args)
	}
	return r.finish(cmd, store, st, done, args)
}

// finish waits, if that is wanted, and says what came of the order.
func (r *orderRun) finish(cmd *cobra.Command, store rota.Store, st *rota.Status, done *orderDone, args []string) error {
	var late error
	if r.wait {
		late = r.await(cmd.Context(), store, done.Ver, args)
		inEffect := late == nil
		done.InEffect = &inEffect
		if inEffect {
			done.Text += "; it is in effect"
		}
	} else if !anyLive(st) {
		done.Text += "; no member is live, so it is done once one is"
	}
	if r.output == "json" {
		if err := printJSON(cmd.OutOrStdout(), done); err != nil {
			return err
		}
		return late
	}
	return errors.Join(sayDone(cmd.OutOrStdout(), done.Text), late)
}

func sayDone(w io.Writer, done string) error {
	_, err := fmt.Fprintln(w, plain.Text(done))
	return err
}

func anyLive(st *rota.Status) bool {
	return slices.ContainsFunc(st.Members, func(m rota.MemberInfo) bool { return m.State == rota.MemberLive })
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

func named(name string) func(rota.PartitionInfo) bool {
	return func(p rota.PartitionInfo) bool { return p.Name == name }
}

func quarantined(st *rota.Status) (out []string) {
	for _, p := range st.Partitions {
		if p.Reason == rota.ReasonQuarantined {
			out = append(out, p.Name)
		}
	}
	return out
}

// inQuarantine refuses a partition that is not.
func inQuarantine(st *rota.Status, name string) error {
	if slices.Contains(quarantined(st), name) {
		return nil
	}
	return cli.Usagef("%s is not in quarantine: there is nothing to release it from; rota explain %s says how it is", name, name)
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

// partitionsOr is knownPartitions, and also knows those that the orders name: the group
// may have lost them.
func partitionsOr(ordered func(st *rota.Status) []string) func(*rota.Status, []string) error {
	return func(st *rota.Status, args []string) error {
		return cli.Known("partition", union(partitionNames(st), ordered(st)), args...)
	}
}

func paused(st *rota.Status) []string  { return st.Orders.Paused }
func drained(st *rota.Status) []string { return st.Orders.Drains }
func pinned(st *rota.Status) []string  { return cli.SortedKeys(st.Orders.Pins) }
func banned(st *rota.Status) []string  { return cli.SortedKeys(st.Orders.Bans) }

// knownOrDrained also knows members that have ended and are drained.
func knownOrDrained(st *rota.Status, args []string) error {
	return cli.Known("member", union(memberNames(st), drained(st)), args...)
}

// knownBan refuses names that neither the group nor the bans of a partition have.
func knownBan(st *rota.Status, args []string) error {
	if err := partitionsOr(banned)(st, args[:1]); err != nil {
		return err
	}
	for _, m := range args[1:] {
		if !slices.Contains(union(st.Orders.Bans[args[0]], memberNames(st)), m) {
			return fmt.Errorf("%s is not kept away from %s, and there is no live member of that name", args[0], m)
		}
	}
	return nil
}

// union has the names of both lists once.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, name := range b {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// settable refuses metadata that is rota's own, and names that known does not know.
func settable(known func(*rota.Status, []string) error) func(*rota.Status, []string) error {
	return func(st *rota.Status, args []string) error {
		for _, pair := range args[1:] {
			if strings.HasPrefix(pair, "rota.") {
				return cli.Usagef("%q: keys that begin with rota. are rota's own: choose another", pair)
			}
		}
		return known(st, args[:1])
	}
}

// said is a sentence about all arguments: one about a single one, or one about several.
func said(one, several string) func(args []string) string {
	return func(args []string) string {
		format := one
		if len(args) > 1 {
			format = several
		}
		return strings.Replace(format, "%s", strings.Join(args, ", "), 1)
	}
}

// saidOf is a sentence about the first argument and the rest.
func saidOf(format string) func(args []string) string {
	return func(args []string) string { return fmt.Sprintf(format, args[0], strings.Join(args[1:], ", ")) }
}

func OrderCmds() []*cobra.Command {
	both := func(st *rota.Status) []string { return append(partitionNames(st), memberNames(st)...) }
	return []*cobra.Command{
		orderCmd(order{use: "pause PARTITION...", short: "Let nobody run a partition until it is resumed", args: cobra.MinimumNArgs(1), complete: partitionNames,
			long:    "Pause takes partitions from their owners. They stay without one, also when members\ncome and go, until they are resumed.",
			example: "  rota pause orders.3 --why 'poison message'",
			check:   knownPartitions, missing: untilPaused, done: said("%s: paused; nobody runs it until rota resume", "%s: paused; nobody runs them until rota resume")}),
		orderCmd(order{use: "resume PARTITION...", short: "End a pause", args: cobra.MinimumNArgs(1), complete: paused,
			example: "  rota resume orders.3",
			check:   partitionsOr(paused), missing: untilRuns, done: said("%s: resumed", "%s: resumed")}),
		orderCmd(order{use: "drain MEMBER...", short: "Take all partitions from a member", args: cobra.MinimumNArgs(1), complete: memberNames,
			long:    "Drain moves all partitions of a member, by its name, to others. It stays in the group\nand gets nothing until rota undrain.",
			example: "  rota drain c2 --why 'host goes down for service'\n  rota drain c2 --wait && ssh host2 poweroff",
			check:   knownMembers, warn: nobodyLeft, missing: untilEmpty, done: said("%s: drained; it gets nothing until rota undrain", "%s: drained; they get nothing until rota undrain")}),
		orderCmd(order{use: "undrain MEMBER...", short: "Let a drained member have partitions again", args: cobra.MinimumNArgs(1), complete: drained,
			example: "  rota undrain c2",
			check:   knownOrDrained, done: said("%s: may have partitions again", "%s: may have partitions again")}),
		orderCmd(order{use: "pin PARTITION MEMBER", short: "Tie a partition to a member, by its name", args: cobra.ExactArgs(2), complete: both,
			long:    "Pin moves a partition to a member and keeps it there. While no member of that name is\nthere, or it is drained, the pin is ignored. It is refused for a member that the\npartition is kept away from (rota ban).",
			example: "  rota pin orders.3 c2",
			check:   knownPair, warn: pinToDrained, missing: untilPinned, done: saidOf("%s: pinned to %s")}),
		orderCmd(order{use: "unpin PARTITION...", short: "Let a pinned partition go", args: cobra.MinimumNArgs(1), complete: pinned,
			example: "  rota unpin orders.3",
			check:   partitionsOr(pinned), done: said("%s: pinned no more", "%s: pinned no more")}),
		orderCmd(order{use: "ban PARTITION MEMBER...", short: "Keep a partition away from members, by their names", args: cobra.MinimumNArgs(2), complete: both,
			long:    "Ban takes a partition from a member, if that owns it, and does not give it to it again\nuntil rota unban. With nobody else to run it, it waits. It is refused for a member that\nthe partition is pinned to (rota pin).",
			example: "  rota ban orders.3 c2 --why 'cannot reach the ledger from there'",
			check:   knownPair, missing: untilElsewhere, done: saidOf("%s: kept away from %s until rota unban")}),
		orderCmd(order{use: "unban PARTITION [MEMBER]...", short: "Lift a ban; without members, all of a partition", args: cobra.MinimumNArgs(1), complete: banned,
			example: "  rota unban orders.3 c2",
			check:   knownBan,
			done: func(args []string) string {
				return args[0] + ": may be run by " + cmp.Or(strings.Join(args[1:], ", "), "anybody") + " again"
			}}),
		orderCmd(order{use: "release PARTITION", short: "Let a quarantined partition run again", args: cobra.ExactArgs(1), complete: quarantined,
			long:    "Release forgives a partition the owners that died with it. It is placed again, and\nquarantined anew if it kills again (rota run --quarantine).",
			example: "  rota release orders.3 --why 'the message is gone'",
			check: func(st *rota.Status, args []string) error {
				return cmp.Or(knownPartition(st, args), inQuarantine(st, args[0]))
			},
			give: func(st *rota.Status, args []string) []string {
				return append(args, strconv.Itoa(st.Partitions[slices.IndexFunc(st.Partitions, named(args[0]))].Deaths))
			},
			missing: untilRuns, done: said("%s: released; it is placed again", "")}),
		orderCmd(order{use: "freeze", short: "Move nothing that need not move", args: cobra.NoArgs,
			long:    "Freeze stops voluntary moves: members that join get nothing. Partitions whose owner is\ngone still get another, and a pin is obeyed.",
			example: "  rota freeze --why deployment",
			done:    said("frozen: nothing moves that need not, until rota thaw", "")}),
		orderCmd(order{use: "thaw", short: "End a freeze", args: cobra.NoArgs, example: "  rota thaw", done: said("thawed: partitions may move again", "")}),
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
			example: "  rota partitions add orders.64", missing: untilRuns, done: said("%s: added", "%s: added")}),
		orderCmd(order{use: "remove PARTITION...", short: "Let partitions go: nobody runs them any more", args: cobra.MinimumNArgs(1), complete: partitionNames,
			example: "  rota partitions remove orders.3",
			check:   knownPartitions, missing: untilRemoved, done: said("%s: removed; nobody runs it any more", "%s: removed; nobody runs them any more")}),
		orderCmd(order{use: "set PARTITION KEY=VALUE...", short: "Set metadata of a partition; KEY= takes a key away", args: cobra.MinimumNArgs(2), complete: partitionNames,
			long:    "Set changes the metadata of a partition. Its owner sees it at once, without a restart;\nit wins over what is ordered for its topic (rota topics set), and that over what the\nsource says. All together have 4096 bytes at most.",
			example: "  rota partitions set orders.3 region=eu limit=",
			check:   settable(knownPartition), done: saidOf("%s: set %s")}),
	)
	return cmd
}
