package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/lab/bench"
	"github.com/spf13/cobra"
)

// benchPlanFlags are what the command line of rota bench plan says.
type benchPlanFlags struct {
	load, output, report            string
	seed                            uint64
	seeds, steps, partitions, cores int
	deltas                          []int
	prices                          []float64
	algorithms                      []string
}

func benchPlanCmd() *cobra.Command {
	f := &benchPlanFlags{load: "walk", output: "table", seed: 1, seeds: 10, steps: 500, partitions: 200,
		deltas: []int{5, 10, 15, 20, 25}, prices: slices.Clone(bench.Prices), algorithms: paperNames()}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Place partitions by load, beside the papers' algorithms",
		Long: `Plan plays the experiment of Landau et al. (arXiv 2206.11170 and 2402.06085): the
speeds of partitions change step by step, and in each step every algorithm places
them anew, starting from its own placement. Twelve are the papers'; pack is
rota's, once for each price. What is measured, as means over steps and seeds:

  E[R]     what the moved partitions carry, in members' capacities per step
  members  members that own something
  cbs      members beyond the fewest of the papers' algorithms in the same step,
           as a share of these; below 0 is fewer than any of them
  l2 gap   members beyond a lower bound (Martello and Toth), as a share of it
  moves    partitions per step that change owner
  plan µs  how long a placement takes: the median of the steps; × BFD beside it

Behind ± stands the standard deviation between seeds. Members and E[R] pull in
opposite directions: what counts is the front, which the plot shows. Below the
figures pack is set beside the papers' best: of the prices that need no more
members than the other, or else at most 2 % more, the one that moves least. Then
every price is set beside what is asked of the default one. The papers' own
figures, if the size is theirs, are compared with what came out here.

Exit status: 0 if it could be measured, 64 for a wrong command line, 130 if
interrupted; the figures are then of the traces that were finished.`,
		Example: `  rota bench plan                                   the papers' experiment, ten seeds
  rota bench plan --seed 1000 --seeds 20            twenty others
  rota bench plan --partitions 2000 --algorithms BFD,MWF,MBF --deltas 5,25
  rota bench plan --load day                        skewed partitions and a night
  rota bench plan --prices 1,1.5,2 --deltas 10      a closer look at one end
  rota bench plan -o json | jq 'select(.algorithm == "BFD").er'
  rota bench plan --report front                    a page, a plot and the rows in ./front`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(cli.Whole(&f.seeds, 1, 100000), "seeds", "how many seeds; each is a trace at each delta")
	flags.Var(cli.Whole(&f.seed, 0, 1<<62), "seed", "the first seed; the others follow")
	flags.Var(cli.Whole(&f.steps, 1, 1000000), "steps", "steps of a trace")
	flags.Var(cli.Whole(&f.partitions, 1, 100000), "partitions", "partitions, up to 100000; 1000 for --load day unless given")
	flags.Var(cli.ListOf(&f.deltas, cli.WholeFrom(0, 100)), "deltas", "how much a speed may change per step, in percent, separated by commas; 5 for --load day unless given")
	flags.Var(cli.ListOrNone(&f.prices, cli.QuantityFrom(0.001, 1e6)), "prices", "prices for pack: what one member fewer is worth, in members' capacities moved; none is without pack")
	flags.Var(cli.ListOrNone(&f.algorithms, cli.OneOf(paperNames())), "algorithms", "the papers' algorithms to run, or none")
	flags.Var(cli.OneWord(&f.load, loadNames()...), "load", "how speeds change:\n"+loadHelp())
	flags.Var(cli.Whole(&f.cores, 0, 1024), "cores", "cores to use, up to 1024; 0 is all there are")
	flags.VarP(cli.OneWord(&f.output, "table", "json", "markdown"), "output", "o", "how to print the figures; json is one line each, markdown the tables of docs/packing.md")
	flags.StringVar(&f.report, "report", "", "also write a page, the plot and the rows into this `folder`")
	cli.Complete(cmd, "algorithms", cli.CompleteList(paperNames()))
	cli.Complete(cmd, "load", cobra.FixedCompletions(loadNames(), cobra.ShellCompDirectiveNoFileComp))
	cli.Complete(cmd, "output", cobra.FixedCompletions([]string{"table", "json", "markdown"}, cobra.ShellCompDirectiveNoFileComp))
	cli.Complete(cmd, "report", cli.CompleteFolder)
	return cmd
}

func paperNames() []string {
	var names []string
	for _, a := range bench.Paper {
		names = append(names, a.Name)
	}
	return names
}

func loadNames() []string {
	var names []string
	for _, l := range bench.Loads {
		names = append(names, l.Name)
	}
	return names
}

func loadHelp() string {
	var lines []string
	for _, l := range bench.Loads {
		lines = append(lines, fmt.Sprintf("%-5s %s", l.Name, l.Help))
	}
	return strings.Join(lines, "\n")
}

// experiment is what the flags ask for.
func (f *benchPlanFlags) experiment(cmd *cobra.Command) *bench.Experiment {
	if f.load == "day" {
		if !cmd.Flags().Changed("partitions") {
			f.partitions = 1000
		}
		if !cmd.Flags().Changed("deltas") {
			f.deltas = []int{5}
		}
	}
	load, _ := bench.FindLoad(f.load)
	e := &bench.Experiment{Load: load, Partitions: f.partitions, Capacity: 100, Steps: f.steps, Deltas: f.deltas, Seed: f.seed, Seeds: f.seeds, Cores: f.cores}
	for _, a := range bench.Paper {
		if slices.Contains(f.algorithms, a.Name) {
			e.Algorithms = append(e.Algorithms, a)
		}
	}
	for _, p := range f.prices {
		e.Algorithms = append(e.Algorithms, bench.Pack(p))
	}
	return e
}

func (f *benchPlanFlags) run(cmd *cobra.Command) error {
	e := f.experiment(cmd)
	if len(e.Algorithms) == 0 {
		return cli.Usagef("--algorithms none and --prices none: there is nothing to measure; name at least one")
	}
	if err := makeReport(f.report); err != nil {
		return err
	}
	began := time.Now()
	rows, err := f.measure(cmd, e)
	sheet := &benchSheet{flags: f, rows: rows, seconds: time.Since(began).Seconds(), interrupted: err != nil}
	if err := f.print(cmd.OutOrStdout(), sheet); err != nil {
		return err
	}
	if err := writeReport(f.report, sheet.files()); err != nil {
		return err
	}
	return verdict(0, sheet.interrupted)
}

// measure runs the experiment, and meanwhile tells how far it is.
func (f *benchPlanFlags) measure(cmd *cobra.Command, e *bench.Experiment) ([]bench.Row, error) {
	var done atomic.Int64
	e.Progress = func() { done.Add(1) }
	total, began := len(e.Deltas)*e.Seeds*e.Steps, time.Now()
	stop := tellProgress(cmd.ErrOrStderr(), func() string { return partDone(began, int(done.Load()), total, "step") })
	defer stop()
	return e.Run(cmd.Context())
}

func (f *benchPlanFlags) print(stdout io.Writer, s *benchSheet) error {
	switch f.output {
	case "table":
		_, err := io.WriteString(stdout, s.table())
		return err
	case "markdown":
		_, err := io.WriteString(stdout, s.markdown())
		return err
	}
	e := json.NewEncoder(stdout)
	for _, r := range s.rows {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// tellProgress shows what now says, again and again, until stop is called; on a
// terminal only.
func tellProgress(stderr io.Writer, now func() string) (stop func()) {
	line := newNowLine(stderr)
	if line.cols == 0 {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				line.show(now())
			case <-end:
				line.clear()
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}

// partDone says how far something is, and how long it will take.
func partDone(began time.Time, done, total int, thing string) string {
	text := fmt.Sprintf("%3.0f%%  %s of %s", 100*float64(done)/float64(total), cli.Grouped(done), cli.Count(total, thing))
	if took := time.Since(began); done > 0 && took > time.Second {
		text += "  " + cli.Roughly(time.Duration(float64(took)*float64(total-done)/float64(done))) + " left"
	}
	return text
}

func (f *benchPlanFlags) usedCores() int {
	if f.cores > 0 {
		return f.cores
	}
	return runtime.GOMAXPROCS(0)
}
