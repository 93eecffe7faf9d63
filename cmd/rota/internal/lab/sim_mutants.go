package lab

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/defect"
	"github.com/rota-dev/rota/internal/scenario"
	"github.com/rota-dev/rota/internal/sim"
	"github.com/spf13/cobra"
)

// A huntRow is what became of one defect.
type huntRow struct {
	defect.Defect
	Caught    bool     `json:"caught"`
	Steps     int      `json:"explorer_steps,omitempty"`
	Schedules int      `json:"simulator_schedules,omitempty"`
	Invariant string   `json:"invariant,omitempty"`
	What      string   `json:"what,omitempty"` // the schedule that caught it
	Scenarios []string `json:"scenarios,omitempty"`
	Seconds   float64  `json:"seconds"`
	catch     sim.Catch
}

// mostPerDefect is how long a defect is looked for.
const mostPerDefect = 200_000

// hunt looks for defects, one row each.
func (f *simFlags) hunt(cmd *cobra.Command, ids []string, limited bool) error {
	limit := mostPerDefect
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
	for _, id := range ids {
		status.show("looking for " + id)
		d, _ := defect.Find(id)
		row := huntOne(ctx, d, bases, stories, limit)
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
	interrupted := len(rows) < len(ids)
	if err := f.print(stdout, rows, func() string { return summary(rows, len(ids), missed) + f.counterexample(rows) }); err != nil {
		return err
	}
	return verdict(missed, interrupted)
}

// huntOne hunts one defect in every way in which it must be caught, but for tests
// with whole members, which are `go test`'s.
func huntOne(ctx context.Context, d *defect.Defect, bases []*sim.Base, stories []*scenario.Scenario, limit int) huntRow {
	began := time.Now()
	row := huntRow{Defect: *d, Caught: true}
	if d.Must(defect.Explorer) {
		steps, ok := exploreDefect(ctx, d.ID)
		row.Steps, row.Caught = steps, row.Caught && ok
	}
	if d.Must(defect.Simulator) {
		c, _ := sim.Hunt{ID: d.ID, Bases: bases, Limit: limit}.Play(ctx)
		row.catch, row.Schedules, row.Invariant, row.What = c, c.Schedules, c.Invariant(), firstLine(c.What())
		row.Caught = row.Caught && c.Caught()
	}
	row.Scenarios = failing(d.ID, stories)
	row.Caught = row.Caught && len(row.Scenarios) > 0
	row.Seconds = time.Since(began).Seconds()
	return row
}

// failing lists the scenarios that say they catch the defect, and do.
func failing(id string, stories []*scenario.Scenario) []string {
	var names []string
	for _, s := range stories {
		for _, c := range s.Catches {
			if c != id {
				continue
			}
			o := sim.Options{Partitions: 6}
			undo, ok := o.Defect(id)
			if !ok {
				continue
			}
			if playStory(s, sim.NewStage(o)) != nil {
				names = append(names, s.Name)
			}
			undo()
		}
	}
	return names
}

func (r *huntRow) line() string {
	verdict := "caught"
	if !r.Caught {
		verdict = "MISSED"
	}
	var by []string
	if r.Must(defect.Explorer) {
		steps := "—"
		if r.Steps > 0 {
			steps = cli.Count(r.Steps, "step")
		}
		by = append(by, "explorer "+steps)
	}
	if r.Must(defect.Simulator) {
		by = append(by, "simulator "+cli.Count(r.Schedules, "schedule"))
	}
	if r.Test != "" {
		by = append(by, "test "+r.Test)
	}
	if len(by) == 0 || len(r.Scenarios) == 0 {
		by = append(by, "scenario "+strings.Join(r.Scenarios, " "))
	}
	return fmt.Sprintf("%-4s %-58s %s  %s", r.ID, r.Rule, verdict, strings.Join(by, ", "))
}

func summary(rows []huntRow, of, missed int) string {
	if len(rows) < of {
		return fmt.Sprintf("interrupted after %d of %s\n", len(rows), cli.Count(of, "defect"))
	}
	if of == 1 {
		return ""
	}
	return fmt.Sprintf("%d of %s caught\n", of-missed, cli.Count(of, "defect"))
}

// counterexample is what caught a single defect, as a scenario file.
func (f *simFlags) counterexample(rows []huntRow) string {
	if f.mutants || len(rows) != 1 {
		return ""
	}
	r := &rows[0]
	if !r.catch.Caught() {
		return ""
	}
	out := fmt.Sprintf("by %s: %s\n", r.Invariant, r.What)
	s, ok := r.catch.Shorten(r.ID)
	if !ok {
		return out + "it cannot be told as a scenario file: it needs delays or clock rates that have no verb\n"
	}
	return out + asFile(s, r.ID+": "+r.Rule+".", r.ID)
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
