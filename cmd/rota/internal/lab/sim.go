package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/rule"
	"github.com/rota-dev/rota/internal/scenario"
	"github.com/rota-dev/rota/internal/sim"
	"github.com/spf13/cobra"
)

// simFlags are what the command line of rota sim says.
type simFlags struct {
	schedules, members, partitions, cores int
	seed                                  uint64
	faults                                faults
	output                                string
	replay, directed, mutant              string
	mutants                               bool
}

func SimCmd() *cobra.Command {
	f := &simFlags{schedules: 20000, seed: 1, members: 4, partitions: 6, output: "table"}
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Look for broken promises in simulated schedules",
		Long: `Sim plays schedules. In each of them members join a group in virtual time, over
a store and a network that lose, repeat and delay; faults strike; then the
weather clears and everything has to come to rest. All along it checks what rota
promises: that no two members act on a partition, that tokens grow, that nothing
stays idle. A schedule is its seed: the same seed, size and faults give the same
run, event for event. A batch of 20000 or more with all faults must also have met
every situation that sim counts, or it fails: its silence would mean little.

The members run the code that real ones run; the store, the network, the clocks
and the handlers are simulated.

With --directed nothing is left to chance: every fault strikes at every point of
a scenario, one at a time. With --mutants the rules of rota are taken out one by
one, and the same schedules must notice each time. What breaks a promise is cut
down to the shortest schedule found and printed as a scenario file.

Exit status: 0 if every promise held, 1 if one was broken or a defect was not
noticed, 64 for a wrong command line, 130 if interrupted before that.`,
		Example: `  rota sim                                      20000 schedules, seeds 1 to 20000
  rota sim --schedules 1000000 --seed 20001     a million others
  rota sim --faults crash,pause,cut             only these kinds of fault
  rota sim --members 10 --partitions 32         a larger group
  rota sim -o json | jq .violations             for scripts
  rota sim --replay 7                           tell what happens in schedule 7
  rota sim --replay story.txt                   play a scenario file
  rota sim --directed s0-05                     every fault at every point of S0-5
  rota sim --directed all                       and of every other scenario
  rota sim --directed 7                         and of schedule 7, without its noise
  go run -tags mutants ./cmd/rota sim --mutants        is the lack of every rule noticed?
  go run -tags mutants ./cmd/rota sim --mutant lease-from-sending    by what, as a scenario file`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(cli.Whole(&f.schedules, 1, math.MaxInt), "schedules", "how many schedules to play; of --mutants, the most per rule")
	flags.Var(cli.Whole(&f.seed, 0, math.MaxUint64), "seed", "seed of the first; the others follow")
	sizeFlags(cmd, &f.members, &f.partitions)
	flags.Var(cli.Whole(&f.cores, 0, 1024), "cores", "cores to use, up to 1024; 0 is all there are")
	flags.VarP(cli.OneWord(&f.output, "table", "json"), "output", "o", "how to print the figures")
	flags.StringVar(&f.replay, "replay", "", "print the transcript of the schedule with this `seed`, or play this scenario file")
	flags.StringVar(&f.directed, "directed", "", "every fault at every point of the `scenario`s whose names begin so; all is all; a number is a seed")
	flags.BoolVar(&f.mutants, "mutants", false, "take every rule out, one by one, and look whether that is noticed")
	flags.StringVar(&f.mutant, "mutant", "", "take the `rule` of this name out; alone, print what notices that")
	flags.Var(&f.faults, "faults", "kinds of fault, separated by commas; all if not given:\n"+faultHelp())
	cli.Complete(cmd, "faults", cli.CompleteList(sim.FaultNames()))
	cli.Complete(cmd, "output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	cli.Complete(cmd, "directed", cobra.FixedCompletions(append(scenarioNames(), "all"), cobra.ShellCompDirectiveNoFileComp))
	cli.Complete(cmd, "mutant", cobra.FixedCompletions(ruleNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// modes are what sim can do; each knows which flags make no sense with it.
var modes = []struct {
	flag, does string
	not        []string
}{
	{"replay", "which prints the transcript of one schedule", []string{"schedules", "seed", "cores", "output", "directed", "mutants"}},
	{"directed", "which leaves nothing to chance", []string{"schedules", "seed", "faults", "mutants"}},
	{"mutants", "which plays what it needs", []string{"seed", "members", "partitions", "cores", "faults", "mutant"}},
	{"mutant", "which plays what it needs", []string{"seed", "members", "partitions", "cores", "faults"}},
}

func (f *simFlags) run(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	if err := f.faults.check(); err != nil {
		return err
	}
	for _, m := range modes {
		if !given(m.flag) || m.flag == "mutant" && (given("replay") || given("directed")) {
			continue
		}
		for _, other := range m.not {
			if given(other) {
				return cli.Usagef("--%s %q: not together with --%s, %s", other, cmd.Flag(other).Value, m.flag, m.does)
			}
		}
	}
	if err := f.checkMutants(given); err != nil {
		return err
	}
	switch {
	case given("replay"):
		return f.again(cmd)
	case given("directed"):
		return f.allFaults(cmd)
	case f.mutants:
		return f.hunt(cmd, rule.Known(), given("schedules"))
	case given("mutant"):
		return f.hunt(cmd, []rule.Rule{f.out()}, given("schedules"))
	}
	return f.batch(cmd)
}

func (f *simFlags) checkMutants(given func(string) bool) error {
	if given("mutant") {
		r, err := rule.Named(f.mutant)
		if err != nil {
			return cli.Usagef("--mutant %q: %v", f.mutant, err)
		}
		if !slices.Contains(rule.Known(), r) {
			return cli.Usagef("--mutant %s: no schedule can notice that; %s does", f.mutant, r.Entry().Test)
		}
	}
	if (f.mutants || given("mutant")) && !rule.CanTake {
		what := "--mutants"
		if given("mutant") {
			what = "--mutant " + f.mutant
		}
		return cli.Usagef("%s: this build has every rule in it and none can be taken out; run it so: go run -tags mutants ./cmd/rota sim %s", what, what)
	}
	return nil
}

func ruleNames() []string {
	var names []string
	for _, r := range rule.Known() {
		names = append(names, r.String())
	}
	return names
}

func scenarioNames() []string {
	all, err := scenario.All()
	if err != nil {
		return nil
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}

func (f *simFlags) options() sim.Options {
	return sim.Options{Members: f.members, Partitions: f.partitions, Only: f.faults.only}
}

// batch plays schedules and prints what they came to.
func (f *simFlags) batch(cmd *cobra.Command) error {
	ctx := cmd.Context()
	r := playWithBar(ctx, sim.Batch{Options: f.options(), Schedules: f.schedules, Seed: f.seed, Cores: f.cores}, cmd.ErrOrStderr())
	// Cores find them in any order; the same run should print the same.
	slices.SortFunc(r.Violations, func(a, b sim.Failure) int { return cmp.Compare(a.Seed, b.Seed) })
	interrupted := ctx.Err() != nil && r.Schedules < f.schedules
	if err := f.print(cmd.OutOrStdout(), r, func() string { return f.table(r, interrupted) + f.shortest(r.Violations) }); err != nil {
		return err
	}
	return verdict(len(r.Violations)+len(r.Missing), interrupted)
}

// shortest tells the first violation as a scenario file, if that can be done.
func (f *simFlags) shortest(all []sim.Failure) string {
	if len(all) == 0 || all[0].Invariant == "bug" {
		return ""
	}
	s, ok := sim.ShortenSeed(f.options(), all[0].Seed, rule.None)
	if !ok {
		return fmt.Sprintf("seed %d cannot be told as a scenario file: it needs delays or clock rates that have no verb\n", all[0].Seed)
	}
	return asFile(s, fmt.Sprintf("Found by rota sim, seed %d.", all[0].Seed), rule.None)
}

// asFile prints a script as a scenario file to be committed.
func asFile(s sim.Script, title string, out rule.Rule) string {
	text, err := sim.Tell(&s, title, out)
	if err != nil {
		return "the shortest schedule found, which as a scenario would promise too much (" + firstLine(err.Error()) + "):\n\n" + s.Text(title)
	}
	return "the shortest scenario found, for internal/scenario/files:\n\n" + text
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// verdict is the exit code. A broken promise stays broken, interrupted or not.
func verdict(violations int, interrupted bool) error {
	switch {
	case violations > 0:
		return cli.Quietly(cli.ExitFailed)
	case interrupted:
		return cli.Quietly(cli.ExitInterrupted)
	}
	return nil
}

// print prints a report as it is asked for.
func (f *simFlags) print(stdout io.Writer, report any, table func() string) error {
	if f.output == "json" {
		e := json.NewEncoder(stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(report)
	}
	_, err := io.WriteString(stdout, table())
	return err
}

// playWithBar plays b, and meanwhile draws how far it is if a person watches.
func playWithBar(ctx context.Context, b sim.Batch, stderr io.Writer) sim.Report {
	return withBar(stderr, b.Schedules, func(show func(progress)) sim.Report {
		b.Progress = func(r sim.Report) { show(progress{r.Schedules, len(r.Violations), r.SchedulesPerS}) }
		return b.Play(ctx)
	})
}

// withBar does something, and meanwhile draws how far it is if a person watches.
func withBar[T any](stderr io.Writer, total int, do func(show func(progress)) T) T {
	cols := cli.Columns(stderr)
	if cols == 0 {
		return do(func(progress) {})
	}
	// show is called under locks: just take the figures.
	seen := make(chan progress, 1)
	show := func(p progress) {
		select {
		case <-seen: // nobody has looked at the last ones
		default:
		}
		select {
		case seen <- p:
		default: // another has been quicker
		}
	}
	played := make(chan T)
	go func() { played <- do(show) }()

	bar := bar{w: stderr, cols: cols, total: total, began: time.Now()}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case bar.progress = <-seen:
		case <-tick.C:
			bar.draw()
		case r := <-played:
			bar.clear()
			return r
		}
	}
}
