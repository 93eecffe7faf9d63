package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/lab/bench"
	"github.com/rota-dev/rota/internal/pack"
	"github.com/spf13/cobra"
)

// planFlags are what the command line of rota plan says.
type planFlags struct {
	trace, output, report    string
	capacity, trigger, price float64
	strategies               []string
	members                  int
}

func PlanCmd() *cobra.Command {
	f := &planFlags{output: "table", price: pack.DefaultPrice, strategies: []string{"pack", "spread", "range"}}
	cmd := &cobra.Command{
		Use:   "plan --trace FILE --capacity NUMBER",
		Short: "Replay speeds of your own: how many members would it take?",
		Long: `Plan replays how fast partitions were, step by step, and places them in each step
as a group would: how many members it takes, how much has to move, and whether
somebody is overloaded, strategy by strategy. Nothing is started and no store is
needed.

The trace is a CSV file in long form, with this header and one line for each
partition and instant. t is a number or an RFC 3339 time and never goes back; a
partition that an instant does not name keeps its speed. Files may be larger than
memory.

  t,partition,speed
  0,orders.0,120
  0,orders.1,80
  60,orders.0,150

Pack takes as many members as the load needs, and so do the algorithms of the
papers (see rota bench plan). Spread and range know nothing of speed and have a
fleet that never changes: of --members, or the smallest that is never overloaded.

  E[R]        what the moved partitions carry, in members' capacities per step
  overloaded  steps in which a member is given more than --trigger, or without
              one more than --capacity
  infeasible  steps with a partition that is faster than a whole member

Exit status: 0 if it could be replayed, 64 for a wrong command line or trace, 130
if interrupted.`,
		Example: `  rota plan --trace speeds.csv --capacity 500
  rota plan --trace speeds.csv --capacity 500 --trigger 600     pack to 500, act from 600 on
  rota plan --trace speeds.csv --capacity 500 --price 10        fewer members, more moves
  rota plan --trace speeds.csv --capacity 500 --strategies pack,spread --members 40
  rota plan --trace speeds.csv --capacity 500 --strategies pack,BFD,MWF
  rota plan --trace speeds.csv --capacity 500 -o json | jq .members_max
  rota plan --trace speeds.csv --capacity 500 --report plan     a page and a plot in ./plan`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.trace, "trace", "", "the CSV `file` with the speeds")
	flags.Var(cli.QuantityIn(&f.capacity, 1e-6, 1e15), "capacity", "how much a member can do, in the unit of the speeds")
	flags.Var(cli.QuantityIn(&f.trigger, 1e-6, 1e15), "trigger", "how much it may be given before it counts as overloaded; --capacity if not given")
	flags.Var(cli.QuantityIn(&f.price, 0.001, 1e6), "price", "of pack: what one member fewer is worth, in members' capacities moved")
	flags.Var(cli.ListOf(&f.strategies, cli.OneOf(bench.Strategies())), "strategies", "some of "+strings.Join(bench.Strategies(), ", "))
	flags.Var(cli.Whole(&f.members, 0, 100000), "members", "the fleet of spread and range; 0 is the smallest that is never overloaded")
	flags.VarP(cli.OneWord(&f.output, "table", "json"), "output", "o", "how to print the figures; json is one line each")
	flags.StringVar(&f.report, "report", "", "also write a page, a plot of the members and the rows into this `folder`")
	cli.Complete(cmd, "trace", cobra.FixedCompletions([]string{"csv"}, cobra.ShellCompDirectiveFilterFileExt))
	cli.Complete(cmd, "strategies", cli.CompleteList(bench.Strategies()))
	cli.Complete(cmd, "output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	cli.Complete(cmd, "report", cli.CompleteFolder)
	return cmd
}

func (f *planFlags) check(given func(string) bool) error {
	switch {
	case f.trace == "":
		return cli.Usagef("--trace is missing: name a CSV file with the columns t,partition,speed; see rota plan --help")
	case f.capacity == 0:
		return cli.Usagef("--capacity is missing: say how much a member can do, in the unit of the speeds")
	case given("trigger") && f.trigger < f.capacity:
		return cli.Usagef("--trigger %g: it is below --capacity %g; a member may be filled up to its capacity, so overload cannot begin before", f.trigger, f.capacity)
	case f.members > 0 && !slices.ContainsFunc(f.strategies, bench.NeedsFleet):
		return cli.Usagef("--members %d: only spread and range have a fleet of fixed size; add one of them to --strategies", f.members)
	}
	return nil
}

func (f *planFlags) run(cmd *cobra.Command) error {
	if err := f.check(cmd.Flags().Changed); err != nil {
		return err
	}
	file, err := os.Open(f.trace)
	if err != nil {
		return cli.Usagef("--trace: %v", err)
	}
	defer file.Close()
	about, err := file.Stat()
	if err != nil {
		return cli.Usagef("--trace: %v", err)
	}
	if !about.Mode().IsRegular() && f.members == 0 && slices.ContainsFunc(f.strategies, bench.NeedsFleet) {
		return cli.Usagef("--trace %s: it can be read only once, and finding the fleet of spread and range takes more; say --members, or leave them out of --strategies", f.trace)
	}
	if err := makeReport(f.report); err != nil {
		return err
	}
	outcomes, bound, err := f.replay(cmd, file, about.Size())
	if cmd.Context().Err() != nil {
		return cli.Quietly(cli.ExitInterrupted)
	}
	if err != nil {
		return cli.BadUsage(err)
	}
	sheet := &planSheet{f, outcomes, bound}
	if err := sheet.print(cmd.OutOrStdout()); err != nil {
		return err
	}
	return writeReport(f.report, sheet.files())
}

// replay replays the file, and meanwhile tells how far it is.
func (f *planFlags) replay(cmd *cobra.Command, file *os.File, size int64) ([]bench.Outcome, bench.History, error) {
	var read, pass, step atomic.Int64
	r := bench.Replay{Capacity: f.capacity, Trigger: f.trigger, Price: f.price, Fleet: f.members,
		Open: func() (*bench.Trace, error) {
			if pass.Load() > 0 {
				if _, err := file.Seek(0, io.SeekStart); err != nil {
					return nil, err
				}
			}
			read.Store(0)
			return bench.NewTrace(f.trace, counted{file, &read}), nil
		},
		Progress: func(p, s int) { pass.Store(int64(p)); step.Store(int64(s)) },
	}
	stop := tellProgress(cmd.ErrOrStderr(), func() string {
		text := fmt.Sprintf("%s: %s", f.trace, cli.Count(int(step.Load()), "step"))
		if size > 0 {
			text += fmt.Sprintf(", %d%%", 100*read.Load()/size)
		}
		if pass.Load() > 1 {
			text += fmt.Sprintf(", looking for the smallest fleet, pass %d", pass.Load()-1)
		}
		return text
	})
	defer stop()
	return r.Run(cmd.Context(), f.strategies)
}

// counted counts what is read.
type counted struct {
	r io.Reader
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// planSheet is what rota plan has to say.
type planSheet struct {
	flags    *planFlags
	outcomes []bench.Outcome
	bound    bench.History
}

func (s *planSheet) print(stdout io.Writer) error {
	if s.flags.output == "json" {
		e := json.NewEncoder(stdout)
		for _, o := range s.outcomes {
			if err := e.Encode(o); err != nil {
				return err
			}
		}
		return nil
	}
	var b strings.Builder
	for _, l := range s.head() {
		fmt.Fprintf(&b, "%-11s %s\n", l[0], l[1])
	}
	fmt.Fprintf(&b, "\n%s", plainTable(s.figures()))
	_, err := io.WriteString(stdout, b.String())
	return err
}

func (s *planSheet) head() [][2]string {
	f, o := s.flags, s.outcomes[0]
	lines := [][2]string{{"replayed", fmt.Sprintf("%s: %s, %s", f.trace, cli.Count(o.Partitions, "partition"), cli.Count(o.Steps, "step"))}}
	capacity := fmt.Sprintf("%g per member", f.capacity)
	if f.trigger > 0 {
		capacity += fmt.Sprintf(", overloaded above %g", f.trigger)
	}
	lines = append(lines, [2]string{"capacity", capacity})
	if slices.Contains(f.strategies, "pack") {
		lines = append(lines, [2]string{"price", fmt.Sprintf("%g: what one member fewer is worth to pack, in members' capacities moved", f.price)})
	}
	if slices.ContainsFunc(f.strategies, bench.NeedsFleet) {
		fleet := "of spread and range: the smallest that is never overloaded"
		if f.members > 0 {
			fleet = fmt.Sprintf("of spread and range: %s", cli.Count(f.members, "member"))
		}
		lines = append(lines, [2]string{"fleet", fleet})
	}
	if o.InfeasibleSteps > 0 {
		lines = append(lines, [2]string{"infeasible", fmt.Sprintf("in %s a partition is faster than a whole member: split it, or give members more capacity", cli.Count(o.InfeasibleSteps, "step"))})
	}
	return lines
}

func (s *planSheet) figures() [][]string {
	out := [][]string{{"strategy", "members, mean", "most", "E[R]", "moves", "overloaded", "infeasible"}}
	for _, o := range s.outcomes {
		out = append(out, []string{o.Strategy, fmt.Sprintf("%.2f", o.MembersMean), cli.Grouped(o.MembersMax), fmt.Sprintf("%.3f", o.ER), fmt.Sprintf("%.2f", o.MovesMean),
			cli.Count(o.OverloadSteps, "step"), cli.Count(o.InfeasibleSteps, "step")})
	}
	return out
}

// files are the report.
func (s *planSheet) files() map[string]string {
	svg := bench.MembersSVG(s.outcomes, s.bound)
	body := htmlHead(s.head()) + htmlTable(s.figures()) + "<h2>Members</h2>\n" + svg
	return map[string]string{"index.html": htmlPage("rota plan: "+s.flags.trace, body), "members.svg": svg, "rows.json": jsonText(s.outcomes)}
}
