package lab

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/rota-dev/rota/internal/rule"
	"github.com/rota-dev/rota/internal/scenario"
	"github.com/rota-dev/rota/internal/sim"
	"github.com/spf13/cobra"
)

// again plays one schedule and tells what happens: a seed, or a scenario file.
func (f *simFlags) again(cmd *cobra.Command) error {
	out := bufio.NewWriter(cmd.OutOrStdout())
	play := f.story
	if _, err := strconv.ParseUint(f.replay, 10, 64); err == nil {
		play = f.schedule
	}
	violations, err := play(cmd, out)
	if err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return verdict(violations, false)
}

func (f *simFlags) schedule(_ *cobra.Command, out io.Writer) (violations int, err error) {
	seed, _ := strconv.ParseUint(f.replay, 10, 64)
	o := f.options()
	defer f.breakIt()()
	fmt.Fprintf(out, "schedule %d: %s, %s%s\n", seed, f.size(), f.kinds(), f.without())
	res := sim.Replay(o, seed, func(line string) { fmt.Fprintln(out, line) })
	if v := res.Violation; v != nil {
		fmt.Fprintf(out, "violations: 1\n  after %.3f s it breaks %s%s\n    %s\n", time.Duration(v.At).Seconds(), v.Invariant, meaning(v.Invariant), v.Text)
		return 1, nil
	}
	fmt.Fprintf(out, "violations: 0 in %s and %s\n", cli.Count(res.Steps, "step"), cli.Count(res.Faults, "fault"))
	return 0, nil
}

// story plays a scenario file, or one of those that are built in.
func (f *simFlags) story(cmd *cobra.Command, out io.Writer) (violations int, err error) {
	for _, other := range []string{"members", "partitions", "faults"} {
		if cmd.Flags().Changed(other) {
			return 0, cli.Usagef("--%s %q: not together with a scenario file, which says so itself", other, cmd.Flag(other).Value)
		}
	}
	s, err := f.readStory()
	if err != nil {
		return 0, err
	}
	o := sim.Options{Partitions: 6}
	defer f.breakIt()()
	fmt.Fprintf(out, "scenario %s%s\n", plain.Text(s.Name), f.without()) // a file may be anybody's
	stage := sim.NewStage(o)
	stage.Say(func(at time.Duration, line string) { fmt.Fprintf(out, "%8.3fs  %s\n", at.Seconds(), plain.Text(line)) })
	if err := playStory(s, stage); err != nil {
		fmt.Fprintf(out, "it does not go as it is written:\n%s\n", plain.Lines(strings.ReplaceAll(err.Error(), "\t", "    ")))
		return 1, nil
	}
	fmt.Fprintln(out, "it goes as it is written")
	return 0, nil
}

// playStory plays s; a core that panics fails it.
func playStory(s *scenario.Scenario, stage *sim.Stage) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a member broke its own assertion: %v", p)
		}
	}()
	return s.Run(stage)
}

func (f *simFlags) readStory() (*scenario.Scenario, error) {
	text, err := os.ReadFile(f.replay)
	if err == nil {
		return scenario.Parse(strings.TrimSuffix(filepath.Base(f.replay), ".txt"), string(text))
	}
	all, _ := scenario.All()
	for _, s := range all {
		if s.Name == f.replay {
			return s, nil
		}
	}
	if pe, ok := err.(*fs.PathError); ok {
		err = pe.Err
	}
	return nil, cli.Usagef("--replay %q: want a seed, a scenario file or the name of a scenario: %v", f.replay, err)
}

// out is the rule that the command line takes out, if any.
func (f *simFlags) out() rule.Rule {
	r, _ := rule.Named(f.mutant) // run has refused what is none
	return r
}

// breakIt takes it out.
func (f *simFlags) breakIt() (undo func()) {
	undo, _ = rule.Take(f.out())
	return undo
}

func (f *simFlags) without() string {
	if f.mutant == "" {
		return ""
	}
	return ", without " + f.mutant
}
