package main

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
	"github.com/rota-dev/rota/internal/record"
	"github.com/spf13/cobra"
)

// Operators change a group by its orders: one record, one compare-and-set per
// command. The leader sees it and plans.

// errAsItIs: there is nothing to change.
var errAsItIs = errors.New("it is so already")

// mostOrders is how many orders of the past are kept.
const mostOrders = 100

// give changes a group's orders. Who was faster is read again, and the change
// made to what he left.
func give(ctx context.Context, store rota.Store, group, what, why string, change func(*record.Orders) error) error {
	key := group + "/orders"
	for {
		o := &record.Orders{}
		e, err := store.Get(ctx, key)
		if err != nil && !errors.Is(err, rota.ErrNotFound) {
			return err
		}
		if err == nil {
			if o, err = record.DecodeOrders(e.Value); err != nil {
				return fmt.Errorf("the orders in the store cannot be read: %w", err)
			}
		}
		if err := change(o); err != nil {
			return err
		}
		o.Ver++
		o.Log = append(o.Log, record.Order{At: time.Now().UnixMilli(), Who: operator(), What: what, Why: why})
		o.Log = o.Log[max(0, len(o.Log)-mostOrders):]
		b, err := record.Encode(o)
		if err != nil {
			return usageError{err}
		}
		_, err = store.Put(ctx, key, b, e.Rev)
		if !errors.Is(err, rota.ErrConflict) {
			return err
		}
	}
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
	// do checks the arguments against the group as it is and returns what to
	// change, and what to say then.
	do func(st *rota.Status, args []string) (change func(*record.Orders) error, done string, err error)
	// complete offers partitions or members.
	complete func(st *rota.Status) []string
}

func orderCmd(o order) *cobra.Command {
	var t target
	var why string
	cmd := &cobra.Command{
		Use: o.use, Short: o.short, Long: o.long, Example: o.example, Args: o.args,
		RunE: func(cmd *cobra.Command, args []string) error {
			st, store, err := t.inspect(cmd.Context())
			if err != nil {
				return err
			}
			defer store.Close()
			change, done, err := o.do(st, args)
			if err != nil {
				return err
			}
			what := strings.TrimSpace(cmd.Name() + " " + strings.Join(args, " "))
			if cmd.Parent() != nil && cmd.Parent().HasParent() {
				what = cmd.Parent().Name() + " " + what
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), storeTime)
			defer cancel()
			err = give(ctx, store, t.group, what, why, change)
			switch {
			case errors.Is(err, errAsItIs):
				done = "nothing to do: " + err.Error()
			case isUsage(err):
				return err
			case err != nil:
				return unreachable(t.store, err)
			}
			return sayDone(cmd.OutOrStdout(), done, st)
		},
	}
	if o.complete != nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return completeFrom(cmd.Context(), t, o.complete, args, typed)
		}
	}
	t.flags(cmd)
	cmd.Flags().StringVar(&why, "why", "", "why, for the log of orders")
	return cmd
}

func isUsage(err error) bool {
	_, ok := errors.AsType[usageError](err)
	return ok
}

func sayDone(w io.Writer, done string, st *rota.Status) error {
	if !slices.ContainsFunc(st.Members, func(m rota.MemberInfo) bool { return m.State == "LIVE" }) {
		done += "; no member is live, so it is done once one is"
	}
	_, err := fmt.Fprintln(w, done)
	return err
}

// completeFrom asks the group for names, if it can be asked quickly.
func completeFrom(ctx context.Context, t target, names func(*rota.Status) []string, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	t.dir = cmp.Or(t.dir, defaultDir)
	st, store, err := t.inspect(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer store.Close()
	var out []string
	for _, n := range names(st) {
		if strings.HasPrefix(n, typed) && !slices.Contains(args, n) {
			out = append(out, n)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func partitionNames(st *rota.Status) (out []string) {
	for _, p := range st.Partitions {
		if p.Reason != "removed" {
			out = append(out, p.Name)
		}
	}
	return out
}

func memberNames(st *rota.Status) (out []string) {
	for _, m := range st.Members {
		if m.State == "LIVE" {
			out = append(out, m.Name)
		}
	}
	return out
}

// known refuses names that the group does not have.
func known(thing string, have []string, names ...string) error {
	for _, n := range names {
		if slices.Contains(have, n) {
			continue
		}
		some := have[:min(len(have), 8)]
		rest := ""
		if len(have) > len(some) {
			rest = fmt.Sprintf(" and %d more", len(have)-len(some))
		}
		if len(have) == 0 {
			return fmt.Errorf("there is no %s called %q: there is none at all", thing, n)
		}
		return fmt.Errorf("there is no %s called %q; there are %s%s", thing, n, strings.Join(some, ", "), rest)
	}
	return nil
}

// with and without change a sorted list of names; ok tells whether they did.
func with(list []string, names []string) (out []string, ok bool) {
	out = slices.Clone(list)
	for _, n := range names {
		if i, found := slices.BinarySearch(out, n); !found {
			out, ok = slices.Insert(out, i, n), true
		}
	}
	return out, ok
}

func without(list []string, names []string) ([]string, bool) {
	out := slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(names, s) })
	return out, len(out) != len(list)
}

// listOrder adds names to, or takes them from, one list of the orders.
func listOrder(have func(*rota.Status) []string, thing string, of func(*record.Orders) *[]string, add bool, done string) func(*rota.Status, []string) (func(*record.Orders) error, string, error) {
	return func(st *rota.Status, args []string) (func(*record.Orders) error, string, error) {
		if add {
			if err := known(thing, have(st), args...); err != nil {
				return nil, "", err
			}
		}
		return func(o *record.Orders) error {
			list, ok := of(o), false
			slices.Sort(*list)
			if add {
				*list, ok = with(*list, args)
			} else {
				*list, ok = without(*list, args)
			}
			if !ok {
				return errAsItIs
			}
			return nil
		}, fmt.Sprintf(done, strings.Join(args, ", ")), nil
	}
}

func orderCmds() []*cobra.Command {
	pauses := func(o *record.Orders) *[]string { return &o.Pauses }
	drains := func(o *record.Orders) *[]string { return &o.Drains }
	freeze := func(want bool, done string) func(*rota.Status, []string) (func(*record.Orders) error, string, error) {
		return func(*rota.Status, []string) (func(*record.Orders) error, string, error) {
			return func(o *record.Orders) error {
				if o.Freeze == want {
					return errAsItIs
				}
				o.Freeze = want
				return nil
			}, done, nil
		}
	}
	return []*cobra.Command{
		orderCmd(order{use: "pause PARTITION...", short: "Let nobody run a partition until it is resumed", args: cobra.MinimumNArgs(1), complete: partitionNames,
			long:    "Pause takes partitions from their owners. They stay without one, also when members\ncome and go, until they are resumed.",
			example: "  rota pause orders.3 --why 'poison message'",
			do:      listOrder(partitionNames, "partition", pauses, true, "%s: paused; nobody runs it until rota resume")}),
		orderCmd(order{use: "resume PARTITION...", short: "End a pause", args: cobra.MinimumNArgs(1), complete: func(st *rota.Status) []string { return st.Orders.Paused },
			example: "  rota resume orders.3",
			do:      listOrder(partitionNames, "partition", pauses, false, "%s: resumed")}),
		orderCmd(order{use: "drain MEMBER...", short: "Take all partitions from a member", args: cobra.MinimumNArgs(1), complete: memberNames,
			long:    "Drain moves all partitions of a member, by its name, to others. It stays in the group\nand gets nothing until rota undrain.",
			example: "  rota drain c2 --why 'host goes down for service'",
			do:      listOrder(memberNames, "live member", drains, true, "%s: drained; it gets nothing until rota undrain")}),
		orderCmd(order{use: "undrain MEMBER...", short: "Let a drained member have partitions again", args: cobra.MinimumNArgs(1), complete: func(st *rota.Status) []string { return st.Orders.Drains },
			example: "  rota undrain c2",
			do:      listOrder(memberNames, "live member", drains, false, "%s: may have partitions again")}),
		orderCmd(order{use: "pin PARTITION MEMBER", short: "Tie a partition to a member, by its name", args: cobra.ExactArgs(2),
			complete: func(st *rota.Status) []string { return append(partitionNames(st), memberNames(st)...) },
			long:     "Pin moves a partition to a member and keeps it there. While no member of that name is\nthere, the pin is ignored.",
			example:  "  rota pin orders.3 c2", do: pinOrder}),
		orderCmd(order{use: "unpin PARTITION...", short: "Let a pinned partition go", args: cobra.MinimumNArgs(1),
			complete: func(st *rota.Status) []string { return sortedKeys(st.Orders.Pins) },
			example:  "  rota unpin orders.3", do: unpinOrder}),
		orderCmd(order{use: "freeze", short: "Move nothing that need not move", args: cobra.NoArgs,
			long:    "Freeze stops voluntary moves: members that join get nothing. Partitions whose owner is\ngone still get another.",
			example: "  rota freeze --why deployment", do: freeze(true, "frozen: nothing moves that need not, until rota thaw")}),
		orderCmd(order{use: "thaw", short: "End a freeze", args: cobra.NoArgs, example: "  rota thaw", do: freeze(false, "thawed: partitions may move again")}),
	}
}

func pinOrder(st *rota.Status, args []string) (func(*record.Orders) error, string, error) {
	p, m := args[0], args[1]
	if err := cmp.Or(known("partition", partitionNames(st), p), known("live member", memberNames(st), m)); err != nil {
		return nil, "", err
	}
	return func(o *record.Orders) error {
		i, found := slices.BinarySearchFunc(o.Pins, p, func(x record.Pin, p string) int { return strings.Compare(x.Partition, p) })
		switch {
		case found && o.Pins[i].Member == m:
			return errAsItIs
		case found:
			o.Pins[i].Member = m
		default:
			o.Pins = slices.Insert(o.Pins, i, record.Pin{Partition: p, Member: m})
		}
		return nil
	}, fmt.Sprintf("%s: pinned to %s", p, m), nil
}

func unpinOrder(_ *rota.Status, args []string) (func(*record.Orders) error, string, error) {
	return func(o *record.Orders) error {
		n := len(o.Pins)
		o.Pins = slices.DeleteFunc(o.Pins, func(p record.Pin) bool { return slices.Contains(args, p.Partition) })
		if len(o.Pins) == n {
			return errAsItIs
		}
		return nil
	}, strings.Join(args, ", ") + ": pinned no more", nil
}

func partitionsCmd() *cobra.Command {
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
			example: "  rota partitions add orders.64", do: addOrder}),
		orderCmd(order{use: "remove PARTITION...", short: "Let partitions go: nobody runs them any more", args: cobra.MinimumNArgs(1), complete: partitionNames,
			example: "  rota partitions remove orders.3", do: removeOrder}),
		orderCmd(order{use: "set PARTITION KEY=VALUE...", short: "Set metadata of a partition; KEY= takes a key away", args: cobra.MinimumNArgs(2), complete: partitionNames,
			long:    "Set changes the metadata of a partition. Its owner sees it at once, without a restart;\nit wins over what the source says.",
			example: "  rota partitions set orders.3 region=eu limit=", do: setOrder}),
	)
	return cmd
}

func addOrder(_ *rota.Status, args []string) (func(*record.Orders) error, string, error) {
	return func(o *record.Orders) error {
		slices.Sort(o.Add)
		slices.Sort(o.Remove)
		var added, back bool
		o.Add, added = with(o.Add, args)
		o.Remove, back = without(o.Remove, args)
		if !added && !back {
			return errAsItIs
		}
		return nil
	}, strings.Join(args, ", ") + ": added", nil
}

func removeOrder(st *rota.Status, args []string) (func(*record.Orders) error, string, error) {
	if err := known("partition", partitionNames(st), args...); err != nil {
		return nil, "", err
	}
	return func(o *record.Orders) error {
		slices.Sort(o.Add)
		slices.Sort(o.Remove)
		var removed bool
		o.Remove, removed = with(o.Remove, args)
		o.Add, _ = without(o.Add, args)
		if !removed {
			return errAsItIs
		}
		return nil
	}, strings.Join(args, ", ") + ": removed; nobody runs it any more", nil
}

func setOrder(st *rota.Status, args []string) (func(*record.Orders) error, string, error) {
	name := args[0]
	if err := known("partition", partitionNames(st), name); err != nil {
		return nil, "", err
	}
	for _, kv := range args[1:] {
		if k, _, ok := strings.Cut(kv, "="); !ok || k == "" {
			return nil, "", usagef("%q: want KEY=VALUE", kv)
		}
	}
	return func(o *record.Orders) error {
		i, found := slices.BinarySearchFunc(o.Meta, name, func(m record.Meta, n string) int { return strings.Compare(m.Partition, n) })
		if !found {
			o.Meta = slices.Insert(o.Meta, i, record.Meta{Partition: name})
		}
		was := slices.Clone(o.Meta[i].Pairs)
		for _, kv := range args[1:] {
			k, v, _ := strings.Cut(kv, "=")
			o.Meta[i].Pairs = slices.DeleteFunc(slices.Clone(o.Meta[i].Pairs), func(p record.Pair) bool { return p.Key == k })
			if v != "" {
				o.Meta[i].Pairs = append(o.Meta[i].Pairs, record.Pair{Key: k, Value: v})
			}
		}
		slices.SortFunc(o.Meta[i].Pairs, func(a, b record.Pair) int { return strings.Compare(a.Key, b.Key) })
		if slices.Equal(was, o.Meta[i].Pairs) {
			return errAsItIs
		}
		if len(o.Meta[i].Pairs) == 0 {
			o.Meta = slices.Delete(o.Meta, i, i+1)
		}
		return nil
	}, name + ": set " + strings.Join(args[1:], " "), nil
}
