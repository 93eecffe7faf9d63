package lab

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/sim"
	"github.com/spf13/cobra"
)

// allFaults plays every fault at every point of some scenarios.
func (f *simFlags) allFaults(cmd *cobra.Command) error {
	bases, err := f.bases()
	if err != nil {
		return err
	}
	d := sim.Directed{Bases: bases, Cores: f.cores, Most: 1000} // there is an end to them
	defer f.breakIt()()
	ctx := cmd.Context()
	r := withBar(cmd.ErrOrStderr(), d.Total(), func(show func(progress)) sim.DirectedReport {
		d.Progress = func(done, violations int, perSecond float64) { show(progress{done, violations, perSecond}) }
		return d.Play(ctx)
	})
	slices.SortFunc(r.Violations, func(a, b sim.DirectedFailure) int {
		return cmp.Or(strings.Compare(a.Base, b.Base), cmp.Compare(a.At, b.At), strings.Compare(a.Fault, b.Fault), strings.Compare(a.Host, b.Host))
	})
	interrupted := ctx.Err() != nil && r.Schedules < r.Total
	if err := f.print(cmd.OutOrStdout(), r, func() string { return f.directedTable(&r, interrupted) }); err != nil {
		return err
	}
	return verdict(len(r.Violations)+len(r.Missing), interrupted)
}

// bases are the schedules to be struck: scenarios, or one of chance.
func (f *simFlags) bases() ([]*sim.Base, error) {
	if seed, err := strconv.ParseUint(f.directed, 10, 64); err == nil {
		b, err := sim.SeedBase(f.options(), seed)
		return []*sim.Base{b}, err
	}
	var prefixes []string
	if f.directed != "all" {
		prefixes = []string{f.directed}
	}
	bases, err := sim.AllBases(sim.Options{}, prefixes...)
	if err == nil && len(bases) == 0 {
		err = cli.Usagef("--directed %q: no scenario's name begins so; known are all, %s", f.directed, strings.Join(scenarioNames(), ", "))
	}
	return bases, err
}

func (f *simFlags) directedTable(r *sim.DirectedReport, interrupted bool) string {
	var s sheet
	if r.Schedules < r.Total {
		why := "enough violations"
		if interrupted {
			why = "interrupted"
		}
		s.line("stopped", "after %s of %s: %s; the figures are of those", cli.Grouped(r.Schedules), cli.Count(r.Total, "schedule"), why)
	}
	s.line("played", "%s of %s, one fault in each%s", cli.Count(r.Schedules, "schedule"), cli.Count(len(r.Bases), "scenario"), f.without())
	s.line("speed", "%s schedules/s, %s steps/s; %s on %s", cli.Grouped(float64(r.Schedules)/r.Seconds), cli.Grouped(float64(r.Steps)/r.Seconds), seconds(r.Seconds), cli.Count(r.Cores, "core"))
	s.cells("faults", sim.DirectedKinds, r.Faults)
	met(&s, &r.Marks)
	tooLittle(&s, r.Missing)
	fmt.Fprintf(&s, "violations: %d\n", len(r.Violations))
	const most = 10
	for _, v := range r.Violations[:min(most, len(r.Violations))] {
		text, _, _ := strings.Cut(v.Text, "\n")
		fmt.Fprintf(&s, "  %s breaks %s%s\n    %s\n", v.String(), v.Invariant, meaning(v.Invariant), text)
	}
	if more := len(r.Violations) - most; more > 0 {
		fmt.Fprintf(&s, "  and %d more, which -o json lists\n", more)
	}
	if len(r.Violations) > 0 {
		v := &r.Violations[0]
		if short, ok := sim.Shorten(v.Script, f.out()); ok {
			s.WriteString(asFile(short, "Found by rota sim --directed "+v.Base+": "+v.Fault+" "+v.Host+".", f.out()))
		}
	}
	return s.String()
}

// tooLittle: a batch that must meet everything has not.
func tooLittle(s *sheet, missing []string) {
	if len(missing) == 0 {
		return
	}
	var words []string
	for _, key := range missing {
		words = append(words, cmp.Or(markWords[key], key))
	}
	s.line("too little", "a batch like this must meet every situation, and never met: %s", strings.Join(words, "; "))
}
