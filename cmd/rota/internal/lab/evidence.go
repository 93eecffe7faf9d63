package lab

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/explore"
	"github.com/rota-dev/rota/internal/sim"
	"github.com/spf13/cobra"
)

// evidenceCmd makes docs/evidence.md of what scripts/evidence.sh has run.
func evidenceCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "evidence FOLDER",
		Short:   "Write docs/evidence.md of the figures in a folder",
		Long:    "Evidence reads what scripts/evidence.sh has left in a folder and prints docs/evidence.md.",
		Example: "  rota-dev evidence docs/evidence >docs/evidence.md",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeEvidence(cmd.OutOrStdout(), os.DirFS(args[0]))
		},
	}
}

// evidence is what was run.
type evidence struct {
	of       string // the commit that last changed what was run
	explored []explore.Result
	shown    []shownDefect
	hunted   []huntRow
	directed sim.DirectedReport
	batches  []sim.Report
	mutated  mutated
}

// mutated is what make mutate came to, if it was run; of may be another commit.
type mutated struct {
	Commit     string
	Mutants    int
	Noticed    int
	Equivalent int
	Survivors  int
}

func writeEvidence(w io.Writer, dir fs.FS) error {
	of, err := fs.ReadFile(dir, "of")
	if err != nil {
		return fmt.Errorf("no commit is recorded for these figures: run scripts/evidence.sh: %w", err)
	}
	e := evidence{of: strings.TrimSpace(string(of))}
	if e.explored, err = readAll[explore.Result](dir, "explore*.json"); err != nil {
		return err
	}
	if e.shown, err = readAll[shownDefect](dir, "shown.json"); err != nil {
		return err
	}
	hunted, err := readAll[[]huntRow](dir, "mutants.json")
	if err != nil {
		return err
	}
	directed, err := readAll[sim.DirectedReport](dir, "directed.json")
	if err != nil {
		return err
	}
	if e.batches, err = readAll[sim.Report](dir, "schedules*.json"); err != nil {
		return err
	}
	e.hunted, e.directed = hunted[0], directed[0]
	if all, err := readAll[mutated](dir, "mutated.json"); err == nil {
		e.mutated = all[0]
	}
	out := bufio.NewWriter(w)
	e.write(out)
	return out.Flush()
}

// readAll reads the values in the files that a pattern names.
func readAll[T any](dir fs.FS, pattern string) ([]T, error) {
	files, err := fs.Glob(dir, pattern)
	if err != nil {
		return nil, err
	}
	var all []T
	for _, name := range files {
		f, err := dir.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		for d := json.NewDecoder(f); ; {
			var v T
			if err := d.Decode(&v); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
			}
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no figures in %s: run scripts/evidence.sh first", pattern)
	}
	return all, nil
}

func (e *evidence) write(w io.Writer) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	p("# Evidence\n")
	p("Made by `make evidence` from what it ran; not edited by hand. What the promises are")
	p("is in [guarantees.md](guarantees.md). Everything here runs the production core")
	p("(`internal/core`), not a model of it, as it was at commit %s. What changed in it", e.of)
	p("since: `git log %s.. -- internal/core`.\n", e.of)
	p("## Everything that can happen to a small group\n")
	states, transitions := 0, 0
	for _, r := range e.explored {
		states, transitions = states+r.States, transitions+r.Transitions
	}
	p("`rota explore`: breadth-first search in discrete time over %d configurations, %s states,", len(e.explored), cli.Grouped(states))
	p("%s transitions. After every step: I1–I4, I6, and where it is asked I5; from every state, L1:", cli.Grouped(transitions))
	p("once nothing goes wrong any more everything comes to rest.\n")
	p("| configuration | states | transitions | depth | | s | promises |")
	p("|---|---:|---:|---:|---|---:|---|")
	for _, r := range e.explored {
		verdict, held := "exhausted", "held"
		if !r.Exhausted {
			verdict = "**cut**"
		}
		if r.Violation != nil {
			verdict, held = "", "**"+r.Violation.Error()+"**"
		}
		p("| %s | %s | %s | %d | %s | %.0f | %s |", r.Config, cli.Grouped(r.States), cli.Grouped(r.Transitions), r.Depth, verdict, r.Seconds, held)
	}
	p("\nm and p are members and partitions. What may go wrong in each is told by")
	p("`rota explore --list`.\n")
	p("## Every fault at every point of every scenario\n")
	p("`rota sim --directed all`: %s schedules of %d scenarios, %s steps, %d violations, %d marks not reached.\n",
		cli.Grouped(e.directed.Schedules), len(e.directed.Bases), cli.Grouped(int(e.directed.Steps)), len(e.directed.Violations), len(e.directed.Missing))
	p("## Random schedules\n")
	schedules, steps, bad := 0, int64(0), 0
	for _, b := range e.batches {
		schedules, steps, bad = schedules+b.Schedules, steps+b.Steps, bad+len(b.Violations)
	}
	p("`rota sim`: %s schedules from seed %d on, %s steps, %d violations. 4 members, 6 partitions, all faults.\n",
		cli.Grouped(schedules), e.batches[0].Seed, cli.Grouped(int(steps)), bad)
	p("## Defects\n")
	p("\"No violations\" means nothing unless the same harness notices the lack of every rule.")
	p("Each of these was taken out (`-tags mutants`), one at a time.\n")
	p("| rule taken out | so that | explorer, steps | simulator, schedules | also by |")
	p("|---|---|---:|---:|---|")
	for _, r := range e.hunted {
		also := strings.Join(r.Scenarios, ", ")
		if r.Test != "" {
			also += ", " + r.Test
		}
		verdict := ""
		if !r.Caught {
			verdict = " **MISSED**"
		}
		p("| [%s](rules.md#%s) | %s%s | %s | %s | %s |", r.Name, r.Name, r.Without, verdict, orDash(r.Steps), orDash(r.Schedules), also)
	}
	p("\nSeveral of the simulator's directed generators were written because a defect was")
	p("missed without them. So its figures tell that these defects are noticed, not how")
	p("soon an unknown one would be. What is noticed of changes that nobody chose, made")
	p("mechanically wherever one fits, is in [mutation.md](mutation.md) (`make mutate`).")
	if m := e.mutated; m.Mutants > 0 {
		p("Of %s such changes to the core of commit %s %s were noticed, %d cannot be, %d could and were not.",
			cli.Grouped(m.Mutants), m.Commit, cli.Grouped(m.Noticed), m.Equivalent, m.Survivors)
	}
	p("")
	p("## The shortest way to notice each\n")
	p("As the explorer found it: what happens, and then who runs what with how many ticks")
	p("of lease left.\n")
	for _, d := range e.shown {
		p("**%s: %s** (%s): %s\n", d.Rule, d.Without, d.Config, d.Violation.Error())
		p("```")
		for _, line := range d.Trace {
			p("%s", line)
		}
		p("```\n")
	}
	p("## What is not covered\n")
	p("- The explorer: at most 4 members and 3 partitions; time in ticks, a lease of 2.9, so")
	p("  that the instant it ends is the instant its holder may be declared dead; a call is")
	p("  done and answered in one step, but where the name says split; in configurations with")
	p("  three and more members reads and watches take no time. A rollback loses the plan")
	p("  alone. Clocks run at one speed: drift is in W, which is more than the lease.")
	p("- The simulator: at most as many faults at once as its swarm draws; sources and")
	p("  handlers are simulated. What it does in the shell's place, and the scenario in which")
	p("  both do it, is the table in internal/sim/shell.go.")
	p("- After the store lost writes the simulator asks I3 and I5 no more. I1, I4, I6 and I7 are")
	p("  asked again, of everybody, as soon as a new incarnation has ended its hold, at the")
	p("  latest after three leases; in between, random schedules see nothing but I2, that no")
	p("  incarnation begins twice, and that no token is granted to two sessions while a member")
	p("  that saw the first grant is at work, hears, and has had W to notice. A member that does")
	p("  not hear is not counted: what happens if the store loses writes twice, the second time")
	p("  with them that somebody had noticed, is not asked.")
	p("- A store that is emptied between the start of a process that was told that it is new")
	p("  (`--new-group`) and the first plan in it; leases of different length where the store")
	p("  lost the record of the longest; two incarnations begun within the same 4 seconds, which")
	p("  is what the wall clock in their numbers resolves (the simulator's clock never repeats).")
	p("- Both: stores that lie about compare-and-set; sinks that do not look at tokens.")
	p("- Shell, drivers and binary: other tests, see [MISSION.md](MISSION.md).")
}

func orDash(n int) string {
	if n == 0 {
		return "—"
	}
	return cli.Grouped(n)
}
