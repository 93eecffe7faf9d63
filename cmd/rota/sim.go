package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/rota-dev/rota/internal/sim"
	"github.com/spf13/cobra"
)

// simFlags are what the command line of rota sim says.
type simFlags struct {
	schedules, members, partitions, cores int
	seed, replay                          uint64
	faults                                faults
	output                                string
}

func simCmd() *cobra.Command {
	f := &simFlags{schedules: 20000, seed: 1, members: 4, partitions: 6, output: "table"}
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Look for broken promises in simulated schedules",
		Long: `Sim plays schedules. In each of them members join a group in virtual time, over
a store and a network that lose, repeat and delay; faults strike; then the
weather clears and everything has to come to rest. All along it checks what rota
promises: that no two members act on a partition, that tokens grow, that nothing
stays idle. A schedule is its seed: the same seed, size and faults give the same
run, event for event.

The members run the code that real ones run; the store, the network, the clocks
and the handlers are simulated.

Exit status: 0 if every promise held, 1 if one was broken, 64 for a wrong command
line, 130 if interrupted before one was broken.`,
		Example: `  rota sim                                      20000 schedules, seeds 1 to 20000
  rota sim --schedules 1000000 --seed 20001     a million others
  rota sim --faults crash,pause,cut             only these kinds of fault
  rota sim --members 10 --partitions 32         a larger group
  rota sim -o json | jq .violations             for scripts
  rota sim --replay 7                           tell what happens in schedule 7`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(number[int]{&f.schedules, 1, math.MaxInt}, "schedules", "how many schedules to play")
	flags.Var(number[uint64]{&f.seed, 0, math.MaxUint64}, "seed", "seed of the first; the others follow")
	sizeFlags(cmd, &f.members, &f.partitions)
	flags.Var(number[int]{&f.cores, 0, 1024}, "cores", "cores to use, up to 1024; 0 is all there are")
	flags.VarP(choice{&f.output, []string{"table", "json"}}, "output", "o", "how to print the figures")
	flags.Var(number[uint64]{&f.replay, 0, math.MaxUint64}, "replay", "print the transcript of the schedule with this `seed`, and nothing else")
	flags.Var(&f.faults, "faults", "kinds of fault, separated by commas; all if not given:\n"+faultHelp())
	complete(cmd, "faults", completeFaults)
	complete(cmd, "output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (f *simFlags) run(cmd *cobra.Command) error {
	if err := f.faults.check(); err != nil {
		return err
	}
	if !cmd.Flags().Changed("replay") {
		return f.batch(cmd)
	}
	for _, other := range []string{"schedules", "seed", "cores", "output"} {
		if cmd.Flags().Changed(other) {
			return usagef("--%s %q: not together with --replay, which prints the transcript of one schedule", other, cmd.Flag(other).Value)
		}
	}
	return f.again(cmd.OutOrStdout())
}

func (f *simFlags) options() sim.Options {
	return sim.Options{Members: f.members, Partitions: f.partitions, Only: f.faults.only}
}

// again replays one schedule.
func (f *simFlags) again(stdout io.Writer) error {
	out := bufio.NewWriter(stdout)
	fmt.Fprintf(out, "schedule %d: %s, %s\n", f.replay, f.size(), f.kinds())
	res := sim.Replay(f.options(), f.replay, func(line string) { fmt.Fprintln(out, line) })
	violations := 0
	if v := res.Violation; v != nil {
		violations = 1
		fmt.Fprintf(out, "violations: 1\n  after %.3f s it breaks %s%s\n    %s\n", time.Duration(v.At).Seconds(), v.Invariant, meaning(v.Invariant), v.Text)
	} else {
		fmt.Fprintf(out, "violations: 0 in %s and %s\n", count(res.Steps, "step"), count(res.Faults, "fault"))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return verdict(violations, false)
}

// batch plays schedules and prints what they came to.
func (f *simFlags) batch(cmd *cobra.Command) error {
	ctx := cmd.Context()
	r := playWithBar(ctx, sim.Batch{Options: f.options(), Schedules: f.schedules, Seed: f.seed, Cores: f.cores}, cmd.ErrOrStderr())
	// Cores find them in any order; the same run should print the same.
	slices.SortFunc(r.Violations, func(a, b sim.Failure) int { return cmp.Compare(a.Seed, b.Seed) })
	interrupted := ctx.Err() != nil && r.Schedules < f.schedules
	if err := f.print(cmd.OutOrStdout(), r, interrupted); err != nil {
		return err
	}
	return verdict(len(r.Violations), interrupted)
}

// verdict is the exit code. A broken promise stays broken, interrupted or not.
func verdict(violations int, interrupted bool) error {
	switch {
	case violations > 0:
		return silentExit(exitFailed)
	case interrupted:
		return silentExit(exitInterrupted)
	}
	return nil
}

func (f *simFlags) print(stdout io.Writer, r sim.Report, interrupted bool) error {
	if f.output == "json" {
		e := json.NewEncoder(stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err := io.WriteString(stdout, f.table(r, interrupted))
	return err
}

// playWithBar plays b, and meanwhile draws how far it is if a person watches.
func playWithBar(ctx context.Context, b sim.Batch, stderr io.Writer) sim.Report {
	cols := columns(stderr)
	if cols == 0 {
		return b.Play(ctx)
	}
	// Progress is called while the batch holds its lock: just take the figures.
	seen := make(chan progress, 1)
	b.Progress = func(r sim.Report) {
		select {
		case <-seen: // nobody has looked at the last ones
		default:
		}
		seen <- progress{r.Schedules, len(r.Violations), r.SchedulesPerS}
	}
	played := make(chan sim.Report)
	go func() { played <- b.Play(ctx) }()

	bar := bar{w: stderr, cols: cols, total: b.Schedules, began: time.Now()}
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

func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // no such flag: our own mistake
	}
}
