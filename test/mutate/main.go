// Mutate changes internal/core in every place where one of its operators fits, one
// change at a time, and asks the simulator to notice each. Nobody chooses the
// mutants by hand.
//
// All of them are built into one program, each behind a switch (sites.go finds
// the places, rewrite.go writes the switches, overlay.go builds). That program
// first plays everything without a mutant: what fails then would prove nothing.
// Then each mutant is played with every scenario, whose transcripts must stay what
// they are, then with directed faults, then with random schedules, until something
// fails: a transcript, a promise, a mark that is no longer reached, a panic, or an
// end that does not come (play.go). Most mutants are noticed soon. Of the others the
// core's own tests are asked. For those that are left everything is played once more
// without a mutant, to find the schedules in which their switches would change a
// value or the outcome of a condition at all: only those need to be played with them
// (baseline.go, pure.go). run.go hands mutants to processes, report.go adds up.
//
// A mutant is known by its function, its operator, the source text it changes
// and, where there are several of those, by which of them it is: lines and files
// may move. equivalent.txt lists those that change nothing that could be noticed,
// survivors.txt those that should be noticed and are not yet. An entry that no
// longer fits is an error.
//
// What is not mutated:
//   - what encodes or copies states for the explorer (Clone, Shape, encode…): no
//     schedule runs it;
//   - String and Error: words for people;
//   - assert, its calls and what they ask: an assertion that holds is not seen;
//   - writeID: a hash, any other is as good;
//   - the switches of the rules (rule.X.Off()), which are false in the product, and
//     what only they guard; Compares, which only stores of harnesses ask;
//   - constants, and numbers that are indices or bounds of slices.
//
// Operators change values and leave calls out; an operand that is taken for true
// or false is evaluated all the same.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

func main() {
	if err := dispatch(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// dispatch tells the roles of this program apart: the one that people call, and
// those that it starts.
func dispatch(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "child":
		return child(args[1])
	case len(args) == 2 && args[0] == "probe":
		var amount Baseline
		if err := json.NewDecoder(os.Stdin).Decode(&amount); err != nil {
			return err
		}
		return probe(args[1], amount)
	}
	var c command
	fs := flag.NewFlagSet("mutate", flag.ExitOnError)
	fs.IntVar(&c.sample, "sample", 0, "play only so many mutants, drawn by -seed")
	fs.Uint64Var(&c.seed, "seed", 1, "of the sample")
	fs.StringVar(&c.only, "only", "", "play only mutants whose name matches this regular expression")
	fs.IntVar(&c.procs, "procs", 2, "processes")
	fs.IntVar(&c.amount.Random, "random", manyRandom, "random schedules")
	fs.IntVar(&c.amount.Most, "directed", 0, "directed schedules; 0 is all")
	fs.StringVar(&c.dir, "dir", "build/mutate", "where programs and results are kept")
	fs.StringVar(&c.page, "page", "", "write the page of a whole run to this file")
	fs.StringVar(&c.output, "o", "table", "table or json")
	fs.BoolVar(&c.list, "list", false, "only list the mutants")
	fs.BoolVar(&c.despite, "despite", false, "leave out schedules that fail without any mutant, instead of refusing")
	fs.BoolVar(&c.few, "few", false, "play only some schedules and the core's own tests: who is left may still be noticed by the others")
	fs.BoolVar(&c.again, "again", false, "forget earlier results")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", fs.Arg(0))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.run(ctx, os.Stdout, os.Stderr)
}

// command is what was asked for.
type command struct {
	sample, procs           int
	seed                    uint64
	only, dir, page, output string
	list, again, despite    bool
	few                     bool
	amount                  Baseline
}

func (c *command) run(ctx context.Context, stdout, stderr io.Writer) error {
	root, err := workspace()
	if err != nil {
		return err
	}
	set, err := mutate(root, "./internal/core")
	if err != nil {
		return err
	}
	mutants, err := c.choose(set.Mutants)
	if err != nil {
		return err
	}
	if c.list {
		for _, m := range mutants {
			fmt.Fprintln(stdout, m.ID)
		}
		return nil
	}
	equivalent, err := readList(filepath.Join(root, "test", "mutate", "equivalent.txt"))
	if err != nil {
		return err
	}
	survivors, err := readList(filepath.Join(root, "test", "mutate", "survivors.txt"))
	if err != nil {
		return err
	}
	if !filepath.IsAbs(c.dir) {
		c.dir = filepath.Join(root, c.dir)
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	c.amount.Seed = 1
	r := &run{root: root, dir: c.dir, set: set, amount: c.amount, procs: c.procs, despite: c.despite, few: c.few, equivalent: equivalent, stderr: stderr}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	results := filepath.Join(c.dir, "results.jsonl")
	if c.again {
		if err := os.RemoveAll(results); err != nil {
			return err
		}
	}
	if err := r.load(results); err != nil {
		return err
	}
	played := r.play(ctx, mutants)
	if played != nil && !errors.Is(played, context.Canceled) {
		return played
	}
	if c.few {
		for _, m := range mutants {
			if _, ok := r.results[m.ID]; !ok {
				fmt.Fprintf(stdout, "open: %s\n", m.ID)
			}
		}
	}
	f := figures(set.Mutants, mutants, r.results, equivalent, survivors)
	f.Core, f.Commit = r.core, commit(root)
	if b, err := readBaseline(filepath.Join(c.dir, "baseline")); err == nil {
		f.Schedules = [3]int{b.Stories, b.Shots, b.Random}
	}
	return c.report(f, set, stdout, played)
}

func (c *command) report(f *Figures, set *Set, stdout io.Writer, played error) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.dir, "figures.json"), text, 0o644); err != nil {
		return err
	}
	if c.output == "json" {
		if _, err := fmt.Fprintf(stdout, "%s\n", text); err != nil {
			return err
		}
	} else {
		f.table(stdout)
	}
	if played != nil {
		return errors.New("stopped; what was played is kept, the next run goes on from there")
	}
	if c.page != "" && f.Whole && !c.despite {
		var page strings.Builder
		f.page(&page, set.Skipped)
		if err := os.WriteFile(c.page, []byte(page.String()), 0o644); err != nil {
			return err
		}
	}
	if wrong := f.complaints(c.only == ""); len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\nmutate: "))
	}
	return nil
}

// choose picks the mutants to be played.
func (c *command) choose(all []Mutant) ([]Mutant, error) {
	only, err := regexp.Compile(c.only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	var out []Mutant
	for _, m := range all {
		if only.MatchString(m.ID) {
			out = append(out, m)
		}
	}
	out = sorted(out, func(id string) uint64 {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s %d", id, c.seed)
		return h.Sum64()
	})
	if c.sample > 0 {
		out = out[:min(c.sample, len(out))]
	}
	return out, nil
}

// workspace is the folder of go.work.
func workspace() (string, error) {
	out, err := exec.Command("go", "env", "GOWORK").Output()
	file := strings.TrimSpace(string(out))
	if err != nil || file == "" || file == "off" {
		return "", fmt.Errorf("mutants are built in the workspace of this project: go env GOWORK says %q", file)
	}
	return filepath.Dir(file), nil
}

// commit names what is mutated.
func commit(root string) string {
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	of := git("log", "-1", "--format=%h", "--", "internal", ":!internal/**_test.go")
	if git("status", "--porcelain", "--", "internal", ":!internal/**_test.go") != "" {
		of += " and changes that are not committed"
	}
	return of
}
