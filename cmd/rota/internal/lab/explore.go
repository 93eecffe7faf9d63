package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/explore"
	"github.com/rota-dev/rota/internal/rule"
	"github.com/spf13/cobra"
)

// exploreFlags are what the command line of rota explore says.
type exploreFlags struct {
	short, list bool
	mutants     bool
	cores, most int
	output      string
}

func ExploreCmd() *cobra.Command {
	f := &exploreFlags{output: "table"}
	cmd := &cobra.Command{
		Use:   "explore [CONFIGURATION...]",
		Short: "Try everything that can happen to a small group",
		Long: `Explore tries, for each of its configurations, everything that can happen: two to
four members, one to three partitions, and a number of faults that may strike at
any point. The members run the code that real ones run, in discrete time. After
every step it asks what rota promises; and when all has been tried, whether from
every state reached the group comes to rest once nothing goes wrong any more.

With --mutants the rules of rota are taken out one by one, and the configuration
that must notice is explored up to the shortest way to a broken promise.

A configuration is exhausted when there is nothing left to try. Without names all
are explored, which takes a quarter of an hour on two cores and up to 4 GB of memory.

Exit status: 0 if all were exhausted and every promise held, 1 if not, 64 for a
wrong command line, 130 if interrupted.`,
		Example: `  rota explore --short                  those that take seconds
  rota explore "2m1p lost"              one
  rota explore --list                   what there is
  rota explore -o json | jq .states     for scripts
  go run -tags mutants ./cmd/rota explore --mutants    the shortest way to notice the lack of each rule`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return exploreNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.short, "short", false, "only those that take seconds")
	flags.BoolVar(&f.mutants, "mutants", false, "take every rule out, one by one, and show the shortest way to notice")
	flags.BoolVar(&f.list, "list", false, "list the configurations and explore none")
	flags.Var(cli.Whole(&f.cores, 0, 1024), "cores", "cores to use, up to 1024; 0 is all there are")
	flags.Var(cli.Whole(&f.most, 0, math.MaxInt), "most", "cut a configuration after this many states; 0 is never")
	flags.VarP(cli.OneWord(&f.output, "table", "json"), "output", "o", "how to print the figures; json is one line each")
	cli.Complete(cmd, "output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func exploreNames() []string {
	var names []string
	for _, c := range explore.Configs {
		names = append(names, c.Name)
	}
	return names
}

func (f *exploreFlags) run(cmd *cobra.Command, args []string) error {
	configs, err := f.pick(args)
	if err != nil {
		return err
	}
	stdout := cmd.OutOrStdout()
	if f.list {
		return f.print(stdout, configs)
	}
	if f.mutants {
		return f.allDefects(cmd, args)
	}
	debug.SetGCPercent(400) // what lives is the frontier; most of the rest dies at once
	ctx := cmd.Context()
	failed := 0
	line := newNowLine(cmd.ErrOrStderr())
	for _, c := range configs {
		r := explore.Explore(ctx, c, explore.Options{Cores: f.cores, Most: f.most, Progress: func(r explore.Result) {
			line.show(fmt.Sprintf("%s: %s states, depth %d, %.0f s", r.Config, cli.Grouped(r.States), r.Depth, r.Seconds))
		}})
		line.clear()
		if ctx.Err() != nil {
			break
		}
		if r.Violation != nil || !r.Exhausted {
			failed++
		}
		if err := f.tell(stdout, r); err != nil {
			return err
		}
	}
	switch {
	case failed > 0:
		return cli.Quietly(cli.ExitFailed)
	case ctx.Err() != nil:
		return cli.Quietly(130)
	}
	return nil
}

// pick finds the configurations that were asked for.
func (f *exploreFlags) pick(args []string) ([]*explore.Config, error) {
	if f.short && len(args) > 0 {
		return nil, cli.Usagef("--short together with %q: either name configurations or take the short ones", args[0])
	}
	var out []*explore.Config
	for _, name := range args {
		c, ok := explore.Find(name)
		if !ok {
			return nil, cli.Usagef("%q: no configuration is called so; rota explore --list shows them", name)
		}
		out = append(out, c)
	}
	if len(args) > 0 {
		return out, nil
	}
	for _, c := range explore.Configs {
		if !f.short || !c.Long {
			out = append(out, c)
		}
	}
	return out, nil
}

// print lists configurations.
func (f *exploreFlags) print(w io.Writer, configs []*explore.Config) error {
	if f.output == "json" {
		return json.NewEncoder(w).Encode(exploreNames())
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range configs {
		takes := "seconds"
		if c.Long {
			takes = "minutes"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", c.Name, takes, c.Describe())
	}
	return t.Flush()
}

// tell prints what became of one configuration.
func (f *exploreFlags) tell(w io.Writer, r explore.Result) error {
	if f.output == "json" {
		return json.NewEncoder(w).Encode(r)
	}
	verdict := "exhausted"
	if !r.Exhausted {
		verdict = "CUT"
	}
	if r.Violation != nil {
		verdict = "BROKEN"
	}
	_, err := fmt.Fprintf(w, "%-30s %11s states %12s transitions  depth %3d  %-9s %7.1f s  %s states/s\n", r.Config, cli.Grouped(r.States), cli.Grouped(r.Transitions), r.Depth, verdict, r.Seconds,
		cli.Grouped(float64(r.States)/max(r.Seconds, 0.001)))
	if r.Violation != nil {
		fmt.Fprintf(w, "  %v\n    %s\n", r.Violation, strings.Join(r.Trace, "\n    "))
	}
	return err
}

// A shown defect is a rule taken out, and the shortest way to notice.
type shownDefect struct {
	Rule    rule.Rule `json:"rule"`
	Without string    `json:"without"`
	explore.Result
}

// allDefects takes every rule out whose lack the explorer must notice.
func (f *exploreFlags) allDefects(cmd *cobra.Command, args []string) error {
	if len(args) > 0 || f.short {
		return cli.Usagef("--mutants: each rule has its configuration; name none")
	}
	if !rule.CanTake {
		return cli.Usagef("--mutants: this build has every rule in it and none can be taken out; run it so: go run -tags mutants ./cmd/rota explore --mutants")
	}
	missed := 0
	for _, out := range rule.Known() {
		without := out.Entry().Without
		if !out.Entry().Must(rule.Explorer) {
			continue
		}
		r := explore.Without(cmd.Context(), out, explore.Options{Cores: 1}) // so that it is the same way each time
		if cmd.Context().Err() != nil {
			return cli.Quietly(130)
		}
		if r == nil || r.Violation == nil {
			missed++
			fmt.Fprintf(cmd.OutOrStdout(), "%s  %s: MISSED\n", out, without)
			continue
		}
		r.Seconds = math.Round(r.Seconds*10) / 10
		if err := f.tellDefect(cmd.OutOrStdout(), &shownDefect{out, without, *r}); err != nil {
			return err
		}
	}
	if missed > 0 {
		return cli.Quietly(cli.ExitFailed)
	}
	return nil
}

func (f *exploreFlags) tellDefect(w io.Writer, d *shownDefect) error {
	if f.output == "json" {
		return json.NewEncoder(w).Encode(d)
	}
	_, err := fmt.Fprintf(w, "%s  %s: %s in %s, %s\n  %v\n    %s\n", d.Rule, d.Without, cli.Count(d.Depth, "step"), d.Config, cli.Count(d.States, "state"), d.Violation, strings.Join(d.Trace, "\n    "))
	return err
}

// exploreWithout is how many steps the explorer needs to notice the lack of a rule;
// ok is false if it did not.
func exploreWithout(ctx context.Context, out rule.Rule) (steps int, ok bool) {
	r := explore.Without(ctx, out, explore.Options{})
	if r == nil || r.Violation == nil {
		return 0, false
	}
	return r.Depth, true
}
