package lab

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/rule"
	"github.com/rota-dev/rota/internal/scenario"
	"github.com/rota-dev/rota/internal/sim"
	"github.com/spf13/cobra"
)

// A huntRow is what became of a hunt for the lack of one rule.
type huntRow struct {
	rule.Entry
	Caught    bool     `json:"caught"`
	Steps     int      `json:"explorer_steps,omitempty"`
	Schedules int      `json:"simulator_schedules,omitempty"`
	Invariant string   `json:"invariant,omitempty"`
	What      string   `json:"what,omitempty"` // the schedule that caught it
	Scenarios []string `json:"scenarios,omitempty"`
	Seconds   float64  `json:"seconds"`
	catch     sim.Catch
}

// mostPerRule is how long the lack of a rule is looked for.
const mostPerRule = 200_000

// hunt takes rules out, one row each.
func (f *simFlags) hunt(cmd *cobra.Command, rules []rule.Rule, limited bool) error {
	limit := mostPerRule
	if limited {
		limit = f.schedules
	}
	ctx, stdout := cmd.Context(), cmd.OutOrStdout()
	bases, err := sim.AllBases(sim.Options{})
	if err != nil {
		return err
	}
	stories, err := scenario.All()
	if err != nil {
		return err
	}
	status := newNowLine(cmd.ErrOrStderr())
	rows := []huntRow{}
	missed := 0
	for _, out := range rules {
		status.show("without " + out.String())
		row := huntOne(ctx, out, bases, stories, limit)
		if ctx.Err() != nil {
			break
		}
		if !row.Caught {
			missed++
		}
		rows = append(rows, row)
		status.clear()
		if f.output == "table" {
			if _, err := fmt.Fprintln(stdout, row.line()); err != nil {
				return err
			}
		}
	}
	status.clear()
	interrupted := len(rows) < len(rules)
	if err := f.print(stdout, rows, func() string { return summary(rows, len(rules), missed) + f.counterexample(rows) }); err != nil {
		return err
	}
	return verdict(missed, interrupted)
}

// huntOne takes one rule out and looks in every way in which that must be noticed,
// but for tests with whole members, which are `go test`'s.
func huntOne(ctx context.Context, out rule.Rule, bases []*sim.Base, stories []*scenario.Scenario, limit int) huntRow {
	began := time.Now()
	row := huntRow{Entry: *out.Entry(), Caught: true}
	if row.Must(rule.Explorer) {
		steps, ok := exploreWithout(ctx, out)
		row.Steps, row.Caught = steps, row.Caught && ok
	}
	if row.Must(rule.Simulator) {
		c, _ := sim.Hunt{Rule: out, Bases: bases, Limit: limit}.Play(ctx)
		row.catch, row.Schedules, row.Invariant, row.What = c, c.Schedules, c.Invariant(), firstLine(c.What())
		row.Caught = row.Caught && c.Caught()
	}
	row.Scenarios = failing(out, stories)
	row.Caught = row.Caught && len(row.Scenarios) > 0
	row.Seconds = time.Since(began).Seconds()
	return row
}

// failing lists the scenarios that say they fail without the rule, and do.
func failing(out rule.Rule, stories []*scenario.Scenario) []string {
	var names []string
	for _, s := range stories {
		if !slices.Contains(s.Catches, out) {
			continue
		}
		undo, _ := rule.Take(out)
		if playStory(s, sim.NewStage(sim.Options{Partitions: 6})) != nil {
			names = append(names, s.Name)
		}
		undo()
	}
	return names
}

func (r *huntRow) line() string {
	verdict := "caught"
	if !r.Caught {
		verdict = "MISSED"
	}
	var by []string
	if r.Must(rule.Explorer) {
		steps := "—"
		if r.Steps > 0 {
			steps = cli.Count(r.Steps, "step")
		}
		by = append(by, "explorer "+steps)
	}
	if r.Must(rule.Simulator) {
		by = append(by, "simulator "+cli.Count(r.Schedules, "schedule"))
	}
	if r.Test != "" {
		by = append(by, "test "+r.Test)
	}
	if len(by) == 0 || len(r.Scenarios) == 0 {
		by = append(by, "scenario "+strings.Join(r.Scenarios, " "))
	}
	return fmt.Sprintf("%-30s %-60s %s  %s", r.Name, r.Without, verdict, strings.Join(by, ", "))
}

func summary(rows []huntRow, of, missed int) string {
	if len(rows) < of {
		return fmt.Sprintf("interrupted after %d of %s\n", len(rows), cli.Count(of, "rule"))
	}
	if of == 1 {
		return ""
	}
	return fmt.Sprintf("%d of %s missed when taken out\n", of-missed, cli.Count(of, "rule"))
}

// counterexample is what noticed the lack of a single rule, as a scenario file.
func (f *simFlags) counterexample(rows []huntRow) string {
	if f.mutants || len(rows) != 1 {
		return ""
	}
	r := &rows[0]
	if !r.catch.Caught() {
		return ""
	}
	out := fmt.Sprintf("by %s: %s\n", r.Invariant, r.What)
	s, ok := r.catch.Shorten(f.out())
	if !ok {
		return out + "it cannot be told as a scenario file: it needs delays or clock rates that have no verb\n"
	}
	return out + asFile(s, "Without "+r.Name+": "+r.Without+".", f.out())
}

// nowLine is one line on a terminal that says what goes on; nothing elsewhere.
type nowLine struct {
	w     io.Writer
	cols  int
	drawn int
}

func newNowLine(stderr io.Writer) *nowLine { return &nowLine{w: stderr, cols: cli.Columns(stderr)} }

func (s *nowLine) show(text string) {
	if s.cols > len(text) {
		s.clear()
		s.drawn, _ = io.WriteString(s.w, text)
	}
}

func (s *nowLine) clear() {
	if s.drawn > 0 {
		fmt.Fprintf(s.w, "\r%s\r", strings.Repeat(" ", min(s.drawn+2, s.cols-1)))
		s.drawn = 0
	}
}
